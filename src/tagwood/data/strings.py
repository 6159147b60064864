"""`StringTable`: many strings as one block of bytes, so a million names are small and load memory-mapped.

In: strings. Out: the same strings by position, or the two arrays that storage keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.storage import pack_strings


@dataclass(frozen=True, eq=False)
class StringTable:
    """Strings by position: UTF-8 bytes in `blob`, string i at ``blob[offsets[i]:offsets[i + 1]]``.

    Examples
    --------
    >>> table = StringTable.from_strings(["ash", "", "Bäume"])
    >>> len(table), table[2], list(table), table.offsets
    (3, 'Bäume', ['ash', '', 'Bäume'], array([0, 3, 3, 9]))
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        blob, offsets = self.blob, self.offsets
        ok = blob.dtype == np.uint8 and offsets.dtype == np.int64 and blob.ndim == offsets.ndim == 1
        if (
            not ok
            or offsets.size < 1
            or offsets[0] != 0
            or offsets[-1] != blob.size
            or np.any(np.diff(offsets) < 0)
        ):
            raise InputError(
                "a string table needs uint8 bytes and int64 offsets that rise from 0 to their number"
            )

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> StringTable:
        """Pack strings; a lone surrogate, which UTF-8 cannot hold, raises `InputError`."""
        return cls(*pack_strings(strings))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, position: int) -> str:
        return (
            self.blob[self.offsets[position] : self.offsets[position + 1]].tobytes().decode(errors="replace")
        )

    def __iter__(self) -> Iterator[str]:
        data = self.blob.tobytes()
        begin = 0
        for end in self.offsets[1:].tolist():
            yield data[begin:end].decode(errors="replace")
            begin = end

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StringTable)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.blob, other.blob)
        )

    __hash__ = None  # type: ignore[assignment]

    def extend(self, strings: Iterable[str]) -> StringTable:
        """Return a table with `strings` behind the present ones."""
        more = StringTable.from_strings(strings)
        return StringTable(
            np.concatenate([self.blob, more.blob]),
            np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]]),
        )
