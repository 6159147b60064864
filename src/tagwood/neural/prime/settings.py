"""Settings of `PrototypeModel`: what prototypes are made of, losses, batches, training, and the presets.

In: the constructor's arguments. Out: one checked `PrototypeSettings`, in which only ``centroids="auto"`` is still open
(`PrototypeModel.fit` decides it by trials).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.torch_state import check_parts
from tagwood.neural.training import Training

CENTROIDS = ("momentum", "leave-one-out", "none")
CLUSTERS = ("queries", "texts")
MARGINS = ("fixed", "dynamic")
UNCERTAIN = ("pull", "invert")
RATES = {"scratch": 3e-3, "head": 1e-5, "top": 2e-5, "all": 2e-4}  # learning rate by what is trained


@dataclass(frozen=True)
class Prototype:
    """What a label's prototype is made of, besides the label's text.

    Parameters
    ----------
    centroids
        Means of the embedded texts of a label: ``"momentum"``, ``"leave-one-out"`` (see `QueryMemory`) or ``"none"``.
        ``"auto"`` chooses by trials on held-out rows: up to four more trainings on at most 10,000 rows, one of them
        with label texts alone.
    free_vectors
        Number of trainable vectors, each shared by similar labels; None for one per two labels, at most 65,536; 0 for
        none.
    clusters
        What makes labels similar: ``"queries"`` (the mean TF-IDF features of their texts) or ``"texts"`` (their own
        texts).
    """

    centroids: str = "auto"
    free_vectors: int | None = None
    clusters: str = "queries"

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.centroids, "centroids", ("auto", *CENTROIDS))
        if self.free_vectors is not None:
            check_int(self.free_vectors, "free_vectors", low=0)
        check_choice(self.clusters, "clusters", CLUSTERS)


@dataclass(frozen=True)
class PrototypeLoss:
    """Which losses are added up, and their margin; `tagwood.neural.prime.loss` computes them.

    Parameters
    ----------
    margin
        ``"fixed"``: always `high`; ``"dynamic"``: the difference of the two similarities, clipped to [low, high].
    low, high
        Smallest and largest margin between cosine similarities.
    uncertain
        Gradient of a dynamic margin where a positive leads by less than `low`: ``"pull"`` or ``"invert"``.
    prototypes, texts, queries
        Weights of L(query, prototypes), L(query, label texts) and L(label text, queries); 0 leaves one out.
    regulariser
        Weight of R, which rewards prototypes that do better than label texts; 0 leaves it out.
    hinge
        Cut R at zero for each pair.
    softmax
        Weight of the cross-entropy of a query's positives over *all* labels, with the prototypes of labels outside of
        the batch as they were at the start of the epoch; left out above 50,000 labels.
    """

    margin: str = "fixed"
    low: float = 0.1
    high: float = 0.3
    uncertain: str = "pull"
    prototypes: float = 1.0
    texts: float = 1.0
    queries: float = 1.0
    regulariser: float = 0.1
    hinge: bool = False
    softmax: float = 0.0

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.margin, "margin", MARGINS)
        check_choice(self.uncertain, "uncertain", UNCERTAIN)
        check_float(self.low, "low", low=0.0, high=2.0)
        check_float(self.high, "high", low=self.low, high=2.0)
        for name in ("prototypes", "texts", "queries", "regulariser", "softmax"):
            check_float(getattr(self, name), name, low=0.0)
        if self.prototypes + self.texts + self.queries + self.softmax == 0:
            raise InputError("one of prototypes, texts, queries and softmax must be above 0", given="0 for all")


@dataclass(frozen=True)
class Batching:
    """Which queries and labels are compared in a step.

    Parameters
    ----------
    positives
        Labels drawn per query and step.
    by_propensity
        Draw rare labels more often, in proportion to their inverse propensity.
    clustered
        Put similar queries into a batch (NGAME), so that the labels of the others are hard negatives; otherwise
        shuffle.
    """

    positives: int = 2
    by_propensity: bool = True
    clustered: bool = True

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_int(self.positives, "positives", low=1)


@dataclass(frozen=True)
class PrototypeTraining(Training):
    """`Training` with the defaults of `PrototypeModel`.

    A `learning_rate` of 0 takes the default of the encoder: 0.003 from scratch; 0.00001 for a head (with 0.0005 the
    untrained prototypes were better on held-out rows); 0.00002 for the top layers, 0.0002 for all pretrained weights.
    """

    fewest_epochs: ClassVar[int] = 0
    epochs: int = 20
    batch_size: int = 512
    learning_rate: float = 0.0

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        Training.check(self if self.learning_rate else replace(self, learning_rate=1.0))


_PARTS: dict[str, type[Any]] = {
    "prototype": Prototype,
    "loss": PrototypeLoss,
    "batches": Batching,
    "training": Training,
}


@dataclass(frozen=True)
class PrototypeSettings:
    """Everything that a training depends on besides the data: a preset, or one of your own."""

    prototype: Prototype = Prototype()
    loss: PrototypeLoss = PrototypeLoss()
    batches: Batching = Batching()
    training: Training = PrototypeTraining()
    based_on: str = ""  # name of the preset, if there is one

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild settings from `dataclasses.asdict`."""
        kinds = _PARTS | {"training": PrototypeTraining}
        parts = {name: kind(**values[name]) for name, kind in kinds.items()}
        return cls(**parts, based_on=values["based_on"])

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_parts(self, _PARTS)

    def with_centroids(self, kind: str) -> Self:
        """Return these settings with a kind of centroids; for ``"none"``, labels are their texts alone."""
        if kind != "none":
            return replace(self, prototype=replace(self.prototype, centroids=kind))
        loss = self.loss
        if loss.texts > 0:
            loss = replace(loss, prototypes=0.0, queries=0.0, regulariser=0.0, softmax=0.0)
        return replace(self, prototype=replace(self.prototype, centroids=kind, free_vectors=0), loss=loss)


_PRIME = PrototypeSettings()
_NGAME = replace(_PRIME.with_centroids("none"), batches=Batching(positives=1))

PRESETS: dict[str, PrototypeSettings] = {
    "prime": _PRIME,
    "prime-lite": PrototypeSettings(batches=Batching(positives=1), training=PrototypeTraining(batch_size=256)),
    "dual-encoder": replace(_NGAME, batches=Batching(positives=1, by_propensity=False, clustered=False)),
    "ngame": _NGAME,
}
