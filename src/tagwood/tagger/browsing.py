"""Label cards and views of the label tree, for people who explore a model.

In: a fitted Tagger, a label or a node. Out: `LabelCard` and `TreeView`, plain values that a page or a command shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_int
from tagwood.errors import InputError
from tagwood.models.linear_tree.weights import read_node
from tagwood.tagger.fitting import linear_tree_of
from tagwood.tagger.senses import Sense, label_senses, most_alike
from tagwood.tagger.stored import FittedTagger, LabelBrief, LabelledText, brief_label
from tagwood.trees.label_tree import LabelTree

_NEIGHBOURS = 8
_EXAMPLES = 5
_LARGEST = 3  # labels shown for a node of the tree
_REMEMBERED = 20_000


@dataclass(frozen=True)
class Neighbour(LabelBrief):
    """A label with a similar classifier; `similarity` is their cosine."""

    similarity: float


@dataclass(frozen=True)
class LabelCard(LabelBrief):
    """Everything that is known about a label.

    Parameters
    ----------
    names
        Names by language.
    share
        Share of the training rows that have the label.
    masked
        Whether the label is excluded from suggestions.
    alternatives, notation
        Alternative names and notations.
    broader, replaced_by
        Broader labels, and those that replace a deprecated one, as far as the label table has them.
    description
        The text that describes a label without training rows, if there is one.
    senses
        One for each leaf that holds the label; empty for models without a linear tree.
    neighbours
        The most similar labels of its leaf in the first tree.
    examples
        Training texts with the label.
    """

    names: dict[str, str]
    share: float
    masked: bool
    alternatives: tuple[str, ...]
    notation: tuple[str, ...]
    broader: tuple[LabelBrief, ...]
    replaced_by: tuple[LabelBrief, ...]
    description: str | None
    senses: tuple[Sense, ...]
    neighbours: tuple[Neighbour, ...]
    examples: tuple[LabelledText, ...]


@dataclass(frozen=True)
class TreeNode:
    """A node of a label tree; `labels` (copies counted) and `rows` are sums over everything below it."""

    node: int
    parent: int | None
    depth: int
    leaf: bool
    children: int
    labels: int
    rows: int
    largest: tuple[LabelBrief, ...]


@dataclass(frozen=True)
class TreeView:
    """A node and its descendants, breadth-first; `complete` is False where some were left out.

    `path` holds the nodes from the root to above the node, `labels` the labels of a leaf, most frequent first.
    """

    tree: int
    trees: int
    max_depth: int
    path: tuple[TreeNode, ...]
    nodes: tuple[TreeNode, ...]
    complete: bool
    labels: tuple[LabelBrief, ...]


def label_card(tagger: FittedTagger, label: int, language: str | None = None) -> LabelCard:
    """Return the card of a label."""
    brief, vocab = brief_label(tagger, label, language), tagger.vocab_
    linear = linear_tree_of(tagger.model_) is not None
    return LabelCard(
        **vars(brief),
        names={code: table[label] for code, table in vocab.languages.items() if table[label]},
        share=brief.rows / max(1, tagger.n_rows_),
        masked=bool(vocab.removed is not None and vocab.removed[label]),
        alternatives=tuple(name for name in vocab.other_names(label) if name not in vocab.detail(label, "notation")),
        notation=tuple(vocab.detail(label, "notation")),
        broader=_linked(tagger, label, "broader", language),
        replaced_by=_linked(tagger, label, "replaced_by", language),
        description=None if tagger.new_labels_ is None else tagger.new_labels_.descriptions().get(label),
        senses=label_senses(tagger, label, language).senses if linear else (),
        neighbours=_neighbours(tagger, label, language),
        examples=()
        if tagger.examples_ is None
        else tuple(tagger.examples_.with_label(label, vocab, language)[:_EXAMPLES]),
    )


def _linked(tagger: FittedTagger, label: int, what: str, language: str | None) -> tuple[LabelBrief, ...]:
    """Return the labels whose URIs the table has for a label."""
    found = (tagger.vocab_.with_uri(uri) for uri in tagger.vocab_.detail(label, what))
    return tuple(brief_label(tagger, one, language) for one in found if one is not None)


def _neighbours(tagger: FittedTagger, label: int, language: str | None) -> tuple[Neighbour, ...]:
    model = linear_tree_of(tagger.model_)
    if model is None or label >= model.n_labels_:
        return ()
    weights = model.trees_[0]
    copy = int(np.flatnonzero(weights.tree.labels == label)[0])
    leaf = int(weights.tree.leaf_of_copy[copy])
    inside = read_node(weights, leaf, model.n_features_)
    labels = weights.tree.leaf_labels(leaf)
    return tuple(
        Neighbour(**vars(brief_label(tagger, int(labels[output]), language)), similarity=cosine)
        for output, cosine in most_alike(inside, copy - int(weights.tree.label_ptr[leaf]), _NEIGHBOURS)
        if cosine > 0
    )


class TreeBrowser:
    """Sums and largest labels of the nodes of one tree, computed once and kept.

    Parameters
    ----------
    tree
        The tree.
    counts
        (n_labels,) training rows of each label.

    Examples
    --------
    >>> browser = TreeBrowser(LabelTree.from_nested([[0, 1], [[2], [3, 4]]]), np.array([5, 1, 2, 3, 4]))
    >>> int(browser.labels_below[0]), int(browser.rows_below[2]), browser.largest(2, 2)
    (5, 9, (4, 3))
    >>> browser.descendants(0, 1, 10)
    ([0, 1, 2], True)
    """

    def __init__(self, tree: LabelTree, counts: NDArray[np.int64]) -> None:
        self.tree = tree
        self._counts = np.zeros(max(tree.n_labels, counts.size), dtype=np.int64)
        self._counts[: counts.size] = counts
        self._largest: dict[tuple[int, int], tuple[int, ...]] = {}

    @cached_property
    def max_depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.tree.depth.max())

    @cached_property
    def labels_below(self) -> NDArray[np.int64]:
        """(n_nodes,) number of labels below each node, copies counted."""
        return self._sums(np.diff(self.tree.label_ptr).astype(np.int64))

    @cached_property
    def rows_below(self) -> NDArray[np.int64]:
        """(n_nodes,) sum of the training rows of the labels below each node."""
        total = np.concatenate([[0], np.cumsum(self._counts[self.tree.labels])])
        return self._sums(np.diff(total[self.tree.label_ptr]))

    def n_children(self, node: int) -> int:
        """Return the number of children of a node."""
        return int(self.tree.child_ptr[node + 1] - self.tree.child_ptr[node])

    def descendants(self, node: int, depth: int, limit: int) -> tuple[list[int], bool]:
        """Return a node and what is below it, breadth-first; False if there are more than `limit`.

        Whole generations are left out, so that no node is shown with only some of its children; only the children of
        `node` itself are cut at the limit.
        """
        found = [node]
        begin, end = node, node + 1
        for level in range(depth):
            begin, end = int(self.tree.child_ptr[begin]), int(self.tree.child_ptr[end])
            if len(found) + end - begin > limit:
                return found + (list(range(begin, begin + limit - 1)) if level == 0 else []), False
            found += range(begin, end)
        return found, True

    def leaf_labels(self, node: int) -> list[int]:
        """Return the labels of a leaf, most frequent first."""
        labels = self.tree.leaf_labels(node)
        return [int(label) for label in labels[np.argsort(-self._counts[labels], kind="stable")]]

    def largest(self, node: int, n: int) -> tuple[int, ...]:
        """Return the `n` most frequent labels below a node; those of one generation are adjacent."""
        if (node, n) in self._largest:
            return self._largest[node, n]
        begin, end = node, node + 1
        best: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        while begin < end:
            labels = self.tree.labels[self.tree.label_ptr[begin] : self.tree.label_ptr[end]]
            if labels.size > n:
                labels = labels[np.argpartition(-self._counts[labels], n)[:n]]
            best = np.unique(np.concatenate([best, labels]))
            begin, end = int(self.tree.child_ptr[begin]), int(self.tree.child_ptr[end])
        order = np.lexsort((best, -self._counts[best]))[:n]
        found = tuple(int(label) for label in best[order])
        if len(self._largest) < _REMEMBERED:
            self._largest[node, n] = found
        return found

    def _sums(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums over each node and all below; parents come before their children."""
        total = own.copy()
        ends = np.flatnonzero(np.diff(self.tree.depth, prepend=-1))  # first node of each generation
        bounds = [*ends.tolist(), self.tree.n_nodes]
        for level in range(len(ends) - 1, 0, -1):
            begin, end = bounds[level], bounds[level + 1]
            np.add.at(total, self.tree.parent[begin:end], total[begin:end])
        return total


