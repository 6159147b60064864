"""`TreeRanker`: what estimators with linear trees have in common once they are fitted. In: features. Out: rankings.

Every tree is searched by a beam or best-first; in an ensemble the score of a label is the mean over the trees, 0 where
a tree did not find it. `trees_` holds the `TreeWeights` for explanations, senses and tree browsers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_int, check_threads
from tagwood._sparse import CsrParts, check_features, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.models.base import FittedModel, allowed_labels, check_pairs
from tagwood.models.linear_tree.trials import TreeSweep
from tagwood.models.linear_tree.weights import Found, SearchPlan, TreeWeights, pair_scores
from tagwood.ranking import Ranking

SEARCHES = ("beam", "exact")


class LearnedTrees(NamedTuple):
    """What a fit learns: trained trees, and their λ with the trials behind it, if any."""

    trees: list[TreeWeights]
    lam: float | None
    sweep: TreeSweep | None
    n_features: int
    n_labels: int


class TreeRanker(FittedModel):
    """Rank labels by fitted linear trees.

    Attributes
    ----------
    trees_ : list of TreeWeights, one per tree: the `LabelTree` and its classifiers
    n_labels_, n_features_ : int
    lam_ : float, λ of the trees; None if `fit` was given trees
    sweep_ : TreeSweep with the trials behind `lam_`; None if there were none
    """

    trees_: list[TreeWeights]
    n_features_: int
    lam_: float | None
    sweep_: TreeSweep | None
    threads: int | None

    def keep(self, learned: LearnedTrees) -> None:
        """Take over what a fit has learned, all at once."""
        self.trees_, self.lam_, self.sweep_ = learned.trees, learned.lam, learned.sweep
        self.n_features_, self.n_labels_ = learned.n_features, learned.n_labels

    def learned(self) -> LearnedTrees:
        """Return what the last fit has learned."""
        self._check_fitted()
        return LearnedTrees(self.trees_, self.lam_, self.sweep_, self.n_features_, self.n_labels_)

    def copy_merge(self, search: str) -> str:
        """Return how the scores of copies of a label are joined: ``"mean"`` or ``"max"``."""
        return "mean" if search == "beam" else "max"

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        beam_width: int = 10,
        search: str = "beam",
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        max_nodes: int | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each row.

        Parameters
        ----------
        X
            (n_rows, n_features) features.
        k
            Largest number of labels per row.
        beam_width
            Nodes of a level that a beam follows. More is slower and finds more.
        search
            ``"beam"``; or ``"exact"``, best-first search, which returns the labels with the highest scores of all.
        restrict, exclude
            Label ids that may, or may not, be returned. The search visits only nodes with allowed labels.
        max_nodes
            Most nodes that an exact search evaluates per row; None for no limit. `search_effort` returns a bound on
            what may be missed.
        """
        found = self._search(X, k, beam_width, search, restrict, exclude, max_nodes)
        places = (found[0].labels, found[0].scores, found[0].found)
        if len(found) > 1:
            places = _kernels.merge_lists(
                np.concatenate([f.labels for f in found]),
                np.concatenate([f.scores for f in found]),
                np.concatenate([f.found for f in found]),
                len(found),
                k,
                check_threads(self.threads),
            )
        return Ranking.from_padded(*places, self.n_labels_)

    def search_effort(
        self, X: Any, k: int = 5, *, beam_width: int = 10, search: str = "exact", max_nodes: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return per row the number of nodes that a search evaluates and the best score it may have missed.

        The bound is 0 if nothing was missed, and -1 for beams, which do not know. For several trees, nodes are summed
        and the largest bound is returned.
        """
        found = self._search(X, k, beam_width, search, None, None, max_nodes)
        evaluated = np.stack([f.evaluated for f in found]).sum(axis=0, dtype=np.int32)
        return evaluated, np.stack([f.bound for f in found]).max(axis=0)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with a score of at least 0.5, at most 50 per row."""
        return self.rank(X, k=50).above(0.5).to_sets()

    def score_labels(self, X: Any, pairs: ArrayLike, merge: str = "mean") -> NDArray[np.float32]:
        """Return the scores of given labels, without a search.

        Parameters
        ----------
        X
            (n_rows, n_features) features.
        pairs
            (n_pairs, 2) whole numbers: row of X, label.
        merge
            For labels with copies: ``"mean"`` over all copies or ``"max"``.
        """
        self._check_fitted()
        features = csr_parts(check_features(X, n_features=self.n_features_))
        wanted = check_pairs(pairs, features.n_rows, self.n_labels_)
        check_choice(merge, "merge", ["mean", "max"])
        threads = check_threads(self.threads)
        scores = [pair_scores(tree, features, wanted, merge, threads) for tree in self.trees_]
        mean: NDArray[np.float32] = np.mean(scores, axis=0).astype(np.float32)
        return mean

    def _search(
        self,
        X: Any,
        k: int,
        beam_width: int,
        search: str,
        restrict: ArrayLike | None,
        exclude: ArrayLike | None,
        max_nodes: int | None,
    ) -> list[Found]:
        """Search every tree."""
        self._check_fitted()
        plan = check_search(k, beam_width, search, max_nodes, self.copy_merge(search))
        trusted = isinstance(X, CsrParts) and X.n_cols == self.n_features_  # straight from an encoder
        features = X if trusted else feature_parts(X, self.n_features_)
        if restrict is not None or exclude is not None:
            plan = replace(plan, allowed=allowed_labels(restrict, exclude, self.n_labels_))
        # Several trees return more labels each, so that a label which only some of them rank high is scored by all.
        wanted = min(k if len(self.trees_) == 1 else max(4 * k, 20), self.n_labels_)
        threads = 1 if features.indptr.size == 2 else check_threads(self.threads)  # one row needs one thread
        return [tree.search(features, wanted, plan, threads) for tree in self.trees_]


def check_search(k: Any, beam_width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    """Return the plan of a search for `k` labels, or raise `InputError`.

    Plans are cached: for single rows the checks would take as long as a small search.
    """
    try:
        return _known_plan(k, beam_width, search, max_nodes, merge)
    except TypeError:  # an unhashable argument: the checks name it
        return _checked_plan(k, beam_width, search, max_nodes, merge)


def _checked_plan(k: Any, beam_width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    check_int(k, "k", low=1)
    check_int(beam_width, "beam_width", low=1)
    check_choice(search, "search", SEARCHES)
    budget = 0 if max_nodes is None else check_int(max_nodes, "max_nodes", low=1)
    if budget and search != "exact":
        raise InputError("max_nodes belongs to search='exact'", given=f"search={search!r}")
    return SearchPlan(search == "exact", int(beam_width), budget, merge)


_known_plan = lru_cache(maxsize=256, typed=True)(_checked_plan)  # typed: k=True must not find the plan of k=1
