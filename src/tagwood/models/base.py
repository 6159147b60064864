"""The protocol of every model, `LabelModel`, and what all models share, `FittedModel`.

A model learns from features (or texts) X and label sets y, and returns a `Ranking` of label ids. It never knows a
label's name.

Decisions
---------
* The second argument of `fit` and `score` is called `y`, as in scikit-learn, although it is a matrix of label sets: its
  meta-estimators pass it by position, users also by keyword. Inside the package label sets are `Y`.
* `score` is the mean nDCG@5 of the ranking. scikit-learn's default for classifiers, the share of rows whose label set
  is exactly right, says little where a row has several of thousands of labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import Fitted
from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.features.base import check_texts
from tagwood.metrics.scores import ndcg_at_k
from tagwood.ranking import Ranking
from tagwood.storage import State

# SECTION models.text_rows
# The check of training rows that are texts. In: texts and label sets. Out: a list and a CSR matrix, or an error.
#
# Every model with ``takes = "texts"`` begins here.


def check_text_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return texts and label sets that a model can be trained on."""
    rows = list(check_texts(texts))
    if not rows:
        raise InputError("texts must hold at least one text", given="none")
    labels = check_labels(Y)
    if labels.shape[0] != len(rows):
        raise InputError(
            f"Y must have one row for each of the {len(rows):,} texts", given=f"{labels.shape[0]:,} rows"
        )
    if labels.nnz == 0:
        raise InputError(
            "Y must hold at least one label", given="none", hint="Check that the label column was read."
        )
    return rows, labels


@runtime_checkable
class LabelModel(Protocol):
    """The protocol of every model.

    The constructor stores its keyword arguments under the same names and does nothing else (`threads` and `seed` are
    among them); `fit` returns self, forgets earlier fits and keeps no reference to the data; what was learned ends in
    ``_``; prediction changes nothing. A model that reads texts itself has an attribute ``takes = "texts"``, and X below
    is then one text per row (see `takes_texts`); if its `fit` has a parameter ``label_texts``, it is given a text per
    label; an attribute ``encoder_`` is what likeness of texts is measured with; see also `explains_texts`.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from features X (n_rows, n_features), or texts, and label sets y (n_rows, n_labels)."""
        ...

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the best `k` labels of each row, ordered and scored."""
        ...

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label set of each row as an (n_rows, n_labels) array of 0 and 1."""
        ...

    def score(self, X: Any, y: Any) -> float:
        """Return the mean nDCG@5 of the ranking of X, given the true label sets y."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor arguments."""
        ...

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments."""
        ...

    def state(self) -> State:
        """Return everything needed to rebuild the model."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model."""
        ...


def takes_texts(model: object) -> bool:
    """Whether a model's `fit` and `rank` take texts where others take features: it says ``takes = "texts"``.

    Examples
    --------
    >>> class Reader:
    ...     takes = "texts"
    >>> takes_texts(Reader()), takes_texts(object())
    (True, False)
    """
    return getattr(model, "takes", "features") == "texts"


def reads_label_texts(model: Any) -> bool:
    """Whether a model learns from a text per label and ranks labels that no row has: then it has `add_labels` too."""
    return "label_texts" in inspect.signature(model.fit).parameters and hasattr(model, "add_labels")


def explains_texts(model: object) -> bool:
    """Whether a model says what words add to a label's score: ``explain_text(text, label) -> [(word, weight), ...]``.

    Words are as in the text, each once; weights are in the unit of the model's own score, positive for the label. They
    are what the score loses without a word, or what an attribute ``explains_by`` says in words.

    Examples
    --------
    >>> class Reader:
    ...     takes = "texts"
    ...     def explain_text(self, text, label):
    ...         return [(word, 1.0) for word in text.split()]
    >>> explains_texts(Reader()), explains_texts(object())
    (True, False)
    """
    return takes_texts(model) and hasattr(model, "explain_text")


class FittedModel(Fitted):
    """Base class of models: parameters, `score`, and scikit-learn's description of a multi-label classifier."""

    n_labels_: int

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the best `k` labels of each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any) -> float:
        """Return the mean nDCG@5 of the ranking.

        Parameters
        ----------
        X
            (n_rows, n_features) features, or one text per row for models that read texts.
        y
            (n_rows, n_labels) true label sets. Rows without labels do not count.
        """
        self._check_fitted()
        return ndcg_at_k(y, self.rank(X, 5), 5)

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Label ids: the scorers of scikit-learn ask a classifier for them."""
        return np.arange(self.n_labels_)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(sparse=True),
        )
