"""Matrices as arrays: ``X.trn.npz`` and ``Y.trn.npz`` (SciPy CSR) or ``.npy`` (dense); ``X.trn.txt``: texts.

In: the folder, or one of its files. Out: a `Dataset`. ``.tst.`` files are the split ``test``. Label names
come from ``labels.txt`` (one per line) if it exists. Nothing is unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tagwood._lazy import sparse
from tagwood._sparse import check_features, check_labels
from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, decoded_lines, open_for_writing, split_folder
from tagwood.data.records import ReadOptions, check_width, flat_text, read_label_names, with_vocab
from tagwood.errors import DataError, InputError

_PARTS = {"train": "trn", "test": "tst"}
_MARKS = {".trn.": "train", ".tst.": "test"}


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read one split of the folder."""
    folder, split = split_folder(path, options.split, _MARKS)
    part = _PARTS[split]
    label_file = _find(folder, f"Y.{part}")
    if label_file is None:
        raise DataError(f"there is no Y.{part}.npz or Y.{part}.npy", path=folder)
    labels = _read(label_file, check_labels)
    feature_file = _find(folder, f"X.{part}")
    features = None if feature_file is None else _read(feature_file, check_features)
    if feature_file is not None and features is not None:
        check_width(features.shape[1], features.nnz, "features", feature_file)
    names = read_label_names(folder / "labels.txt", labels.shape[1], BadLines(skip=False), "utf-8")
    labels, vocab = with_vocab(labels, label_file, options, names)
    text_file, texts = folder / f"X.{part}.txt", None
    if text_file.exists():
        texts = [line for _, line in decoded_lines(text_file, BadLines(skip=False), options.encoding_of(text_file))]
    try:
        return Dataset(labels, vocab, texts=texts, features=features)
    except InputError as error:
        raise DataError(str(error), path=folder, hint="X and Y must have the same rows.") from error


def write(dataset: Dataset, path: Path) -> None:
    """Write the folder as a training split."""
    path.mkdir(parents=True, exist_ok=True)
    sparse.save_npz(path / "Y.trn.npz", dataset.labels)
    if dataset.features is not None:
        sparse.save_npz(path / "X.trn.npz", dataset.features)
    if dataset.texts is not None:
        with open_for_writing(path / "X.trn.txt") as file:
            file.writelines(flat_text(text) + "\n" for text in dataset.texts)


def load_matrix(path: Path) -> Any:
    """Return the matrix of an ``.npz`` (CSR as SciPy saves it) or ``.npy`` file, structure checked."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            with content as arrays:
                return _csr(path, {name: arrays[name] for name in arrays.files})
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy's header parser raise a dozen kinds
        raise DataError(f"is not a readable NumPy file ({str(error)[:100]})", path=path) from error


def _csr(path: Path, arrays: dict[str, Any]) -> sparse.csr_array:
    needed = {"indptr", "indices", "data", "shape"}
    if not needed <= arrays.keys():
        raise DataError(
            f"contains {', '.join(sorted(arrays))}, not a CSR matrix ({', '.join(sorted(needed))})", path=path
        )
    kind = bytes(arrays["format"].tobytes()) if "format" in arrays else b"csr"
    if kind.replace(b"\0", b"") != b"csr":
        raise DataError(
            "is not in CSR form", path=path, hint="Save it with scipy.sparse.save_npz(path, matrix.tocsr())."
        )
    shape = arrays["shape"]
    indptr, indices, data = arrays["indptr"], arrays["indices"], arrays["data"]
    whole = all(array.dtype.kind in "iu" and array.ndim == 1 for array in (shape, indptr, indices))
    if not whole or shape.size != 2 or data.ndim != 1 or data.dtype.kind not in "fiub":
        raise DataError("the arrays of the CSR matrix have the wrong types or dimensions", path=path)
    n_rows, n_cols = (int(size) for size in shape)
    ok = n_rows >= 0 and 0 <= n_cols < 2**31 and indptr.size == n_rows + 1 and indices.size == data.size
    # Compared as Python numbers: a difference of unsigned integers would wrap around.
    if ok:
        ends = indptr.astype(np.int64)
        ok = ends[0] == 0 and ends[-1] == data.size and bool(np.all(ends[1:] >= ends[:-1]))
    if not ok or (indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < n_cols):
        raise DataError(f"the arrays do not make a CSR matrix of {n_rows:,} x {n_cols:,}", path=path)
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_cols))


def _read(path: Path, check: Any) -> sparse.csr_array:
    try:
        return check(load_matrix(path), name="the matrix")
    except InputError as error:
        raise DataError(str(error), path=path) from error


def _find(folder: Path, stem: str) -> Path | None:
    return next((file for end in (".npz", ".npy") if (file := folder / (stem + end)).exists()), None)
