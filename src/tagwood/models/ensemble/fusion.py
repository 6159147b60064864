"""From the rankings of several members to one probability per candidate.

In: rankings of the same rows, and on training the true labels. Out: `Candidates` with one row of features each, and a
`Fusion` that turns features into probabilities.

Decisions
---------
* A candidate is described by each member's score, place, and score relative to the member's best of the row; by how
  many members found it, how many training rows the label has, and how long the row is. A label that a member did not
  find is missing, not 0: missing is a value of its own.
* Gradient-boosted trees (scikit-learn's, on one thread, so that the result does not depend on their number) or a
  logistic model: whichever ranks held-out rows better; the trees must win by more than a standard error.
* Trees learn from a part of those wrong candidates that are easy to tell (`Thinning`), and one more tree takes back
  what that adds to the log odds: four times as fast as with all candidates, and a little better than with all or with
  weights, because each step learns more of what is hard to tell.
* Fitted trees are stored and evaluated as plain arrays: a model folder holds no pickle, and a row takes microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood.errors import InputError
from tagwood.ranking import Ranking
from tagwood.storage import State

Floats = NDArray[np.float64]
PER_MEMBER = 3  # features of each member
SHARED = 3  # features beside those of the members
_FOUND = 10  # a member found a label if it is among its best so many
NEVER = -30.0  # log odds of what is never right


class Candidates(NamedTuple):
    """The labels of each row that some member returned, rows in order and labels rising inside a row."""

    indptr: NDArray[np.int64]
    label: NDArray[np.int32]
    n_labels: int

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each candidate."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def rows(self, n_rows: int) -> Candidates:
        """Return the candidates of the first rows."""
        return self._replace(indptr=self.indptr[: n_rows + 1], label=self.label[: self.indptr[n_rows]])

    def right(self, Y: sparse.csr_array) -> NDArray[np.bool_]:
        """Return whether each candidate is a true label."""
        rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
        true = rows * np.int64(self.n_labels) + Y.indices
        found: NDArray[np.bool_] = np.isin(self.row * self.n_labels + self.label, true)
        return found

    def ranking(self, scores: NDArray[Any], k: int, threads: int = 1) -> Ranking:
        """Return the best `k` candidates of each row; ties go to the smaller label."""
        best = _kernels.top_k_rows(self.indptr, self.label, scores.astype(np.float32), k, threads)
        return Ranking.from_trusted(*best, self.n_labels)


def gather(
    rankings: Sequence[Ranking], counts: NDArray[np.int64], lengths: NDArray[np.int64], threads: int = 1
) -> tuple[Candidates, NDArray[np.float32]]:
    """Collect the labels of rankings of the same rows, and return them with their features.

    Parameters
    ----------
    rankings
        One per member.
    counts
        (n_labels,) training rows of each label.
    lengths
        (n_rows,) length of each row.

    Returns
    -------
    tuple
        The candidates, and (n_candidates, 3 * n_members + 3) features.
    """
    parts = [one.indptr for one in rankings], [one.labels for one in rankings], [one.scores for one in rankings]
    indptr, label, features = _kernels.gather_candidates(*parts, counts, lengths, _FOUND, threads)
    return Candidates(indptr, label, counts.size), features.reshape(-1, PER_MEMBER * len(rankings) + SHARED)


def without_members(features: NDArray[np.float32], left_out: Sequence[int]) -> NDArray[np.float32]:
    """Return features as if some members had found nothing."""
    changed = features.copy()
    place = np.arange(0, features.shape[1] - SHARED, PER_MEMBER) + 1
    found = features[:, place] < np.log1p(_FOUND)
    for member in left_out:
        changed[:, PER_MEMBER * member : PER_MEMBER * (member + 1)] = np.nan
        changed[:, -3] -= found[:, member]
    return changed


def select_members(features: NDArray[np.float32], used: Sequence[int]) -> NDArray[np.float32]:
    """Return the features as they are in an ensemble of some of the members."""
    n_members = (features.shape[1] - SHARED) // PER_MEMBER
    if len(used) == n_members:
        return features
    changed = without_members(features, [member for member in range(n_members) if member not in used])
    columns = [PER_MEMBER * member + column for member in used for column in range(PER_MEMBER)]
    last = range(features.shape[1] - SHARED, features.shape[1])
    return np.ascontiguousarray(changed[:, [*columns, *last]])


def is_found(features: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which candidates at least one member found."""
    return np.asarray(~np.isnan(features[:, :-SHARED]).all(axis=1))


