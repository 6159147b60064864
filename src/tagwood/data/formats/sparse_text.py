"""Sparse features as text: the extreme classification repository's file, and its folder of split files.

In: files with a header of counts and rows ``l1,l2 f:v f:v``. Out: a `Dataset` with features, and back. The native
kernel parses blocks of a file; this module decides about bad lines and about counts that differ from the header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.data.dataset import Dataset
from tagwood.data.files import (
    MAX_LINE,
    BadLines,
    existing,
    open_for_writing,
    read_blocks,
    split_folder,
)
from tagwood.data.filter_pairs import find_filter_file, read_filter_pairs, without_pairs
from tagwood.data.records import ReadOptions, check_width, read_label_names, with_vocab
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

_SPLIT_PREFIX = {"train": "trn", "test": "tst"}
_MAX_COUNT = 2**31 - 1
_ROWS_PER_WRITE = 20_000
_PROBLEMS = {
    1: "{token} is not a list of label ids such as 3,17",
    2: "a label in {token} is beyond the {n_labels:,} labels of the header",
    3: "{token} is not feature:value",
    4: "the feature in {token} is beyond the {n_features:,} features of the header",
    5: "the value in {token} is not a number",
    6: "the value in {token} is not finite in float32",
}


def read_repository(path: Path, options: ReadOptions) -> Dataset:
    """Read a file of the extreme classification repository: ``N D L``, then ``l1,l2 f:v f:v`` per row.

    A row without labels starts with a space or with its first feature; an empty line is a row without labels and
    features. Features that occur twice in a row are summed.
    """
    rows = read_sparse_text(path, options.bad, with_labels=True)
    labels, vocab = with_vocab(rows.labels(), path, options)
    features = rows.features()
    check_width(features.shape[1], features.nnz, "features", path)
    return Dataset(labels, vocab, features=features)


def write_repository(dataset: Dataset, path: Path) -> None:
    """Write a repository file."""
    if dataset.features is None:
        raise InputError("the repository format contains features, but this dataset has none")
    header = f"{dataset.n_rows} {dataset.features.shape[1]} {dataset.n_labels}"
    write_sparse_text(path, dataset.features, dataset.labels, header)


def read_split_files(path: Path, options: ReadOptions) -> Dataset:
    """Read one split of a folder with ``trn_X_Xf.txt`` (features), ``trn_X_Y.txt`` (labels) and ``Y.txt`` (names).

    Pairs of row and label in ``filter_labels_train.txt`` (rows that are their own label) are left out of the labels and
    kept as `filter_pairs`. ``tst_`` files are the split ``test``.
    """
    folder, split = split_folder(path, options.split, {"trn_X_": "train", "tst_X_": "test"})
    prefix = _SPLIT_PREFIX[split]
    label_file = existing(folder / f"{prefix}_X_Y.txt", "the labels")
    feature_file = existing(folder / f"{prefix}_X_Xf.txt", "the features")
    x = read_sparse_text(feature_file, options.bad, with_labels=False)
    y = read_sparse_text(label_file, options.bad, with_labels=False)
    if x.n_rows != y.n_rows:
        raise DataError(
            f"has {y.n_rows:,} rows, but {feature_file.name} has {x.n_rows:,}; they must be the same rows",
            path=label_file,
        )
    rows_of_y, labels = _kept_rows(y), (y.features() != 0).astype(np.float32)
    pairs = None
    filters = find_filter_file(folder, split)
    if filters is not None:
        pairs = read_filter_pairs(filters, y.row, labels.shape[1], options.bad)[rows_of_y]
        n_before = labels.nnz
        labels = without_pairs(labels, pairs)
        options.report.labels_filtered = int(n_before - labels.nnz)
    in_y, in_x = _same_rows(rows_of_y, _kept_rows(x))
    features = x.features()[in_x]
    check_width(features.shape[1], features.nnz, "features", feature_file)
    names = _read_names(folder, labels.shape[1])
    labels, vocab = with_vocab(labels[in_y], label_file, options, names)
    if pairs is not None:
        pairs = pairs[in_y]
        pairs.resize(labels.shape)
    return Dataset(labels, vocab, features=features, filter_pairs=pairs)


def write_split_files(dataset: Dataset, path: Path) -> None:
    """Write the folder as a training split."""
    if dataset.features is None:
        raise InputError("the split sparse files contain features, but this dataset has none")
    path.mkdir(parents=True, exist_ok=True)
    for name, matrix in (("trn_X_Xf.txt", dataset.features), ("trn_X_Y.txt", dataset.labels)):
        write_sparse_text(path / name, matrix, None, f"{matrix.shape[0]} {matrix.shape[1]}")
    if dataset.filter_pairs is not None:
        with open_for_writing(path / "filter_labels_train.txt") as file:
            pairs = sparse.coo_array(dataset.filter_pairs)
            file.writelines(f"{row} {label}\n" for row, label in zip(pairs.row, pairs.col, strict=True))


def _kept_rows(rows: SparseRows) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(rows.row), np.array(rows.dropped, dtype=np.int64))


def _same_rows(rows_of_y: NDArray[np.int64], rows_of_x: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the places of the rows that both files have: a line left out of one is left out of the other."""
    _, in_y, in_x = np.intersect1d(rows_of_y, rows_of_x, return_indices=True)
    if in_y.size == rows_of_y.size == rows_of_x.size:
        return slice(None), slice(None)  # without a copy
    return in_y, in_x


