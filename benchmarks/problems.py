"""Data of the benchmarks: one folder of matrices per problem, made once and the same for every tool.

In: a problem's name. Out: a folder in ``.cache/bench/data`` with X and Y of train and test as CSR ``.npz``,
and on demand the train part as a repository file. Text sets come from ``../shared/data``; their features are
made with scikit-learn's TfidfVectorizer.

Decisions
---------
* Labels without training rows are left out: no tool can return them, and P@k stays the same.
* Training rows without a feature or a label are left out, because not every tool accepts them.
* Synthetic sets are tested on their first 20,000 rows.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import CACHE, SHARED, synthetic
from tagwood.data import Dataset, read_dataset

SYNTHETIC_TEST_ROWS = 20_000
QUICK_ROWS = (2_000, 500)
HUB_SHARE = 0.01
PARTS = ("X.trn", "Y.trn", "X.tst", "Y.tst")
Parts = tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array, sparse.csr_array]


@dataclass(frozen=True)
class Problem:
    """A benchmark's data set.

    Parameters
    ----------
    name
        Name on the command line and of the folder.
    make
        Returns X and Y of train, X and Y of test.
    source
        Folder that must exist, or None for synthetic data.
    propensity
        Preset of the propensity-scored measures.
    words
        Description of the features, for the report.
    """

    name: str
    make: Callable[[], Parts]
    source: Path | None = None
    propensity: str = "default"
    words: str = ""

    @property
    def folder(self) -> Path:
        """The folder of the matrices."""
        return CACHE / "data" / self.name

    def missing(self) -> str | None:
        """Return why this problem cannot be measured here, or None."""
        if self.source is None or self.source.exists() or (self.folder / "shape.json").exists():
            return None
        return f"{self.source.name} is not in ../shared/data"

    def prepare(self, *, repository_file: bool) -> dict[str, Any]:
        """Make the folder if it is missing; return the sizes of the problem."""
        sizes = self.folder / "shape.json"
        if not sizes.exists():
            print(f"{self.name}: making the features", flush=True)
            _store(self.folder, self.make())
        if repository_file and not (self.folder / "trn.txt").exists():
            _store_repository_file(self.folder)
        return json.loads(sizes.read_text())

    def labels(self, part: str) -> sparse.csr_array:
        """Return Y of ``"trn"`` or ``"tst"``."""
        return sparse.load_npz(self.folder / f"Y.{part}.npz")

    def quick(self) -> Problem:
        """Return a small part of this problem, for trying the benchmark out."""
        return replace(self, name=f"{self.name}-quick", make=lambda: _first_rows(self.make(), *QUICK_ROWS))


def real_problems() -> list[Problem]:
    """Return the sets of ../shared/data; the last three are small, for trying things out."""
    sets = [
        _text_problem("eurlex57k"),
        _text_problem("tibkat-gnd-en"),
        _text_problem("yso-titles", n_grams=2),
        _text_problem("debian-depends"),
        _text_problem("debian-depends", hubs=False),
        _text_problem("tate-subjects", n_grams=2),
        _text_problem("cooking-stackexchange", n_grams=2),
    ]
    return [*sets, _matrix_problem("bibtex"), _matrix_problem("delicious")]


def amazon_problems(scale: float = 1.0) -> list[Problem]:
    """Return synthetic problems like Amazon-670K and Amazon-3M, rows and labels times `scale`."""
    tail = "" if scale == 1 else f"-x{scale:g}"
    kinds = {
        "670k": synthetic.amazon_670k_like,
        "3m": synthetic.amazon_3m_like,
        "3m-few": synthetic.amazon_3m_few,
    }
    return [
        synthetic_problem(f"amazon-{name}-like{tail}", lambda make=make: make(scale), f"synthetic, scale {scale:g}")
        for name, make in kinds.items()
    ]


def odd_problems(scale: float = 1.0) -> list[Problem]:
    """Return synthetic problems unlike the others: short queries with even labels, and long texts with many labels."""
    tail = "" if scale == 1 else f"-x{scale:g}"

    def queries() -> synthetic.Problem:
        n = round(300_000 * scale)
        return synthetic.power_law(
            n, 20_000, n // 3, 50_000, labels_per_row=1.5, nnz_per_row=8.0, exponent=0.1, noise=0.3, seed=1
        )

    def documents() -> synthetic.Problem:
        n = round(20_000 * scale)
        return synthetic.power_law(
            n, 5_000, 1_000, 200_000, labels_per_row=20.0, nnz_per_row=600.0, exponent=1.0, noise=0.8, seed=2
        )

    return [
        synthetic_problem(f"short-queries{tail}", queries, f"synthetic, 8 words and 1.5 labels a row, scale {scale:g}"),
        synthetic_problem(f"long-texts{tail}", documents, f"synthetic, 600 words and 20 labels a row, scale {scale:g}"),
    ]


def synthetic_problem(name: str, make: Callable[[], synthetic.Problem], words: str) -> Problem:
    """Return a benchmark problem from a synthetic one."""

    def parts() -> Parts:
        made = make()
        some = min(SYNTHETIC_TEST_ROWS, made.X_test.shape[0])
        return made.X_train, made.Y_train, made.X_test[:some], made.Y_test[:some]

    return Problem(name, parts, propensity="amazon", words=words)


def read_splits(name: str) -> tuple[Dataset, Dataset]:
    """Return training and test rows of a set of ../shared/data; test labels without training rows are skipped."""
    folder = SHARED / name
    if not folder.exists():
        raise SystemExit(f"{name} is not in ../shared/data")
    if (folder / "X.trn.npz").exists():
        return read_dataset(folder, split="train"), read_dataset(folder, split="test")
    train = read_dataset(folder / "train.jsonl.gz")
    return train, read_dataset(folder / "test.jsonl.gz", vocab=train.vocab, on_unknown="skip")


def _text_problem(name: str, n_grams: int = 1, hubs: bool = True) -> Problem:
    folder = SHARED / name

    def make() -> Parts:
        from sklearn.feature_extraction.text import TfidfVectorizer

        (texts, labels), (test_texts, test_labels) = _read_texts(folder, "train"), _read_texts(folder, "test")
        encoder = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, n_grams), dtype=np.float32)
        X = encoder.fit_transform(texts)
        ids = {label: i for i, label in enumerate(sorted({label for row in labels for label in row}))}
        Y, Y_test = _label_matrix(labels, ids), _label_matrix(test_labels, ids)
        parts = (sparse.csr_array(X), Y, sparse.csr_array(encoder.transform(test_texts)), Y_test)
        return parts if hubs else _without_hubs(parts)

    words = f"word 1-{n_grams}-grams" if n_grams > 1 else "words"
    words = f"TF-IDF of {words}, min_df 2"
    if not hubs:
        return Problem(f"{name}-no-hubs", make, folder, words=f"{words}; labels on over 1 % of the rows left out")
    return Problem(name, make, folder, words=words)


def _matrix_problem(name: str) -> Problem:
    folder = SHARED / name

    def make() -> Parts:
        from sklearn.preprocessing import normalize

        X, Y, X_test, Y_test = (
            sparse.csr_array(sparse.load_npz(folder / f"{part}.npz")).astype(np.float32) for part in PARTS
        )
        return sparse.csr_array(normalize(X)), Y, sparse.csr_array(normalize(X_test)), Y_test

    return Problem(name, make, folder, words="as published, rows of norm 1")


def _read_texts(folder: Path, part: str) -> tuple[list[str], list[list[str]]]:
    with gzip.open(folder / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [r["text"] for r in records], [sorted(set(map(str, r["labels"]))) for r in records]


def _label_matrix(rows: list[list[str]], ids: dict[str, int]) -> sparse.csr_array:
    known = [[ids[label] for label in row if label in ids] for row in rows]
    indptr = np.cumsum([0, *map(len, known)])
    indices = np.fromiter((label for row in known for label in row), dtype=np.int32, count=indptr[-1])
    ones = np.ones(indices.size, dtype=np.float32)
    return sparse.csr_array((ones, indices, indptr.astype(np.int32)), shape=(len(rows), len(ids)))


def _without_hubs(parts: Parts) -> Parts:
    X, Y, X_test, Y_test = parts
    keep = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]) <= HUB_SHARE * Y.shape[0])
    Y, Y_test = Y[:, keep], Y_test[:, keep]
    test_rows = np.flatnonzero(np.diff(Y_test.indptr))
    return X, Y, X_test[test_rows], Y_test[test_rows]


def _first_rows(parts: Parts, n_train: int, n_test: int) -> Parts:
    return parts[0][:n_train], parts[1][:n_train], parts[2][:n_test], parts[3][:n_test]


def _store(folder: Path, parts: Parts) -> None:
    """Write the matrices; the file of sizes comes last and marks the folder as complete."""
    X, Y, X_test, Y_test = parts
    rows = np.flatnonzero((np.diff(X.indptr) > 0) & (np.diff(Y.indptr) > 0))
    if rows.size < X.shape[0]:
        X, Y = X[rows], Y[rows]
    labels = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    if labels.size < Y.shape[1]:
        Y, Y_test = Y[:, labels], Y_test[:, labels]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, matrix in zip(PARTS, (X, Y, X_test, Y_test), strict=True):
        matrix.sort_indices()
        sparse.save_npz(folder / f"{name}.npz", matrix.astype(np.float32), compressed=False)
    sizes = {
        "n_train": X.shape[0],
        "n_test": X_test.shape[0],
        "n_labels": Y.shape[1],
        "n_features": X.shape[1],
        "features_per_row": X.nnz / X.shape[0],
        "labels_per_row": Y.nnz / Y.shape[0],
    }
    (folder / "shape.json").write_text(json.dumps(sizes, indent=2) + "\n")


def _store_repository_file(folder: Path) -> None:
    from tagwood.data.formats.sparse_text import write_sparse_text

    X, Y = (sparse.csr_array(sparse.load_npz(folder / f"{part}.npz")) for part in ("X.trn", "Y.trn"))
    path = folder / "trn.part.txt"
    write_sparse_text(path, X, Y, f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}")
    path.rename(folder / "trn.txt")
