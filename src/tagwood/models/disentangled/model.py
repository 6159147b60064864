"""`Disentangled`: a linear tree with copies of labels in every leaf where their rows arrive (label disentanglement).

In: features X and label sets Y. Out: a ranking. A tree is built, training rows are matched to its leaves, labels are
re-assigned by a pure function, and matcher and ranker are trained for the new leaves.

Decisions
---------
* The first round trains the matcher alone: the ranker of leaves that are about to change is of no use.
* Rows are matched by matchers that have not seen them (`matching`). The paper's way, a matcher that matches the rows it
  was trained on, is ``CopySettings(rows="training")``.
* The first tree has leaves of `max_leaf_size` over the number of copies, so that leaves end up with about the size of
  the base's, and that many times the base's `arity`, so that it is as deep. Trees given to `fit` are taken as they are.
* Leaves are kept even: the work of a leaf in training and search grows with its labels *and* with their rows, and
  leaves that fill up to `max_leaf_size` with frequent labels take twice the work of even ones.
* A label brings to each of its leaves only the rows matched there, so the work of a copy is that of the rows it serves.
  The paper's way, all rows to all leaves, is ``CopySettings(bring="all")``.
* ``"auto"`` saves where it loses little: every leaf of a label has to be worth the work of training it, copies that win
  fewer than three rows are noise, and a label has at most three leaves. Classifiers stop at twice the base's tolerance,
  which lost nothing beyond chance on three sets; the saved time pays for the copies. The rows of a copy come from a
  beam of eight, of which only the first four places decide on leaves: more rows make better classifiers, but the later
  leaves of a row are no place for its labels.
* ``retrain_matcher=False`` keeps the matcher, and with it leaves that lost all labels.
* With ``rows="training"``, nodes whose rows and children did not change keep their classifiers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.models.base import Progress
from tagwood.models.disentangled.matching import blocks_of, match_unseen_rows, rows_of_copies, unchanged_nodes
from tagwood.models.linear_tree import LinearTree, TreeRanker
from tagwood.models.linear_tree.model import fit_trees
from tagwood.models.linear_tree.training import TreeTraining
from tagwood.models.linear_tree.weights import TrainedBlocks, TreeWeights
from tagwood.storage import State, storable
from tagwood.trees.copies import reassign_by_gain, reassign_labels, without_empty_leaves
from tagwood.trees.label_tree import LabelTree

MERGES = ("max", "mean")
ROWS = ("held-out", "training")
BRING = ("all", "matched")
AUTO = "auto"
_MOST_CHILDREN = 1 << 20
_LEAST_LEAVES = 8  # leaves per leaf that a row is matched to: a row that is matched to all tells nothing
_LEAVES_PER_ROW, _AUTO_LEAVES_PER_ROW = 5, 4
_BEAM, _AUTO_BEAM = 10, 8  # 10 as in `rank`: labels are found within it
_AUTO_COPIES = 3  # most leaves of a label


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
        Which of its rows a label brings to each of its leaves: ``"matched"``, those that a beam sends there, or
        ``"all"``, which is the paper's, a little more precise, and slower to train and to search. The beam is one of
        10, with ``copies="auto"`` one of 8, and of `leaves_per_row` where that is more. Rows that are sent to none of
        the label's leaves go to all of them.
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
        With ``copies="auto"``: tolerance of the classifiers, as a multiple of the base's. The last sweeps over the rows
        of a leaf gain less than the copies that can be trained in the same time.
    """

    rows: str = "held-out"
    leaves_per_row: int | None = None
    max_leaf_load: float = 1.1
    bring: str = "matched"
    growth: float = 1.22
    work: float = 1.6
    price: float = 0.05
    least_gain: int = 3
    tolerance_factor: float = 2.0

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
        A label's score from its copies: ``"max"`` or ``"mean"``. ``"mean"`` has to evaluate more nodes.
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

    def __init__(
        self,
        base: LinearTree | None = None,
        *,
        copies: int | str = 2,
        rounds: int = 1,
        retrain_matcher: bool = True,
        merge: str = "max",
        copy_settings: CopySettings = CopySettings(),  # noqa: B008 (frozen)
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.base = base
        self.copies = copies
        self.rounds = rounds
        self.retrain_matcher = retrain_matcher
        self.merge = merge
        self.copy_settings = copy_settings
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
        """Learn from features and label sets; the parameters are those of `LinearTree.fit`."""
        self.check_params()

        def train(training: TreeTraining, tree: LabelTree, Y: sparse.csr_array) -> TreeWeights:
            return self._train(training, tree, Y, progress)

        base = self.base_tree()
        copies = 1 if isinstance(self.copies, str) else self.copies
        shape = {
            "arity": min(base.arity << (copies - 1).bit_length(), max(base.arity, _MOST_CHILDREN)),
            "max_leaf_size": max(1, round(base.max_leaf_size / copies)),
        }
        options = {"label_features": label_features, "sample_weight": sample_weight, "progress": progress}
        self.keep(fit_trees(base, X, y, tree, **options, shape=shape, train=train))
        return self

    def base_tree(self) -> LinearTree:
        """Return an unfitted copy of the base with the `seed` and `threads` of this model."""
        base = LinearTree() if self.base is None else self.base
        return LinearTree(**base.get_params(deep=False)).set_params(seed=self.seed, threads=self.threads)

    def copy_merge(self, search: str) -> str:
        """Return how the scores of copies of a label are joined."""
        return self.merge

    def score_labels(self, X: Any, pairs: ArrayLike, merge: str | None = None) -> NDArray[np.float32]:
        """Return the scores of given labels, over all their copies; `merge` defaults to that of the model."""
        return super().score_labels(X, pairs, self.merge if merge is None else merge)

    def copy_counts(self, tree: int = 0) -> NDArray[np.int64]:
        """Return the number of leaves of each label."""
        self._check_fitted()
        return np.bincount(self.trees_[tree].tree.labels, minlength=self.n_labels_)

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        fitted = LinearTree(**(LinearTree() if self.base is None else self.base).get_params(deep=False))
        fitted.keep(self.learned())
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
        model.keep(fitted.learned())
        return model

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
            raise InputError(
                "several rounds need retrain_matcher=True",
                given=f"rounds={self.rounds}",
                hint="A matcher that stays the same matches rows to the same leaves.",
            )
        check_choice(self.merge, "merge", MERGES)
        if not isinstance(self.copy_settings, CopySettings):
            raise InputError("copy_settings must be a CopySettings", given=type(self.copy_settings).__name__)
        self.copy_settings.check()
        check_threads(self.threads)

    def _train(
        self, training: TreeTraining, tree: LabelTree, Y: sparse.csr_array, progress: Progress | None
    ) -> TreeWeights:
        known = None
        rounds = self.rounds if tree.n_leaves > 1 else 0
        if self.copies == AUTO and rounds:
            loose = replace(
                training.solver, tolerance=self.copy_settings.tolerance_factor * training.solver.tolerance
            )
            training = replace(training, solver=loose)
        for number in range(rounds):
            if progress is not None:
                progress("matching rows to leaves", number / self.rounds)
            last = number == self.rounds - 1
            tree, known, training = self._next_tree(training, tree, Y, last)
        return training.train(tree, progress, known)

    def _next_tree(
        self, training: TreeTraining, tree: LabelTree, Y: sparse.csr_array, last: bool
    ) -> tuple[LabelTree, TrainedBlocks | None, TreeTraining]:
        """Match rows, re-assign labels; return the new tree, blocks of it that need no training, and how to train."""
        settings = self.copy_settings
        seen, brings_matched = settings.rows == "training", settings.bring == "matched"
        most = max(1, tree.n_leaves // _LEAST_LEAVES)
        auto = self.copies == AUTO
        usual, beam = (_AUTO_LEAVES_PER_ROW, _AUTO_BEAM) if auto else (_LEAVES_PER_ROW, _BEAM)
        width, beam = (
            min(usual, most) if settings.leaves_per_row is None else settings.leaves_per_row,
            min(beam, most),
        )
        looked = max(width, beam) if brings_matched else width
        matcher = training.train_matcher(tree) if seen or not self.retrain_matcher else None
        if matcher is None or not seen:
            matched = match_unseen_rows(training, tree, looked, width if auto else None)
        else:
            matched = matcher.leaves(training.X, looked, training.threads)[0]
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

    def _reassign(
        self, tree: LabelTree, Y: sparse.csr_array, matched: NDArray[np.int32], width: int
    ) -> LabelTree:
        settings = self.copy_settings
        if not isinstance(self.copies, str):
            most = max(1, round(settings.max_leaf_load * self.copies * tree.n_labels / tree.n_leaves))
            return reassign_labels(
                tree, Y, matched[:, :width], self.copies, max_leaf_size=most, keep_empty=True
            )
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
            keep_empty=True,
        )
