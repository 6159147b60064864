"""`LinearTree`: a label tree with linear classifiers, the fast base of the toolkit (Parabel / XR-Linear class).

In: features X and label sets Y. Out: a ranking. A row follows paths down the tree; the score of a label is the product
of the probabilities along its path.

Decisions
---------
* Labels without rows stay in the tree with a constant negative margin, and are returned only if `restrict` names them.
* Rows without labels take no part in training.
* `predict` keeps labels with a score of at least 0.5. Scores are not calibrated; a Tagger calibrates them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.features.stored import StoredRows
from tagwood.models.base import (
    FittedModel,
    Progress,
    check_pairs,
    check_some_labels,
    check_training_data,
    ignore_progress,
)
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree.training import (
    TREES,
    LabelUsage,
    Solver,
    TreePlan,
    TreeShape,
    TreeTraining,
    build_trees,
    check_trees,
    entry_weights,
    shape_labels,
    shaping_features,
    train_in_parts,
)
from tagwood.models.linear_tree.weights import Found, SearchPlan, TreeWeights, pair_scores
from tagwood.models.tasks import Job, LocalRunner, Runner
from tagwood.plugins import plugin_names
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.trees.label_tree import LabelTree

if TYPE_CHECKING:
    from tagwood.models.linear_tree.trials import TreeSweep
    from tagwood.models.linear_tree.updating import TreeUpdate

SEARCHES = ("beam", "exact")
_INT32_MAX = np.iinfo(np.int32).max


class SearchEffort(NamedTuple):
    """What a search did for each row.

    Parameters
    ----------
    nodes
        Nodes that it evaluated.
    bound
        The best score that it may have missed: 0 if nothing was missed, -1 for beams, which do not know.
    outputs
        Classifiers of the evaluated nodes, one for each child or label: nearly all the time of a search.
    """

    nodes: NDArray[np.int32]
    bound: NDArray[np.float32]
    outputs: NDArray[np.int64]


class TreeRanker(FittedModel):
    """Train linear trees and rank labels by them: what `LinearTree` and `Disentangled` have in common.

    Every tree is searched by a beam or best-first; in an ensemble the score of a label is the mean over the trees, 0
    where a tree did not find it.

    Attributes
    ----------
    trees_ : list of TreeWeights, one per tree: the `LabelTree` and its classifiers
    n_labels_, n_features_ : int
    lam_ : float, λ of the trees; None if `fit` was given trees
    sweep_ : TreeSweep with the trials behind `lam_`; None if there were none
    """

    takes_parts = True
    trees_: list[TreeWeights]
    n_features_: int
    lam_: float | None
    sweep_: TreeSweep | None
    threads: int | None

    def base_tree(self) -> LinearTree:
        """Return the linear tree whose parameters describe the trees to build."""
        raise NotImplementedError

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        raise NotImplementedError

    def tree_shape(self) -> dict[str, int]:
        """Return `arity` and `max_leaf_size` of the trees to build."""
        base = self.base_tree()
        return {"arity": base.arity, "max_leaf_size": base.max_leaf_size}

    def plan_trees(
        self,
        plans: list[TreePlan],
        Y: sparse.csr_array,
        progress: Progress | None,
        runner: Runner | None,
    ) -> Iterable[TreePlan]:
        """Return how each tree is trained; a model that changes trees before they are trained does so here."""
        return plans

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        tree: LabelTree | list[LabelTree] | None = None,
        label_features: Any = None,
        sample_weight: Any = None,
        rejected: Any = None,
        progress: Progress | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Learn from features and label sets.

        Parameters
        ----------
        X
            (n_rows, n_features) sparse or dense features; rows of norm 1 work best. `StoredRows` are read from their
            files as they are needed.
        y
            (n_rows, n_labels) label sets: a sparse or dense 0/1 matrix, or the label ids of each row.
        tree
            A tree to use instead of building one; one for each of `n_trees`.
        label_features
            (n_labels, any) features to build the tree from instead of the mean of each label's rows.
        sample_weight
            One positive number per row, or a sparse (n_rows, n_labels) matrix with one per entry of y.
        rejected
            (n_rows, n_labels) labels that are known to be wrong; default none. A row is then also a negative of these
            labels where their leaves do not see it by its own labels; it says nothing about the others there.
        progress
            Called with the name of a stage and the share done.
        runner
            Computes the training in parts: kept for a later start, or on other machines. The model is the same.
        """
        self.check_params()
        base, threads = self.base_tree(), check_threads(self.threads)
        report = progress or ignore_progress
        features, labels = self._training_rows(X, y)
        weights = entry_weights(labels, sample_weight, base.rare_label_weight)
        sweep: TreeSweep | None = None
        lam: float | None = None
        if tree is None:
            if base.tree == "auto" and isinstance(features, CsrParts):
                from tagwood.models.linear_tree.trials import choose_tree

                given = {"label_features": label_features, "sample_weight": sample_weight}
                sweep = choose_tree(base, features, labels, progress=progress, **given)
            lam = float(base.lam) if sweep is None else sweep.lam
            local = runner or LocalRunner(threads=threads)
            report("label features", 0.0)
            if label_features is None:
                job = Job("label features", shape_labels, (features, weights.label_rows), [None])
                V = CsrParts(**local.run(job)[0].arrays, n_cols=features.n_cols).to_scipy()
            else:
                V = shaping_features(features, weights.label_rows, label_features, threads)
            report("label tree", 0.0)
            shape = TreeShape(base.tree, lam, **self.tree_shape())
            tree = build_trees(V, labels, shape, range(base.seed, base.seed + base.n_trees), local)
            del V  # it would stay in memory while the trees are trained
        settings: dict[str, Any] = {"C": float(base.C), "solver": base.solver, "threads": threads}
        if rejected is not None:
            settings["rejected"] = csr_parts(check_labels(rejected, n_rows=features.n_rows, name="rejected").T.tocsr())
        plans = [
            TreePlan(TreeTraining(features, weights, seed=base.seed + number, **settings), one)
            for number, one in enumerate(check_trees(tree, base.n_trees, labels.shape[1]))
        ]
        ready = self.plan_trees(plans, labels, progress, runner)
        if runner is None and isinstance(features, StoredRows):
            runner = LocalRunner(threads=threads, together=True)
        if runner is None:
            fitted = [plan.training.train(plan.tree, progress, plan.known) for plan in ready]
        else:
            fitted = train_in_parts(list(ready), runner, progress)
        self.trees_, self.lam_, self.sweep_ = fitted, lam, sweep
        self.n_features_, self.n_labels_ = features.n_cols, labels.shape[1]
        return self

    def _training_rows(self, X: Any, y: Any) -> tuple[CsrParts | StoredRows, sparse.csr_array]:
        """Return checked features and label sets; features in files must be for a tree that is trained from them."""
        if not isinstance(X, StoredRows):
            return check_training_data(X, y)
        base = self.base_tree()
        if type(self) is not LinearTree or base.tree == "auto" or base.solver.negatives != "teacher":
            raise InputError(
                "features in files are for a LinearTree with a tree that is given or 'interpolated' and negatives "
                "'teacher'",
                given=f"{type(self).__name__}, tree={base.tree!r}, negatives={base.solver.negatives!r}",
                hint="Train other models in memory.",
            )
        return X, check_some_labels(check_labels(y, n_rows=X.n_rows))

    def copy_fit(self, other: TreeRanker) -> Self:
        """Take over what another model has learned."""
        self.trees_, self.lam_, self.sweep_ = other.trees_, other.lam_, other.sweep_
        self.n_features_, self.n_labels_ = other.n_features_, other.n_labels_
        return self

    @property
    def beam_width_(self) -> int:
        """Default width of a beam."""
        return 10 if len(self.trees_) == 1 else 6

    def update(self, X: Any, y: Any, old_X: Any = None, old_y: Any = None, *, usage: LabelUsage | None = None) -> Self:
        """Learn from new rows: the classifiers on the paths to their labels go on from their present weights.

        Parameters
        ----------
        X, y
            (n_new, n_features) features and (n_new, n_labels) label sets of the new rows; labels may be new.
        old_X, old_y
            Earlier rows, which labels without rows so far are trained against: those that `rows_to_update` names, or
            all. Not needed if there are no such labels.
        usage
            How often labels occurred before; default as in `old_y`.
        """
        self._check_fitted()
        new, Y = self._update_rows(X, y)
        n_labels = int(Y.shape[1])
        base, threads = self.base_tree(), check_threads(self.threads)
        none = sparse.csr_array((0, n_labels), dtype=np.float32)
        old = none if old_y is None else sparse.csr_array(check_labels(old_y))
        old.resize((old.shape[0], n_labels))
        counts = np.bincount(Y.indices, minlength=n_labels)
        if usage is None:
            usage = LabelUsage(np.bincount(old.indices, minlength=n_labels), old.shape[0])
        counts[: usage.counts.size] += usage.counts
        usage = LabelUsage(counts, usage.n_rows + new.n_rows)
        from tagwood.models.linear_tree.updating import TreeUpdate

        plans = [TreeUpdate.plan(tree, new, Y, threads) for tree in self.trees_]
        rows = new
        if old_X is not None:
            before = check_features(old_X, n_features=self.n_features_)
            rows = csr_parts(sparse.csr_array(sparse.vstack([before, new.to_scipy()])))
        elif any(plan.fresh.any() for plan in plans):
            raise InputError(
                "labels without rows so far need earlier rows to be trained against", hint="Pass old_X and old_y."
            )
        new_weights, weights = (
            entry_weights(part, None, base.rare_label_weight, usage)
            for part in (Y, check_labels(sparse.vstack([old, Y])))
        )
        updated = []
        for number, plan in enumerate(plans):
            train = partial(TreeTraining, C=float(base.C), solver=base.solver, seed=base.seed + number, threads=threads)
            taught = self.rows_of_new_copies(plan, new, new_weights.label_rows)
            everything = train(rows, weights) if plan.fresh.any() else train(new, new_weights)
            updated.append(plan.run(train(new, new_weights, copy_rows=taught), everything))
        self.trees_, self.n_labels_ = updated, n_labels
        return self

    def rows_to_update(self, X: Any, y: Any, old_y: Any) -> NDArray[np.int64]:
        """Return the earlier rows, of label sets `old_y`, that an update by X and y needs."""
        self._check_fitted()
        new, Y = self._update_rows(X, y)
        old, threads = check_labels(old_y), check_threads(self.threads)
        from tagwood.models.linear_tree.updating import TreeUpdate

        wanted = np.zeros(max(Y.shape[1], old.shape[1]), dtype=np.bool_)
        for tree in self.trees_:
            wanted[TreeUpdate.plan(tree, new, Y, threads).needed_labels()] = True
        rows = np.repeat(np.arange(old.shape[0]), np.diff(old.indptr))
        return np.unique(rows[wanted[old.indices]])

    def _update_rows(self, X: Any, y: Any) -> tuple[CsrParts, sparse.csr_array]:
        """Return new rows and their labels, checked, with at least the labels of the model."""
        new, given = check_training_data(X, y)
        if new.n_cols != self.n_features_:
            raise InputError(f"X must have the {self.n_features_:,} features of the model", given=f"{new.n_cols:,}")
        Y = sparse.csr_array(given)
        Y.resize((Y.shape[0], max(self.n_labels_, int(Y.shape[1]))))
        return new, Y

    def trained_labels(self, n_labels: int) -> NDArray[np.bool_]:
        """Return which of `n_labels` labels have a classifier that was trained on rows."""
        found = np.arange(n_labels) < self.n_labels_
        untrained = self.trees_[0].untrained
        if untrained is not None:
            found[: self.n_labels_] &= ~untrained.mask
        return found

    def rows_of_new_copies(self, plan: TreeUpdate, X: CsrParts, label_rows: CsrParts) -> CsrParts | None:
        """Return which rows of X teach each entry of the tree's labels; None if all rows of the label do."""
        return None

    def copy_merge(self, search: str) -> str:
        """Return how the scores of copies of a label are joined: ``"mean"`` or ``"max"``."""
        return "mean" if search == "beam" else "max"

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        beam_width: int | None = None,
        search: str = "beam",
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
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
            Nodes of a level that a beam follows. More is slower and finds more. Default: 10, and 6 in each of several
            trees, which find what one of them misses.
        search
            ``"beam"``; or ``"exact"``, best-first search, which returns the labels with the highest scores of all.
        restrict, exclude
            Label ids that may, or may not, be returned, or a boolean mask, or a prepared `LabelFilter`, which is
            fastest. The search visits only nodes with allowed labels.
        max_nodes
            Most nodes that an exact search evaluates per row; None for no limit. `search_effort` returns a bound on
            what may be missed.
        """
        found = self._search(X, k, beam_width, search, restrict, exclude, max_nodes)
        places = found[0][:3]
        if len(found) > 1:
            labels, scores, n_found = map(np.concatenate, zip(*(one[:3] for one in found), strict=True))
            threads = check_threads(self.threads)
            most = min(k, self.n_labels_)
            places = _kernels.merge_lists(labels, scores, n_found, len(found), most, threads)
        return Ranking.from_padded(*places, self.n_labels_)

    def search_effort(
        self, X: Any, k: int = 5, *, beam_width: int | None = None, search: str = "exact", max_nodes: int | None = None
    ) -> SearchEffort:
        """Return per row how much a search evaluates and the best score it may have missed.

        For several trees, nodes and classifiers are summed and the largest bound is returned.
        """
        found = self._search(X, k, beam_width, search, None, None, max_nodes)
        evaluated = np.stack([f.evaluated for f in found]).sum(axis=0, dtype=np.int32)
        bound = np.stack([f.bound for f in found]).max(axis=0)
        return SearchEffort(evaluated, bound, np.stack([f.outputs for f in found]).sum(axis=0))

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with a score of at least 0.5, at most 50 per row."""
        return self.rank(X, k=50).above(0.5).to_sets()

    def score_labels(self, X: Any, pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of (n_pairs, 2) pairs of a row of X and a label, over all its copies, without a search."""
        self._check_fitted()
        features = csr_parts(check_features(X, n_features=self.n_features_))
        wanted = check_pairs(pairs, features.n_rows, self.n_labels_)
        merge, threads = self.copy_merge("beam"), check_threads(self.threads)
        scores = [pair_scores(tree, features, wanted, merge, threads) for tree in self.trees_]
        mean: NDArray[np.float32] = np.mean(scores, axis=0).astype(np.float32)
        return mean

    def _search(
        self,
        X: Any,
        k: int,
        beam_width: int | None,
        search: str,
        restrict: ArrayLike | LabelFilter | None,
        exclude: ArrayLike | LabelFilter | None,
        max_nodes: int | None,
    ) -> list[Found]:
        """Search every tree."""
        self._check_fitted()
        width = self.beam_width_ if beam_width is None else beam_width
        plan = check_search(k, width, search, max_nodes, self.copy_merge(search))
        features = feature_parts(X, self.n_features_)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        untrained = None if restrict is not None else self.trees_[0].untrained
        if untrained is not None:
            allowed = untrained.complement if allowed is None else allowed.without(untrained)
        if allowed is not None:
            plan = replace(plan, allowed=allowed)
        # Several trees return some more labels each, so that more labels are scored by all of them.
        wanted = min(k if len(self.trees_) == 1 else k + 3, self.n_labels_)
        threads = 1 if features.indptr.size == 2 else check_threads(self.threads)  # one row needs one thread
        return [tree.search(features, wanted, plan, threads) for tree in self.trees_]


@storable("LinearTree")
@dataclass(kw_only=True, eq=False, repr=False)
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
        ``"interpolated"``: a tree of the given `lam`. ``"auto"``: `lam` is 0, 0.25 or 2/3, chosen by trials on held-out
        rows: the one whose exact search for five labels evaluates the fewest classifiers, where P@5 surely loses at
        most 0.3 points. This takes six more trainings on at most 15,000 rows. Below 134 rows `lam` is 0. ``tagwood tune
        --tree`` tries a finer grid up to 2 and measures real latency. Any other name: a builder that another package
        registers under the entry point group ``tagwood.trees``.
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
    trees_, n_labels_, n_features_, lam_, sweep_ : see `TreeRanker`

    Examples
    --------
    >>> X = np.eye(4, dtype=np.float32)
    >>> model = LinearTree(threads=1).fit(X, [[0], [1], [2], [3]])
    >>> model.rank(X[2:3], k=1)[0][0][0]
    2
    """

    arity: int = 64
    max_leaf_size: int = 100
    n_trees: int = 1
    tree: str = "interpolated"
    lam: float = 0.0
    C: float = 1.0
    rare_label_weight: float | None = None
    solver: Solver = Solver()  # noqa: RUF009 (frozen)
    seed: int = 0
    threads: int | None = None

    def base_tree(self) -> LinearTree:
        """Return this model: its parameters describe its trees."""
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
        for name in ("n_features", "n_labels"):
            setattr(model, f"{name}_", check_int(state.param(name, int), name, low=1, high=_INT32_MAX))
        sweep, solver = state.params.get("sweep"), model.solver
        model.lam_, model.sweep_ = state.params.get("lam"), None
        if sweep is not None:
            from tagwood.models.linear_tree.trials import TreeSweep

            model.sweep_ = TreeSweep.from_dict(sweep)
        model.trees_ = [
            TreeWeights.from_state(state.part(f"tree_{i}"), model.n_labels_, solver.link, solver.weights)
            for i in range(model.n_trees)
        ]
        return model

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_int(self.arity, "arity", low=2, high=1 << 20)
        check_int(self.max_leaf_size, "max_leaf_size", low=1)
        check_int(self.n_trees, "n_trees", low=1)
        if self.tree not in TREES:
            check_choice(self.tree, "tree", [*TREES, *plugin_names("trees")])
        check_float(self.lam, "lam", low=0, high=2)
        if self.tree != "interpolated" and self.lam != 0:
            hint = "tree='interpolated' takes a lam."
            raise InputError(f"lam must be left out with tree={self.tree!r}", given=f"{self.lam}", hint=hint)
        check_float(self.C, "C", low=1e-9, high=1e9)
        if self.rare_label_weight is not None:
            check_float(self.rare_label_weight, "rare_label_weight", low=0, high=1)
        if not isinstance(self.solver, Solver):
            raise InputError("solver must be a Solver", given=type(self.solver).__name__)
        self.solver.check()
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


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
