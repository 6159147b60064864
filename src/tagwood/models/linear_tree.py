"""`LinearTree`: a label tree with linear classifiers, the fast base of the toolkit (Parabel / XR-Linear class).

In: features X and label sets Y. Out: a ranking. A row walks down the tree; the score of a label is the product of the
probabilities along its path.

Decisions
---------
* Labels without rows stay in the tree with a constant negative margin: they are found only when nothing else is.
* Rows without labels take no part in training.
* `predict` keeps labels with a score of at least 0.5. Scores are not calibrated; a Tagger calibrates them.
* In an ensemble a label's score is the mean over the trees, 0 where a tree did not find it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import CsrParts, check_features, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.models.base import FittedModel
from tagwood.models.entry_weights import entry_weights
from tagwood.models.links import link_power
from tagwood.models.tree_inputs import allowed_labels, check_pairs, check_search, check_training_data
from tagwood.models.tree_shapes import build_trees, check_trees, shaping_features
from tagwood.models.tree_state import tree_weights_from_state, tree_weights_state
from tagwood.models.tree_sweep import TreeSweep
from tagwood.models.tree_training import Progress, Solver, TreeTraining
from tagwood.models.tree_trials import choose_tree
from tagwood.models.tree_weights import SearchPlan, TreeWeights, pair_scores
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.trees.label_tree import LabelTree

_NEGATIVES = ("teacher", "teacher+matcher")
_TREES = ("interpolated", "auto")
_INT32_MAX = np.iinfo(np.int32).max


@storable("LinearTree")
class LinearTree(FittedModel):
    """Rank labels by linear classifiers along the paths of a label tree.

    1. Labels get features: the mean of their rows. 2. Like labels are put together by recursive balanced 2-means,
    until at most `max_leaf_size` remain. 3. Every node and label gets a linear classifier, trained on the rows
    that reach its parent. 4. A row follows the most promising paths.

    Parameters
    ----------
    arity
        Most children of a node, a power of two. Wide nodes make shallow trees, which are fast to search and precise,
        and take longer to train; 2 gives the classic binary tree.
    max_leaf_size
        Labels in a leaf. Larger leaves are slower and a little more precise. A value of `n_labels` or more gives one
        leaf: one-vs-all.
    n_trees
        Trees in the ensemble, each from its own seed. 3 gain some tenths of a point at three times the cost.
    tree
        ``"interpolated"``: a tree of the given `lam`; ``"auto"``: `lam` is chosen by trials on a part of the rows, as
        the one with the fewest nodes per search that loses no P@1 there, which takes five more trainings on at most
        20,000 rows; below 134 rows it is 0. ``tagwood tune-tree`` measures real latency.
    lam
        λ from 0 to 2. 0: like labels together, all at about the same depth. Up to 1: frequent labels nearer to the
        root, where exact search finds them sooner. 2: frequencies alone shape the tree. Smaller leaves and nodes
        (``arity=16, max_leaf_size=20``) gain most from it.
    cost
        C of the linear classifiers: larger fits the training rows more closely.
    negatives
        ``"teacher"``: a node sees the rows with a label below it; ``"teacher+matcher"``: also the rows the trained
        upper levels send there, which is slower and helps where the tree errs often.
    tail
        Weight of rare labels: 0 treats all alike, 1 weights the positives of a label's classifier by its inverse
        propensity. None takes 1, which raised P@k and PSP@k on four of five real sets, but 0 where some label stands
        on more than a quarter of the rows: such hubs decide P@1 there, and weight on rare labels is taken from them.
    link
        From margin to score: ``"l3-hinge"``, ``"l2-hinge"``, ``"l4-hinge"``, ``"l1-hinge"`` or ``"sigmoid"``.
    solver
        Settings of the linear classifiers that rarely need a change.
    seed, threads
        Same seed, same model bits, for any number of threads; default all cores.

    Attributes
    ----------
    trees_ : list of TreeWeights
    n_labels_, n_features_ : int
    lam_ : float, λ of the trees; None where `fit` was given trees
    sweep_ : TreeSweep with the trials behind `lam_`; None where there were none

    Examples
    --------
    >>> X = np.eye(4, dtype=np.float32)
    >>> model = LinearTree(threads=1).fit(X, [[0], [1], [2], [3]])
    >>> model.rank(X[2:3], k=1)[0][0][0]
    2
    """

    def __init__(
        self,
        *,
        arity: int = 64,
        max_leaf_size: int = 100,
        n_trees: int = 1,
        tree: str = "interpolated",
        lam: float = 0.0,
        cost: float = 1.0,
        negatives: str = "teacher",
        tail: float | None = None,
        link: str = "l3-hinge",
        solver: Solver = Solver(),  # noqa: B008 (frozen)
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.arity = arity
        self.max_leaf_size = max_leaf_size
        self.n_trees = n_trees
        self.tree = tree
        self.lam = lam
        self.cost = cost
        self.negatives = negatives
        self.tail = tail
        self.link = link
        self.solver = solver
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        tree: LabelTree | list[LabelTree] | None = None,
        label_features: Any = None,
        sample_weight: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from X and Y.

        Parameters
        ----------
        X
            (n_rows, n_features) sparse or dense features; rows of norm 1 work best.
        Y
            (n_rows, n_labels) label sets: a sparse or dense 0/1 matrix, or the label ids of each row.
        tree
            A tree to use instead of building one; one for each of `n_trees`.
        label_features
            (n_labels, any) features to build the tree from instead of the mean of each label's rows.
        sample_weight
            One positive number per row, or a sparse (n_rows, n_labels) matrix with one per entry of Y.
        progress
            Called with a stage's name and the share done, from time to time.
        """
        self._check_params()
        threads = check_threads(self.threads)
        features, labels = check_training_data(X, Y)
        weights = entry_weights(labels, sample_weight, self.tail)
        if tree is None:
            options = {"label_features": label_features, "sample_weight": sample_weight, "progress": progress}
            sweep = choose_tree(self._plain(), features, labels, **options) if self.tree == "auto" else None
            lam = float(self.lam) if sweep is None else sweep.lam
            if progress is not None:
                progress("label features", 0.0)
            V = shaping_features(features, weights.label_rows, label_features, threads)
            trees = self._trees(V, labels, lam, threads, progress)
            del V  # it would stay in memory while the trees are trained
        else:
            lam, sweep = None, None
            trees = check_trees(tree, self.n_trees, weights.label_rows.n_rows)
        fitted = []
        for number, shape in enumerate(trees):
            training = TreeTraining(
                X=features,
                weights=weights,
                cost=float(self.cost),
                solver=self.solver,
                link=self.link,
                seed=self.seed + number,
                threads=threads,
            )
            fitted.append(self._train(training, shape, labels, progress))
        self.trees_, self.lam_, self.sweep_ = fitted, lam, sweep
        self.n_features_ = features.n_cols
        self.n_labels_ = weights.label_rows.n_rows
        return self

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        width: int = 10,
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
            Labels per row; rows get fewer where fewer were found.
        width
            Of the beam: how many nodes of a level are followed. More is slower and finds more.
        search
            ``"beam"``, or ``"exact"``: best-first, nothing better exists than what it returns.
        restrict, exclude
            Label ids that may, or may not, be returned. The search looks for allowed labels only.
        max_nodes
            Budget of an exact search in evaluated nodes per row; None is no limit. `search` says what may be missed.
        """
        found = [
            tree.search(*args)
            for tree, args in self._searches(X, k, width, search, restrict, exclude, max_nodes)
        ]
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
        return Ranking._of_places(*places, self.n_labels_)

    def search_effort(
        self, X: Any, k: int = 5, *, width: int = 10, search: str = "exact", max_nodes: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return per row the nodes a search evaluates and the best score it may have missed.

        The bound is 0 where nothing was missed, and -1 for beams, which do not know. Ensembles sum the nodes and give
        the largest bound.
        """
        found = [
            tree.search(*args) for tree, args in self._searches(X, k, width, search, None, None, max_nodes)
        ]
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

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        params = {**self.get_params(), "solver": asdict(self.solver)}
        learned: dict[str, Any] = {
            "n_features": self.n_features_,
            "n_labels": self.n_labels_,
            "lam": self.lam_,
        }
        learned["sweep"] = None if self.sweep_ is None else self.sweep_.to_dict()
        parts = {f"tree_{i}": tree_weights_state(tree) for i, tree in enumerate(self.trees_)}
        return State("LinearTree", params={"init": params, **learned}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        model = cls(**{**init, "solver": Solver(**init["solver"])})
        model._check_params()
        model.n_features_ = check_int(state.param("n_features", int), "n_features", low=1, high=_INT32_MAX)
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1, high=_INT32_MAX)
        model.lam_ = state.params.get("lam")
        sweep = state.params.get("sweep")
        model.sweep_ = None if sweep is None else TreeSweep.from_dict(sweep)
        model.trees_ = [
            tree_weights_from_state(
                state.part(f"tree_{i}"), model.n_labels_, model.link, model.solver.weights
            )
            for i in range(model.n_trees)
        ]
        return model

    def _check_params(self) -> None:
        check_int(self.arity, "arity", low=2, high=1 << 20)
        check_int(self.max_leaf_size, "max_leaf_size", low=1)
        check_int(self.n_trees, "n_trees", low=1)
        check_choice(self.tree, "tree", _TREES)
        check_float(self.lam, "lam", low=0, high=2)
        if self.tree == "auto" and self.lam != 0:
            raise InputError(
                "lam must be left out where tree='auto' chooses it",
                given=f"{self.lam}",
                hint="tree='interpolated' takes a lam.",
            )
        check_float(self.cost, "cost", low=1e-9, high=1e9)
        check_choice(self.negatives, "negatives", _NEGATIVES)
        if self.tail is not None:
            check_float(self.tail, "tail", low=0, high=1)
        link_power(self.link)
        if not isinstance(self.solver, Solver):
            raise InputError("solver must be a Solver", given=type(self.solver).__name__)
        self.solver.check()
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)

    def _train(
        self, training: TreeTraining, tree: LabelTree, Y: sparse.csr_array, progress: Progress | None
    ) -> TreeWeights:
        """Train one tree; models that change the tree while they learn do it here."""
        return training.train(tree, self._matcher_width(), progress)

    def _matcher_width(self) -> int | None:
        return 10 if self.negatives == "teacher+matcher" else None

    def _plain(self) -> LinearTree:
        """Return a model with these settings that trials may copy."""
        return self

    def _merge(self, search: str) -> str:
        """Return how copies of a label are joined."""
        return "mean" if search == "beam" else "max"

    def _trees(
        self, V: sparse.csr_array, Y: sparse.csr_array, lam: float, threads: int, progress: Progress | None
    ) -> list[LabelTree]:
        if progress is not None:
            progress("label tree", 0.0)
        shape = {"arity": self.arity, "max_leaf_size": self.max_leaf_size}
        seeds = range(self.seed, self.seed + self.n_trees)
        return build_trees(V, Y, lam=lam, seeds=seeds, threads=threads, **shape)

    def _searches(
        self,
        X: Any,
        k: int,
        width: int,
        search: str,
        restrict: ArrayLike | None,
        exclude: ArrayLike | None,
        max_nodes: int | None,
    ) -> list[tuple[TreeWeights, tuple[CsrParts, int, SearchPlan, int]]]:
        self._check_fitted()
        plan = check_search(k, width, search, max_nodes, self._merge(search))
        trusted = isinstance(X, CsrParts) and X.n_cols == self.n_features_  # straight from an encoder
        features = X if trusted else feature_parts(X, self.n_features_)
        if restrict is not None or exclude is not None:
            plan = replace(plan, allowed=allowed_labels(restrict, exclude, self.n_labels_))
        # Members of an ensemble are asked for more, so that labels which only some of them rank high are scored by all.
        wanted = min(k if self.n_trees == 1 else max(4 * k, 20), self.n_labels_)
        threads = (
            1 if features.indptr.size == 2 else check_threads(self.threads)
        )  # one row is one thread's work
        arguments = (features, wanted, plan, threads)
        return [(tree, arguments) for tree in self.trees_]
