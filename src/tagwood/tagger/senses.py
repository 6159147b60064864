"""Sense reports: for each leaf a label lives in, its words, its neighbours and its texts there.

In: a fitted Tagger and a label. Out: `Senses`, as data, JSON or text; `most_different` lists the labels whose leaves
are furthest apart.

Decisions: a sense's words are those with the largest weights summed over the path, from the root to the label: what
leads to the leaf is as much part of the meaning as what picks the label there. A leaf may serve several topics, so
where training texts were kept, weights count by how much of each word the label's texts there have. How different two
senses are is one minus the cosine of what leads to their leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_int
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.models.linear_tree.model import LinearTree
from tagwood.models.linear_tree.weights import TreeWeights, read_node
from tagwood.tagger.explanation import feature_words

if TYPE_CHECKING:
    from tagwood.tagger.tagger import Answers

_WORDS, _NEIGHBOURS, _TEXTS = 8, 5, 3


@dataclass(frozen=True)
class Sense:
    """A label in one leaf: the words that speak for it there, labels like it beside it, texts that arrive there."""

    tree: int
    leaf: int
    words: tuple[str, ...]
    neighbours: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Senses:
    """All leaves of a label, with how different they are: 0 for one leaf or the same words, 1 for no shared word."""

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
        """Return a short account in lines."""
        places = f"{len(self.senses)} leaves" if len(self.senses) != 1 else "1 leaf"
        lines = [f"{self.name}: {self.rows:,} training texts, {places}, difference {self.difference:.2f}"]
        for sense in self.senses:
            lines += ["", f"Tree {sense.tree}, leaf {sense.leaf}"]
            lines += [f"  words:  {', '.join(sense.words) or '-'}"]
            lines += [f"  beside: {', '.join(sense.neighbours) or '-'}"]
            lines += [f"  text:   {_cut(text)}" for text in sense.texts]
        return "\n".join(lines)


@dataclass(frozen=True)
class Different:
    """A label whose leaves are apart: by how much, and which they are in the first tree."""

    label: int
    name: str
    rows: int
    difference: float
    leaves: tuple[int, ...]


def label_senses(tagger: Answers, label: int, language: str | None = None) -> Senses:
    """Return the senses of a label of a Tagger with a linear tree."""
    model = _tree_model(tagger)
    trees = model.trees_ if label < model.n_labels_ else []
    word = feature_words(tagger.encoder_, "")
    texts = _texts_by_copy(tagger, model, label)
    senses, vectors = [], []
    for number, weights in enumerate(trees):
        leads = _leads(weights, weights.tree.leaves_of(label).tolist(), model.n_features_)
        for copy in np.flatnonzero(weights.tree.labels == label).tolist():
            leaf = int(weights.tree.leaf_of_copy[copy])
            inside = read_node(weights, leaf, model.n_features_)
            own = copy - int(weights.tree.label_ptr[leaf])
            here = texts.get((number, copy))
            total = leads[leaf] + inside[[own]]
            words = _top_words(total if here is None else total.multiply(here.mean), word)
            beside = _most_alike(inside, own)
            names = tuple(
                tagger.vocab_.name(int(weights.tree.leaf_labels(leaf)[one]), language) for one in beside
            )
            senses.append(Sense(number, leaf, words, names, () if here is None else here.shown))
            vectors += [leads[leaf]] if number == 0 else []
    return Senses(
        label,
        tagger.vocab_.name(label, language),
        tagger.vocab_.uri(label),
        int(tagger.label_counts_[label]),
        _mean_difference(vectors),
        tuple(senses),
    )


def most_different(
    tagger: Answers, limit: int = 20, *, least_rows: int = 5, language: str | None = None
) -> list[Different]:
    """Return the labels whose leaves in the first tree are furthest apart; those with few texts are left out."""
    check_int(limit, "limit", low=1)
    check_int(least_rows, "least_rows", low=0)
    model = _tree_model(tagger)
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


def _tree_model(tagger: Answers) -> LinearTree:
    tagger._fitted()
    if not isinstance(tagger.model_, LinearTree):
        raise InputError("senses need a model with a linear tree", given=type(tagger.model_).__name__)
    return tagger.model_


def _leads(weights: TreeWeights, leaves: list[int], n_features: int) -> dict[int, sparse.csr_array]:
    """Return (1, n_features) what leads to each leaf, and to the nodes above: the weights on the path, summed."""
    tree = weights.tree
    leads = {0: sparse.csr_array((1, n_features), dtype=np.float64)}
    read, outputs = -1, leads[0]
    for node in sorted(
        {node for leaf in leaves for node in tree.path(leaf)} - {0}
    ):  # brothers are neighbours
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


class _Texts(NamedTuple):
    """Kept texts that arrive at one copy of a label: the best of them, and the mean of all their features."""

    shown: tuple[str, ...]
    mean: sparse.csr_array


def _top_words(vector: sparse.csr_array, word: Callable[[int], str]) -> tuple[str, ...]:
    row = sparse.csr_array(vector)
    best = np.argsort(-row.data, kind="stable")[:_WORDS]
    return tuple(word(int(row.indices[place])) for place in best if row.data[place] > 0)


def _most_alike(inside: sparse.csr_array, own: int) -> NDArray[np.int64]:
    """Return the outputs of a leaf whose classifiers are most like that of output `own`."""
    norms = np.sqrt(np.asarray(inside.multiply(inside).sum(axis=1)).ravel())
    likeness = (inside @ inside[[own]].T).toarray().ravel() / np.maximum(norms * norms[own], 1e-12)
    likeness[own] = -np.inf
    order: NDArray[np.int64] = np.argsort(-likeness, kind="stable")[: min(_NEIGHBOURS, likeness.size - 1)]
    return order


def _texts_by_copy(tagger: Answers, model: LinearTree, label: int) -> dict[tuple[int, int], _Texts]:
    """Return kept training texts of a label under the copy, of each tree, that gives them the best score."""
    kept = tagger.examples_
    if kept is None or label >= model.n_labels_:
        return {}
    rows = np.unique(np.searchsorted(kept.indptr, np.flatnonzero(kept.labels == label), side="right") - 1)
    texts = [kept.texts[int(row)] for row in rows]
    if not texts:
        return {}
    X = check_features(tagger.encoder_.transform(texts), n_features=model.n_features_)
    found: dict[tuple[int, int], _Texts] = {}
    for number, weights in enumerate(model.trees_):
        copies = np.flatnonzero(weights.tree.labels == label)
        pairs = np.tile(np.arange(len(texts)), copies.size), np.repeat(copies, len(texts))
        scores = weights.score_copies(csr_parts(X), *pairs, 1).reshape(copies.size, -1)
        best = scores.argmax(axis=0)
        for place, copy in enumerate(copies.tolist()):
            mine = np.flatnonzero(best == place)
            if mine.size:
                shown = mine[np.argsort(-scores[place, mine], kind="stable")][:_TEXTS]
                mean = sparse.csr_array(X[mine].sum(axis=0).reshape(1, -1) / mine.size)
                found[number, copy] = _Texts(tuple(texts[text] for text in shown.tolist()), mean)
    return found


def _cut(text: str, longest: int = 90) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
