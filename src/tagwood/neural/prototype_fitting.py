"""The first steps of `PrototypeModel.fit`: the encoder that training begins with, and which prototypes are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from torch import nn

from tagwood._check import check_int, check_threads
from tagwood.models.tree_training import Progress
from tagwood.neural.label_index import LabelIndex
from tagwood.neural.prototype_settings import Settings, settle
from tagwood.neural.prototype_training import PrototypeData
from tagwood.neural.prototype_trials import CANDIDATES, LOW_MARGIN, choose_centroids
from tagwood.neural.text_encoder import FROM_SCRATCH, TextEncoder
from tagwood.neural.text_encoder_choice import suitable_encoder
from tagwood.neural.text_encoder_head import HeadModule, StateMemory

if TYPE_CHECKING:
    from tagwood.neural.prototype import PrototypeModel


_SETTINGS = (
    "prototype",
    "loss",
    "batches",
    "training",
    "centroids",
    "epochs",
    "batch_size",
    "learning_rate",
)


def checked_settings(model: PrototypeModel, encoder: TextEncoder | None = None) -> Settings:
    """Return what a model will do with an encoder; `InputError` for a parameter that does not fit."""
    check_int(model.seed, "seed", low=0, high=(1 << 63) - 1)
    check_threads(model.threads)
    encoder = new_encoder(model) if encoder is None else encoder
    encoder._check_params()
    LabelIndex(np.zeros((1, 1)), model.index)
    given = {name: getattr(model, name) for name in _SETTINGS}
    return settle(model.preset, str(encoder.encoder), trained=encoder.trained, **given)


def with_centroids(
    model: PrototypeModel,
    encoder: TextEncoder,
    settings: Settings,
    data: tuple[list[str], sparse.csr_array, list[str]],
    progress: Progress | None,
) -> tuple[Settings, dict[str, float]]:
    """Return settings that name the kind of centroids, and what each kind reached if it was chosen by trials.

    `data` are texts, label sets and label texts. All trials begin with `encoder`; states of one that is frozen are
    remembered, for the other trials and for the training itself.
    """
    if settings.prototype.centroids != "auto":
        return settings, {}
    if encoder.memory is None and isinstance(encoder.module, HeadModule):
        encoder.memory = StateMemory()
    training = replace(settings.training, patience=0)
    params = {**model.get_params(), "encoder": encoder, "training": training, "centroids": None}
    own_margin = model.loss is not None or settings.loss.margin != "fixed"

    def fit(kind: str, texts: list[str], Y: sparse.csr_array, names: list[str]) -> PrototypeModel:
        tried = _of_kind(settings, kind)
        changed = {**params, "prototype": tried.prototype, "loss": tried.loss}
        return type(model)(**changed).fit(texts, Y, label_texts=names)

    candidates = [kind for kind in CANDIDATES if kind != LOW_MARGIN or not own_margin]
    kind, measures = choose_centroids(*data, fit, candidates=candidates, seed=model.seed, progress=progress)
    return _of_kind(settings, kind), measures


def _of_kind(settings: Settings, kind: str) -> Settings:
    """Return settings with a kind of centroids; without any, labels are their texts alone, as in a dual encoder."""
    prototype, loss = settings.prototype, settings.loss
    if kind == LOW_MARGIN:
        kind, loss = "none", replace(loss, high=loss.low)
    if kind == "none" and loss.texts > 0:
        loss = replace(loss, prototypes=0.0, queries=0.0, regulariser=0.0)
    vectors = 0 if kind == "none" else prototype.free_vectors
    return settings._replace(prototype=replace(prototype, centroids=kind, free_vectors=vectors), loss=loss)


def new_encoder(model: PrototypeModel, texts: Sequence[str] = ()) -> TextEncoder:
    """Return the unfitted encoder of a model, for some texts; of weights of others, only a head is trained."""
    if isinstance(model.encoder, TextEncoder):
        return TextEncoder(**model.encoder.get_params())
    name = suitable_encoder(texts) if model.encoder == "auto" else model.encoder
    trained = "all" if name in FROM_SCRATCH else "head"
    return TextEncoder(name, trained=trained, seed=model.seed, threads=model.threads)


def first_encoder(model: PrototypeModel, texts: list[str]) -> TextEncoder:
    """Return the encoder that training begins with: fitted on `texts`, or a copy of one that was given fitted."""
    if isinstance(model.encoder, TextEncoder) and hasattr(model.encoder, "tokenizer_"):
        copy = TextEncoder.from_state(model.encoder.state())
        copy.memory = model.encoder.memory
        return copy
    return new_encoder(model, texts).fit(texts)


def of_module(
    model: PrototypeModel,
    evaluate: Callable[[Any], float],
    encoder: TextEncoder,
    data: PrototypeData,
) -> Callable[[nn.Module], float]:
    """Return a measure of models as one of modules, for the training loop: `evaluate` sees a whole model."""

    def measure(module: nn.Module) -> float:
        half = type(model)(**model.get_params())
        half._learn(module, encoder, data)  # type: ignore[arg-type]
        return evaluate(half)

    return measure
