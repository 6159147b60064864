"""Split sparse files: ``trn_X_Xf.txt`` (features), ``trn_X_Y.txt`` (labels), ``Y.txt`` (names), filters.

In: the folder, or one of its files. Out: a `Dataset` with features, without the pairs of row and label that
``filter_labels_train.txt`` lists (rows that are their own label). ``tst_`` files are the split ``test``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, decoded_lines, existing, split_folder
from tagwood.data.formats.sparse_text import SparseRows, read_sparse_text, write_sparse_text
from tagwood.data.records import ReadOptions, vocab_of_names, with_vocab
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

_PREFIX = {"train": "trn", "test": "tst"}


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read one split of the folder."""
    folder, split = split_folder(path, options.split, {"trn_X_": "train", "tst_X_": "test"})
    prefix = _PREFIX[split]
    label_file = existing(folder / f"{prefix}_X_Y.txt", "the labels")
    feature_file = existing(folder / f"{prefix}_X_Xf.txt", "the features")
    x = read_sparse_text(feature_file, options.bad, with_labels=False)
    y = read_sparse_text(label_file, options.bad, with_labels=False)
    if x.n_rows != y.n_rows:
        raise DataError(
            f"has {y.n_rows:,} rows, but {feature_file.name} has {x.n_rows:,}; they must be the same rows",
            path=label_file,
        )
    rows_of_y = _kept_rows(y)
    labels = (y.features() != 0).astype(np.float32)
    filters = folder / f"filter_labels_{split}.txt"
    if filters.exists():
        whole = read_filter_pairs(filters, y.n_rows, labels.shape[1], options.bad)
        labels = _without(labels, whole[rows_of_y])
    labels, features = _same_rows(labels, rows_of_y, x.features(), _kept_rows(x))
    names = _read_names(folder, labels.shape[1])
    labels, vocab = with_vocab(labels, label_file, options, names)
    return Dataset(labels, vocab, features=features)


def write(dataset: Dataset, path: Path) -> None:
    """Write the folder as a training split."""
    if dataset.features is None:
        raise InputError("the split sparse files hold features, but this dataset has none")
    path.mkdir(parents=True, exist_ok=True)
    for name, matrix in (("trn_X_Xf.txt", dataset.features), ("trn_X_Y.txt", dataset.labels)):
        write_sparse_text(path / name, matrix, None, f"{matrix.shape[0]} {matrix.shape[1]}")


def read_filter_pairs(path: Path, n_rows: int, n_labels: int, bad: BadLines) -> sparse.csr_array:
    """Read lines ``row label`` as an (n_rows, n_labels) matrix of ones: pairs to leave out."""
    pairs: list[tuple[int, int]] = []
    for number, line in decoded_lines(path, bad):
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 2 or not all(cell.isascii() and cell.isdigit() and len(cell) < 19 for cell in cells):
            bad.report(DataError(f"{line[:40]!r} is not 'row label'", path=path, line=number))
        elif int(cells[0]) >= n_rows or int(cells[1]) >= n_labels:
            reason = f"{line[:40]!r} is beyond the {n_rows:,} rows or {n_labels:,} labels"
            bad.report(DataError(reason, path=path, line=number))
        else:
            pairs.append((int(cells[0]), int(cells[1])))
    rows, labels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(rows.size, np.float32), (rows, labels)), shape=(n_rows, n_labels))


def _without(labels: sparse.csr_array, pairs: sparse.csr_array) -> sparse.csr_array:
    kept = labels - labels.multiply(pairs > 0)
    kept = sparse.csr_array(kept)
    kept.eliminate_zeros()
    return kept


def _kept_rows(rows: SparseRows) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(rows.row), np.array(rows.dropped, dtype=np.int64))


def _same_rows(
    labels: sparse.csr_array,
    rows_of_y: NDArray[np.int64],
    features: sparse.csr_array,
    rows_of_x: NDArray[np.int64],
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Keep the rows that both files have: a line left out of one is left out of the other."""
    _, in_y, in_x = np.intersect1d(rows_of_y, rows_of_x, return_indices=True)
    if in_y.size == labels.shape[0] == features.shape[0]:
        return labels, features
    return labels[in_y], features[in_x]


def _read_names(folder: Path, n_labels: int) -> LabelVocab | None:
    """Return the names of ``Y.txt`` or ``Yf.txt``, one per line, if there are as many as labels."""
    for name in ("Y.txt", "Yf.txt"):
        if (folder / name).exists():
            names = [line.strip() for _, line in decoded_lines(folder / name, BadLines(skip=True), "latin-1")]
            if len(names) == n_labels:
                return vocab_of_names(names)
    return None
