"""Filter files: pairs of row and label that count neither as true nor as returned, such as a row that is its own label.

In: ``filter_labels_train.txt`` or ``filter_labels_test.txt`` of the extreme classification repository, a line
``row label`` per pair. Out: an (n_rows, n_labels) matrix of ones; `Ranking.without` and `evaluate` take it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tagwood._lazy import sparse
from tagwood.data.files import BadLines, decoded_lines
from tagwood.errors import DataError


def read_filter_pairs(path: Path, n_rows: int, n_labels: int, bad: BadLines | None = None) -> sparse.csr_array:
    """Read the pairs; lines that are not two numbers within the data are bad."""
    bad = BadLines(skip=False) if bad is None else bad
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


def find_filter_file(folder: Path, split: str) -> Path | None:
    """Return the filter file of a split, if there is one."""
    names = (f"filter_labels_{split}.txt", f"filter_labels_{split}.txt.gz")
    return next((folder / name for name in names if (folder / name).exists()), None)


def without_pairs(labels: sparse.csr_array, pairs: sparse.csr_array) -> sparse.csr_array:
    """Return label sets without the given pairs; both have the same shape."""
    kept = sparse.csr_array(labels - labels.multiply(pairs > 0))
    kept.eliminate_zeros()
    return kept