def _read_names(folder: Path, n_labels: int) -> LabelVocab | None:
    files = (folder / "Y.txt", folder / "Yf.txt")
    tables = (read_label_names(file, n_labels, BadLines(skip=True), "latin-1") for file in files)
    return next((table for table in tables if table is not None), None)


@dataclass
class SparseRows:
    """Rows read so far: the counts of the header, the arrays block by block, and the rows left out."""

    n_rows: int
    n_features: int
    n_labels: int
    row: int = 0
    dropped: list[int] = field(default_factory=list)
    parts: list[list[NDArray[Any]]] = field(default_factory=lambda: [[] for _ in range(5)])

    def take(self, arrays: Sequence[Any]) -> None:
        """Keep the arrays of a block."""
        self.row += arrays[0].size
        for kept, new in zip(self.parts, arrays, strict=True):
            kept.append(new)

    def labels(self) -> sparse.csr_array:
        """Return the (n_rows, n_labels) label sets; call once: it frees the blocks."""
        indptr, indices = _join_ends(self.parts[0]), _join(self.parts[1], np.dtype(np.int32))
        ones = np.ones(indices.size, dtype=np.float32)
        return CsrParts(indptr, indices, ones, self.n_labels).to_scipy()

    def features(self) -> sparse.csr_array:
        """Return the (n_rows, n_features) features; call once: it frees the blocks."""
        indptr, indices = _join_ends(self.parts[2]), _join(self.parts[3], np.dtype(np.int32))
        return CsrParts(indptr, indices, _join(self.parts[4], np.dtype(np.float32)), self.n_features).to_scipy()


def read_sparse_text(path: Path, bad: BadLines, *, with_labels: bool) -> SparseRows:
    """Read a file with the header ``rows features labels``, or ``rows columns`` if not `with_labels`."""
    blocks = read_blocks(path)
    first = next(blocks, b"")
    end = first.find(b"\n")
    head = first if end < 0 else first[:end]
    rows = SparseRows(*_parse_header(path, head, with_labels=with_labels))
    rest = b"" if end < 0 else first[end + 1 :]
    rest = _parse_block(path, rest, rows, bad, last=False)
    for block in blocks:
        rest = _parse_block(path, rest + block, rows, bad, last=False)
        if len(rest) > MAX_LINE:
            raise DataError(f"a line may have at most {MAX_LINE:,} bytes", path=path, line=rows.row + 2)
    _parse_block(path, rest, rows, bad, last=True)
    if rows.row < rows.n_rows:
        reason = f"the header declares {rows.n_rows:,} rows, but the file ends after {rows.row:,}"
        bad.report(DataError(reason, path=path, line=1))
    return rows


