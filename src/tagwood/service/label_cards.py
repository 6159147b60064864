"""Cards of labels: what a label is, where it sits, what is like it. In: a model and a label. Out: JSON values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import check_features, csr_parts
from tagwood.models.linear_tree.explanation import explain_label
from tagwood.models.linear_tree.model import LinearTree
from tagwood.models.linear_tree.weights import TreeWeights, read_classifier
from tagwood.service.loaded import Loaded
from tagwood.tagger.explanation import feature_words

_NEIGHBOURS = 8
_EXAMPLES = 5
_WORDS = 12
_BESIDE = 5
_SORTED = 20  # texts that are sorted by sense
_PER_SENSE = 3
_COMPARED = 200  # labels of a leaf that are compared; leaves are usually smaller


def label_card(loaded: Loaded, label: int, language: str | None) -> dict[str, Any]:
    """Return everything that is known about a label."""
    tagger, vocab = loaded.tagger, loaded.tagger.vocab_
    brief = loaded.brief(label, language)
    described = None if tagger.label_texts_ is None else tagger.label_texts_.to_dict().get(label)
    names = {code: table[label] for code, table in vocab.languages.items() if table[label]}
    return {
        **brief,
        "names": names,
        "share": brief["rows"] / max(1, tagger.n_rows_),
        "masked": bool(vocab.removed is not None and vocab.removed[label]),
        "description": described,
        "senses": senses(loaded, label, language),
        "neighbours": neighbours(loaded, label, language),
        "examples": example_texts(loaded, label, language, _EXAMPLES),
    }


def senses(loaded: Loaded, label: int, language: str | None) -> list[dict[str, Any]]:
    """Return the places of a label in the trees of the model: one for each leaf that holds it."""
    model = loaded.tagger.model_
    if not isinstance(model, LinearTree) or label >= model.n_labels_:
        return []
    found = []
    texts = sense_texts(loaded, label, language)
    for number, weights in enumerate(model.trees_):
        browser = loaded.trees[number]
        for copy in np.flatnonzero(weights.tree.labels == label):
            leaf = int(weights.tree.leaf_of_copy[copy])
            others = [other for other in browser.leaf_labels(leaf) if other != label][:_BESIDE]
            found.append(
                {
                    "tree": number,
                    "leaf": leaf,
                    "path": weights.tree.path(leaf),
                    "words": sense_words(loaded, weights, int(copy)),
                    "beside": [loaded.brief(other, language) for other in others],
                    "examples": texts.get((number, leaf), [])[:_PER_SENSE],
                }
            )
    return found


def sense_texts(
    loaded: Loaded, label: int, language: str | None
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the kept training texts of a label by (tree, leaf) where they arrive, if it sits in several leaves."""
    tagger, model = loaded.tagger, loaded.tagger.model_
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    if not isinstance(model, LinearTree) or not any(one.tree.has_copies for one in model.trees_):
        return found
    for example in example_texts(loaded, label, language, _SORTED):
        x = csr_parts(check_features(tagger.encoder_.transform([example["text"]])))
        for path in explain_label(model, x, label, n_top=0):
            found.setdefault((path.tree, path.steps[-1].node), []).append(example)
    return found


def sense_words(loaded: Loaded, weights: TreeWeights, copy: int) -> list[str]:
    """Return what speaks most for a label in one leaf; where that is little, what leads to the leaf."""
    tree = weights.tree
    leaf = int(tree.leaf_of_copy[copy])
    steps = [(leaf, copy - int(tree.label_ptr[leaf]))]
    steps += [(above, child - int(tree.child_ptr[above])) for above, child in pairwise(tree.path(leaf))][::-1]
    word = feature_words(loaded.tagger.encoder_, "")
    n_features = int(loaded.tagger.model_.n_features_)  # type: ignore[attr-defined]
    words: dict[str, None] = {}
    for node, output in steps:
        classifier = read_classifier(weights, node, output, n_features)
        best = np.argsort(-classifier.weights, kind="stable")[:_WORDS]
        best = best[classifier.weights[best] > 0]
        words |= dict.fromkeys(word(int(feature)) for feature in classifier.features[best])
        if len(words) >= _WORDS:
            break
    return list(words)[:_WORDS]


def neighbours(loaded: Loaded, label: int, language: str | None) -> list[dict[str, Any]]:
    """Return the labels whose classifiers are most alike: of the leaf that the first tree keeps the label in."""
    model = loaded.tagger.model_
    if not isinstance(model, LinearTree) or label >= model.n_labels_:
        return []
    weights = model.trees_[0]
    copy = int(np.flatnonzero(weights.tree.labels == label)[0])
    leaf = int(weights.tree.leaf_of_copy[copy])
    own = copy - int(weights.tree.label_ptr[leaf])
    inside = weights.tree.leaf_labels(leaf)
    compared = np.unique(np.append(np.arange(inside.size)[:_COMPARED], own))
    rows = [_parts(read_classifier(weights, leaf, int(output), model.n_features_)) for output in compared]
    mine = rows[int(np.flatnonzero(compared == own)[0])]
    scored = [
        (_cosine(mine, row), int(inside[output]))
        for row, output in zip(rows, compared, strict=True)
        if output != own
    ]
    scored = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))[
        :_NEIGHBOURS
    ]
    return [{**loaded.brief(other, language), "similarity": likeness} for likeness, other in scored]


def example_texts(loaded: Loaded, label: int, language: str | None, n: int) -> list[dict[str, Any]]:
    """Return some of the kept training texts with a label."""
    kept = loaded.tagger.examples_
    if kept is None:
        return []
    places = np.flatnonzero(kept.labels == label)
    rows = np.unique(np.searchsorted(kept.indptr, places, side="right") - 1)[:n]
    name = loaded.tagger.vocab_.name
    return [
        {
            "text": kept.texts[int(row)],
            "labels": [
                name(int(one), language) for one in kept.labels[kept.indptr[row] : kept.indptr[row + 1]]
            ],
        }
        for row in rows
    ]


def _parts(classifier: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return classifier.features, classifier.weights


def _cosine(
    a: tuple[NDArray[np.int64], NDArray[np.float64]], b: tuple[NDArray[np.int64], NDArray[np.float64]]
) -> float:
    _, mine, theirs = np.intersect1d(a[0], b[0], assume_unique=True, return_indices=True)
    length = float(np.linalg.norm(a[1]) * np.linalg.norm(b[1]))
    return float(a[1][mine] @ b[1][theirs]) / length if length else 0.0
