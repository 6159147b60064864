"""Sets of the EAGLE experiments. In: names of folders in ../shared/data. Out: training and test rows, groups."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from scipy import sparse

from benchmarks.problems import read_splits
from tagwood import demo as pydocs
from tagwood._sparse import normalize_rows
from tagwood.features import TfidfEncoder
from tagwood.metrics import evaluate
from tagwood.models.linear_tree import LinearTree

METRICS = ("P@1", "P@3", "P@5")
THREADS = 1
_CODE = re.compile(
    r"`+~?([A-Za-z_][\w.]*)(?:\(\))?`+"  # `name`
    r"|\b([A-Za-z_][\w.]*)\(\)"  # name()
    r"|\b([A-Za-z_]\w*(?:\.\w+)+)"  # package.name
    r"|\b(\w+_\w+)\b"  # some_name
)
_LEAST_ROWS = 3


class Problem:
    """Rows with labels; labels that no training row has, and test rows left without labels, are left out."""

    def __init__(self, X, Y, X_test, Y_test) -> None:  # type: ignore[no-untyped-def]
        self.X, self.Y = X, sparse.csr_array(Y)
        known = np.flatnonzero(np.diff(sparse.csc_array(self.Y).indptr))
        Y_test = sparse.csr_array(sparse.csr_array(Y_test) @ _keep_columns(known, Y_test.shape[1]))
        rows = np.flatnonzero(np.diff(Y_test.indptr))
        self.X_test, self.Y_test = X_test[rows], Y_test[rows]

    def fit(self, labels: sparse.csr_array, weights: sparse.csr_array | None = None) -> LinearTree:
        """Train the model that learns from imputed labels."""
        return LinearTree(threads=THREADS).fit(self.X, labels, sample_weight=weights)

    def score(self, model: LinearTree) -> dict[str, float]:
        """Return P@1/3/5 on the rows to measure, in percent."""
        report = evaluate(self.Y_test, model.rank(self.X_test, k=5), metrics=METRICS)
        return {metric: round(100 * report[metric], 2) for metric in METRICS}

    def right(self, labels: sparse.csr_array) -> float:
        """Return the share of assignments that the hidden labels confirm, in percent."""
        return round(100 * float(labels.multiply(self.Y).sum()) / max(1, labels.nnz), 2)

    def without_common(self, share: float) -> Problem:
        """Return the same without features that stand on more than a share of the rows."""
        counts = np.bincount(self.X.indices, minlength=self.X.shape[1])
        kept = np.flatnonzero(counts <= share * self.X.shape[0])
        X, X_test = (normalize_rows(sparse.csr_array(m[:, kept])) for m in (self.X, self.X_test))
        return Problem(X, self.Y, X_test, self.Y_test)

    def mean_cosine(self) -> float:
        """Return the mean cosine of two rows: how much all rows have in common."""
        return float(np.square(normalize_rows(self.X).mean(axis=0)).sum())


@lru_cache(maxsize=2)
def load(name: str, n_rows: int) -> Problem:
    """Read a set: `n_rows` training rows drawn at random, and its test rows."""
    train, test = read_splits(name)
    train = train.rows(np.random.default_rng(0).permutation(train.n_rows)[:n_rows])
    if train.texts is None:
        X, X_test = normalize_rows(train.features), normalize_rows(test.features)
    else:
        encoder = TfidfEncoder(ngrams=(1, 1), threads=THREADS)
        X, X_test = encoder.fit_transform(train.texts), encoder.transform(test.texts)
    return Problem(X, train.labels, X_test, test.labels)


@lru_cache(maxsize=1)
def docstrings() -> tuple[Problem, list[str], list[str]]:
    """Return the docstring corpus, and for each training passage its docstring and its page (class or module)."""
    train, test = pydocs.build(pydocs.CORE_PACKAGES)
    encoder = TfidfEncoder(ngrams=(1, 1), threads=THREADS)
    problem = Problem(encoder.fit_transform(train.texts), train.labels, encoder.transform(test.texts), test.labels)
    names = list(train.groups or ())
    return problem, names, [name.rpartition(".")[0] or name for name in names]


def groups_of(names: list[str]) -> sparse.csr_array:
    """Return the membership matrix of named groups."""
    codes = np.unique(names, return_inverse=True)[1]
    return sparse.csr_array(
        (np.ones(codes.size, dtype=np.float32), codes, np.arange(codes.size + 1)),
        shape=(codes.size, int(codes.max()) + 1),
    )


def _keep_columns(columns: np.ndarray, n_columns: int) -> sparse.csr_array:
    ones = np.zeros(n_columns, dtype=np.float32)
    ones[columns] = 1.0
    return sparse.csr_array(sparse.diags_array(ones))


@lru_cache(maxsize=2)
def mentions() -> tuple[Problem, sparse.csr_array]:
    """Return passages labelled with the known objects they name, and the docstring of each training passage.

    A label is the last part of a public name (``linspace``) where a passage writes it as code; it is masked there. A
    docstring has the labels of all its passages; about a tenth of them apply to any one passage. Every fifth docstring
    is a test docstring.
    """
    train, test = pydocs.build(pydocs.CORE_PACKAGES)
    texts = [*(train.texts or ()), *(test.texts or ())]
    groups = [*(train.groups or ()), *(test.groups or ())]
    known = {train.vocab.name(label).rpartition(".")[2] for label in range(train.n_labels)}
    found = [_named(text, known) for text in texts]
    counts = Counter(name for names in found for name in names)
    found = [{name for name in names if counts[name] >= _LEAST_ROWS} for names in found]
    sizes, named = Counter(groups), {group for group, names in zip(groups, found, strict=True) if names}
    rows = [row for row, group in enumerate(groups) if sizes[group] > 1 and group in named]
    part = [blake2b(groups[row].encode()).digest()[0] % 5 for row in rows]
    learned = [row for row, number in zip(rows, part, strict=True) if number]
    measured = [row for row, number in zip(rows, part, strict=True) if not number and found[row]]
    ids = {name: label for label, name in enumerate(sorted(set().union(*(found[row] for row in rows))))}
    encoder = TfidfEncoder(ngrams=(1, 1), threads=THREADS)
    problem = Problem(
        encoder.fit_transform([_masked(texts[row], found[row]) for row in learned]),
        _labels([found[row] for row in learned], ids),
        encoder.transform([_masked(texts[row], found[row]) for row in measured]),
        _labels([found[row] for row in measured], ids),
    )
    return problem, groups_of([groups[row] for row in learned])


def _named(text: str, known: set[str]) -> set[str]:
    words = (next(filter(None, match.groups())) for match in _CODE.finditer(text))
    return {last for word in words if len(last := word.rstrip(".").rpartition(".")[2]) > 2 and last in known}


def _masked(text: str, names: set[str]) -> str:
    return re.sub(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b", " ", text) if names else text


def _labels(names: list[set[str]], ids: dict[str, int]) -> sparse.csr_array:
    lists = [sorted(ids[name] for name in row) for row in names]
    indptr = np.cumsum([0, *map(len, lists)])
    columns = np.concatenate([np.array(row, dtype=np.int32) for row in lists])
    return sparse.csr_array((np.ones(columns.size, dtype=np.float32), columns, indptr), shape=(len(lists), len(ids)))
