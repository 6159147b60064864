"""Senses of a label: for each leaf that holds it, its words, similar labels and training texts there.

In: a fitted Tagger and a label. Out: `Senses`, shown by the command line and on the web page; `most_different` lists
the labels whose leaves are furthest apart.

Decisions: the words of a sense are those with the largest weights summed over the path from the root to the label,
because what leads to the leaf is part of the meaning. A leaf may serve several topics: where training texts were kept,
each weight is multiplied by the mean value of its word in the label's texts there. The difference of two senses is one
minus the cosine of the summed weights that lead to their leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tagwood._check import check_int
from tagwood._lazy import sparse
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.linear_tree.weights import TreeWeights, read_node
from tagwood.tagger.explanation import shorten
from tagwood.tagger.fitting import linear_tree_of
from tagwood.tagger.reasons import feature_words
from tagwood.tagger.stored import FittedTagger, LabelBrief, LabelledText, brief_label

_WORDS, _BESIDE, _EXAMPLES = 8, 5, 3


@dataclass(frozen=True)
class Sense:
    """A label in one leaf.

    Parameters
    ----------
    tree, leaf, path
        Number of the tree, node of the leaf, and the nodes from the root to it.
    words
        Words with the largest weights for the label there.
    beside
        The most similar labels of the leaf.
    examples
        Training texts of the label that reach this leaf.
    """

    tree: int
    leaf: int
    path: tuple[int, ...]
    words: tuple[str, ...]
    beside: tuple[LabelBrief, ...]
    examples: tuple[LabelledText, ...]


@dataclass(frozen=True)
class Senses:
    """All leaves of a label; `difference` is 0 for one leaf or equal words, 1 for senses without a common word."""

    label: int
    name: str
    uri: str | None
    rows: int
    difference: float
    senses: tuple[Sense, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_text(self) -> str:
        """Return a short report."""
        places = f"{len(self.senses)} leaves" if len(self.senses) != 1 else "1 leaf"
        lines = [f"{self.name}: {self.rows:,} training texts, {places}, difference {self.difference:.2f}"]
        for sense in self.senses:
            lines += ["", f"Tree {sense.tree}, leaf {sense.leaf}"]
            lines += [f"  words:  {', '.join(sense.words) or '-'}"]
            lines += [f"  beside: {', '.join(one.name for one in sense.beside) or '-'}"]
            lines += [f"  text:   {shorten(one.text, 90)}" for one in sense.examples]
        return "\n".join(lines)


@dataclass(frozen=True)
class Different:
    """A label with several leaves in the first tree, and the mean difference between them."""

    label: int
    name: str
    rows: int
    difference: float
    leaves: tuple[int, ...]


def label_senses(tagger: FittedTagger, label: int, language: str | None = None) -> Senses:
    """Return the senses of a label of a Tagger with a linear tree."""
    model = _linear_tree(tagger)
    trees = model.trees_ if label < model.n_labels_ else []
    word = feature_words(tagger.encoder_, "")
    texts = _texts_by_copy(tagger, model, label, language)
    senses, vectors = [], []
    for number, weights in enumerate(trees):
        tree = weights.tree
        leads = _leads(weights, tree.leaves_of(label).tolist(), model.n_features_)
        for copy in np.flatnonzero(tree.labels == label).tolist():
            leaf = int(tree.leaf_of_copy[copy])
            inside = read_node(weights, leaf, model.n_features_)
            own = copy - int(tree.label_ptr[leaf])
            here = texts.get((number, copy))
            total = leads[leaf] + inside[[own]]
            words = _top_words(total if here is None else total.multiply(here.mean), word)
            inside_labels = tree.leaf_labels(leaf)
            beside = tuple(
                brief_label(tagger, int(inside_labels[one]), language) for one, _ in most_alike(inside, own, _BESIDE)
            )
            examples = () if here is None else here.shown
            senses.append(Sense(number, leaf, tuple(tree.path(leaf)), words, beside, examples))
            vectors += [leads[leaf]] if number == 0 else []
    rows, difference = int(tagger.label_counts_[label]), _mean_difference(vectors)
    name, uri = tagger.vocab_.name(label, language), tagger.vocab_.uri(label)
    return Senses(label, name, uri, rows, difference, tuple(senses))


def most_different(
    tagger: FittedTagger, limit: int = 20, *, least_rows: int = 5, language: str | None = None
) -> list[Different]:
    """Return the labels whose leaves in the first tree differ most, among those with `least_rows` training rows."""
    check_int(limit, "limit", low=1)
    check_int(least_rows, "least_rows", low=0)
    model = _linear_tree(tagger)
    weights = model.trees_[0]
    tree = weights.tree
    known = tagger.label_counts_[: model.n_labels_] >= least_rows
    counts = np.bincount(tree.labels, minlength=model.n_labels_)
    copies = np.flatnonzero(((counts > 1) & known)[tree.labels])
    copies = copies[np.argsort(tree.labels[copies], kind="stable")]
    leaves = np.unique(tree.leaf_of_copy[copies])
    if leaves.size == 0:
        return []
    leads = _leads(weights, leaves.tolist(), model.n_features_)
    found = []
    ends = np.flatnonzero(np.diff(tree.labels[copies], append=-1)) + 1
    for begin, end in pairwise([0, *ends.tolist()]):
        places = tree.leaf_of_copy[copies[begin:end]].tolist()
        label = int(tree.labels[copies[begin]])
        difference = _mean_difference([leads[leaf] for leaf in places])
        found.append((difference, int(tagger.label_counts_[label]), label, tuple(places)))
    found.sort(key=lambda one: (-one[0], -one[1], one[2]))
    return [
        Different(label, tagger.vocab_.name(label, language), rows, difference, places)
        for difference, rows, label, places in found[:limit]
    ]


def most_alike(inside: sparse.csr_array, own: int, n: int) -> list[tuple[int, float]]:
    """Return the outputs of a node whose classifiers have the largest cosine with that of `own`, and the cosines."""
    norms = np.sqrt(np.asarray(inside.multiply(inside).sum(axis=1)).ravel())
    cosine = (inside @ inside[[own]].T).toarray().ravel() / np.maximum(norms * norms[own], 1e-12)
    cosine[own] = -np.inf
    order = np.argsort(-cosine, kind="stable")[: min(n, cosine.size - 1)]
    return [(int(output), float(cosine[output])) for output in order]


def _linear_tree(tagger: FittedTagger) -> TreeRanker:
    tree = linear_tree_of(tagger.model_)
    if tree is None:
        raise InputError("senses need a model with a linear tree", given=type(tagger.model_).__name__)
    return tree


def _leads(weights: TreeWeights, leaves: list[int], n_features: int) -> dict[int, sparse.csr_array]:
    """Return, for each leaf and the nodes above, the (1, n_features) sum of the weights on the path to it."""
    tree = weights.tree
    leads = {0: sparse.csr_array((1, n_features), dtype=np.float64)}
    read, outputs = -1, leads[0]
    for node in sorted({node for leaf in leaves for node in tree.path(leaf)} - {0}):  # siblings are adjacent
        above = int(tree.parent[node])
        if above != read:
            read, outputs = above, read_node(weights, above, n_features)
        leads[node] = sparse.csr_array(leads[above] + outputs[[node - int(tree.child_ptr[above])]])
    return leads


def _mean_difference(vectors: list[sparse.csr_array]) -> float:
    if len(vectors) < 2:
        return 0.0
    rows = sparse.vstack(vectors).tocsr()
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    cosines = (rows @ rows.T).toarray() / np.maximum(np.outer(norms, norms), 1e-12)
    apart = 1 - np.clip(cosines[np.triu_indices(len(vectors), 1)], 0, 1)
    return float(apart.mean())


def _top_words(vector: sparse.csr_array, word: Callable[[int], str]) -> tuple[str, ...]:
    row = sparse.csr_array(vector)
    best = np.argsort(-row.data, kind="stable")[:_WORDS]
    return tuple(word(int(row.indices[place])) for place in best if row.data[place] > 0)


class _CopyTexts(NamedTuple):
    """Kept texts that reach one copy of a label: the best of them, and the mean of all their features."""

    shown: tuple[LabelledText, ...]
    mean: sparse.csr_array


def _texts_by_copy(
    tagger: FittedTagger, model: TreeRanker, label: int, language: str | None
) -> dict[tuple[int, int], _CopyTexts]:
    """Return the kept training texts of a label by (tree, copy): each under the copy that scores it highest."""
    kept = tagger.examples_
    if kept is None or label >= model.n_labels_:
        return {}
    texts = kept.with_label(label, tagger.vocab_, language)
    if not texts:
        return {}
    X = check_features(tagger.encoder_.transform([one.text for one in texts]), n_features=model.n_features_)
    found: dict[tuple[int, int], _CopyTexts] = {}
    for number, weights in enumerate(model.trees_):
        copies = np.flatnonzero(weights.tree.labels == label)
        pairs = np.tile(np.arange(len(texts)), copies.size), np.repeat(copies, len(texts))
        scores = weights.score_copies(csr_parts(X), *pairs, 1).reshape(copies.size, -1)
        best = scores.argmax(axis=0)
        for place, copy in enumerate(copies.tolist()):
            mine = np.flatnonzero(best == place)
            if mine.size:
                shown = mine[np.argsort(-scores[place, mine], kind="stable")][:_EXAMPLES]
                mean = sparse.csr_array(X[mine].sum(axis=0).reshape(1, -1) / mine.size)
                found[number, copy] = _CopyTexts(tuple(texts[text] for text in shown.tolist()), mean)
    return found
