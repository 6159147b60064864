"""Learning from labels of groups: which rule assigns them to rows, and what scores of rows are worth.

In: features, `GroupedLabels`, rankings of rows in held-out groups. Out: a `GroupRule` without ``"auto"``, labels of
rows drawn from what groups tell about them.

Decisions
---------
* Which rule is best depends on whether a group's labels are true of all its rows, and nothing but the data can tell.
  A small tree is trained by each rule on some groups, and its scores predict the labels of other groups, through a
  logistic model of the best score in the group and of the joint one, so that every rule has its own scale. The rule
  without iterations is used unless another one leads by a standard error over these groups, both in the likelihood of
  their labels and in the share of labels that is found. The likelihood alone preferred iterations by five standard
  errors where they lowered P@1 of single rows, and the baseline by three where its P@1 was half of the other rules'.
* Labels of rows in held-out groups are unknown, those of the groups are known. With p = sigmoid(a + b logit(score)), a
  group has a label with probability 1 - Π(1 - p) over its rows; a and b maximize the likelihood of the groups. Labels
  of rows are then drawn from their probability given the group's labels, so that calibration and set rules see sets of
  the right size. With the rule ``"baseline"`` every row has all labels of its groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_float, check_int
from tagwood._lazy import sparse
from tagwood._sparse import check_features, check_labels
from tagwood.errors import InputError
from tagwood.groups import GroupedLabels, Imputed, impute_labels
from tagwood.models.linear_tree import LinearTree
from tagwood.probabilities.calibration import sigmoid
from tagwood.ranking import Ranking

AUTO = "auto"
METHODS = (AUTO, "baseline", "eagle-0", "eagle")
SHARED = 0.8  # `margin` of `impute_labels` for rows to learn from
_TRIAL_ROWS = 15_000
_HELD_OUT = 0.25  # share of the groups of a trial
_FEWEST_PAIRS = 100  # held-out groups and labels, that other groups have too; fewer tell nothing
_CANDIDATES = 50  # labels per row of a trial
_LEAST = 1e-4  # added to scores before their logarithm is taken


@dataclass(frozen=True)
class GroupRule:
    """How labels of groups become labels of rows; see `tagwood.impute_labels`.

    With ``method="auto"``, it is ``"eagle-0"`` with `soft` assignments, unless held-out groups show that
    ``"baseline"``, ``"eagle"`` or assignments to the closest row are better. With `soft`, models that accept weights
    learn from all rows of a group that are close to a label; other models, and the review, use the closest row only.
    """

    method: str = AUTO
    steps: int = 20
    step_size: float = 0.03
    contrast: float = 1.0
    soft: bool = True

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.method, "method", METHODS)
        check_int(self.steps, "steps", low=0)
        check_float(self.step_size, "step_size", above=0.0)
        check_float(self.contrast, "contrast", low=0.0, high=1.0)
        if not isinstance(self.soft, bool):
            raise InputError("soft must be true or false", given=repr(self.soft))


def impute_rows(
    X: Any,
    grouped: GroupedLabels,
    rule: GroupRule,
    *,
    margin: float = SHARED,
    threads: int | None = None,
) -> Imputed:
    """Share the labels of groups among the rows that are close to them."""
    return impute_labels(
        X,
        grouped.sample_groups,
        grouped.group_labels,
        method=rule.method,
        steps=rule.steps,
        step_size=rule.step_size,
        contrast=rule.contrast,
        soft=True,
        margin=margin,
        threads=threads,
    )


def learns_soft(rule: GroupRule) -> bool:
    """Whether a model that accepts weights learns from shares of labels."""
    return rule.soft and rule.method != "baseline"


def choose_rule(
    X: Any, grouped: GroupedLabels, rule: GroupRule, *, seed: int = 0, threads: int | None = None
) -> tuple[GroupRule, dict[str, float]]:
    """Return the rule in place of ``"auto"``, and the log-likelihood of held-out groups, per label, of each candidate.

    Where groups share too few labels to tell, it is ``"eagle-0"`` and the dictionary is empty; so it is for a rule
    whose method is given, which is kept.
    """
    if rule.method != AUTO:
        return rule, {}
    plain = replace(rule, method="eagle-0")
    learned, held = _split_groups(grouped, seed)
    counts = np.bincount(learned.group_labels.indices, minlength=grouped.n_labels)
    shared = np.flatnonzero((counts > 0) & (np.bincount(held.group_labels.indices, minlength=grouped.n_labels) > 0))
    true = held.group_labels[:, shared].toarray() > 0
    if true.sum() < _FEWEST_PAIRS:
        return plain, {}
    features = check_features(X)
    candidates = {
        "eagle-0, soft": replace(plain, soft=True),
        "eagle-0": replace(plain, soft=False),
        "baseline": replace(rule, method="baseline"),
        "eagle, soft": replace(rule, method="eagle", soft=True),
    }
    trials = {
        name: _measure(_group_scores(features, learned, held, one, shared, threads), true)
        for name, one in candidates.items()
    }
    usual = trials["eagle-0, soft"]
    better = [name for name, one in trials.items() if all(map(_leads, one, usual))]
    likelihoods = {name: float(one.likelihood.sum() / true.sum()) for name, one in trials.items()}
    best = max(better, key=lambda name: likelihoods[name], default="eagle-0, soft")
    return candidates[best], likelihoods


def _split_groups(grouped: GroupedLabels, seed: int) -> tuple[GroupedLabels, GroupedLabels]:
    """Return some groups to learn from and others to predict, with about `_TRIAL_ROWS` rows together."""
    order = np.random.default_rng([seed, 30]).permutation(grouped.n_groups)
    sizes = np.bincount(grouped.sample_groups.indices, minlength=grouped.n_groups)[order]
    order = order[: int(np.searchsorted(np.cumsum(sizes), _TRIAL_ROWS)) + 1]
    cut = round(_HELD_OUT * order.size)
    columns = sparse.csc_array(grouped.sample_groups)
    return tuple(  # type: ignore[return-value]
        GroupedLabels(sparse.csr_array(columns[:, some]), grouped.group_labels[some])
        for some in (np.sort(order[cut:]), np.sort(order[:cut]))
    )


def _group_scores(
    X: sparse.csr_array,
    learned: GroupedLabels,
    held: GroupedLabels,
    rule: GroupRule,
    labels: NDArray[np.intp],
    threads: int | None,
) -> NDArray[np.float64]:
    """Return the (n_groups, n_labels, 2) best and joint scores of held-out groups, by a tree that learned by a rule."""
    rows = np.flatnonzero(np.diff(learned.sample_groups.indptr))
    known = GroupedLabels(learned.sample_groups[rows], learned.group_labels)
    imputed = impute_rows(X[rows], known, rule, margin=SHARED if rule.soft else 0.0, threads=threads)
    weights = imputed.weights if learns_soft(rule) else None
    tree = LinearTree(threads=threads).fit(X[rows], imputed.labels, sample_weight=weights)
    members = sparse.csc_array(held.sample_groups)
    inside = np.flatnonzero(np.diff(held.sample_groups.indptr))
    place = np.full(X.shape[0], -1)
    place[inside] = np.arange(inside.size)
    scores = tree.rank(X[inside], k=_CANDIDATES).to_csr()[:, labels].toarray()
    found = np.zeros((held.n_groups, labels.size, 2))
    for group in range(held.n_groups):
        own = scores[place[members.indices[members.indptr[group] : members.indptr[group + 1]]]]
        if len(own):
            found[group, :, 0] = own.max(axis=0)
            found[group, :, 1] = -np.log1p(-np.minimum(own, 1 - 1e-6)).sum(axis=0)
    return found


class _Trial(NamedTuple):
    """What scores say about the labels of each held-out group."""

    likelihood: NDArray[np.float64]  # log-likelihood of its labels
    found: NDArray[np.float64]  # share of its n labels among the n with the highest joint score


def _measure(scores: NDArray[np.float64], true: NDArray[np.bool_]) -> _Trial:
    """Compare scores with true labels; the likelihood of half of the groups is by the model of the other half."""
    from sklearn.linear_model import LogisticRegression  # slow to import, and needed in training only

    sizes = true.sum(axis=1)
    best = np.take_along_axis(true, np.argsort(-scores[:, :, 1], axis=1, kind="stable"), axis=1)
    found = (best & (np.arange(true.shape[1]) < sizes[:, None])).sum(axis=1) / np.maximum(1, sizes)
    columns = np.concatenate([np.log(scores + _LEAST), scores[:, :, :1]], axis=2)
    half = np.arange(len(true)) % 2 == 0
    likelihood = np.zeros(len(true))
    for fitted in (half, ~half):
        if not true[fitted].any() or true[fitted].all():
            return _Trial(np.zeros(len(true)), found)  # for every rule alike, so that none leads
        model = LogisticRegression(C=1e4, max_iter=500).fit(columns[fitted].reshape(-1, 3), true[fitted].ravel())
        p = np.clip(model.predict_proba(columns[~fitted].reshape(-1, 3))[:, 1], 1e-9, 1 - 1e-9)
        y = true[~fitted]
        likelihood[~fitted] = np.log(np.where(y, p.reshape(y.shape), 1 - p.reshape(y.shape))).sum(axis=1)
    return _Trial(likelihood, found)


def _leads(values: NDArray[np.float64], usual: NDArray[np.float64]) -> bool:
    """Whether the values of groups exceed others by more than a standard error of their mean difference."""
    lead = values - usual
    return bool(lead.mean() > lead.std() / max(1, lead.size - 1) ** 0.5)


def draw_row_labels(ranking: Ranking, grouped: GroupedLabels, rule: GroupRule, seed: int = 0) -> sparse.csr_array:
    """Return labels of rows, drawn from their probability given the labels of the groups and the scores of the rows.

    In: rankings of the rows of held-out groups. A row that is alone in its group has its labels.

    Examples
    --------
    >>> found = Ranking.from_lists([[(0, 0.9)], [(0, 0.01)], [(0, 0.8)], [(0, 0.02)]] * 50, n_labels=1)
    >>> pairs = GroupedLabels.from_groups([row // 2 for row in range(200)], {pair: [0] for pair in range(100)})
    >>> drawn = draw_row_labels(found, pairs, GroupRule("eagle"))
    >>> int(drawn[::2].sum()) > 95, int(drawn[1::2].sum()) < 5
    (True, True)
    """
    spread = grouped.spread()
    if rule.method == "baseline":
        return spread
    pairs = _row_pairs(ranking, grouped)
    p = pairs.probabilities()
    posterior = p / pairs.joint(p)
    chosen = np.random.default_rng([seed, 31]).random(p.size) < posterior
    size = ranking.n_labels
    keys = np.unique(pairs.row[pairs.true & chosen] * size + pairs.label[pairs.true & chosen])
    ones = np.ones(keys.size, dtype=np.float32)
    drawn = sparse.csr_array((ones, (keys // size, keys % size)), shape=spread.shape)
    sizes = np.bincount(grouped.sample_groups.indices, minlength=grouped.n_groups)
    alone = sparse.csr_array(grouped.sample_groups @ sparse.diags_array((sizes == 1).astype(np.float32)))
    return check_labels(sparse.csr_array(drawn + alone @ grouped.group_labels > 0).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _RowPairs:
    """Rows and labels with a score, once per group of the row: which pair of group and label they belong to."""

    row: NDArray[np.int64]
    label: NDArray[np.int64]
    score: NDArray[np.float64]
    pair: NDArray[np.int64]
    true: NDArray[np.bool_]  # whether the group has the label

    def joint(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each entry the probability that its group has its label, by any row."""
        none = np.bincount(self.pair, np.log1p(-p))
        return np.asarray(np.maximum(-np.expm1(none[self.pair]), 1e-12))

    def probabilities(self) -> NDArray[np.float64]:
        """Return sigmoid(a + b logit(score)) with the a and b for which the labels of the groups are most likely."""
        from scipy.optimize import minimize

        z = np.log(self.score) - np.log1p(-self.score)
        first = np.unique(self.pair, return_index=True)[1]
        true = self.true[first]

        def loss(ab: NDArray[np.float64]) -> float:
            p = np.clip(sigmoid(ab[0] + ab[1] * z), 1e-9, 1 - 1e-9)
            joint = np.clip(self.joint(p)[first], 1e-9, 1 - 1e-9)
            return -float(np.log(np.where(true, joint, 1 - joint)).mean())

        found = minimize(loss, np.array([0.0, 1.0]), method="Nelder-Mead", options={"maxiter": 200})
        return np.asarray(np.clip(sigmoid(found.x[0] + found.x[1] * z), 1e-9, 1 - 1e-9))


def _row_pairs(ranking: Ranking, grouped: GroupedLabels) -> _RowPairs:
    """Return the entries of a ranking of rows in groups."""
    members = grouped.sample_groups
    row = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr))
    copies = np.diff(members.indptr)[row]
    entry = np.repeat(np.arange(row.size), copies)
    nth = np.arange(entry.size) - np.repeat(np.cumsum(copies) - copies, copies)
    group = members.indices[members.indptr[row[entry]] + nth].astype(np.int64)
    label = ranking.labels[entry].astype(np.int64)
    _, pair = np.unique(group * ranking.n_labels + label, return_inverse=True)
    true = np.asarray(grouped.group_labels[group, label]).ravel() > 0
    score = np.clip(ranking.scores[entry].astype(np.float64), 1e-6, 1 - 1e-6)
    return _RowPairs(row[entry], label, score, pair, true)