def shapley_values(
    features: NDArray[np.float32], logits: Callable[[NDArray[np.float32]], Floats], base: float
) -> list[float]:
    """Return what each member adds to the log odds of a candidate, on average over all orders of the members.

    Parameters
    ----------
    features
        (1, n_features) of the candidate.
    logits
        Log odds of candidates by their features.
    base
        Log odds of what no member finds.
    """
    n_members = (features.shape[1] - SHARED) // PER_MEMBER
    found = [m for m in range(n_members) if not np.isnan(features[0, PER_MEMBER * m])]  # others add nothing
    n = len(found)
    groups = [group for size in range(n + 1) for group in combinations(found, size)]
    changed = np.concatenate([without_members(features, group) for group in groups])
    values = np.where(is_found(changed), logits(changed), base)
    value = dict(zip(groups, values.tolist(), strict=True))  # of what is left without the group
    added = [0.0] * n_members
    for member in found:
        for group in groups:
            if member not in group:
                share = 1 / (n * comb(n - 1, len(group)))
                added[member] += share * (value[group] - value[tuple(sorted((*group, member)))])
    return added


class Fusion(Protocol):
    """What turns the features of candidates into probabilities."""

    def logits(self, features: NDArray[np.float32], threads: int) -> Floats:
        """Return the log odds of each candidate."""
        ...

    def state(self) -> State:
        """Return the stored form."""
        ...


