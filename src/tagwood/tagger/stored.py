"""The stored form of a Tagger. In: its settings and fitted parts. Out: a `State`, and the arguments to rebuild it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tagwood.storage import State, restore
from tagwood.tagger.examples import ExampleTexts
from tagwood.tagger.fitting import likeness_encoder
from tagwood.tagger.group_samples import GroupSamples
from tagwood.tagger.label_texts import LabelTexts
from tagwood.tagger.probabilities import Probabilities
from tagwood.tagger.settings import GroupRule, SetRules
from tagwood.tagger.vocab_state import vocab_from_state, vocab_state

if TYPE_CHECKING:
    from tagwood.tagger.tagger import Tagger

_SETTINGS = {"groups": GroupRule, "sets": SetRules}


def tagger_state(tagger: Tagger) -> State:
    """Return the stored form of a fitted Tagger."""
    parts = {
        "encoder": tagger.encoder_.state(),
        "model": tagger.model_.state(),
        "vocab": vocab_state(tagger.vocab_),
    }
    if tagger.probabilities_ is not None:
        parts["probabilities"] = tagger.probabilities_.state()
    if tagger.label_texts_ is not None:
        parts["label_texts"] = tagger.label_texts_.state()
    if tagger.examples_ is not None:
        parts["examples"] = tagger.examples_.state()
    if tagger.group_samples_ is not None:
        parts["group_samples"] = tagger.group_samples_.state()
    params: dict[str, Any] = {name: asdict(getattr(tagger, name)) for name in _SETTINGS}
    params |= {"keep_texts": tagger.keep_texts, "seed": tagger.seed}
    params["n_rows"] = tagger.n_rows_
    params |= {"fingerprint": tagger.fingerprint_, "training_seconds": tagger.training_seconds_}
    return State("Tagger", params=params, arrays={"label_counts": tagger.label_counts_}, parts=parts)


def restored_settings(state: State) -> dict[str, Any]:
    """Return the constructor arguments of a stored Tagger."""
    settings = {name: kind(**state.param(name, dict)) for name, kind in _SETTINGS.items()}
    return {
        "encoder": restore(state.part("encoder")),
        "model": restore(state.part("model")),
        **settings,
        "keep_texts": state.param("keep_texts", int),
        "seed": state.param("seed", int),
    }


def restored_parts(state: State, encoder: Any, model: Any) -> dict[str, Any]:
    """Return what a stored Tagger learned, by attribute name."""
    vocab = vocab_from_state(state.part("vocab"))
    calibrated = "probabilities" in state.parts
    described = "label_texts" in state.parts
    has_examples = "examples" in state.parts
    grouped = "group_samples" in state.parts
    return {
        "encoder_": encoder,
        "model_": model,
        "vocab_": vocab,
        "label_counts_": state.array("label_counts", np.int64, (len(vocab),)),
        "n_rows_": state.param("n_rows", int),
        "fingerprint_": state.param("fingerprint", str),
        "training_seconds_": state.param("training_seconds", float),
        "probabilities_": Probabilities.from_state(state.part("probabilities")) if calibrated else None,
        "label_texts_": LabelTexts.from_state(state.part("label_texts"), encoder) if described else None,
        "examples_": ExampleTexts.from_state(state.part("examples"), likeness_encoder(model, encoder))
        if has_examples
        else None,
        "group_samples_": GroupSamples.from_state(state.part("group_samples")) if grouped else None,
    }
