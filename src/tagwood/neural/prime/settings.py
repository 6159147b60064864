"""Settings of a `PrototypeModel`: presets, and what a model with some arguments really does.

In: the constructor's arguments. Out: one `Settings` with nothing left open but the choice of centroids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tagwood._check import check_choice, check_int
from tagwood.errors import InputError
from tagwood.neural.encoders.text_encoder import FROM_SCRATCH
from tagwood.neural.prime.loss import PrototypeLoss
from tagwood.neural.prime.network import Prototype
from tagwood.neural.training import Training

_Part = TypeVar("_Part")

_RATES = {"scratch": 3e-3, "head": 5e-4, "all": 2e-4}  # learning rate by what is trained


@dataclass(frozen=True)
class Batching:
    """Which queries and labels meet in a step.

    Parameters
    ----------
    positives
        Labels drawn per query and step: 1 or 2, or more.
    by_propensity
        Draw rare labels more often, in proportion to their inverse propensity.
    clustered
        Batches of like queries (NGAME), so that the labels of others are hard negatives; otherwise in random order.
    cluster_size
        Most queries in a cluster; a batch holds several clusters.
    refresh
        Epochs between clusterings of the queries.
    """

    positives: int = 2
    by_propensity: bool = True
    clustered: bool = True
    cluster_size: int = 32
    refresh: int = 5

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        for name in ("positives", "cluster_size", "refresh"):
            check_int(getattr(self, name), name, low=1)


class Settings(NamedTuple):
    """All that a training needs to know besides the data."""

    prototype: Prototype
    loss: PrototypeLoss
    batches: Batching
    training: Training

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        for part in self:
            part.check()


_TEXT_ALONE = Prototype(centroids="none", free_vectors=0)
_TEXT_LOSS = PrototypeLoss(prototypes=0.0, queries=0.0, regulariser=0.0)
_TRAINING = Training(epochs=20, batch_size=512)

PRESETS: dict[str, Settings] = {
    "prime": Settings(Prototype(), PrototypeLoss(), Batching(), _TRAINING),
    "prime-lite": Settings(
        Prototype(), PrototypeLoss(), Batching(positives=1), replace(_TRAINING, batch_size=256)
    ),
    "dual-encoder": Settings(
        _TEXT_ALONE, _TEXT_LOSS, Batching(positives=1, by_propensity=False, clustered=False), _TRAINING
    ),
    "ngame": Settings(_TEXT_ALONE, _TEXT_LOSS, Batching(positives=1), _TRAINING),
}


def settle(
    preset: str,
    encoder: str,
    *,
    trained: str = "all",
    prototype: Prototype | None = None,
    loss: PrototypeLoss | None = None,
    batches: Batching | None = None,
    training: Training | None = None,
    centroids: str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
) -> Settings:
    """Return the settings of a preset with what was given instead; checked.

    Examples
    --------
    >>> settle("prime-lite", "bag", epochs=3).training.epochs
    3
    """
    base = PRESETS[check_choice(preset, "preset", PRESETS)]
    kind = "scratch" if encoder in FROM_SCRATCH else trained
    rate = learning_rate if learning_rate is not None or training else _RATES[kind]
    found = Settings(
        _instance(prototype, Prototype, "prototype") or base.prototype,
        _instance(loss, PrototypeLoss, "loss") or base.loss,
        _instance(batches, Batching, "batches") or base.batches,
        _instance(training, Training, "training") or base.training,
    )
    changes = {"epochs": epochs, "batch_size": batch_size, "learning_rate": rate}
    given = {name: value for name, value in changes.items() if value is not None}
    found = found._replace(training=replace(found.training, **given))  # type: ignore[arg-type]
    if centroids is not None:
        found = found._replace(prototype=replace(found.prototype, centroids=centroids))
    found.check()
    return found


def _instance(value: _Part | None, kind: type[_Part], name: str) -> _Part | None:
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}", given=type(value).__name__)
    return value
