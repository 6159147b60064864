"""Linear classifiers on frozen embeddings: PRIME (W). In: a trained `PrototypeModel` and its texts. Out: a model.

Decisions
---------
* Classifiers are those of a `LinearTree` over embeddings, its tree shaped by the prototypes: a label's negatives are
  the rows of labels that are alike, which are the hard ones. Up to 1,000 labels form one leaf: one-vs-all in full.
* No weight is dropped and none is rounded, because embeddings are dense.
* The ensemble of both is one line: ``Ensemble([model, model.with_classifiers(texts, Y)])``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.models.base import FittedModel, check_text_rows
from tagwood.models.linear_tree.model import LinearTree
from tagwood.models.linear_tree.training import Progress, Solver
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

if TYPE_CHECKING:
    from tagwood.neural.prime.model import PrototypeModel


ONE_LEAF = 1000


def default_tree(n_labels: int, *, seed: int = 0, threads: int | None = None) -> LinearTree:
    """Return the unfitted classifiers for so many labels."""
    leaf = n_labels if n_labels <= ONE_LEAF else 100
    solver = Solver(threshold=0.0, weights="float32")
    return LinearTree(max_leaf_size=leaf, solver=solver, seed=seed, threads=threads)


@storable("PrototypeClassifiers")
class PrototypeClassifiers(FittedModel):
    """Rank labels by linear classifiers on the embeddings of a trained encoder.

    Made by `PrototypeModel.with_classifiers`; `fit` trains the classifiers anew on other rows, the encoder stays.

    Parameters
    ----------
    encoder
        A trained `TextEncoder`.
    tree
        Settings of the classifiers; default `default_tree`.

    Attributes
    ----------
    tree_ : LinearTree
    n_labels_ : int
    """

    takes = "texts"

    def __init__(self, encoder: TextEncoder, tree: LinearTree | None = None) -> None:
        self.encoder = encoder
        self.tree = tree

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_features: NDArray[np.float32] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train classifiers.

        Parameters
        ----------
        X
            One text per row.
        y
            (n_rows, n_labels) label sets.
        label_features
            (n_labels, any) vectors that shape the tree, such as prototypes; default the means of the labels' rows.
        progress
            Called with a stage's name and the share done.
        """
        self._check_params()
        rows, labels = check_text_rows(X, y)
        tree = (
            default_tree(labels.shape[1])
            if self.tree is None
            else LinearTree(**self.tree.get_params(deep=False))
        )
        self.tree_ = tree.fit(
            self.encoder.transform(rows), labels, label_features=label_features, progress=progress
        )
        self.n_labels_ = self.tree_.n_labels_
        return self

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text."""
        self._check_fitted()
        return self.tree_.rank(self.encoder.transform(texts), k, restrict=restrict, exclude=exclude)

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: labels with a score of at least 0.5, at most 50 per row."""
        self._check_fitted()
        return self.tree_.predict(self.encoder.transform(texts))

    def score_labels(self, texts: Iterable[str], pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of given labels: (n_pairs, 2) whole numbers, row of `texts` and label."""
        self._check_fitted()
        return self.tree_.score_labels(self.encoder.transform(texts), pairs)

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

    def _check_params(self) -> None:
        if not isinstance(self.encoder, TextEncoder):
            raise InputError("encoder must be a TextEncoder", given=type(self.encoder).__name__)
        if self.tree is not None and not isinstance(self.tree, LinearTree):
            raise InputError("tree must be a LinearTree", given=type(self.tree).__name__)


def train_classifiers(
    model: PrototypeModel, texts: Iterable[str], Y: Any, tree: LinearTree | None = None
) -> PrototypeClassifiers:
    """Return classifiers on the frozen embeddings of a model, for all of its labels."""
    rows, labels = check_text_rows(texts, Y)
    if labels.shape[1] > model.n_labels_:
        raise InputError(
            f"Y must have the {model.n_labels_:,} labels of the model", given=f"{labels.shape[1]:,}"
        )
    labels = sparse.csr_array(
        (labels.data, labels.indices, labels.indptr), shape=(labels.shape[0], model.n_labels_)
    )  # lists may end before the last label, and added labels have no rows
    chosen = default_tree(model.n_labels_, seed=model.seed, threads=model.threads) if tree is None else tree
    return PrototypeClassifiers(model.encoder_, chosen).fit(rows, labels, label_features=model.index_.vectors)