def tree_browsers(tagger: FittedTagger) -> list[TreeBrowser]:
    """Return a browser for each label tree of a Tagger; none for models without trees."""
    weights = getattr(linear_tree_of(tagger.model_) or tagger.model_, "trees_", None) or []
    return [TreeBrowser(one.tree, tagger.label_counts_) for one in weights]


def tree_view(
    tagger: FittedTagger,
    browsers: list[TreeBrowser],
    node: int,
    *,
    tree: int,
    depth: int,
    limit: int,
    language: str | None,
) -> TreeView:
    """Return a node of a tree and what is below it; see `Tagger.tree_view`."""
    if not browsers:
        raise InputError("the model must have a label tree", given=type(tagger.model_).__name__)
    browser = browsers[check_int(tree, "tree", low=0, high=len(browsers) - 1)]
    check_int(node, "node", low=0, high=browser.tree.n_nodes - 1)
    nodes, complete = browser.descendants(node, check_int(depth, "depth", low=0), check_int(limit, "limit", low=1))
    inside = [] if browser.n_children(node) else browser.leaf_labels(node)[:limit]
    return TreeView(
        tree,
        len(browsers),
        browser.max_depth,
        tuple(_tree_node(tagger, browser, one, language) for one in browser.tree.path(node)[:-1]),
        tuple(_tree_node(tagger, browser, one, language) for one in nodes),
        complete,
        tuple(brief_label(tagger, label, language) for label in inside),
    )


def _tree_node(tagger: FittedTagger, browser: TreeBrowser, node: int, language: str | None) -> TreeNode:
    children = browser.n_children(node)
    return TreeNode(
        node,
        None if node == 0 else int(browser.tree.parent[node]),
        int(browser.tree.depth[node]),
        children == 0,
        children,
        int(browser.labels_below[node]),
        int(browser.rows_below[node]),
        tuple(brief_label(tagger, label, language) for label in browser.largest(node, _LARGEST)),
    )
