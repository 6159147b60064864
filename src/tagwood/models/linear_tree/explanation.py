"""Why linear trees gave a label its score, and where a beam lost it. In: one row, a label. Out: numbers and nodes.

The contributions of a row's features and the bias add up to the margin of each classifier on the label's path; the
link turns margins into probabilities, and their product is the score. The Tagger adds the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import CsrParts
from tagwood.models.linear_tree.model import TreeRanker
from tagwood.models.linear_tree.weights import TreeWeights, log_probability, read_classifier

_I64 = NDArray[np.int64]
_F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PathStep:
    """One decision on a path.

    Parameters
    ----------
    node
        Number of the node that decides.
    child
        The node it leads to, or None where it is about the label itself.
    features, contributions
        Features of the row that the classifier knows, with weight times value; with `bias` they sum to `margin`.
    top_features, top_weights
        The largest positive weights of the classifier, whatever the row, largest first.
    """

    node: int
    child: int | None
    margin: float
    bias: float
    probability: float
    features: _I64
    contributions: _F64
    top_features: _I64
    top_weights: _F64


@dataclass(frozen=True, eq=False)
class LabelPath:
    """The path to a label in one tree of a model, root first; its score is the product of the probabilities."""

    tree: int
    steps: tuple[PathStep, ...]

    @property
    def score(self) -> float:
        """Product of the probabilities on the path."""
        return float(np.prod([step.probability for step in self.steps]))


@dataclass(frozen=True)
class Pruned:
    """Where a beam lost a label: `node` fell out of the beam, `competitor` took the last place."""

    tree: int
    node: int
    depth: int
    score: float
    competitor: int
    competitor_score: float
    beam_width: int


def explain_label(model: TreeRanker, x: CsrParts, label: int, n_top: int = 8) -> list[LabelPath]:
    """Return the path to a label in each tree for one row; of several copies of a label, the best."""
    paths = []
    for number, weights in enumerate(model.trees_):
        ways = [_path(weights, number, x, int(copy), n_top) for copy in np.flatnonzero(weights.tree.labels == label)]
        paths.append(max(ways, key=lambda way: way.score))
    return paths


def find_pruning(
    model: TreeRanker,
    x: CsrParts,
    label: int,
    *,
    beam_width: int | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> list[Pruned]:
    """Return where the beam of each tree lost `label`; trees whose beam reaches it are not in the list."""
    width = model.beam_width_ if beam_width is None else beam_width
    lost = (_lost(weights, number, x, label, width, allowed) for number, weights in enumerate(model.trees_))
    return [where for where in lost if where is not None]


def _path(weights: TreeWeights, number: int, x: CsrParts, copy: int, n_top: int) -> LabelPath:
    tree = weights.tree
    leaf = int(tree.leaf_of_copy[copy])
    nodes = tree.path(leaf)
    steps = [
        _step(weights, x, above, child - int(tree.child_ptr[above]), child, n_top) for above, child in pairwise(nodes)
    ]
    steps.append(_step(weights, x, leaf, copy - int(tree.label_ptr[leaf]), None, n_top))
    return LabelPath(number, tuple(steps))


def _step(weights: TreeWeights, x: CsrParts, node: int, output: int, child: int | None, n_top: int) -> PathStep:
    classifier = read_classifier(weights, node, output, x.n_cols)
    theirs = np.searchsorted(classifier.features, x.indices)
    mine = np.flatnonzero(theirs < classifier.features.size)
    mine = mine[classifier.features[theirs[mine]] == x.indices[mine]]
    known = x.indices[mine]
    contributions = x.data[mine].astype(np.float64) * classifier.weights[theirs[mine]]
    margin = float(contributions.sum() + classifier.bias)
    best = np.flatnonzero(classifier.weights > 0)
    if best.size > n_top:  # ties with the last of them included
        least = np.partition(classifier.weights[best], -n_top)[-n_top]
        best = best[classifier.weights[best] >= least]
    best = best[np.argsort(-classifier.weights[best], kind="stable")][:n_top]
    order = np.argsort(-np.abs(contributions), kind="stable")
    return PathStep(
        node,
        child,
        margin,
        classifier.bias,
        float(np.exp(log_probability(np.array([margin]), weights.link))[0]),
        known[order].astype(np.int64),
        contributions[order],
        classifier.features[best],
        classifier.weights[best],
    )


def _lost(
    weights: TreeWeights,
    number: int,
    x: CsrParts,
    label: int,
    beam_width: int,
    allowed: NDArray[np.bool_] | None,
) -> Pruned | None:
    """Walk the beam level by level, as the search does, and stop when no path to the label is left in it."""
    tree = weights.tree
    open_nodes = None if allowed is None else tree.nodes_with(allowed)
    ways = {node for leaf in tree.leaves_of(label) for node in tree.path(int(leaf))}
    front = {0: 0.0}
    while any(tree.child_ptr[node] < tree.child_ptr[node + 1] for node in front):
        below = _level(weights, x, front, open_nodes)
        ranked = sorted(below.items(), key=lambda item: (-item[1], item[0]))
        kept = dict(ranked[:beam_width])
        if not ways & kept.keys():
            node, score = next(item for item in ranked if item[0] in ways)
            competitor, best = ranked[beam_width - 1]
            scores = float(np.exp(score)), float(np.exp(best))
            return Pruned(number, node, int(tree.depth[node]), scores[0], competitor, scores[1], beam_width)
        front = kept
    return None


def _level(
    weights: TreeWeights, x: CsrParts, front: dict[int, float], open_nodes: NDArray[np.bool_] | None
) -> dict[int, float]:
    """Return log scores of the children of a beam's nodes; leaves stay in the beam."""
    tree = weights.tree
    child_ptr = tree.child_ptr
    scores = {node: score for node, score in front.items() if child_ptr[node] == child_ptr[node + 1]}
    pairs = [(node, child) for node in front for child in range(child_ptr[node], child_ptr[node + 1])]
    pairs = [(node, child) for node, child in pairs if open_nodes is None or open_nodes[child]]
    nodes = np.array([node for node, _ in pairs], dtype=np.int32)
    children = np.array([child for _, child in pairs], dtype=np.int32)
    rows = np.zeros(nodes.size, dtype=np.int64)
    margins = weights.margins(x, rows, nodes, children - child_ptr[nodes], 1)
    gains = log_probability(margins, weights.link)
    return scores | {child: front[node] + float(gain) for (node, child), gain in zip(pairs, gains, strict=True)}
