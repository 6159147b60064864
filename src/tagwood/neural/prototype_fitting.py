"""The first steps of `PrototypeModel.fit`: which centroids, and with which encoder training begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scipy import sparse

from tagwood.models.tree_training import Progress
from tagwood.neural.prototype_network import Prototype
from tagwood.neural.prototype_settings import Settings
from tagwood.neural.prototype_trials import choose_centroids
from tagwood.neural.text_encoder import TextEncoder

if TYPE_CHECKING:
    from tagwood.neural.prototype import PrototypeModel


def with_centroids(
    model: PrototypeModel,
    settings: Settings,
    data: tuple[list[str], sparse.csr_array, list[str]],
    progress: Progress | None,
) -> tuple[Settings, dict[str, float]]:
    """Return settings that name the kind of centroids, and what each kind reached if it was chosen by trials.

    `data` are texts, label sets and label texts.
    """
    if settings.prototype.centroids != "auto":
        return settings, {}
    params = {**model.get_params(), "training": replace(settings.training, patience=0), "centroids": None}

    def fit(kind: str, texts: list[str], Y: sparse.csr_array, names: list[str]) -> PrototypeModel:
        prototype = _of_kind(settings.prototype, kind)
        return type(model)(**{**params, "prototype": prototype}).fit(texts, Y, label_texts=names)

    kind, measures = choose_centroids(*data, fit, seed=model.seed, progress=progress)
    return settings._replace(prototype=_of_kind(settings.prototype, kind)), measures


def _of_kind(prototype: Prototype, kind: str) -> Prototype:
    """Return settings with a kind of centroids; without any, labels are their texts alone."""
    return replace(prototype, centroids=kind, free_vectors=0 if kind == "none" else prototype.free_vectors)


def new_encoder(model: PrototypeModel) -> TextEncoder:
    """Return the unfitted encoder of a model."""
    if isinstance(model.encoder, TextEncoder):
        return TextEncoder(**model.encoder.get_params())
    return TextEncoder(model.encoder, seed=model.seed, threads=model.threads)


def first_encoder(model: PrototypeModel, texts: list[str]) -> TextEncoder:
    """Return the encoder that training begins with: fitted on `texts`, or a copy of one that was given fitted."""
    if isinstance(model.encoder, TextEncoder) and hasattr(model.encoder, "tokenizer_"):
        return TextEncoder.from_state(model.encoder.state())
    return new_encoder(model).fit(texts)
