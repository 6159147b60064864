"""`PrototypeClassifiers`: a linear classifier per label on embeddings, which starts from its prototype: PRIME (W).

In: a fitted encoder, texts, label sets, the text of each label. Out: a ranking by the inner product with classifiers.

Decisions
---------
* A classifier w of a label with prototype p minimises ½‖w - p‖² + C Σ max(0, 1 - y·s·(w·x - t))², L2 regularisation
  towards the prototype: with few rows w stays near p, and a label that no row comes near keeps it.
* The negatives of a label are the rows that have it among their 50 nearest prototypes: the hard ones.
* Scale s and threshold t are the same for all labels: the mean score of a row's own labels has the margin 1, that of
  the others -1. So they change no ranking.
* C is chosen by nDCG@5 on held-out rows, where training starts from untrained prototypes of the other rows; C = 0, the
  prototypes themselves, is one of the choices.
* Accelerated gradient steps, whose size for a label follows from its number of rows, because rows have norm 1.
* Classifiers have different norms, so the search compares all of them; approximate ones need vectors of norm 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_float, check_int, check_threads
from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.base import FittedModel, Progress, check_label_texts, check_pairs, check_text_rows, ignore_progress
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.training import FEWEST_ROWS, choose_share, untrained_prototypes
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

COSTS = (0.0, 0.03, 0.1, 0.3)  # C that are tried
_COST_ROWS = 5000  # rows that C is chosen on
_USUAL = 0.03  # C where too few rows can be held out
_NEAREST = 50  # labels that each row is compared with, beside its own
_STEPS = 15
_LEAST_GAP = 0.05  # between the mean scores of own and other labels
_CHUNK = 1 << 15  # pairs whose scores are computed together
_MAX_LABELS = 50  # labels per row that `predict` returns

_F32 = NDArray[np.float32]


@storable("PrototypeClassifiers")
class PrototypeClassifiers(FittedModel):
    """Rank labels by linear classifiers on embeddings that start from label prototypes.

    They are better than the prototypes where labels have several rows, and as good where they have one or none.
    `PrototypeModel.with_classifiers` makes one. The encoder is not changed; scikit-learn's `clone` keeps it.

    Parameters
    ----------
    encoder
        A fitted `TextEncoder`.
    C
        Weight of the rows against the prototypes, about 0.03 to 0.3; 0 keeps the prototypes. Default: the best one on
        held-out rows, 0.03 with few rows.
    seed, threads
        Same seed, same model. Number of threads of searches; default all cores.

    Attributes
    ----------
    index_ : LabelIndex over the classifiers
    C_ : float
    threshold_ : float, the score at which a classifier accepts a label
    n_labels_ : int
    """

    takes = "texts"
    index_: LabelIndex
    C_: float
    threshold_: float

    def __init__(
        self, encoder: TextEncoder, *, C: float | None = None, seed: int = 0, threads: int | None = None
    ) -> None:
        self.encoder = encoder
        self.C = C
        self.seed = seed
        self.threads = threads

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_texts: Iterable[str] | None = None,
        prototypes: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the classifiers on texts and their label sets.

        Parameters
        ----------
        X, y
            One text per row; (n_rows, n_labels) label sets: a 0/1 matrix, or the label ids of each row.
        label_texts
            One text per label, such as its name. Not needed if both C and prototypes are given.
        prototypes
            (n_labels, dimension) rows of norm 1 to start from; default: means of label text and centroid of the rows.
        progress
            Function called with a line and the share done.
        """
        self.check_params()
        rows, Y = check_text_rows(X, y)
        report = progress or ignore_progress
        report("embeddings", 0.0)
        vectors, texts = self.encoder.transform(rows), None
        if label_texts is not None:
            texts = self.encoder.transform(check_label_texts(label_texts, Y.shape[1]))
        elif self.C is None or prototypes is None:
            raise InputError(
                f"PrototypeClassifiers need label_texts: one text for each of the {Y.shape[1]:,} labels",
                given="none",
                hint="Pass the labels' names, or both C and prototypes.",
            )
        threads = check_threads(self.threads)
        if prototypes is None:
            assert texts is not None
            prototypes = untrained_prototypes(vectors, texts, Y, choose_share(vectors, texts, Y, self.seed))
        start = LabelIndex(np.asarray(prototypes), "flat", threads=threads).vectors
        if start.shape != (Y.shape[1], vectors.shape[1]):
            raise InputError(f"prototypes must have the shape {(Y.shape[1], vectors.shape[1])}", given=f"{start.shape}")
        report("choice of C", 0.1)
        cost = self.C
        if cost is None:
            assert texts is not None
            cost = choose_cost(vectors, texts, Y, self.seed, threads)
        report("classifiers", 0.4)
        found, self.threshold_ = train_classifiers(vectors, Y, start, cost, threads)
        self.index_ = LabelIndex(found, "flat", threads=self.threads)
        self.C_, self.n_labels_ = cost, len(found)
        return self

    def rank(
        self,
        X: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text."""
        self._check_fitted()
        check_int(k, "k", low=1)
        only, out = (None if ids is None else np.atleast_1d(ids) for ids in (restrict, exclude))
        return self.index_.rank(self.encoder.transform(X), k, only, out)

    def predict(self, X: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: the labels that their classifiers accept, at most 50 per row."""
        return self.rank(X, k=_MAX_LABELS).above(self.threshold_).to_sets()

    def score_labels(self, X: Iterable[str], pairs: ArrayLike) -> _F32:
        """Return the scores of (n_pairs, 2) pairs: the row of a text, and a label."""
        self._check_fitted()
        vectors = self.encoder.transform(X)
        wanted = check_pairs(pairs, len(vectors), self.n_labels_)
        return pair_scores(vectors, self.index_.vectors, wanted[:, 0], wanted[:, 1])

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        params = {"C": self.C, "seed": self.seed, "threads": self.threads, "chosen": self.C_}
        parts = {"encoder": self.encoder.state(), "index": self.index_.state()}
        return State("PrototypeClassifiers", params={**params, "threshold": self.threshold_}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        C, threads = state.param("C", float, type(None)), state.param("threads", int, type(None))
        encoder = TextEncoder.from_state(state.part("encoder"))
        model = cls(encoder, C=C, seed=state.param("seed", int), threads=threads)
        model.check_params()
        model.index_ = LabelIndex.from_state(state.part("index"))
        model.C_ = check_float(state.param("chosen", float), "chosen", low=0.0)
        model.threshold_ = check_float(state.param("threshold", float), "threshold")
        model.n_labels_ = len(model.index_)
        return model

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        if not isinstance(self.encoder, TextEncoder):
            raise InputError("encoder must be a TextEncoder", given=type(self.encoder).__name__)
        if self.C is not None:
            check_float(self.C, "C", low=0.0)
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


class ComparedPairs(NamedTuple):
    """Pairs of a row and a label, ordered by label, and whether the label is one of the row's own."""

    rows: NDArray[np.int32]
    labels: NDArray[np.int32]
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, X: _F32, Y: sparse.csr_array, prototypes: _F32, threads: int) -> ComparedPairs:
        """Return the pairs of each row with its own labels and with those of the nearest prototypes."""
        index = LabelIndex(prototypes, "flat", threads=threads)
        near = index.rank(X, min(_NEAREST, len(prototypes)))
        nearest = np.repeat(np.arange(len(X)), np.diff(near.indptr)), near.labels
        true = np.repeat(np.arange(len(X)), np.diff(Y.indptr)), Y.indices
        keys = [labels.astype(np.int64) * len(X) + rows for rows, labels in (nearest, true)]
        both = np.union1d(*keys)
        own = np.isin(both, keys[1])
        return cls((both % len(X)).astype(np.int32), (both // len(X)).astype(np.int32), own)


def train_classifiers(X: _F32, Y: sparse.csr_array, prototypes: _F32, C: float, threads: int) -> tuple[_F32, float]:
    """Return (n_labels, dimension) classifiers, and the score at which they accept a label.

    X (n_rows, dimension) and `prototypes` have norm 1. The objective is in the docstring of the module.
    """
    pairs = ComparedPairs.of(X, check_labels(Y), prototypes, threads)
    before = pair_scores(X, prototypes, pairs.rows, pairs.labels)
    right, wrong = (float(before[which].mean()) if which.any() else 0.0 for which in (pairs.own, ~pairs.own))
    scale, threshold = 2.0 / max(right - wrong, _LEAST_GAP), (right + wrong) / 2.0
    if C == 0.0:
        return prototypes, threshold
    counts = np.bincount(pairs.labels, minlength=len(prototypes))
    signs = np.where(pairs.own, np.float32(scale), np.float32(-scale))
    steps = (1.0 / (1.0 + 2.0 * C * scale**2 * counts)).astype(np.float32)[:, None]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    change = ahead = np.zeros_like(prototypes)
    pace = 1.0
    for _ in range(_STEPS):
        margins = signs * (pair_scores(X, prototypes + ahead, pairs.rows, pairs.labels) - np.float32(threshold))
        slopes = np.float32(-2.0 * C) * signs * np.maximum(0.0, 1.0 - margins)
        gradient = sparse.csr_array((slopes, pairs.rows, indptr), shape=(len(prototypes), len(X))) @ X + ahead
        moved, faster = ahead - steps * gradient, (1.0 + (1.0 + 4.0 * pace**2) ** 0.5) / 2.0
        ahead = moved + np.float32((pace - 1.0) / faster) * (moved - change)
        change, pace = moved, faster
    return prototypes + change, threshold


def pair_scores(X: _F32, W: _F32, rows: NDArray[np.integer], labels: NDArray[np.integer]) -> _F32:
    """Return the inner products of some rows of X with some rows of W."""
    found = np.empty(rows.size, dtype=np.float32)
    for at in range(0, rows.size, _CHUNK):
        some = slice(at, at + _CHUNK)
        found[some] = np.einsum("nd,nd->n", X[rows[some]], W[labels[some]])
    return found


def choose_cost(X: _F32, texts: _F32, Y: sparse.csr_array, seed: int, threads: int) -> float:
    """Return the C with the best nDCG@5 on held-out rows, from embeddings of rows and of label texts."""
    usable = np.flatnonzero(np.diff(Y.indptr))
    if usable.size < FEWEST_ROWS:
        return _USUAL
    order = np.random.default_rng([seed, 60]).permutation(usable)[:_COST_ROWS]
    held, rest = np.split(order, [order.size // 5])
    known, true = check_labels(Y[rest]), check_labels(Y[held])
    start = untrained_prototypes(X[rest], texts, known, choose_share(X[rest], texts, known, seed))
    found = {}
    for C in COSTS:
        index = LabelIndex(train_classifiers(X[rest], known, start, C, threads)[0], "flat", threads=threads)
        found[C] = float(evaluate(true, index.rank(X[held], 5), metrics=["nDCG@5"])["nDCG@5"])
    return max(found, key=lambda C: found[C])