class Thinning(NamedTuple):
    """Which share of the wrong candidates trees learn from, by one of the features.

    Parameters
    ----------
    column
        Number of the feature; negative ones count from the end.
    shares
        Rising borders, and the share that is drawn of wrong candidates up to each; of those above, all are used.
    """

    column: int
    shares: tuple[tuple[float, float], ...]

    def draw(self, features: NDArray[np.float32], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which candidates are used: all right ones and a share of the wrong ones, at least one."""
        borders, shares = zip(*self.shares, strict=True)
        share = np.append(shares, 1.0)[np.searchsorted(borders, features[:, self.column])]
        used: NDArray[np.bool_] = right | (np.random.default_rng(0).random(right.size) < share)
        used[np.argmin(right)] = True
        return used

    def nodes(self, dtype: np.dtype[Any], n_features: int) -> NDArray[Any]:
        """Return a tree of scikit-learn that adds the logarithm of the share to the log odds of all candidates."""
        nodes = np.zeros(2 * len(self.shares) + 1, dtype)
        nodes["is_leaf"] = True
        for number, (border, share) in enumerate(self.shares):
            test, leaf = nodes[2 * number : 2 * number + 1], nodes[2 * number + 1 : 2 * number + 2]
            test["is_leaf"], test["feature_idx"], test["num_threshold"] = False, self.column % n_features, border
            test["left"], test["right"] = 2 * number + 1, 2 * number + 2
            leaf["value"] = np.log(share)
        return nodes


FOUND_THINNING = Thinning(-SHARED, ((0.5, 0.1), (1.5, 0.25)))  # by how many members found a label among their best


class Boosted(NamedTuple):
    """Gradient-boosted decision trees as arrays; see `cpp/candidates/boosted.hpp`."""

    roots: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    value: NDArray[np.float64]
    start: float
    n_features: int

    @classmethod
    def fit(
        cls,
        features: NDArray[np.float32],
        right: NDArray[np.bool_],
        n_trees: int = 100,
        thinning: Thinning | None = None,
    ) -> Boosted:
        """Learn from candidates and whether each is right; with `thinning`, from a part of them."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        learner = HistGradientBoostingClassifier(
            learning_rate=min(0.1, 12 / n_trees),
            max_iter=n_trees,
            max_leaf_nodes=16 if n_trees <= 100 else 31,
            max_bins=64,
            min_samples_leaf=20,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=0,
        )
        if thinning is not None:
            used = thinning.draw(features, right)
            features, right = features[used], right[used]
        empty = np.isnan(features).all(axis=0)  # scikit-learn takes no column without values
        with threadpool_limits(1):
            learner.fit(np.where(empty, np.float32(0), features), right)
        trees = [tree[0].nodes for tree in learner._predictors]
        if thinning is not None:
            trees.append(thinning.nodes(trees[0].dtype, features.shape[1]))
        roots = np.cumsum([0, *(len(tree) for tree in trees)])[:-1].astype(np.int64)
        nodes = np.concatenate(trees)
        base = np.repeat(roots, [len(tree) for tree in trees])
        leaf = nodes["is_leaf"].astype(bool)
        return cls(
            roots,
            np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32),
            nodes["num_threshold"].astype(np.float64),
            np.where(leaf, 0, nodes["left"] + base).astype(np.int32),
            np.where(leaf, 0, nodes["right"] + base).astype(np.int32),
            nodes["missing_go_to_left"].astype(np.uint8),
            nodes["value"].astype(np.float64),
            float(learner._baseline_prediction.item()),
            features.shape[1],
        )

    def logits(self, features: NDArray[np.float32], threads: int = 1) -> Floats:
        """Return the log odds of each candidate."""
        return _kernels.boosted_sums(*self[:7], features.ravel(), self.n_features, self.start, threads)

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = dict(zip(self._fields[:7], self[:7], strict=True))
        return State("Boosted", params={"start": self.start, "n_features": self.n_features}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> Boosted:
        """Rebuild from the stored form; trees that would make a walk leave the arrays or never end are refused."""
        feature = state.array("feature", np.int32, (None,))
        n = feature.size
        fusion = cls(
            state.array("roots", np.int64, (None,)),
            feature,
            state.array("threshold", np.float64, (n,)),
            state.array("left", np.int32, (n,)),
            state.array("right", np.int32, (n,)),
            state.array("missing_left", np.uint8, (n,)),
            state.array("value", np.float64, (n,)),
            float(state.param("start", float)),
            int(state.param("n_features", int)),
        )
        inner = np.flatnonzero(feature >= 0)
        fits = (
            fusion.n_features == n_features
            and bool(np.all((feature >= -1) & (feature < n_features)))
            and bool(np.all((fusion.roots >= 0) & (fusion.roots < n)))
            and all(bool(np.all((side[inner] > inner) & (side[inner] < n))) for side in (fusion.left, fusion.right))
            and bool(np.isfinite([*fusion.value, fusion.start]).all())
        )
        if not fits:
            raise InputError("the trees of a stored ensemble must fit together", given="others")
        return fusion


class Logistic(NamedTuple):
    """A logistic model over the features, with a constant for what is missing."""

    center: Floats
    spread: Floats
    weights: Floats  # of present features, then of missing ones
    bias: float

    @classmethod
    def fit(cls, features: NDArray[np.float32], right: NDArray[np.bool_]) -> Logistic:
        """Learn from candidates and whether each is right."""
        from sklearn.linear_model import LogisticRegression

        signals = _signals(features)
        present = ~np.isnan(signals)
        n_present = np.maximum(present.sum(axis=0), 1)
        center = np.where(present, signals, 0).sum(axis=0) / n_present
        spread = np.sqrt(np.where(present, (signals - center) ** 2, 0).sum(axis=0) / n_present)
        start = cls(center, np.where(spread > 0, spread, 1.0), np.empty(0), 0.0)
        if right.all() or not right.any():
            weights, bias = np.zeros(2 * features.shape[1]), -NEVER if right.any() else NEVER
            return start._replace(weights=weights, bias=bias)
        learned = LogisticRegression(C=1.0, max_iter=200).fit(start._columns(features), right)
        return start._replace(weights=learned.coef_[0].astype(np.float64), bias=float(learned.intercept_[0]))

    def logits(self, features: NDArray[np.float32], threads: int = 1) -> Floats:
        """Return the log odds of each candidate."""
        found: Floats = self._columns(features) @ self.weights + self.bias
        return found

    def _columns(self, features: NDArray[np.float32]) -> Floats:
        signals = (_signals(features) - self.center) / self.spread
        missing = np.isnan(signals)
        return np.concatenate([np.where(missing, 0.0, signals), missing], axis=1)

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "center": self.center,
            "spread": self.spread,
            "weights": self.weights,
        }
        return State("Logistic", params={"bias": self.bias}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> Logistic:
        """Rebuild from the stored form."""
        fusion = cls(
            state.array("center", np.float64, (n_features,)),
            state.array("spread", np.float64, (n_features,)),
            state.array("weights", np.float64, (2 * n_features,)),
            float(state.param("bias", float)),
        )
        if not all(np.isfinite(part).all() for part in fusion) or np.any(fusion.spread <= 0):
            raise InputError("the logistic model of a stored ensemble must hold finite numbers", given="others")
        return fusion


def _signals(features: NDArray[np.float32]) -> Floats:
    """Return features for a linear model: scores also grow with their logarithm, so it takes the root."""
    signals = features.astype(np.float64)
    n_members = (features.shape[1] - SHARED) // PER_MEMBER
    scores = signals[:, : PER_MEMBER * n_members : PER_MEMBER]
    signals[:, : PER_MEMBER * n_members : PER_MEMBER] = np.sign(scores) * np.sqrt(np.abs(scores))
    return signals


def restore_fusion(state: State, n_features: int) -> Fusion:
    """Rebuild a stored fusion."""
    kinds: dict[str, Any] = {"Boosted": Boosted, "Logistic": Logistic}
    if state.kind not in kinds:
        raise InputError("a stored ensemble must have trees or a logistic model", given=state.kind)
    restored: Fusion = kinds[state.kind].from_state(state, n_features)
    return restored
