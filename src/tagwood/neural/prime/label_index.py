"""`LabelIndex`: the nearest labels of vectors, exactly or nearly. In: label vectors, queries. Out: labels and scores.

The score is the inner product. Faiss does the work; what it builds from the vectors is made anew after loading, so that
a model folder holds numbers only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_finite, check_int, check_threads
from tagwood.errors import InputError, MissingExtraError
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("a label index", extra="neural") from error

KINDS = ("auto", "flat", "hnsw", "ivf")
FLAT_UP_TO = 200_000  # labels: a query is compared with all of them in some ten milliseconds
HNSW_UP_TO = 2_000_000  # more take too long to link
_LINKS = 32  # of a vector in HNSW
_WIDTH = 128  # candidates that HNSW keeps in a search, at least
_BUILD_WIDTH = 100
_MANY = 256  # labels that are left out by asking for more and dropping them


@storable("LabelIndex")
class LabelIndex:
    """Find the labels with the greatest inner product.

    Parameters
    ----------
    vectors
        (n_labels, d) float32.
    kind
        ``"flat"`` compares with every label and is exact. ``"hnsw"`` walks a graph of near labels, ``"ivf"`` looks into
        the nearest of √n_labels·4 cells: both miss a few and want vectors of norm 1. ``"auto"``: flat up to 200,000
        labels, HNSW up to two millions, IVF beyond.
    probes
        Share of the cells that IVF looks into: more find more and take longer.
    threads
        Default all cores.

    Examples
    --------
    >>> index = LabelIndex(np.eye(3), threads=1)
    >>> labels, scores = index.search([[0.6, 0.8, 0.0]], k=2)
    >>> labels.tolist(), [round(float(score), 2) for score in scores[0]]
    ([[1, 0]], [0.8, 0.6])
    >>> index.search([[0.6, 0.8, 0.0]], k=2, exclude=[1])[0].tolist()
    [[0, 2]]
    """

    def __init__(
        self, vectors: Any, kind: str = "auto", *, probes: float = 0.1, threads: int | None = None
    ) -> None:
        self.vectors = _matrix(vectors, "vectors")
        self.kind = check_choice(kind, "kind", KINDS)
        self.probes = probes
        self.threads = threads
        check_threads(threads)
        self._lock = threading.Lock()
        self._whole: Any = None
        self._part: tuple[bytes, NDArray[np.int64], Any] | None = None

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def used(self) -> str:
        """The kind of search that is used: ``"auto"`` resolved."""
        if self.kind != "auto":
            return self.kind
        return "flat" if len(self) <= FLAT_UP_TO else "hnsw" if len(self) <= HNSW_UP_TO else "ivf"

    def search(
        self,
        queries: Any,
        k: int,
        restrict: Iterable[int] | None = None,
        exclude: Iterable[int] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the best labels of each query and their scores, the best first, ties by label number.

        Parameters
        ----------
        queries
            (n, d) float32.
        k
            Labels per query; with fewer allowed labels, all of them.
        restrict, exclude
            Labels that alone may be returned; labels that must not. Small choices are searched exactly.

        Returns
        -------
        labels, scores
            (n, k) arrays. Where an approximate search finds fewer, the rest is -1 with score -inf.
        """
        asked = _matrix(queries, "queries", self.vectors.shape[1])
        check_int(k, "k", low=1)
        left_out = _ids(() if exclude is None else exclude, len(self), "exclude")
        if restrict is None and left_out.size <= _MANY:
            k = min(k, len(self) - left_out.size)
            found = self._search(self._index(), asked, k + left_out.size)
            return _without(*found, left_out, k)
        allowed = np.arange(len(self)) if restrict is None else _ids(restrict, len(self), "restrict")
        allowed = np.setdiff1d(allowed, left_out)
        k = min(k, allowed.size)
        if self.used != "flat" and allowed.size > FLAT_UP_TO // 4:
            found = self._search(self._index(), asked, k, allowed)
            return _without(*found, left_out[:0], k)
        labels, scores = self._search(self._part_index(allowed), asked, k)
        return _without(allowed[labels].astype(np.int32), scores, left_out[:0], k)

    def rank(
        self,
        queries: Any,
        k: int,
        restrict: Iterable[int] | None = None,
        exclude: Iterable[int] | None = None,
    ) -> Ranking:
        """Return the same as `search` as a `Ranking`."""
        labels, scores = self.search(queries, k, restrict, exclude)
        keep = labels >= 0
        indptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
        return Ranking(indptr, labels[keep], scores[keep], len(self))

    def add(self, vectors: Any) -> LabelIndex:
        """Return an index with further labels behind the present ones."""
        more = _matrix(vectors, "vectors", self.vectors.shape[1])
        both = np.concatenate([self.vectors, more])
        return LabelIndex(both, self.kind, probes=self.probes, threads=self.threads)

    def state(self) -> State:
        """Return the stored form: the vectors and how they are searched."""
        return State(
            "LabelIndex",
            params={"kind": self.kind, "probes": self.probes, "threads": self.threads},
            arrays={"vectors": self.vectors},
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the index; the search structure is built at the first search."""
        vectors = state.array("vectors", np.float32, (None, None))
        kind, probes = state.param("kind", str), state.param("probes", float)
        return cls(vectors, kind, probes=probes, threads=state.param("threads", int, type(None)))

    def _index(self) -> Any:
        with self._lock:  # the service asks from several threads
            if self._whole is None:
                with _faiss_threads(self.threads):
                    self._whole = _build(self.used, self.vectors, self.probes)
            return self._whole

    def _part_index(self, allowed: NDArray[np.int64]) -> Any:
        """Return an exact index of some labels; the last one is kept, since masks seldom change."""
        key = allowed.tobytes()
        with self._lock:
            if self._part is None or self._part[0] != key:
                self._part = (key, allowed, _build("flat", self.vectors[allowed], self.probes))
            return self._part[2]

    def _search(
        self, index: Any, queries: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if k == 0 or not len(queries):
            return np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        params = None if allowed is None else _selecting(index, allowed, k)
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efSearch = max(_WIDTH, 2 * k)
        with _faiss_threads(self.threads):
            scores, labels = index.search(queries, k, params=params)
        return labels.astype(np.int32), scores


def _build(kind: str, vectors: NDArray[np.float32], probes: float) -> Any:
    d = vectors.shape[1]
    index: Any
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(d, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_WIDTH
    elif kind == "ivf":
        cells = max(
            1, min(len(vectors) // 39, round(4 * len(vectors) ** 0.5))
        )  # Faiss wants 39 vectors per cell
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, cells, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = max(1, round(probes * cells))
        index.train(vectors)
    else:
        index = faiss.IndexFlatIP(d)
    index.add(vectors)
    return index


def _selecting(index: Any, allowed: NDArray[np.int64], k: int) -> Any:
    parts: Any = faiss
    selector = parts.IDSelectorBatch(allowed)
    if isinstance(index, faiss.IndexHNSW):
        return parts.SearchParametersHNSW(sel=selector, efSearch=max(_WIDTH, 2 * k))
    return parts.SearchParametersIVF(sel=selector, nprobe=index.nprobe)


def _without(
    labels: NDArray[np.int32], scores: NDArray[np.float32], left_out: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the best `k` of each row that are not left out, ties by label number."""
    drop = np.isin(labels, left_out) | (labels < 0)
    scores = np.where(drop, np.float32(-np.inf), scores)
    labels = np.where(drop, np.int32(-1), labels)
    order = np.lexsort((labels, -scores), axis=1)[:, :k]
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _ids(labels: Iterable[int], n_labels: int, name: str) -> NDArray[np.int64]:
    found = np.unique(np.fromiter(labels, dtype=np.int64))
    if found.size and (found[0] < 0 or found[-1] >= n_labels):
        raise InputError(
            f"{name} must hold labels from 0 to {n_labels - 1:,}", given=f"{found[[0, -1]].tolist()}"
        )
    return found


def _matrix(values: Any, name: str, d: int | None = None) -> NDArray[np.float32]:
    matrix = np.ascontiguousarray(values, dtype=np.float32)
    if matrix.ndim != 2 or (d is not None and matrix.shape[1] != d):
        wanted = "a matrix" if d is None else f"a matrix of {d} columns"
        raise InputError(f"{name} must be {wanted}", given=f"shape {matrix.shape}")
    check_finite(matrix, name)
    return matrix


@contextmanager
def _faiss_threads(threads: int | None) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(check_threads(threads))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