def write_sparse_text(path: Path, features: sparse.csr_array, labels: sparse.csr_array | None, header: str) -> None:
    """Write rows; values have the fewest digits that give the same float32."""
    with open_for_writing(path) as file:
        file.write(header + "\n")
        for begin in range(0, features.shape[0], _ROWS_PER_WRITE):
            span = slice(begin, begin + _ROWS_PER_WRITE)
            pairs = _feature_cells(features[span])
            ids = [""] * len(pairs) if labels is None else [f"{ids} " for ids in _label_cells(labels[span])]
            file.writelines(f"{a}{b}\n" for a, b in zip(ids, pairs, strict=True))


def _parse_header(path: Path, head: bytes, *, with_labels: bool) -> tuple[int, int, int]:
    names = "rows features labels" if with_labels else "rows columns"
    fields = head.removeprefix(b"\xef\xbb\xbf").split()
    if len(fields) != len(names.split()) or not all(re.fullmatch(rb"[0-9]{1,18}", cell) for cell in fields):
        shown = head[:60].decode(errors="replace").strip()
        raise DataError(
            f"the first line must be the counts '{names}', not {shown!r}",
            path=path,
            line=1,
            hint="Put that line in front of the rows.",
        )
    n_rows, n_features, *more = map(int, fields)
    if max(n_features, *more, 0) > _MAX_COUNT:
        raise DataError(f"the header must declare at most {_MAX_COUNT:,} columns", path=path, line=1)
    return n_rows, n_features, more[0] if more else 0


def _parse_block(path: Path, block: bytes, rows: SparseRows, bad: BadLines, *, last: bool) -> bytes:
    """Parse the complete lines of a block and return the rest."""
    buffer = np.frombuffer(block, dtype=np.uint8)
    at = 0
    while at < len(block) and rows.row < rows.n_rows:
        *arrays, places = _kernels.parse_rows(buffer[at:], last, rows.n_rows - rows.row, rows.n_labels, rows.n_features)
        consumed, problem, place = places
        rows.take(arrays)
        if not problem:
            at += consumed
            break
        token = re.split(rb"[ \t\r\n]", block[at + place : at + place + 40])[0].decode(errors="replace")
        reason = _PROBLEMS[problem].format(token=repr(token), n_labels=rows.n_labels, n_features=rows.n_features)
        bad.report(DataError(reason, path=path, line=rows.row + 2))
        rows.dropped.append(rows.row)
        rows.row += 1
        end = block.find(b"\n", at + consumed)
        at = len(block) if end < 0 else end + 1
    if rows.row < rows.n_rows:
        return block[at:]
    if block[at:].strip():
        reason = f"the header declares {rows.n_rows:,} rows, but more follow"
        bad.report(DataError(reason, path=path, line=rows.n_rows + 2))
    return b""


def _join(parts: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Concatenate arrays and free each one when it is copied, so that the peak is the result, not twice the result."""
    whole = np.empty(sum(part.size for part in parts), dtype=dtype)
    at = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[at : at + part.size] = part
        at += part.size
    return whole


def _join_ends(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    total = 0
    for number, part in enumerate(parts):
        parts[number] = part + total
        total += int(part[-1]) if part.size else 0
    return np.concatenate([np.zeros(1, dtype=np.int64), *parts])


def _label_cells(labels: sparse.csr_array) -> list[str]:
    return _row_cells(labels.indptr, list(map(str, labels.indices.tolist())), ",")


def _feature_cells(features: sparse.csr_array) -> list[str]:
    columns = features.indices.tolist()
    values = features.data.astype(np.float32).astype("U").tolist()
    return _row_cells(features.indptr, [f"{a}:{b}" for a, b in zip(columns, values, strict=True)], " ")


def _row_cells(indptr: NDArray[Any], cells: list[str], separator: str) -> list[str]:
    ends = indptr.tolist()
    return [separator.join(cells[begin:end]) for begin, end in pairwise(ends)]
