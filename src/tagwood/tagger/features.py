"""`FeatureTagger`: a model and a label table for rows that have features instead of texts.

In: a `Dataset` with features, or matrices. Out: rankings and label names. Rows are scaled to norm 1 before the model
sees them, in training and in ranking, because linear models of other scales depend on the length of a row.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood._check import Fitted, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import check_features, check_labels, normalize_rows
from tagwood.data.dataset import Dataset
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError
from tagwood.features.base import takes_texts
from tagwood.models.base import LabelModel
from tagwood.models.linear_tree import LinearTree
from tagwood.ranking import Ranking
from tagwood.storage import State, restore, storable
from tagwood.tagger.fitting import Progress
from tagwood.tagger.stored import vocab_from_state, vocab_state


@storable("FeatureTagger")
class FeatureTagger(Fitted):
    """Rank labels for rows of features.

    Parameters
    ----------
    model
        A model of features; default ``LinearTree()``.

    Attributes
    ----------
    model_, vocab_ : the fitted model and the label table
    label_counts_ : (n_labels,) number of training rows of each label
    n_rows_ : number of training rows

    Examples
    --------
    >>> X, Y = sparse.csr_array(np.eye(4, dtype=np.float32)), [[0], [1], [0], [1]]
    >>> FeatureTagger(LinearTree(threads=1)).fit(X, Y).rank(X, 1).labels.tolist()
    [0, 1, 0, 1]
    """

    model_: LabelModel
    vocab_: LabelVocab
    label_counts_: NDArray[np.int64]
    n_rows_: int
    training_seconds_: float
    _learned = "model_"

    def __init__(self, model: LabelModel | None = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None) -> Self:
        """Learn from features X (n_rows, n_features) and label sets y, or from a `Dataset` with both."""
        start = perf_counter()
        data = X if isinstance(X, Dataset) else Dataset(check_labels(y), features=X)
        if data.features is None:
            raise InputError("a FeatureTagger is fitted on features", given="texts only", hint="Fit a Tagger.")
        model: Any = LinearTree() if self.model is None else self.model
        if takes_texts(model):
            raise InputError("the model must take features", given=f"{type(model).__name__}, which reads texts")
        model = type(model)(**model.get_params(deep=False))
        options = {"progress": progress} if isinstance(model, LinearTree) else {}
        self.model_ = model.fit(self._unit(data.features), data.labels, **options)
        self.vocab_, self.n_rows_ = data.vocab, data.n_rows
        self.label_counts_ = np.bincount(data.labels.indices, minlength=data.n_labels).astype(np.int64)
        self.training_seconds_ = perf_counter() - start
        return self

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the best `k` labels of each row."""
        self._check_fitted()
        return self.model_.rank(self._unit(X), k)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label set of each row as an (n_rows, n_labels) array of 0 and 1."""
        self._check_fitted()
        return self.model_.predict(self._unit(X))

    def _unit(self, X: Any) -> sparse.csr_array:
        threads = getattr(self.model, "threads", None)
        return normalize_rows(check_features(X), check_threads(threads))

    def state(self) -> State:
        """Return everything needed to rebuild the model."""
        self._check_fitted()
        params = {"n_rows": self.n_rows_, "seconds": self.training_seconds_}
        parts = {"model": self.model_.state(), "vocab": vocab_state(self.vocab_)}
        return State("FeatureTagger", params=params, arrays={"label_counts": self.label_counts_}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model."""
        model = restore(state.part("model"))
        tagger = cls(model)
        tagger.model_, tagger.vocab_ = model, vocab_from_state(state.part("vocab"))
        tagger.label_counts_ = state.array("label_counts", np.int64, (len(tagger.vocab_),))
        tagger.n_rows_ = state.param("n_rows", int)
        tagger.training_seconds_ = state.param("seconds", float)
        return tagger
