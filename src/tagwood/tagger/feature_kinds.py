"""Kinds of features by name, as [features] of a recipe knows them. In: settings. Out: an unfitted encoder, and back.

``tfidf`` (the default), ``text-encoder`` (vectors of a network), or ``both`` side by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tagwood._check import check_choice
from tagwood.errors import InputError
from tagwood.features.concat import ConcatEncoder
from tagwood.features.encoder import Encoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.base import LabelModel
from tagwood.tagger.fitting import default_encoder

FEATURES = ("tfidf", "text-encoder", "both")
_COMMON = ("seed", "threads")  # of the whole run, in [model]
_TFIDF = [name for name in inspect.signature(TfidfEncoder).parameters if name not in _COMMON]
# Named here as well, because importing the class imports torch; a test compares them.
_NETWORK = ["encoder", "dimension", "layers", "max_length", "vocabulary", "trained", "precision"]
FEATURE_KEYS = ["kind", *_TFIDF, *_NETWORK, "weights"]


def make_encoder(settings: Mapping[str, Any], model: LabelModel, common: Mapping[str, Any]) -> Encoder:
    """Return the unfitted encoder that [features] describes; `common` holds seed and threads, where given."""
    kind = check_choice(settings.get("kind", "tfidf"), "kind of features", FEATURES)
    own = {"tfidf": _TFIDF, "text-encoder": _NETWORK, "both": [*_TFIDF, *_NETWORK, "weights"]}[kind]
    for key in settings:
        if key not in {*own, "kind"}:
            raise InputError(
                f"the features {kind!r} must be given only their own settings",
                given=repr(key),
                hint=f"Known: {', '.join(own)}.",
            )
    words: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in settings.items() if key in _TFIDF
    }
    if "threads" in common:
        words["threads"] = common["threads"]
    if kind == "tfidf":
        return default_encoder(model, **words)
    from tagwood.neural.text_encoder import TextEncoder

    network = TextEncoder(**{key: v for key, v in settings.items() if key in _NETWORK}, **common)
    if network.encoder not in ("small", "bag"):
        network.folder()  # a wrong path is named before data are read
    if kind == "text-encoder":
        return network
    encoder = ConcatEncoder([TfidfEncoder(**words), network], settings.get("weights"))
    encoder._check_params()
    return encoder


def describe_encoder(encoder: Encoder) -> dict[str, Any] | None:
    """Return the settings of an encoder as [features] has them; None if no recipe describes it."""
    if isinstance(encoder, TfidfEncoder):
        return encoder.get_params()
    if type(encoder).__name__ == "TextEncoder":
        return {"kind": "text-encoder", **_network(encoder)}
    if isinstance(encoder, ConcatEncoder) and [type(one).__name__ for one in encoder.encoders] == [
        "TfidfEncoder",
        "TextEncoder",
    ]:
        words, network = (_network(one) for one in encoder.encoders)
        weights = None if encoder.weights is None else list(encoder.weights)
        return {"kind": "both", **words, **network, "weights": weights}
    return None


def _network(encoder: Any) -> dict[str, Any]:
    return {name: value for name, value in encoder.get_params().items() if name not in _COMMON}
