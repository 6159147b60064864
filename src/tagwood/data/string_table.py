"""`StringTable`: many strings as one block of bytes. A million names are small and load memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagwood.storage.state import check_packed, pack_strings

BETWEEN_NAMES = "\n"


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
        check_packed(self.blob, self.offsets)

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> StringTable:
        """Pack strings; a lone surrogate, which UTF-8 cannot encode, raises `InputError`."""
        return cls(*pack_strings(strings))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, position: int) -> str:
        begin, end = self.offsets[position], self.offsets[position + 1]
        return self.blob[begin:end].tobytes().decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        data = self.blob.tobytes()
        begin = 0
        for end in self.offsets[1:].tolist():
            yield data[begin:end].decode(errors="replace")
            begin = end

    def begins_with(self, other: StringTable) -> bool:
        """Whether the first strings are those of another table."""
        size, end = len(other), int(other.offsets[-1])
        return np.array_equal(self.offsets[: size + 1], other.offsets) and np.array_equal(self.blob[:end], other.blob)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StringTable)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.blob, other.blob)
        )

    __hash__ = None  # type: ignore[assignment]

    def extend(self, strings: Iterable[str]) -> StringTable:
        """Return a table with `strings` appended."""
        more = StringTable.from_strings(strings)
        return StringTable(
            np.concatenate([self.blob, more.blob]),
            np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]]),
        )


def pack_names(names: Iterable[Iterable[str]]) -> StringTable:
    """Return a table with several names per entry, separated by line breaks; white space becomes single spaces."""
    return StringTable.from_strings(
        BETWEEN_NAMES.join(dict.fromkeys(" ".join(name.split()) for name in some if name.strip())) for some in names
    )
