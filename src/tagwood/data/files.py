"""Files as bytes: plain or gzip, read in blocks or numbered lines, written through one door.

In: a path. Out: bytes, with every failure of disk, gzip or length as a `DataError` that names the file.
"""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tagwood.errors import DataError, InputError

# SECTION data.writing
# Write whole or not at all: into a temporary place beside the target, then rename.
#
# In: a target path. Out: a place to write to; it becomes the target if all goes well, and vanishes otherwise.


@contextmanager
def replace_path(path: Path, *, overwrite: bool, folder: bool, companions: Iterable[str]) -> Iterator[Path]:
    """Yield a place to write a file or folder that then becomes `path`.

    `companions` are names of files that may be written beside the file or inside the folder. Old ones that
    are not written again are removed, so that they cannot be taken for part of the new data; other files
    stay.
    """
    check_target(path, overwrite=overwrite, folder=folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tagwood-", dir=path.parent) as temporary:
        target = Path(temporary) / path.name
        yield target
        if folder and not path.exists():
            target.replace(path)
            return
        source, goal = (target, path) if folder else (target.parent, path.parent)
        written = {file.name for file in source.iterdir()}
        for name in set(companions) - written:
            (goal / name).unlink(missing_ok=True)
        for name in sorted(written, key=lambda name: name == path.name):  # the data file last
            (source / name).replace(goal / name)


def check_target(path: Path, *, overwrite: bool, folder: bool) -> None:
    """Raise `InputError` if `path` must not be written."""
    if not path.exists() or (folder and path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{path} exists already", hint="Allow to replace it with overwrite=True (--force).")
    if folder != path.is_dir():
        kinds = ("a folder", "a file") if folder else ("a file", "a folder")
        raise InputError(f"this format is written as {kinds[0]}, but {path} is {kinds[1]}")


# SECTION data.splits
# Folders that hold a training and a test split under fixed names.
#
# In: the folder or one of its files, and the split that is wanted. Out: the folder and the split.


def split_folder(path: Path, split: str | None, marks: Mapping[str, str]) -> tuple[Path, str]:
    """Return folder and split (``"train"`` or ``"test"``).

    `marks` says which split a piece of a file name means. A file decides the split by its name; a folder
    gives the wanted split, or else the training split if it has one.
    """
    if not path.is_dir():
        named = next((split for mark, split in marks.items() if mark in path.name), split or "train")
        return path.parent, named
    if split is not None:
        return path, split
    names = [file.name for file in path.iterdir()]
    found = [split for mark, split in marks.items() if any(mark in name for name in names)]
    return path, "train" if "train" in found or not found else found[0]


def existing(path: Path, what: str) -> Path:
    """Return `path`, or the same with ``.gz``, whichever exists; otherwise raise `DataError`."""
    packed = path.with_name(path.name + ".gz")
    if path.exists():
        return path
    if packed.exists():
        return packed
    raise DataError(f"the file with {what} is missing", path=path)


BLOCK = 1 << 22
MAX_LINE = 1 << 26
_GZIP_MAGIC = b"\x1f\x8b"


class BadLines:
    """What was wrong in a file: raises the first problem, or counts all and keeps the first ones.

    Parameters
    ----------
    skip
        False: the first bad line is raised as `DataError`. True: bad lines are left out and counted.

    Attributes
    ----------
    count
        Number of bad lines.
    first
        The first ten of them.

    Examples
    --------
    >>> bad = BadLines(skip=True)
    >>> bad.report(DataError("no tab", path="a.tsv", line=3))
    >>> bad.count, str(bad.first[0])
    (1, 'a.tsv, line 3: no tab.')
    """

    def __init__(self, *, skip: bool = True) -> None:
        self.skip = skip
        self.count = 0
        self.first: list[DataError] = []

    def report(self, error: DataError) -> None:
        """Raise `error`, or count it."""
        if not self.skip:
            raise error
        self.count += 1
        if len(self.first) < 10:
            self.first.append(error)


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn what disk and gzip raise into `DataError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=path) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the gzip data are damaged ({error})", path=path) from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path=path) from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; gzip is recognised by its first bytes, whatever the name."""
    with path.open("rb") as file:
        if file.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


def read_start(path: Path, size: int = 1 << 16) -> bytes:
    """Return the first `size` bytes of a file's content."""
    with reading_errors(path), open_bytes(path) as file:
        return file.read(size)


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the content in blocks of a few megabytes."""
    with reading_errors(path), open_bytes(path) as file:
        while block := file.read(BLOCK):
            yield block


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Yield (line number from 1, line without its ending) of a file.

    Only ``\n`` and ``\r\n`` end a line. A line above 64 MiB is an error: such a file holds no lines.
    """
    rest = b""
    number = 0
    for block in read_blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            yield number, line.removesuffix(b"\r")
        if len(rest) > MAX_LINE:
            raise DataError(f"a line may have at most {MAX_LINE:,} bytes", path=path, line=number + 1)
    if rest:
        yield number + 1, rest.removesuffix(b"\r")


def decoded_lines(path: Path, bad: BadLines, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield (line number, text) and report lines that are not valid text; a byte order mark is dropped."""
    for number, raw in numbered_lines(path):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            line = raw.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} is not {encoding} text"
            bad.report(DataError(problem, path=path, line=number, hint="Say which encoding the file has."))
            continue
        yield number, line


@contextmanager
def open_for_writing(path: Path) -> Iterator[IO[str]]:
    """Open a text file for writing in UTF-8; gzip if the name ends in ``.gz``, always the same bytes."""
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with (
                gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
            ):
                yield text
        else:
            with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as text:
                yield text
