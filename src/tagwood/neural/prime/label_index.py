"""`LabelIndex`: exact or approximate search for the nearest labels. In: label vectors, queries. Out: labels, scores.

The score is the inner product. Faiss does the search; its structures are not stored but rebuilt from the vectors at the
first search.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_finite, check_int, check_stored_finite, check_threads
from tagwood.errors import InputError, MissingExtraError
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("a label index", extra="neural") from error

KINDS = ("auto", "flat", "hnsw", "ivf")
FLAT_UP_TO = 200_000  # labels; comparing a query with all of them takes some ten milliseconds
HNSW_UP_TO = 2_000_000  # labels; building the graph of more takes too long
PROBES = 0.1  # share of the cells that IVF searches
_LINKS = 32  # links per vector in HNSW
_CANDIDATES = 128  # minimum number of candidates that HNSW keeps in a search
_BUILD_CANDIDATES = 100
_FEW = 256  # excluded labels up to which a search asks for that many more results and drops them


@storable("LabelIndex")
class LabelIndex:
    """Find the labels with the greatest inner product.

    Parameters
    ----------
    vectors
        (n_labels, d) float32.
    kind
        ``"flat"`` compares with every label and is exact. ``"hnsw"`` walks a graph of neighbours, ``"ivf"`` searches
        the nearest tenth of 4·√n_labels cells: both miss a few labels and need vectors of norm 1. ``"auto"``: flat up
        to 200,000 labels, HNSW up to two million, IVF beyond.
    threads
        Number of threads; default all cores.

    Examples
    --------
    >>> index = LabelIndex(np.eye(3), threads=1)
    >>> [(label, round(score, 2)) for label, score in index.rank([[0.6, 0.8, 0.0]], k=2)[0]]
    [(1, 0.8), (0, 0.6)]
    >>> index.rank([[0.6, 0.8, 0.0]], k=2, exclude=[1]).labels.tolist()
    [0, 2]
    """

    def __init__(self, vectors: Any, kind: str = "auto", *, threads: int | None = None) -> None:
        self.vectors = _matrix(vectors, "vectors")
        self.kind = check_choice(kind, "kind", KINDS)
        self.threads = threads
        check_threads(threads)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()  # the service searches from several threads
        self._whole: Any = None
        self._part: tuple[bytes, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("vectors", "kind", "threads")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def used(self) -> str:
        """The kind of search in use, with ``"auto"`` resolved."""
        if self.kind != "auto":
            return self.kind
        return "flat" if len(self) <= FLAT_UP_TO else "hnsw" if len(self) <= HNSW_UP_TO else "ivf"

    def rank(
        self,
        queries: Any,
        k: int,
        restrict: Iterable[int] | None = None,
        exclude: Iterable[int] | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each query, all of them if fewer are allowed; ties by label id.

        Only labels in `restrict`, and none in `exclude`, are returned. A small selection is searched exactly; an
        approximate search may find fewer labels.
        """
        vectors = _matrix(queries, "queries", self.vectors.shape[1])
        check_int(k, "k", low=1)
        left_out = _ids(() if exclude is None else exclude, len(self), "exclude")
        if restrict is None and left_out.size <= _FEW:
            k = min(k, len(self) - left_out.size)
            labels, scores = self._search(self._index(), vectors, k + left_out.size)
            return self._ranking(labels, scores, left_out, k)
        allowed = np.arange(len(self)) if restrict is None else _ids(restrict, len(self), "restrict")
        allowed = np.setdiff1d(allowed, left_out)
        k = min(k, allowed.size)
        if self.used != "flat" and allowed.size > FLAT_UP_TO // 4:
            labels, scores = self._search(self._index(), vectors, k, allowed)
        else:
            labels, scores = self._search(self._part_index(allowed), vectors, k)
            labels = allowed[labels].astype(np.int32)
        return self._ranking(labels, scores, left_out[:0], k)

    def add(self, vectors: Any) -> LabelIndex:
        """Return an index with more labels, numbered after the present ones."""
        more = _matrix(vectors, "vectors", self.vectors.shape[1])
        both = np.concatenate([self.vectors, more])
        return LabelIndex(both, self.kind, threads=self.threads)

    def state(self) -> State:
        """Return the stored form: the vectors and the kind of search."""
        params = {"kind": self.kind, "threads": self.threads}
        return State("LabelIndex", params=params, arrays={"vectors": self.vectors})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the index from its stored form."""
        vectors = state.array("vectors", np.float32, (None, None))
        check_stored_finite(vectors, "the prototypes of a stored index")
        return cls(vectors, state.param("kind", str), threads=state.param("threads", int, type(None)))

    def _index(self) -> Any:
        with self._lock:
            if self._whole is None:
                with _faiss_threads(self.threads):
                    self._whole = _build(self.used, self.vectors)
            return self._whole

    def _part_index(self, allowed: NDArray[np.int64]) -> Any:
        """Return an exact index of some labels; the last one is kept because selections seldom change."""
        key = allowed.tobytes()
        with self._lock:
            if self._part is None or self._part[0] != key:
                self._part = (key, _build("flat", self.vectors[allowed]))
            return self._part[1]

    def _search(
        self, index: Any, queries: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if k == 0 or not len(queries):
            return np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32)
        params = None if allowed is None else _search_params(index, allowed, k)
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efSearch = max(_CANDIDATES, 2 * k)
        with _faiss_threads(self.threads):
            scores, labels = index.search(queries, k, params=params)
        return labels.astype(np.int32), scores

    def _ranking(
        self, labels: NDArray[np.int32], scores: NDArray[np.float32], left_out: NDArray[np.int64], k: int
    ) -> Ranking:
        """Return the best `k` labels of each row that were found and are not left out, ties by label id."""
        drop = np.isin(labels, left_out) | (labels < 0)
        scores = np.where(drop, np.float32(-np.inf), scores)
        order = np.lexsort((labels, -scores), axis=1)[:, :k]
        labels, scores = np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)
        keep = np.isfinite(scores)
        indptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
        return Ranking(indptr, labels[keep], scores[keep], len(self))


def _build(kind: str, vectors: NDArray[np.float32]) -> Any:
    d = vectors.shape[1]
    index: Any
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(d, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_CANDIDATES
    elif kind == "ivf":
        # Faiss warns about fewer than 39 vectors per cell.
        cells = max(1, min(len(vectors) // 39, round(4 * len(vectors) ** 0.5)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, cells, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = max(1, round(PROBES * cells))
        index.train(vectors)
    else:
        index = faiss.IndexFlatIP(d)
    index.add(vectors)
    return index


def _search_params(index: Any, allowed: NDArray[np.int64], k: int) -> Any:
    parts: Any = faiss
    selector = parts.IDSelectorBatch(allowed)
    if isinstance(index, faiss.IndexHNSW):
        return parts.SearchParametersHNSW(sel=selector, efSearch=max(_CANDIDATES, 2 * k))
    return parts.SearchParametersIVF(sel=selector, nprobe=index.nprobe)


def _ids(labels: Iterable[int], n_labels: int, name: str) -> NDArray[np.int64]:
    found = np.unique(np.fromiter(labels, dtype=np.int64))
    if found.size and (found[0] < 0 or found[-1] >= n_labels):
        raise InputError(f"{name} must hold labels from 0 to {n_labels - 1:,}", given=f"{found[[0, -1]].tolist()}")
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
