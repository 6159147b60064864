"""The protocol of every model, `LabelModel`; its base class, `FittedModel`; and the input checks that models share.

A model learns from features (or texts) X and label sets y, and returns a `Ranking` of label ids. Names of labels are
texts to learn from for some models; answers are ids.

Decisions
---------
* The second argument of `fit` and `score` is called `y`, as in scikit-learn, although it is a matrix of label sets: its
  meta-estimators pass it by position, users also by keyword. Inside the package label sets are `Y`.
* `score` is the mean nDCG@5 of the ranking. scikit-learn's default for classifiers, the share of rows whose label set
  is exactly right, says little where a row has several of thousands of labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import Fitted
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts
from tagwood.errors import InputError
from tagwood.features.base import check_texts, takes_texts
from tagwood.ranking import Ranking
from tagwood.storage import State

Progress = Callable[[str, float], None]  # name of a stage of training, share done


def ignore_progress(stage: str, share: float) -> None:
    """Report nothing: the default where a `Progress` is optional."""


@runtime_checkable
class LabelModel(Protocol):
    """The protocol of every model.

    The constructor stores its keyword arguments under the same names and does nothing else; `threads` is among them,
    and `seed` if the model draws random numbers. `fit` returns self, forgets earlier fits and keeps no reference to the
    data. Fitted attributes end in ``_``. Prediction changes nothing.

    A model that reads texts has the attribute ``takes = "texts"``; its X is one text per row (see `takes_texts`). If
    its `fit` has a parameter ``label_texts``, a Tagger passes a text per label, its name; if it has ``label_names``, a
    list of all names per label. A model that finds labels without rows has ``add_labels`` with the same parameters,
    which returns the new ids. An attribute ``encoder_`` is the encoder that measures the similarity of texts. See also
    `explains_texts`.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from features X (n_rows, n_features), or texts, and label sets y (n_rows, n_labels)."""

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the best `k` labels of each row, ordered and scored."""

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label set of each row as an (n_rows, n_labels) array of 0 and 1."""

    def score(self, X: Any, y: Any) -> float:
        """Return the mean nDCG@5 of the ranking of X, given the true label sets y."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor arguments."""

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments."""

    def state(self) -> State:
        """Return everything needed to rebuild the model."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model."""


class FittedModel(Fitted):
    """Base class of models: parameters, `score`, and scikit-learn's description of a multi-label classifier."""

    takes_parts: ClassVar[bool] = False  # whether `rank` also takes features as `CsrParts`
    n_labels_: int

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the best `k` labels of each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any) -> float:
        """Return the mean nDCG@5 of the ranking of X, given the true label sets y (n_rows, n_labels)."""
        self._check_fitted()
        from tagwood.metrics import evaluate

        return evaluate(y, self.rank(X, 5), metrics=["nDCG@5"])["nDCG@5"]

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Label ids, which scorers of scikit-learn read from a classifier."""
        return np.arange(self.n_labels_)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(sparse=True),
        )


def finds_new_labels(model: Any) -> bool:
    """Whether a model finds labels without rows by their texts or names: it has ``add_labels``, or a member that has.

    Members are those of an `Ensemble`, which has ``add_labels`` whatever its members can do.
    """
    members = getattr(model, "members_", None)
    if members is not None:
        return any(finds_new_labels(member.model) for member in members)
    return hasattr(model, "add_labels")


def add_labels(model: Any, label_texts: Sequence[str], label_names: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Add labels to a model with ``add_labels``, which gets their texts, all their names, or both; return the ids."""
    known = inspect.signature(model.add_labels).parameters
    given = {"label_texts": label_texts, "label_names": label_names}
    ids: NDArray[np.int64] = model.add_labels(**{name: given[name] for name in given if name in known})
    return ids


