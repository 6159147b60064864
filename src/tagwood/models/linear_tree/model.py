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
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.features.base import centroid_parts
from tagwood.models.base import FittedModel
from tagwood.models.linear_tree.training import Progress, Solver, TreeTraining, entry_weights
from tagwood.models.linear_tree.trials import TreeSweep, choose_tree
from tagwood.models.linear_tree.weights import (
    BLOCK_OUTPUTS,
    BUCKET_SCAN,
    ModelArrays,
    SearchPlan,
    TreeWeights,
    link_power,
    pair_scores,
)
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.trees.balanced import build_balanced_tree
from tagwood.trees.interpolated import build_interpolated_tree, label_frequencies
from tagwood.trees.label_tree import LabelTree

# SECTION models.tree_state
# The stored form of `TreeWeights`. In: a trained tree or a `State`. Out: the other one.
#
# Arrays are mapped, not read: only the short ones that say where things start are checked here. The search kernels
# keep inside these bounds whatever the long arrays hold, so a forged model file can give wrong labels, not a crash.


_STORED = (
    ("block_ptr", np.int64),
    ("bucket_ptr", np.int64),
    ("buckets", np.uint32),
    ("slot_ptr", np.int64),
    ("remainder_ptr", np.int64),
    ("remainders", np.uint8),
    ("counts", np.uint8),
    ("entry_ptr", np.int64),
    ("columns", np.uint8),
    ("scales", np.float32),
    ("bias", np.float32),
)


def tree_weights_state(weights: TreeWeights) -> State:
    """Return the stored form of a trained tree."""
    tree, arrays = weights.tree, weights.arrays
    stored = {name: getattr(arrays, name) for name, _ in _STORED}
    shape = {"parent": tree.parent, "label_ptr": tree.label_ptr, "labels": tree.labels}
    return State("TreeWeights", arrays={**stored, **shape, "weights": arrays.weights})


def tree_weights_from_state(state: State, n_labels: int, link: str, weight_dtype: str) -> TreeWeights:
    """Rebuild a trained tree from its stored form."""
    parent, label_ptr, labels = (
        state.array(name, np.int32, (None,)) for name in ("parent", "label_ptr", "labels")
    )
    tree = LabelTree.from_trusted(parent, label_ptr, labels, n_labels)
    stored = {name: state.array(name, dtype, (None,)) for name, dtype in _STORED}
    weights = state.array("weights", weight_dtype, (None,))
    arrays = ModelArrays(tree.child_ptr, tree.label_ptr, tree.labels, weights=weights, **stored)
    _check_arrays(tree, arrays)
    return TreeWeights(tree, arrays, link, link_power(link))


