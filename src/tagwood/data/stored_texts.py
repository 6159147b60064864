"""`StoredTexts`: texts in a file, for data larger than memory. In: texts one by one. Out: a sequence that reads them.

A reader that is given a `TextWriter` writes each text to the file as it reads it, and the `Dataset` has `StoredTexts`
in place of a list. Training such a dataset writes its features to files too, in the same `WorkFolder`.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tagwood.storage.publish import writing_errors

FILE = "texts.bin"
_BLOCK = 1024  # texts that are read at a time
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class WorkFolder:
    """A folder for files of a training, and the memory for what is read from them at a time.

    Parameters
    ----------
    path
        The folder; on a cluster, on storage that all machines share.
    max_bytes
        Bytes of features, or of counts, that are in memory at a time.
    """

    path: Path
    max_bytes: int


class TextWriter:
    """Appends texts to a file of a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._offsets = array("q", [0])
        self._hash = hashlib.sha256()
        with writing_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing_errors(self.path):
            self._file = self.path.open("wb")

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def append(self, text: str) -> None:
        """Write one more text."""
        content = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(content).to_bytes(8, "little"))
        self._hash.update(content)
        with writing_errors(self.path):
            self._file.write(content)
        self._offsets.append(self._offsets[-1] + len(content))

    def finish(self) -> StoredTexts:
        """Return the texts."""
        with writing_errors(self.path):
            self._file.close()
        return StoredTexts(self.path, np.frombuffer(self._offsets, dtype=np.int64), self._hash.hexdigest())


class StoredTexts(Sequence[str]):
    r"""Texts of a file; each is read when it is asked for.

    Parameters
    ----------
    path
        The file.
    offsets
        (n + 1,) where each text of the file begins and ends.
    content
        Hash of all texts of the file.
    rows
        Which texts of the file these are, rising; default all.
    work
        Where features of these texts are written; None encodes them in memory.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = TextWriter(Path(folder))
    ...     for text in ("oak", "", "élan"):
    ...         writer.append(text)
    ...     texts = writer.finish()
    ...     len(texts), texts[2], list(texts), list(texts.pick(np.array([0, 2]))), texts[1:]
    (3, 'élan', ['oak', '', 'élan'], ['oak', 'élan'], ['', 'élan'])
    """

    def __init__(
        self,
        path: Path,
        offsets: NDArray[np.int64],
        content: str,
        rows: NDArray[np.int64] | None = None,
        work: WorkFolder | None = None,
    ) -> None:
        self.path, self.offsets, self.content, self.rows, self.work = path, offsets, content, rows, work
        self._fd = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def __len__(self) -> int:
        return self.offsets.size - 1 if self.rows is None else self.rows.size

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: Any) -> Any:
        """Return one text, or a list for a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        row = place if self.rows is None else int(self.rows[place])
        begin, end = self.offsets[row : row + 2].tolist()
        return os.pread(self._fd, end - begin, begin).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        first = 0
        while first < len(self):
            last = min(first + _BLOCK, len(self))
            rows = np.arange(first, last) if self.rows is None else self.rows[first:last]
            begins, ends = self.offsets[rows], self.offsets[rows + 1]
            start = int(begins[0])
            n = max(1, int(np.searchsorted(ends, start + _BLOCK_BYTES, "right")))
            begins, ends = begins[:n] - start, ends[:n] - start
            if int(ends[-1]) > 2 * int((ends - begins).sum()):  # few texts, far apart
                yield from (self[place] for place in range(first, first + n))
            else:
                block = os.pread(self._fd, int(ends[-1]), start)
                for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                    yield block[begin:end].decode("utf-8", "surrogatepass")
            first += n

    @property
    def n_bytes(self) -> int:
        """Bytes of all texts."""
        if self.rows is None:
            return int(self.offsets[-1])
        return int((self.offsets[self.rows + 1] - self.offsets[self.rows]).sum())

    @property
    def fingerprint(self) -> str:
        """Hash of the texts."""
        rows = b"" if self.rows is None else hashlib.sha256(self.rows.tobytes()).digest()
        return hashlib.sha256(self.content.encode() + rows).hexdigest()

    def pick(self, rows: NDArray[np.int64]) -> StoredTexts | list[str]:
        """Return some texts: of the same file if the rows rise, otherwise a list."""
        if rows.size and not np.all(np.diff(rows) > 0):
            return [self[row] for row in rows.tolist()]
        chosen = rows.astype(np.int64) if self.rows is None else self.rows[rows]
        return StoredTexts(self.path, self.offsets, self.content, chosen, self.work)

    def with_work(self, work: WorkFolder | None) -> StoredTexts:
        """Return the same texts with another place for their features."""
        return StoredTexts(self.path, self.offsets, self.content, self.rows, work)
