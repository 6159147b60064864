"""`TokenRows`: the tokens of many texts, without padding. In: token ids of each text. Out: what encoder modules read.

Tokenise once, then `take` the rows of each batch; `chunks` are the rows sorted by length, so that hardly any padding
is needed where a network wants rectangles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

PADDING = 1.1  # cells of a rectangle per token in it, at most, where it has more than a few rows
_FEW = 8  # rows: smaller rectangles cost more in calls than in padding


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Tokens of texts: row i is ``ids[indptr[i]:indptr[i + 1]]``; an empty text has none.

    Parameters
    ----------
    ids
        (n_tokens,) int32.
    indptr
        (n_rows + 1,) int64.

    Examples
    --------
    >>> rows = TokenRows.of([[5, 6, 7], [], [8]])
    >>> rows.take([2, 0]).ids.tolist(), rows.lengths.tolist(), len(rows)
    ([8, 5, 6, 7], [3, 0, 1], 3)
    """

    ids: NDArray[np.int32]
    indptr: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Self:
        """Build from a list of token ids per text."""
        listed = [np.asarray(row, dtype=np.int32) for row in rows]
        indptr = np.zeros(len(listed) + 1, dtype=np.int64)
        np.cumsum([row.size for row in listed], out=indptr[1:])
        return cls(np.concatenate([*listed, np.empty(0, dtype=np.int32)]), indptr)

    def __len__(self) -> int:
        return int(self.indptr.size) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each row."""
        return np.diff(self.indptr)

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Self:
        """Return some rows, in the order given; a row may be asked for twice."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        indptr = np.zeros(chosen.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        return type(self)(self.ids[places], indptr)

    def join(self, other: TokenRows) -> TokenRows:
        """Return these rows, then those of `other`."""
        indptr = np.concatenate([self.indptr, other.indptr[1:] + self.indptr[-1]])
        return TokenRows(np.concatenate([self.ids, other.ids]), indptr)

    def chunks(self, max_tokens: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of rows that have tokens, in stretches of like length.

        A stretch holds at most `max_tokens` cells with padding (one row at least), and hardly any of them is padding.
        """
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        order = order[np.searchsorted(lengths[order], 1) :]
        sizes = lengths[order].tolist()
        begin, tokens = 0, 0
        for place, length in enumerate(sizes):
            rows, cells = place - begin, (place - begin + 1) * length
            if rows and (cells > max_tokens or (rows >= _FEW and cells > PADDING * (tokens + length))):
                yield order[begin:place]
                begin, tokens = place, 0
            tokens += length
        if begin < order.size:
            yield order[begin:]

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return (n, longest) ids of some rows and which of them are real, None where all are; padding has id 0."""
        part = self.take(rows)
        lengths = part.lengths
        longest = int(lengths.max(initial=0))
        if part.ids.size == lengths.size * longest:
            return part.ids.astype(np.int64).reshape(lengths.size, longest), None
        real = np.arange(longest) < lengths[:, None]
        cells = np.zeros(real.shape, dtype=np.int64)
        cells[real] = part.ids
        return cells, real