def _check_arrays(tree: LabelTree, arrays: ModelArrays) -> None:
    n_blocks = arrays.scales.size
    outputs = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    node_blocks = -(-outputs.astype(np.int64) // BLOCK_OUTPUTS)
    tables = np.diff(arrays.bucket_ptr) - 1
    slots, stored = np.diff(arrays.slot_ptr), np.diff(arrays.remainder_ptr)
    ok = (
        arrays.bias.size == outputs.sum()
        and arrays.block_ptr.size == tree.n_nodes
        and arrays.block_ptr.min() >= 0
        and np.all(arrays.block_ptr + node_blocks <= n_blocks)
        and arrays.buckets.size % 2 == 0
        and _rises(arrays.bucket_ptr, n_blocks, arrays.buckets.size // 2)
        and _rises(arrays.slot_ptr, n_blocks, arrays.counts.size - BUCKET_SCAN)
        and _rises(arrays.remainder_ptr, n_blocks, arrays.remainders.size - BUCKET_SCAN)
        and np.all((stored == slots) | (stored == 2 * slots))  # one byte or two for each slot
        and _rises(arrays.entry_ptr, n_blocks, arrays.columns.size)
        and arrays.weights.size == arrays.columns.size
        and np.all(tables > 0)
        and np.all(tables & (tables - 1) == 0)
    )
    if not ok:
        raise InputError("the arrays of a stored tree must fit together")


def _rises(ptr: NDArray[np.int64], n_blocks: int, size: int) -> bool:
    rises = ptr.size == n_blocks + 1 and ptr[0] == 0 and ptr[-1] == size and not np.any(np.diff(ptr) < 0)
    return bool(rises)


# SECTION models.tree_shapes
# The label trees that a `LinearTree` is trained on. In: checked features and label sets, λ. Out: `LabelTree`s.


# Largest features of a label that shape the tree: more cost time and memory and gain nothing. Very large label spaces
# take fewer, so that label features stay below 2 GB.
_TREE_FEATURES = 512
_TREE_ENTRIES = 1 << 28


def check_trees(tree: LabelTree | list[LabelTree], n_trees: int, n_labels: int) -> list[LabelTree]:
    """Return the trees that a user brought: as many as the ensemble has members, over the labels of Y."""
    given = tree if isinstance(tree, list) else [tree]
    if len(given) != n_trees or any(t.n_labels != n_labels for t in given):
        raise InputError(
            f"fit with n_trees={n_trees} needs as many trees over the {n_labels:,} labels of Y",
            given=f"{len(given)} tree(s) over {[t.n_labels for t in given]} labels",
        )
    return given


def shaping_features(features: CsrParts, label_rows: CsrParts, given: Any, threads: int) -> sparse.csr_array:
    """Return the (n_labels, any) features that say which labels are alike: those given, or the mean of each's rows."""
    n_labels = label_rows.n_rows
    if given is None:
        limit = min(_TREE_FEATURES, max(64, _TREE_ENTRIES // n_labels))
        return centroid_parts(features, label_rows, limit, threads).to_scipy()
    V = check_features(given, name="label_features")
    if V.shape[0] != n_labels:
        raise InputError(f"label_features must have one row for each of the {n_labels:,} labels of Y")
    return V


def build_trees(
    V: sparse.csr_array,
    Y: sparse.csr_array,
    *,
    lam: float,
    arity: int,
    max_leaf_size: int,
    seeds: range,
    threads: int,
) -> list[LabelTree]:
    """Return one tree per seed; λ=0 is the balanced tree and needs no frequencies."""
    shape: dict[str, Any] = {"arity": arity, "max_leaf_size": max_leaf_size, "threads": threads}
    if lam == 0:
        return [build_balanced_tree(V, seed=seed, **shape) for seed in seeds]
    counted = label_frequencies(Y)
    return [build_interpolated_tree(V, counted, lam=lam, seed=seed, **shape) for seed in seeds]


# SECTION models.tree_inputs
# Checks of what users hand to a label tree. In: anything. Out: arrays the inside can trust, or an `InputError`.


SEARCHES = ("beam", "exact")


def check_training_data(X: Any, Y: Any) -> tuple[CsrParts, sparse.csr_array]:
    """Return checked features and label sets that a tree can be trained on."""
    features = csr_parts(check_features(X))
    if features.n_rows == 0 or features.n_cols == 0:
        raise InputError("X must have at least one row and one feature", given=f"{features.n_rows} rows")
    labels = check_labels(Y, n_rows=features.n_rows)
    if labels.nnz == 0:
        raise InputError(
            "Y must hold at least one label", given="none", hint="Check that the label column was read."
        )
    return features, labels


def check_search(k: Any, beam_width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    """Return the plan of a search for `k` labels, or say which argument does not fit.

    Plans are remembered: for a service that asks row by row the checks would take as long as a small search.
    """
    try:
        return _known_plan(k, beam_width, search, max_nodes, merge)
    except TypeError:  # what cannot be remembered is no number and no word: the checks say so
        return _checked_plan(k, beam_width, search, max_nodes, merge)


def _checked_plan(k: Any, beam_width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    check_int(k, "k", low=1)
    check_int(beam_width, "beam_width", low=1)
    check_choice(search, "search", SEARCHES)
    budget = 0 if max_nodes is None else check_int(max_nodes, "max_nodes", low=1)
    if budget and search != "exact":
        raise InputError("max_nodes belongs to search='exact'", given=f"search={search!r}")
    return SearchPlan(search == "exact", int(beam_width), budget, merge)


_known_plan = lru_cache(maxsize=256, typed=True)(_checked_plan)  # typed: True is no number of labels, 1 is


def allowed_labels(
    restrict: ArrayLike | None, exclude: ArrayLike | None, n_labels: int
) -> NDArray[np.bool_] | None:
    """Return a mask of the labels that may be returned; None where all may."""
    if restrict is None and exclude is None:
        return None
    allowed = np.ones(n_labels, dtype=bool)
    if restrict is not None:
        allowed[:] = False
        allowed[_check_ids(restrict, "restrict", n_labels)] = True
    if exclude is not None:
        allowed[_check_ids(exclude, "exclude", n_labels)] = False
    return allowed


def _check_ids(ids: ArrayLike, name: str, n_labels: int) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(ids))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n_labels:
        raise InputError(f"{name} must hold label ids from 0 to {n_labels - 1}")
    return array.astype(np.int64)


def check_pairs(pairs: ArrayLike, n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Return (n_pairs, 2) rows and labels."""
    wanted = np.asarray(pairs)
    if wanted.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if wanted.ndim != 2 or wanted.shape[1] != 2 or wanted.dtype.kind not in "iu":
        raise InputError("pairs must be whole numbers of shape (n_pairs, 2): row, label")
    if wanted.min() < 0 or wanted[:, 0].max() >= n_rows or wanted[:, 1].max() >= n_labels:
        raise InputError(f"pairs must name rows below {n_rows} and labels below {n_labels}")
    return wanted.astype(np.int64)


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
    C
        Inverse regularization of the linear classifiers: larger fits the training rows more closely.
    rare_label_weight
        Weight of rare labels: 0 treats all alike, 1 weights the positives of a label's classifier by its inverse
        propensity. None takes 1, which raised P@k and PSP@k on four of five real sets, but 0 where some label stands
        on more than a quarter of the rows: such hubs decide P@1 there, and weight on rare labels is taken from them.
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
        C: float = 1.0,
        rare_label_weight: float | None = None,
        solver: Solver = Solver(),  # noqa: B008 (frozen)
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.arity = arity
        self.max_leaf_size = max_leaf_size
        self.n_trees = n_trees
        self.tree = tree
        self.lam = lam
        self.C = C
        self.rare_label_weight = rare_label_weight
        self.solver = solver
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        tree: LabelTree | list[LabelTree] | None = None,
        label_features: Any = None,
        sample_weight: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from features and label sets.

        Parameters
        ----------
        X
            (n_rows, n_features) sparse or dense features; rows of norm 1 work best.
        y
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
        features, labels = check_training_data(X, y)
        weights = entry_weights(labels, sample_weight, self.rare_label_weight)
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
                C=float(self.C),
                solver=self.solver,
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
            Labels per row; rows get fewer where fewer were found.
        beam_width
            How many nodes of a level are followed. More is slower and finds more.
        search
            ``"beam"``, or ``"exact"``: best-first, nothing better exists than what it returns.
        restrict, exclude
            Label ids that may, or may not, be returned. The search looks for allowed labels only.
        max_nodes
            Budget of an exact search in evaluated nodes per row; None is no limit. `search` says what may be missed.
        """
        found = [
            tree.search(*args)
            for tree, args in self._searches(X, k, beam_width, search, restrict, exclude, max_nodes)
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
        self, X: Any, k: int = 5, *, beam_width: int = 10, search: str = "exact", max_nodes: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return per row the nodes a search evaluates and the best score it may have missed.

        The bound is 0 where nothing was missed, and -1 for beams, which do not know. Ensembles sum the nodes and give
        the largest bound.
        """
        found = [
            tree.search(*args)
            for tree, args in self._searches(X, k, beam_width, search, None, None, max_nodes)
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
        params = {**self.get_params(deep=False), "solver": asdict(self.solver)}
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
                state.part(f"tree_{i}"), model.n_labels_, model.solver.link, model.solver.weights
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
        check_float(self.C, "C", low=1e-9, high=1e9)
        if self.rare_label_weight is not None:
            check_float(self.rare_label_weight, "rare_label_weight", low=0, high=1)
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
        return 10 if self.solver.negatives == "teacher+matcher" else None

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
        beam_width: int,
        search: str,
        restrict: ArrayLike | None,
        exclude: ArrayLike | None,
        max_nodes: int | None,
    ) -> list[tuple[TreeWeights, tuple[CsrParts, int, SearchPlan, int]]]:
        self._check_fitted()
        plan = check_search(k, beam_width, search, max_nodes, self._merge(search))
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
