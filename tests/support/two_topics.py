"""Labels with two far-apart meanings and a known answer: which topic, and which thing of it, a text is about.

A text names a topic (by three of its words) and a thing. Things mean another label in every topic, and every label
stands for two (topic, thing) pairs of different topics. No linear classifier over all texts tells the labels apart,
since each would also fire on its first topic with its second thing; inside one topic the thing alone does.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

TOPICS = ("sea", "kitchen", "music", "sport", "law", "farm", "court", "theatre")
THINGS = ("bar", "pitch", "note", "key", "scale", "bass", "cast", "play")


def two_topics(n_rows: int = 3000, seed: int = 0) -> tuple[list[str], list[list[str]], dict[str, set[str]]]:
    """Return texts, their label (one each), and the two topics of each label."""
    rng = np.random.default_rng(seed)
    pairs = _far_pairs(np.random.default_rng(7))
    label_of = {cell: f"label {number:02d}" for number, both in enumerate(pairs) for cell in both}
    topics = {f"label {number:02d}": {topic for topic, _ in both} for number, both in enumerate(pairs)}
    texts, labels = [], []
    for _ in range(n_rows):
        topic, thing = rng.choice(TOPICS), rng.choice(THINGS)
        words = [f"{topic}{number}" for number in rng.choice(8, 3, replace=False)]
        texts.append(" ".join(rng.permutation([*words, thing])))
        labels.append([label_of[topic, thing]])
    return texts, labels, topics


def two_topic_matrices(n_rows: int = 3000, seed: int = 0) -> tuple[sparse.csr_array, sparse.csr_array, list[str]]:
    """Return the same as rows of norm 1, label sets, and the words of the features."""
    texts, labels, topics = two_topics(n_rows, seed)
    words = [*THINGS, *(f"{topic}{number}" for topic in TOPICS for number in range(8))]
    place = {word: number for number, word in enumerate(words)}
    X = np.zeros((n_rows, len(words)), dtype=np.float32)
    Y = np.zeros((n_rows, len(topics)), dtype=np.float32)
    for row, (text, (label,)) in enumerate(zip(texts, labels, strict=True)):
        X[row, [place[word] for word in text.split()]] = 0.5
        Y[row, int(label.split()[1])] = 1
    return sparse.csr_array(X), sparse.csr_array(Y), words


def _far_pairs(rng: np.random.Generator) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Pair the (topic, thing) cells so that no pair shares its topic or its thing."""
    cells = [(topic, thing) for topic in TOPICS for thing in THINGS]
    while True:
        order = rng.permutation(len(cells))
        pairs = [(cells[a], cells[b]) for a, b in zip(order[::2], order[1::2], strict=True)]
        clashes = [i for i, (a, b) in enumerate(pairs) if a[0] == b[0] or a[1] == b[1]]
        for i in clashes:  # swap partners with another pair until it fits
            for j in range(len(pairs)):
                (a, b), (c, d) = pairs[i], pairs[j]
                if i != j and a[0] != d[0] and a[1] != d[1] and c[0] != b[0] and c[1] != b[1]:
                    pairs[i], pairs[j] = (a, d), (c, b)
                    break
        if all(a[0] != b[0] and a[1] != b[1] for a, b in pairs):
            return pairs
