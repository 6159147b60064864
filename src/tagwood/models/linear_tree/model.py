"""`LinearTree`: a label tree with linear classifiers, the fast base of the toolkit (Parabel / XR-Linear class).

In: features X and label sets Y. Out: a ranking. A row follows paths down the tree; the score of a label is the product
of the probabilities along its path.

Decisions
---------
* Labels without rows stay in the tree with a constant negative margin: they are found only when nothing else is.
* Rows without labels take no part in training.
* `predict` keeps labels with a score of at least 0.5. Scores are not calibrated; a Tagger calibrates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from scipy import sparse

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.models.base import Progress, check_training_data
from tagwood.models.linear_tree.search import LearnedTrees, TreeRanker
from tagwood.models.linear_tree.training import (
    Solver,
    TreeTraining,
    build_trees,
    check_trees,
    entry_weights,
    shaping_features,
)
from tagwood.models.linear_tree.trials import TreeSweep, choose_tree
from tagwood.models.linear_tree.weights import TreeWeights
from tagwood.plugins import load_plugin, plugin_names
from tagwood.storage import State, storable
from tagwood.trees.label_tree import LabelTree

_TREES = ("interpolated", "auto")
_INT32_MAX = np.iinfo(np.int32).max


@storable("LinearTree")
class LinearTree(TreeRanker):
    """Rank labels by linear classifiers along the paths of a label tree.

    1. Labels get features: the mean of their rows. 2. Recursive balanced 2-means groups similar labels, until at most
    `max_leaf_size` remain. 3. Every node and label gets a linear classifier, trained on the rows that reach its parent.
    4. A search follows the most promising paths for each row.

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
        ``"interpolated"``: a tree of the given `lam`. ``"auto"``: `lam` is chosen by trials on held-out rows, as the
        one with the fewest nodes per search that loses no P@1; this takes five more trainings on at most 20,000 rows.
        Below 134 rows `lam` is 0. ``tagwood tune --tree`` measures real latency. Any other name: a builder that another
        package registers under the entry point group ``tagwood.trees``.
    lam
        λ from 0 to 2. 0: similar labels together, all at about the same depth. Up to 1: frequent labels nearer to the
        root, where exact search finds them sooner. 2: frequencies alone shape the tree. Smaller leaves and nodes
        (``arity=16, max_leaf_size=20``) gain most from it.
    C
        Inverse regularization of the linear classifiers: larger fits the training rows more closely.
    rare_label_weight
        Weight of rare labels: 0 treats all alike, 1 weights the positives of a label's classifier by its inverse
        propensity. None takes 1, which raised P@k and PSP@k on four of five real sets, but 0 if some label is on more
        than a quarter of the rows: such hubs decide P@1, and would lose weight to rare labels.
    solver
        Settings of the linear classifiers that rarely need a change.
    seed, threads
        Same seed, same model bits, for any number of threads; default all cores.

    Attributes
    ----------
    trees_ : list of TreeWeights
    n_labels_, n_features_ : int
    lam_ : float, λ of the trees; None if `fit` was given trees
    sweep_ : TreeSweep with the trials behind `lam_`; None if there were none

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
            One positive number per row, or a sparse (n_rows, n_labels) matrix with one per entry of y.
        progress
            Called with the name of a stage and the share done.
        """
        options = {"label_features": label_features, "sample_weight": sample_weight, "progress": progress}
        self.keep(fit_trees(self, X, y, tree, **options))
        return self

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        params = {**self.get_params(deep=False), "solver": asdict(self.solver)}
        learned: dict[str, Any] = {
            "n_features": self.n_features_,
            "n_labels": self.n_labels_,
            "lam": self.lam_,
            "sweep": None if self.sweep_ is None else self.sweep_.to_dict(),
        }
        parts = {f"tree_{i}": tree.state() for i, tree in enumerate(self.trees_)}
        return State("LinearTree", params={"init": params, **learned}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        model = cls(**{**init, "solver": Solver(**init["solver"])})
        model.check_params()
        n_features = check_int(state.param("n_features", int), "n_features", low=1, high=_INT32_MAX)
        n_labels = check_int(state.param("n_labels", int), "n_labels", low=1, high=_INT32_MAX)
        sweep = state.params.get("sweep")
        solver = model.solver
        trees = [
            TreeWeights.from_state(state.part(f"tree_{i}"), n_labels, solver.link, solver.weights)
            for i in range(model.n_trees)
        ]
        trials = None if sweep is None else TreeSweep.from_dict(sweep)
        model.keep(LearnedTrees(trees, state.params.get("lam"), trials, n_features, n_labels))
        return model

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_int(self.arity, "arity", low=2, high=1 << 20)
        check_int(self.max_leaf_size, "max_leaf_size", low=1)
        check_int(self.n_trees, "n_trees", low=1)
        if self.tree not in _TREES:
            check_choice(self.tree, "tree", [*_TREES, *plugin_names("trees")])
        check_float(self.lam, "lam", low=0, high=2)
        if self.tree != "interpolated" and self.lam != 0:
            raise InputError(
                f"lam must be left out with tree={self.tree!r}",
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


def fit_trees(
    model: LinearTree,
    X: Any,
    y: Any,
    tree: LabelTree | list[LabelTree] | None = None,
    *,
    label_features: Any = None,
    sample_weight: Any = None,
    progress: Progress | None = None,
    shape: dict[str, int] | None = None,
    train: Callable[[TreeTraining, LabelTree, sparse.csr_array], TreeWeights] | None = None,
) -> LearnedTrees:
    """Build and train the trees that the parameters of a `LinearTree` describe; the model itself stays as it is.

    Parameters
    ----------
    model
        The parameters.
    X, y, tree, label_features, sample_weight, progress
        As for `LinearTree.fit`.
    shape
        `arity` and `max_leaf_size` of the trees to build, if they are not those of the model.
    train
        How to train one tree, given its training data, the tree and Y; default ``training.train(tree)``. A model that
        changes the tree while it learns does so here.
    """
    model.check_params()
    threads = check_threads(model.threads)
    features, labels = check_training_data(X, y)
    weights = entry_weights(labels, sample_weight, model.rare_label_weight)
    sweep: TreeSweep | None = None
    lam: float | None = None
    if tree is None:
        if model.tree == "auto":
            options = {"label_features": label_features, "sample_weight": sample_weight, "progress": progress}
            sweep = choose_tree(model, features, labels, **options)
        lam = float(model.lam) if sweep is None else sweep.lam
        if progress is not None:
            progress("label features", 0.0)
        V = shaping_features(features, weights.label_rows, label_features, threads)
        if progress is not None:
            progress("label tree", 0.0)
        shape = shape or {"arity": model.arity, "max_leaf_size": model.max_leaf_size}
        seeds = range(model.seed, model.seed + model.n_trees)
        if model.tree in _TREES:
            trees = build_trees(V, labels, lam=lam, seeds=seeds, threads=threads, **shape)
        else:
            build = load_plugin("trees", model.tree)
            built = [build(V, labels, seed=seed, threads=threads, **shape) for seed in seeds]
            trees = check_trees(built, model.n_trees, weights.label_rows.n_rows)
        del V  # it would stay in memory while the trees are trained
    else:
        trees = check_trees(tree, model.n_trees, weights.label_rows.n_rows)
    fitted = []
    for number, one in enumerate(trees):
        training = TreeTraining(features, weights, float(model.C), model.solver, model.seed + number, threads)
        trained = training.train(one, progress) if train is None else train(training, one, labels)
        fitted.append(trained)
    return LearnedTrees(fitted, lam, sweep, features.n_cols, weights.label_rows.n_rows)
