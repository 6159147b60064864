"""Data of the PRIME experiment: two sets of short texts with label names, one of them cut.

In: a set's name. Out: texts, label sets and label texts of training and test rows. Labels without training rows are
left out; so are labels of debian-depends that stand on more than 1 % of the rows (`libc6` and the like decide P@1).
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import SHARED
from tagwood._sparse import check_labels

# Set -> most training rows (all of TIBKAT), test rows; drawn at random with seed 0.
SIZES = {"tibkat-gnd-en": (50_000, 4_000), "yso-titles": (40_000, 4_000)}
QUICK = (600, 200)
HUB = 0.01
FIRST_WORDS = 3
LETTERS = 400  # of a text; encoders read 64 tokens


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with their labels, and the text of each label."""

    name: str
    texts: list[str]
    Y: sparse.csr_array
    test_texts: list[str]
    Y_test: sparse.csr_array
    label_texts: list[str]

    def held_out(self, n_rows: int = 2000, seed: int = 0) -> LabelledTexts:
        """Return a part of the training rows to measure on, in place of the test rows: for choosing settings."""
        order = np.random.default_rng(seed + 77).permutation(len(self.texts))
        held, rest = np.sort(order[:n_rows]), np.sort(order[n_rows:])
        parts = [[self.texts[row] for row in part] for part in (rest, held)]
        return known_labels(self.name, *parts, self.Y[rest], self.Y[held], self.label_texts)

    def distinct_test_rows(self) -> NDArray[np.int64]:
        """Return the first test row of those with the same labels and the same first words.

        A tenth of Debian's test rows are cross compilers that need the same packages: they are right or wrong together.
        """
        Y = self.Y_test
        keys = [
            (tuple(sorted(Y.indices[Y.indptr[row] : Y.indptr[row + 1]])), *text.split()[:FIRST_WORDS])
            for row, text in enumerate(self.test_texts)
        ]
        return np.array(sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values()))

    def without_labels(self, labels: NDArray[np.int64]) -> LabelledTexts:
        """Return the set with only these labels in training; rows that lose all labels go, test rows stay."""
        Y = check_labels(self.Y[:, labels])
        rows = np.flatnonzero(np.diff(Y.indptr))
        return LabelledTexts(
            self.name,
            [self.texts[row] for row in rows],
            check_labels(Y[rows]),
            self.test_texts,
            check_labels(self.Y_test[:, labels]),
            [self.label_texts[label] for label in labels],
        )


def read_set(name: str, n_train: int | None = None, n_test: int | None = None) -> LabelledTexts:
    """Return a set cut to its size in `SIZES`, or to another one."""
    sizes = SIZES[name]
    names = label_texts(name)
    ids = {key: place for place, key in enumerate(names)}
    random = np.random.default_rng(0)
    parts = []
    for split, wanted, usual in (("train", n_train, sizes[0]), ("test", n_test, sizes[1])):
        rows = _lines(SHARED / name / f"{split}.jsonl.gz")
        chosen = np.sort(random.permutation(len(rows))[: wanted or usual])
        parts.append([rows[row] for row in chosen])
    texts = [[str(row["text"])[:LETTERS] for row in part] for part in parts]
    matrices = [
        label_matrix([[ids[key] for key in row["labels"] if key in ids] for row in part], len(ids)) for part in parts
    ]
    if name == "debian-depends":
        usual = np.bincount(matrices[0].indices, minlength=len(ids)) <= HUB * len(parts[0])
        matrices = [matrix[:, np.flatnonzero(usual)] for matrix in matrices]
        listed = [text for text, keep in zip(names.values(), usual, strict=True) if keep]
    else:
        listed = list(names.values())
    return known_labels(name, *texts, *matrices, listed)


def known_labels(
    name: str,
    texts: list[str],
    test_texts: list[str],
    Y: sparse.csr_array,
    Y_test: sparse.csr_array,
    label_texts: list[str],
) -> LabelledTexts:
    """Drop labels without training rows, and rows without labels."""
    known = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    Y, Y_test = check_labels(Y[:, known]), check_labels(Y_test[:, known])
    rows, test_rows = (np.flatnonzero(np.diff(part.indptr)) for part in (Y, Y_test))
    return LabelledTexts(
        name,
        [texts[row] for row in rows],
        check_labels(Y[rows]),
        [test_texts[row] for row in test_rows],
        check_labels(Y_test[test_rows]),
        [label_texts[label] for label in known],
    )


def label_matrix(rows: list[list[int]], n_labels: int) -> sparse.csr_array:
    """Return label sets as a matrix."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([label for row in rows for label in row], dtype=np.int32)
    shape = (len(rows), n_labels)
    return check_labels(sparse.csr_array((np.ones(indices.size, dtype=np.float32), indices, indptr), shape=shape))


def label_texts(name: str) -> dict[str, str]:
    """Return the text of each label id; GND subjects in English where there is an English name."""
    folder = SHARED / name
    if (folder / "labels.jsonl.gz").exists():  # a package: its name and its title
        return {row["id"]: f"{row['id']} {row['title']}" for row in _lines(folder / "labels.jsonl.gz")}
    path = next(folder.glob("labels*.tsv.gz"))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        cells = [line.rstrip("\n").split("\t") for line in file]
    return {row[0]: row[-1] or row[1] for row in cells}


def _lines(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