def explains_texts(model: object) -> bool:
    """Whether a model attributes a label's score to words: ``explain_text(text, label) -> [(word, weight), ...]``.

    Words are as in the text, each once. Weights are in the unit of the model's score and positive if they support the
    label. They are what the score loses without a word, unless an attribute ``explains_by`` names something else.
    """
    return takes_texts(model) and hasattr(model, "explain_text")


def out_of_fold(
    groups: ArrayLike,
    rank: Callable[[NDArray[np.intp], NDArray[np.intp]], Ranking],
    *,
    folds: int = 3,
    seed: int = 0,
) -> Ranking:
    """Return the ranking of each row by a model that has not seen the row.

    A model ranks the labels of its own training rows first (99.9 % right against 75 to 95 % on new rows), so another
    one that learns from its rankings must see those of a model trained on other rows.

    Parameters
    ----------
    groups
        (n_rows,) numbers; rows with equal numbers are in the same fold. ``np.arange(n_rows)`` for single rows.
    rank
        Called with the rows to train on and the rows to rank, both ascending.

    Examples
    --------
    >>> seen = []
    >>> def rank(train, held):
    ...     seen.append(set(train) & set(held))
    ...     return Ranking.from_lists([[(int(row) % 2, 1.0)] for row in held], n_labels=2)
    >>> out_of_fold(np.arange(6), rank).labels.tolist(), seen
    ([0, 1, 0, 1, 0, 1], [set(), set(), set()])
    """
    numbers = np.unique(groups, return_inverse=True)[1]
    fold = np.random.default_rng([seed, 40]).permutation(int(numbers.max(initial=0)) + 1)[numbers] % folds
    parts = [np.flatnonzero(fold == number) for number in range(folds)]
    found = [rank(np.flatnonzero(fold != number), held) for number, held in enumerate(parts) if held.size]
    whole = sparse.vstack([one.to_csr() for one in found], format="csr")
    return Ranking.from_csr(sparse.csr_array(whole[np.argsort(np.concatenate(parts), kind="stable")]))


def check_training_data(X: Any, Y: Any) -> tuple[CsrParts, sparse.csr_array]:
    """Return checked features and label sets to train on."""
    features = csr_parts(check_features(X))
    if features.n_rows == 0 or features.n_cols == 0:
        raise InputError("X must have at least one row and one feature", given=f"{features.n_rows} rows")
    return features, check_some_labels(check_labels(Y, n_rows=features.n_rows))


def check_text_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return checked texts and label sets to train on."""
    rows = list(check_texts(texts))
    if not rows:
        raise InputError("texts must hold at least one text", given="none")
    labels = check_labels(Y)
    if labels.shape[0] != len(rows):
        expected = f"Y must have one row for each of the {len(rows):,} texts"
        raise InputError(expected, given=f"{labels.shape[0]:,} rows")
    return rows, check_some_labels(labels)


def check_some_labels(Y: sparse.csr_array) -> sparse.csr_array:
    """Return label sets, or raise `InputError` if all are empty."""
    if Y.nnz == 0:
        raise InputError("Y must hold at least one label", given="none", hint="Check that the label column was read.")
    return Y


def check_label_texts(label_texts: Iterable[str], n_labels: int) -> list[str]:
    """Return the texts of labels as a list with one text for each label."""
    listed = list(check_texts(label_texts))
    if len(listed) != n_labels:
        raise InputError(
            f"label_texts must hold one text for each of the {n_labels:,} labels", given=f"{len(listed):,}"
        )
    return listed


def check_pairs(pairs: ArrayLike, n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Return checked (n_pairs, 2) rows and labels."""
    wanted = np.asarray(pairs)
    if wanted.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if wanted.ndim != 2 or wanted.shape[1] != 2 or wanted.dtype.kind not in "iu":
        raise InputError("pairs must be whole numbers of shape (n_pairs, 2): row, label")
    if wanted.min() < 0 or wanted[:, 0].max() >= n_rows or wanted[:, 1].max() >= n_labels:
        raise InputError(f"pairs must name rows below {n_rows} and labels below {n_labels}")
    return wanted.astype(np.int64)
