"""`Dataset`: rows with their labels, the value that readers return and training takes.

In: texts or features, label sets, names. Out: a frozen, validated value, its parts, its fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import as_list, check_float, check_int
from tagwood._lazy import sparse
from tagwood._sparse import check_features, check_labels, csr_parts
from tagwood.data.stored_texts import StoredTexts
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with label sets.

    Parameters
    ----------
    labels
        (n_rows, n_labels) label sets; anything `check_labels` takes, kept as a 0/1 float32 CSR array.
    vocab
        The label table with n_labels labels. Default: labels without names.
    texts
        One text per row, perhaps in a file (`StoredTexts`), or None.
    features
        (n_rows, n_features) sparse or dense matrix, kept as a float32 CSR array, or None.
    groups
        Name of the group of each row ("" for none), or None. Groups are for labels that are known per box, order or
        session rather than per row.
    ids
        Name of each row, or None.
    filter_pairs
        (n_rows, n_labels) matrix of pairs of row and label that count neither as true nor as returned, or None; see
        `Ranking.without`. They are not in `labels`.
    rejected
        (n_rows, n_labels) labels that are known to be wrong for each row, from corrections by people, or None.
    fields
        Names of the fields of the texts, one line each; see `tagwood.data.fields`. Default: none.

    Examples
    --------
    >>> data = Dataset([[0], [0, 1], []], LabelVocab.from_names(["ash", "oak"]), texts=["a", "b", "c"])
    >>> data.n_rows, data.n_labels, data.rows([1]).texts
    (3, 2, ['b'])
    """

    labels: sparse.csr_array
    vocab: LabelVocab = None  # type: ignore[assignment]  # filled in below
    texts: Sequence[str] | None = None
    features: sparse.csr_array | None = None
    groups: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    filter_pairs: sparse.csr_array | None = None
    rejected: sparse.csr_array | None = None
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        labels = check_labels(self.labels, name="labels")
        vocab = LabelVocab.numbered(labels.shape[1]) if self.vocab is None else self.vocab
        if isinstance(self.labels, list | tuple) and labels.shape[1] < len(vocab):
            labels.resize(labels.shape[0], len(vocab))
        if labels.shape[1] != len(vocab):
            raise InputError(
                f"labels must have one column for each of the {len(vocab):,} labels of the vocabulary",
                given=f"{labels.shape[1]:,}",
            )
        object.__setattr__(self, "labels", csr_parts(labels).to_scipy())
        object.__setattr__(self, "vocab", vocab)
        if self.rejected is not None:
            rejected = csr_parts(check_labels(self.rejected, name="rejected")).to_scipy()
            if rejected.shape != labels.shape:
                raise InputError(f"rejected must have the shape of labels, {labels.shape}", given=str(rejected.shape))
            object.__setattr__(self, "rejected", rejected)
        if self.features is not None:
            features = csr_parts(check_features(self.features, name="features")).to_scipy()
            object.__setattr__(self, "features", features)
            self._check_length("features", self.features.shape[0])
        if self.filter_pairs is not None:
            pairs = check_labels(self.filter_pairs, n_rows=labels.shape[0], name="filter_pairs")
            pairs.resize(labels.shape)
            object.__setattr__(self, "filter_pairs", csr_parts(pairs).to_scipy())
        object.__setattr__(self, "fields", tuple(_strings(self.fields, "fields")))
        for what in ("texts", "groups", "ids"):
            column = getattr(self, what)
            if column is not None:
                object.__setattr__(self, what, _strings(column, what))
                self._check_length(what, len(column))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.labels.shape[1])

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        parts = [what for what in ("texts", "features", "groups", "ids") if getattr(self, what) is not None]
        return f"Dataset({self.n_rows:,} rows, {self.n_labels:,} labels, {', '.join(parts) or 'labels only'})"

    def rows(self, index: ArrayLike) -> Dataset:
        """Return the rows of `index` (numbers or a mask), in that order, with the same labels and names."""
        wanted = np.asarray(index)
        try:
            chosen = np.arange(self.n_rows)[wanted if wanted.size else np.zeros(0, dtype=np.int64)]
        except IndexError as error:
            raise InputError(f"rows must be numbers below {self.n_rows:,} or a mask", given=str(error)) from error
        return replace(
            self,
            labels=self.labels[chosen],
            features=None if self.features is None else self.features[chosen],
            texts=_pick(self.texts, chosen),
            groups=_pick(self.groups, chosen),
            ids=_pick(self.ids, chosen),
            filter_pairs=None if self.filter_pairs is None else self.filter_pairs[chosen],
            rejected=None if self.rejected is None else self.rejected[chosen],
        )

    def split(self, fraction: float = 0.2, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Split the rows at random into the rest and `fraction` of them; both keep the row order."""
        check_float(fraction, "fraction", low=0.0, high=1.0)
        random = np.random.default_rng(check_int(seed, "seed", low=0))
        drawn = np.zeros(self.n_rows, dtype=np.bool_)
        drawn[random.permutation(self.n_rows)[: round(fraction * self.n_rows)]] = True
        return self.rows(~drawn), self.rows(drawn)

    def with_labels(self, labels: Any) -> Dataset:
        """Return the same rows with other label sets over the same vocabulary."""
        check_labels(labels, n_rows=self.n_rows, name="labels")
        return replace(self, labels=labels)

    def group_codes(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the group of each row as a number (-1 for none), and the group names in order of appearance."""
        if self.groups is None:
            return np.full(self.n_rows, -1, dtype=np.int64), []
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(group, len(numbers)) if group else -1 for group in self.groups]
        return np.array(codes, dtype=np.int64), list(numbers)

    def label_lists(self) -> list[list[int]]:
        """Return the label ids of each row."""
        flat, ends = self.labels.indices.tolist(), self.labels.indptr.tolist()
        return [flat[begin:end] for begin, end in pairwise(ends)]

    def fingerprint(self) -> str:
        """Return the SHA-256 of the whole content: texts, features, label sets, names, groups and ids."""
        digest = hashlib.sha256()
        _hash_matrix(digest, "labels", self.labels)
        if self.features is not None:
            _hash_matrix(digest, "features", self.features)
        if self.filter_pairs is not None:
            _hash_matrix(digest, "filter_pairs", self.filter_pairs)
        if self.rejected is not None:
            _hash_matrix(digest, "rejected", self.rejected)
        for what in ("texts", "groups", "ids"):
            _hash_strings(digest, what, getattr(self, what))
        _hash_strings(digest, "fields", self.fields or None)
        for name, array in self.vocab.to_arrays().items():
            digest.update(f"{name} {array.size} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _check_length(self, what: str, given: int) -> None:
        if given != self.n_rows:
            raise InputError(f"{what} must have one entry for each of the {self.n_rows:,} rows", given=f"{given:,}")


def _strings(column: Iterable[str], what: str) -> Sequence[str]:
    if isinstance(column, StoredTexts):
        return column
    if isinstance(column, str):
        raise InputError(f"{what} must be one string per row", given="a single string")
    strings = column if isinstance(column, list) else as_list(column, what)
    if not all(isinstance(string, str) for string in strings):
        bad = next(string for string in strings if not isinstance(string, str))
        raise InputError(f"{what} must be strings", given=f"{type(bad).__name__} {bad!r}"[:80])
    return strings


def _pick(column: Sequence[str] | None, rows: NDArray[np.int64]) -> Sequence[str] | None:
    if isinstance(column, StoredTexts):
        return column.pick(rows)
    return None if column is None else [column[row] for row in rows.tolist()]


def _hash_matrix(digest: Any, what: str, matrix: sparse.csr_array) -> None:
    parts = csr_parts(matrix)
    digest.update(f"{what} {parts.n_rows} {parts.n_cols} ".encode())
    for array in (parts.indptr, parts.indices, parts.data):
        digest.update(array.tobytes())


def _hash_strings(digest: Any, what: str, strings: Sequence[str] | None) -> None:
    if strings is None:
        return
    digest.update(f"{what} {len(strings)} ".encode())
    for string in strings:
        content = string.encode(errors="surrogatepass")
        digest.update(f"{len(content)} ".encode())
        digest.update(content)
