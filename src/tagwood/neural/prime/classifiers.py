"""PRIME (W): linear classifiers on the frozen embeddings of a trained encoder.

In: a trained `TextEncoder`, texts and label sets. Out: a model that ranks labels. `PrototypeModel.with_classifiers`
makes one; ``Ensemble([model, model.with_classifiers(texts, Y)])`` combines both.

Decisions
---------
* The classifiers are those of a `LinearTree` over embeddings, whose tree is shaped by the prototypes: the negatives of
  a label are the rows of similar labels, which are the hard ones. Up to 1,000 labels form one leaf: full one-vs-all.
* No weight is dropped or rounded, because embeddings are dense.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.models.base import FittedModel, Progress, check_text_rows
from tagwood.models.linear_tree import LinearTree, Solver
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

_ONE_LEAF = 1000  # labels up to which the tree is a single leaf


def default_tree(n_labels: int, *, seed: int = 0, threads: int | None = None) -> LinearTree:
    """Return unfitted classifiers for `n_labels` labels."""
    leaf = n_labels if n_labels <= _ONE_LEAF else 100
    solver = Solver(threshold=0.0, weights="float32")
    return LinearTree(max_leaf_size=leaf, solver=solver, seed=seed, threads=threads)


@storable("PrototypeClassifiers")
class PrototypeClassifiers(FittedModel):
    """Rank labels by linear classifiers on the embeddings of a trained encoder.

    `fit` trains the classifiers; the encoder is not changed. scikit-learn's `clone` keeps the encoder too.

    Parameters
    ----------
    encoder
        A fitted `TextEncoder`.
    tree
        Unfitted classifiers; default `default_tree`.

    Attributes
    ----------
    tree_ : LinearTree
    n_labels_ : int
    """

    takes = "texts"

    def __init__(self, encoder: TextEncoder, tree: LinearTree | None = None) -> None:
        self.encoder = encoder
        self.tree = tree

    def __sklearn_clone__(self) -> Self:
        tree = None if self.tree is None else LinearTree(**self.tree.get_params(deep=False))
        return type(self)(self.encoder, tree)

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_features: NDArray[np.float32] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the classifiers.

        Parameters
        ----------
        X
            One text per row.
        y
            (n_rows, n_labels) label sets.
        label_features
            (n_labels, any) vectors that shape the tree, such as prototypes; default the mean embedding of each label's
            rows.
        progress
            Called with the name of a stage and the share of it that is done.
        """
        self.check_params()
        rows, labels = check_text_rows(X, y)
        tree = default_tree(labels.shape[1]) if self.tree is None else self.tree
        self.tree_ = LinearTree(**tree.get_params(deep=False)).fit(
            self.encoder.transform(rows), labels, label_features=label_features, progress=progress
        )
        self.n_labels_ = self.tree_.n_labels_
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
        return self.tree_.rank(self.encoder.transform(X), k, restrict=restrict, exclude=exclude)

    def predict(self, X: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: labels with a score of at least 0.5, at most 50 per row."""
        self._check_fitted()
        return self.tree_.predict(self.encoder.transform(X))

    def score_labels(self, X: Iterable[str], pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of (n_pairs, 2) pairs: the row of a text, and a label."""
        self._check_fitted()
        return self.tree_.score_labels(self.encoder.transform(X), pairs)

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        return State(
            "PrototypeClassifiers", parts={"encoder": self.encoder.state(), "tree": self.tree_.state()}
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        tree = LinearTree.from_state(state.part("tree"))
        model = cls(TextEncoder.from_state(state.part("encoder")), LinearTree(**tree.get_params(deep=False)))
        model.tree_, model.n_labels_ = tree, tree.n_labels_
        return model

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        if not isinstance(self.encoder, TextEncoder):
            raise InputError("encoder must be a TextEncoder", given=type(self.encoder).__name__)
        if self.tree is not None and not isinstance(self.tree, LinearTree):
            raise InputError("tree must be a LinearTree", given=type(self.tree).__name__)
