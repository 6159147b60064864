"""`Disentangled`: a linear tree with copies of labels in every leaf where their rows arrive (label disentanglement).

In: features X and label sets Y. Out: a ranking. A tree is built, training rows are matched to its leaves, labels are
re-assigned by a pure function, and matcher and ranker are trained for the new leaves.

Decisions
---------
* The first round trains the matcher alone: the ranker of leaves that are about to change is of no use.
* A matcher sends nearly every row it was trained on to the leaves of its labels (99.9 % on our sets, against 75 to 95 %
  of new rows), so its matches show where labels are, not where such rows will arrive. Two matchers, each trained on one
  half of the rows, match the other half. They are rough, which takes a fifth of the time: they use only the largest
  features of a row and learn large nodes from a sample. The paper's way is ``CopySettings(rows="training")``.
* The first tree has leaves of `max_leaf_size` over the number of copies, so that leaves end up with about the size of
  the base's, and that many times the base's `arity`, so that it is as deep. Trees given to `fit` are taken as they are.
* Leaves are kept even: the work of a leaf in training and search grows with its labels *and* with their rows.
* A label brings to each of its leaves only the rows matched there, so the work of a copy is that of the rows it serves.
  The paper's way, all rows to all leaves, is ``CopySettings(bring="all")``.
* ``"auto"`` saves where it loses little: every leaf of a label has to be worth the work of training it, copies that win
  fewer than three rows are noise, and a label has at most three leaves. The rows of a copy come from a beam of
  eight, of which the first four places decide on leaves.
* ``retrain_matcher=False`` keeps the matcher, and with it leaves that lost all labels. With ``rows="training"``, nodes
  whose rows and children did not change keep their classifiers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, csr_parts, top_k_rows
from tagwood.errors import InputError
from tagwood.models.base import Progress
from tagwood.models.linear_tree import LinearTree, TreeRanker
from tagwood.models.linear_tree.training import LOSSES, NodeRows, TreePlan, TreeTraining
from tagwood.models.linear_tree.weights import TrainedBlocks, blocks_of, link_power
from tagwood.models.tasks import Job, Runner
from tagwood.storage import State, storable
from tagwood.trees.copies import reassign_by_gain, reassign_labels, without_empty_leaves
from tagwood.trees.label_tree import LabelTree

if TYPE_CHECKING:
    from tagwood.models.linear_tree.updating import TreeUpdate

MERGES = ("max", "mean", "any")
ROWS = ("held-out", "training")
BRING = ("all", "matched")
AUTO = "auto"
_MOST_CHILDREN = 1 << 20
_LEAST_LEAVES = 8  # leaves per leaf that a row is matched to: a row that is matched to all tells nothing
_LEAVES_PER_ROW, _AUTO_LEAVES_PER_ROW = 5, 4
_BEAM, _AUTO_BEAM = 10, 8  # 10 as in `rank`: labels are found within it
_AUTO_COPIES = 3  # most leaves of a label
_TOLERANCE, _SWEEPS = 1.0, 5  # of rough matchers
_FEATURES = 32  # features of a row that rough matchers use
# If the largest features hold less than this share of the squares of all values, as in embeddings, all are kept.
_LEAST_SHARE = 0.5
_I64 = NDArray[np.int64]


@dataclass(frozen=True)
class CopySettings:
    """How labels are given their leaves.

    Parameters
    ----------
    rows
        ``"held-out"``: rows are matched by matchers that have not seen them; ``"training"``: by one that has.
    leaves_per_row
        Leaves per row that count when labels are given their leaves; with ``copies="auto"`` the first counts most. None
        takes 5, and 4 with ``"auto"``, but never more than an eighth of the leaves.
    max_leaf_load
        With a number of copies: most labels of a leaf, as a multiple of its even share, which is `copies` times the
        labels over the leaves. With ``copies="auto"``, `price` keeps leaves small instead.
    bring
        Which of its rows a label brings to each of its leaves: ``"matched"``, those that a beam of 10 (8 with
        ``copies="auto"``, or `leaves_per_row` if that is more) sends there, or ``"all"``, which is the paper's, a
        little more precise, and slower. Rows that are sent to none of the label's leaves go to all of them.
    growth
        With ``copies="auto"``: most copies of all labels together, as a multiple of the number of labels.
    work
        With ``copies="auto"``: most work of training leaves, as a multiple of what it is without copies.
    price
        With ``copies="auto"``: the gain that work must bring. As much work as training all leaves once must bring this
        share of all positives into reach.
    least_gain
        With ``copies="auto"``: rows that one more copy must win.
    tolerance_factor
        With ``copies="auto"``: tolerance of the classifiers, as a multiple of the base's.
    """

    rows: str = "held-out"
    leaves_per_row: int | None = None
    max_leaf_load: float = 1.1
    bring: str = "matched"
    growth: float = 1.22
    work: float = 1.6
    price: float = 0.05
    least_gain: int = 3
    tolerance_factor: float = 1.0

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.rows, "rows", ROWS)
        if self.leaves_per_row is not None:
            check_int(self.leaves_per_row, "leaves_per_row", low=1)
        check_float(self.max_leaf_load, "max_leaf_load", low=1.0)
        check_choice(self.bring, "bring", BRING)
        check_float(self.growth, "growth", low=1.0)
        check_float(self.work, "work", low=1.0)
        check_float(self.price, "price", low=0.0)
        check_int(self.least_gain, "least_gain", low=1)
        check_float(self.tolerance_factor, "tolerance_factor", low=1.0)


@storable("Disentangled")
@dataclass(eq=False, repr=False)
class Disentangled(TreeRanker):
    """Rank labels by a linear tree in which a label may be in several leaves.

    The rows of a label with several meanings belong to several leaves; those that arrive elsewhere miss the label. This
    model puts a label into the leaves where its rows arrive, with a classifier of its own in each of them.

    Parameters
    ----------
    base
        The linear tree to start from, unfitted; default ``LinearTree()``. Its `seed` and `threads` are ignored.
    copies
        Most leaves of a label. 2 is enough for nearly all of the gain; 1 only re-assigns labels; ``"auto"`` gives
        further copies, two at most, only where they are worth their work, with a bound on the size of the model.
    rounds
        How often rows are matched and labels re-assigned before the last training.
    retrain_matcher
        Whether the matcher is trained again for the new leaves. False is faster and less precise.
    merge
        A label's score from its copies: ``"max"``; ``"mean"``, which has to evaluate more nodes; or ``"any"``, the
        probability 1 - (1 - p)(1 - q) that one of them is right, over the 20 labels with the best copies.
    copy_settings
        How labels are given their leaves; rarely needs a change.
    seed, threads
        As in `LinearTree`.

    Attributes
    ----------
    trees_, n_labels_, n_features_, lam_, sweep_ : as in `LinearTree`

    Examples
    --------
    >>> X = np.eye(4, dtype=np.float32)
    >>> base = LinearTree(max_leaf_size=2)
    >>> model = Disentangled(base, threads=1).fit(X, [[0], [1], [2], [3]])
    >>> model.rank(X[2:3], k=1)[0][0][0]
    2
    """

    _defaults = MappingProxyType({"base": LinearTree})

    base: LinearTree | None = None
    _: KW_ONLY
    copies: int | str = 2
    rounds: int = 1
    retrain_matcher: bool = True
    merge: str = "max"
    copy_settings: CopySettings = CopySettings()
    seed: int = 0
    threads: int | None = None

    def base_tree(self) -> LinearTree:
        """Return an unfitted copy of the base with the `seed` and `threads` of this model."""
        base = LinearTree() if self.base is None else self.base
        return LinearTree(**base.get_params(deep=False)).set_params(seed=self.seed, threads=self.threads)

    def tree_shape(self) -> dict[str, int]:
        """Return the shape of the first tree: as deep as the base's, with smaller leaves that copies will fill."""
        base, copies = self.base_tree(), 1 if isinstance(self.copies, str) else self.copies
        arity = min(base.arity << (copies - 1).bit_length(), max(base.arity, _MOST_CHILDREN))
        return {"arity": arity, "max_leaf_size": max(1, round(base.max_leaf_size / copies))}

    def copy_merge(self, search: str) -> str:
        """Return how the scores of copies of a label are joined."""
        return self.merge

    def rows_of_new_copies(self, plan: TreeUpdate, X: CsrParts, label_rows: CsrParts) -> CsrParts | None:
        """Return the rows that the trained tree sends to the leaf of each copy; see `rows_of_copies`."""
        if self.copy_settings.bring == "all" or not plan.tree.has_copies:
            return None
        beam = _AUTO_BEAM if self.copies == AUTO else _BEAM
        return rows_of_copies(label_rows, plan.tree, plan.weights.leaves(X, beam, check_threads(self.threads))[0])

    def copy_counts(self) -> NDArray[np.int64]:
        """Return the number of leaves of each label in the first tree."""
        self._check_fitted()
        return np.bincount(self.trees_[0].tree.labels, minlength=self.n_labels_)

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        fitted = LinearTree(**(LinearTree() if self.base is None else self.base).get_params(deep=False))
        fitted.copy_fit(self)
        own = {name: value for name, value in self.get_params(deep=False).items() if name != "base"}
        params = {"init": {**own, "copy_settings": asdict(self.copy_settings)}}
        return State("Disentangled", params=params, parts={"model": fitted.state()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        fitted = LinearTree.from_state(state.part("model"))
        base = LinearTree(**fitted.get_params(deep=False))
        model = cls(base, **{**init, "copy_settings": CopySettings(**init["copy_settings"])})
        model.check_params()
        return model.copy_fit(fitted)

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        if self.base is not None and type(self.base) is not LinearTree:
            raise InputError("base must be a LinearTree", given=type(self.base).__name__)
        self.base_tree().check_params()
        if self.copies != AUTO:
            check_int(self.copies, "copies", low=1)
        check_int(self.rounds, "rounds", low=1)
        if not isinstance(self.retrain_matcher, bool):
            raise InputError("retrain_matcher must be True or False", given=repr(self.retrain_matcher))
        if self.rounds > 1 and not self.retrain_matcher:
            hint = "A matcher that stays the same matches rows to the same leaves."
            raise InputError("several rounds need retrain_matcher=True", given=f"rounds={self.rounds}", hint=hint)
        check_choice(self.merge, "merge", MERGES)
        if not isinstance(self.copy_settings, CopySettings):
            raise InputError("copy_settings must be a CopySettings", given=type(self.copy_settings).__name__)
        self.copy_settings.check()
        check_threads(self.threads)

    def plan_trees(
        self,
        plans: list[TreePlan],
        Y: sparse.csr_array,
        progress: Progress | None,
        runner: Runner | None,
    ) -> Iterable[TreePlan]:
        """Match rows to leaves and re-assign labels of each tree."""
        if runner is None:
            return (self.plan_tree(plan, Y, progress) for plan in plans)  # one by one: less memory
        shared = (self, tuple(plans), csr_parts(Y))
        states = runner.run(Job("matching rows to leaves", match_tree, shared, list(range(len(plans)))), progress)
        return [_restored_plan(plan, state) for plan, state in zip(plans, states, strict=True)]

    def plan_tree(self, plan: TreePlan, Y: sparse.csr_array, progress: Progress | None = None) -> TreePlan:
        """Match rows to leaves, re-assign labels, and return the training of the classifiers of the new leaves."""
        training, tree, known = plan
        rounds = self.rounds if tree.n_leaves > 1 else 0
        if self.copies == AUTO and rounds:
            tolerance = self.copy_settings.tolerance_factor * training.solver.tolerance
            training = replace(training, solver=replace(training.solver, tolerance=tolerance))
        for number in range(rounds):
            if progress is not None:
                progress("matching rows to leaves", number / self.rounds)
            last = number == self.rounds - 1
            tree, known, training = self._next_tree(training, tree, Y, last)
        return TreePlan(training, tree, known)

    def _next_tree(
        self, training: TreeTraining, tree: LabelTree, Y: sparse.csr_array, last: bool
    ) -> tuple[LabelTree, TrainedBlocks | None, TreeTraining]:
        """Match rows, re-assign labels; return the new tree, blocks of it that need no training, and how to train."""
        settings = self.copy_settings
        seen, brings_matched = settings.rows == "training", settings.bring == "matched"
        most = max(1, tree.n_leaves // _LEAST_LEAVES)
        auto = self.copies == AUTO
        usual, beam = (_AUTO_LEAVES_PER_ROW, _AUTO_BEAM) if auto else (_LEAVES_PER_ROW, _BEAM)
        width = min(usual, most) if settings.leaves_per_row is None else settings.leaves_per_row
        looked = max(width, min(beam, most)) if brings_matched else width
        matcher = training.train_matcher(tree) if seen or not self.retrain_matcher else None
        if matcher is None or not seen:
            matched = match_unseen_rows(training, tree, looked, width if auto else None)
        else:
            matched = matcher.leaves(training.loaded, looked, training.threads)[0]
        new = self._reassign(tree, Y, matched, width)
        new_training = training
        if last and brings_matched:
            brought = rows_of_copies(training.weights.label_rows, new, matched)
            new_training = replace(training, copy_rows=brought)
        known = None
        if not self.retrain_matcher and matcher is not None:
            inner = np.flatnonzero(np.diff(tree.child_ptr) > 0)
            return new, blocks_of(matcher, inner, inner), new_training
        new, former = without_empty_leaves(new)  # the order of copies stays
        if matcher is not None:
            old_rows, new_rows = training.rows_of_nodes(tree), new_training.rows_of_nodes(new)
            same = unchanged_nodes(old_rows, new, new_rows, former)
            known = blocks_of(matcher, former[same], same) if same.size else None
        return new, known, new_training

    def _reassign(self, tree: LabelTree, Y: sparse.csr_array, matched: NDArray[np.int32], width: int) -> LabelTree:
        settings = self.copy_settings
        if not isinstance(self.copies, str):
            most = max(1, round(settings.max_leaf_load * self.copies * tree.n_labels / tree.n_leaves))
            return reassign_labels(tree, Y, matched[:, :width], self.copies, max_leaf_size=most)
        return reassign_by_gain(
            tree,
            Y,
            matched,
            width=width,
            growth=settings.growth,
            work=settings.work,
            price=settings.price,
            least_gain=settings.least_gain,
            max_copies=_AUTO_COPIES,
            brings_all=settings.bring == "all",
        )


def match_tree(shared: tuple[Disentangled, tuple[TreePlan, ...], CsrParts], number: int, threads: int) -> State:
    """Give the labels of one tree their leaves, as a task."""
    model, plans, Y = shared
    plan = plans[number]._replace(training=replace(plans[number].training, threads=threads))
    training, tree, known = model.plan_tree(plan, Y.to_scipy())
    parts = {"tree": State("LabelTree", arrays=tree.arrays())}
    if training.copy_rows is not None:
        parts["copy_rows"] = State("CopyRows", arrays=training.copy_rows.arrays())
    if known is not None:
        parts["known"] = known.state()
    return State("TreePlan", params={"tolerance": training.solver.tolerance}, parts=parts)


def _restored_plan(plan: TreePlan, state: State) -> TreePlan:
    """Return the plan that `match_tree` made from another."""
    training = plan.training
    solver = replace(training.solver, tolerance=state.param("tolerance", float))
    copy_rows = None
    if "copy_rows" in state.parts:
        copy_rows = CsrParts(**state.part("copy_rows").arrays, n_cols=training.X.n_rows)
    known = TrainedBlocks.from_state(state.part("known")) if "known" in state.parts else None
    tree = LabelTree.from_state(state.part("tree"), plan.tree.n_labels)
    return TreePlan(replace(training, solver=solver, copy_rows=copy_rows), tree, known)


def match_unseen_rows(
    training: TreeTraining, tree: LabelTree, width: int, followed: int | None = None
) -> NDArray[np.int32]:
    """Return the (n_rows, width) leaves that matchers trained without a row send it to; -1 for unused places.

    Of the inner nodes in a row's beam the best `followed` are expanded, all by default. If all leaves are equally deep,
    the first `followed` places are those of a beam of that width, and the others nearly those of a wider one.
    """
    rows, solver, entries = training.rows_of_nodes(tree), training.solver, training.weights
    second_half = np.random.default_rng(training.seed).permutation(training.X.n_rows) % 2
    found = _kernels.match_unseen(
        *_largest_features(training.loaded, training.threads),
        rows.ptr,
        rows.rows,
        rows.weights if entries.weighted else np.empty(0, np.float32),
        entries.row_weights,
        tree.child_ptr,
        second_half.astype(np.uint8),
        width,
        width if followed is None else followed,
        link_power(solver.link),
        LOSSES[solver.loss],
        training.C,
        solver.bias,
        max(solver.tolerance, _TOLERANCE),
        min(solver.max_sweeps, _SWEEPS),
        training.seed,
        training.threads,
    )
    return found.reshape(-1, width)


def rows_of_copies(label_rows: CsrParts, tree: LabelTree, matched: NDArray[np.int32]) -> CsrParts:
    """Return which rows each entry of ``tree.labels`` brings to its leaf: (n_copies, n_rows), with their weights.

    A row with the label goes to those of the label's leaves that it is matched to; to all where it is matched to none.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [0, 2]])
    >>> Y = sparse.csr_array(np.array([[1, 0, 0], [1, 0, 0], [1, 1, 1]], dtype=np.float32))
    >>> rows_of_copies(csr_parts(Y.T.tocsr()), tree, np.array([[1], [2], [-1]])).to_scipy().toarray()
    array([[1., 0., 1.],
           [0., 0., 1.],
           [0., 1., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    copies = np.argsort(tree.labels, kind="stable")  # by label, then by leaf
    first = np.searchsorted(tree.labels[copies], np.arange(tree.n_labels + 1))
    entry_label = np.repeat(np.arange(tree.n_labels), np.diff(label_rows.indptr))
    count = np.diff(first)[entry_label]
    entry = np.repeat(np.arange(entry_label.size), count)
    place = copies[np.arange(entry.size) - np.repeat(np.cumsum(count) - count - first[entry_label], count)]
    several = np.flatnonzero(count[entry] > 1)  # a label's only leaf gets all its rows
    leaf, row = tree.leaf_of_copy[place[several]], label_rows.indices[entry[several]]
    hit = np.zeros(several.size, dtype=bool)
    for column in matched.T:
        hit |= column[row] == leaf
    found = np.bincount(entry[several], weights=hit, minlength=entry_label.size) > 0
    kept = np.ones(entry.size, dtype=bool)
    kept[several] = hit | ~found[entry[several]]
    shape = (tree.labels.size, label_rows.n_cols)
    entry, place = entry[kept], place[kept]
    pairs = (place, label_rows.indices[entry])
    return csr_parts(sparse.csr_array((label_rows.data[entry], pairs), shape=shape))


def _largest_features(X: CsrParts, threads: int) -> CsrParts:
    """Return X with the largest features of each row, or X itself if these hold too little of it."""
    if X.indices.size <= _FEATURES * X.n_rows or X.data.min() < 0:
        return X
    largest = top_k_rows(X.to_scipy(), _FEATURES, threads)
    return largest if np.vdot(largest.data, largest.data) >= _LEAST_SHARE * np.vdot(X.data, X.data) else X


def unchanged_nodes(old: NodeRows, tree: LabelTree, rows: NodeRows, former: _I64) -> _I64:
    """Return the inner nodes of a new tree with the same rows and children as in the old tree, whose rows are `old`.

    `former` is the number of each node of the new tree in the old one.
    """
    same = np.diff(rows.ptr) == np.diff(old.ptr)[former]
    for node in np.flatnonzero(same):
        now = slice(rows.ptr[node], rows.ptr[node + 1])
        before = slice(old.ptr[former[node]], old.ptr[former[node] + 1])
        same_rows = np.array_equal(rows.rows[now], old.rows[before])
        same[node] = same_rows and np.array_equal(rows.weights[now], old.weights[before])
    changed_below = np.zeros(tree.n_nodes, dtype=bool)
    changed_below[tree.parent[1:][~same[1:]]] = True
    inner = np.diff(tree.child_ptr) > 0
    return np.flatnonzero(inner & same & ~changed_below)
