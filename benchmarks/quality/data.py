"""Data of the quality benchmark: training rows of the sets of ``../shared/data``, their label names, and splits.

In: the name of a set, a seed, a number of rows. Out: a `Split` with texts, label matrices and a label table. The test
files of the sets are never read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import SHARED
from tagwood.data import LabelVocab

MOST_HELD_OUT = 6_000
HELD_OUT_SHARE = 1 / 6
HUB_SHARE = 0.01  # labels on more of the rows are left out of "debian, no hubs"
BLOCK_ROWS = 40


class Split(NamedTuple):
    """Rows to train on and rows held out, over one label table."""

    texts: list[str]
    Y: sparse.csr_array
    test_texts: list[str]
    Y_test: sparse.csr_array
    vocab: LabelVocab


@dataclass(frozen=True)
class TextSet:
    """A set of ``../shared/data``.

    Parameters
    ----------
    title
        Name in tables.
    folder
        Name of the folder.
    names
        Reads the label names from the folder; labels without a name are named by their id.
    hubs
        Whether labels on more than 1 % of the rows are kept.
    blocks
        Hold out blocks of consecutive rows: neighbouring rows are near-duplicates (packages of one source).
    """

    title: str
    folder: str
    names: Callable[[Path], dict[str, str]]
    hubs: bool = True
    blocks: bool = False

    @property
    def path(self) -> Path:
        """The folder."""
        return SHARED / self.folder

    def split(self, seed: int, limit: int = 0) -> Split:
        """Return the training rows of a set, split into rows to train on and held-out rows.

        Parameters
        ----------
        seed
            Of the choice of rows.
        limit
            Largest number of rows of both parts together; 0 for all.
        """
        texts, labels = _read(self.path / "train.jsonl.gz")
        rng = np.random.default_rng(seed)
        order = _block_order(len(texts), rng) if self.blocks else rng.permutation(len(texts))
        if limit:
            order = order[:limit]
        n_test = min(round(order.size * HELD_OUT_SHARE), MOST_HELD_OUT)
        names = self.names(self.path)
        ids = sorted({label for row in labels for label in row} | set(names))
        Y = _matrix(labels, {label: number for number, label in enumerate(ids)})
        if not self.hubs:
            keep = np.flatnonzero(np.bincount(Y.indices, minlength=len(ids)) <= HUB_SHARE * Y.shape[0])
            Y, ids = Y[:, keep], [ids[label] for label in keep]
            order = order[np.diff(Y.indptr)[order] > 0]
        test, train = order[:n_test], order[n_test:]
        vocab = LabelVocab.from_names([names.get(label) or label for label in ids], uris=ids)
        parts = [[texts[row] for row in part] for part in (train, test)]
        return Split(parts[0], Y[train], parts[1], Y[test], vocab)


class Unseen(NamedTuple):
    """A split in which some labels have no training row: they come last and are not in the label table."""

    split: Split
    new_names: list[str]
    Y_test: sparse.csr_array  # of all labels


def without_labels(split: Split, seed: int, share: float = 0.1) -> Unseen:
    """Take a share of the labels out of the training rows; rows that keep no label are left out.

    Only labels with a name of their own are taken, because new labels are added by their names.
    """
    names = list(split.vocab.names or ())
    uris = list(split.vocab.uris or ())
    seen_once = {name for name, times in zip(*np.unique(names, return_counts=True), strict=True) if times == 1}
    counts = np.bincount(split.Y.indices, minlength=len(names))
    used = np.flatnonzero(counts)
    chosen = np.random.default_rng(seed).permutation(used)[: round(share * used.size)]
    new = np.array([label for label in np.sort(chosen) if names[label] in seen_once])
    old = np.setdiff1d(np.arange(len(names)), new)
    Y = split.Y[:, old]
    rows = np.flatnonzero(np.diff(Y.indptr))
    vocab = LabelVocab.from_names([names[label] for label in old], uris=[uris[label] for label in old])
    kept = Split([split.texts[row] for row in rows], Y[rows], split.test_texts, split.Y_test[:, old], vocab)
    return Unseen(kept, [names[label] for label in new], split.Y_test[:, np.concatenate([old, new])])


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return texts and label ids; rows without a text or a label are left out."""
    texts, labels = [], []
    for row in _json_lines(path):
        if row["text"].strip() and row["labels"]:
            texts.append(row["text"])
            labels.append(sorted(set(map(str, row["labels"]))))
    return texts, labels


def _json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _columns(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def _block_order(n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    blocks = rng.permutation(-(-n_rows // BLOCK_ROWS))
    order = (blocks[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
    return order[order < n_rows]


def _matrix(rows: list[list[str]], ids: dict[str, int]) -> sparse.csr_array:
    ends = np.cumsum([0, *map(len, rows)])
    columns = np.array([ids[label] for row in rows for label in row], dtype=np.int32)
    ones = np.ones(columns.size, dtype=np.float32)
    return sparse.csr_array((ones, columns, ends.astype(np.int32)), shape=(len(rows), len(ids)))


def _own_names(folder: Path) -> dict[str, str]:
    return {}


def _second_column(folder: Path) -> dict[str, str]:
    return {row[0]: row[1] for row in _columns(folder / "labels.tsv.gz")}


def _english_else_german(folder: Path) -> dict[str, str]:
    rows = _columns(folder / "labels_de_en.tsv.gz")
    return {row[0]: next((name for name in row[:0:-1] if name), row[0]) for row in rows}


def _eurovoc(folder: Path) -> dict[str, str]:
    table = json.loads((folder / "eurovoc_labels.json").read_text(encoding="utf-8"))
    return {label: row["label"] for label, row in table.items()}


def _titles(folder: Path) -> dict[str, str]:
    """Package name and its one-line description."""
    return {row["id"]: f"{row['id']}: {row['title']}" for row in _json_lines(folder / "labels.jsonl.gz")}


SETS: dict[str, TextSet] = {
    "cooking": TextSet("cooking", "cooking-stackexchange", _own_names),
    "tibkat": TextSet("TIBKAT", "tibkat-gnd-en", _english_else_german),
    "eurlex57k": TextSet("EURLEX57K", "eurlex57k", _eurovoc),
    "tate": TextSet("tate", "tate-subjects", _second_column),
    "debian": TextSet("debian", "debian-depends", _titles, blocks=True),
    "debian-no-hubs": TextSet("debian, no hubs", "debian-depends", _titles, hubs=False, blocks=True),
    "yso": TextSet("YSO titles", "yso-titles", _second_column),
}
