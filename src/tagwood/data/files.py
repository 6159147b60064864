"""Files: read plain or gzip, in blocks or numbered lines. `tagwood.storage.publish` writes them all or nothing.

In: a path. Out: bytes or lines; failures of disk, gzip or encoding are `DataError`s that name the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from tagwood.errors import DataError

T = TypeVar("T")
_BLOCK = 1 << 22
MAX_LINE = 1 << 26
_GZIP_MAGIC = b"\x1f\x8b"
ENCODING_HINT = "Name the encoding of the file, such as encoding='cp1252' (--encoding cp1252), or save it as UTF-8."


class BadLines:
    """The bad lines of a file: with `skip` they are counted and the first ten kept, otherwise the first is raised."""

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
    """Raise errors of disk and gzip as `DataError`."""
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


def read_blocks(path: Path, encoding: str = "utf-8") -> Iterator[bytes]:
    """Yield the content in blocks of a few megabytes; UTF-16 and UTF-32 are changed to UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)() if is_wide(encoding) else None
    with reading_errors(path), open_bytes(path) as file:
        while block := file.read(_BLOCK):
            yield block if decoder is None else _to_utf8(path, encoding, decoder, block)
        if decoder is not None:
            yield _to_utf8(path, encoding, decoder, b"", final=True)


def is_wide(encoding: str) -> bool:
    """Tell whether characters of an encoding have two or four bytes, so that lines cannot be found before decoding."""
    return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _to_utf8(
    path: Path, encoding: str, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False
) -> bytes:
    try:
        return decoder.decode(block, final).encode()
    except UnicodeError as error:
        raise DataError(f"is not {encoding} text", path=path, hint=ENCODING_HINT) from error


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, bytes]]:
    r"""Yield (line number from 1, line without its ending) of a file.

    Only ``\n`` and ``\r\n`` end a line. A line above 64 MiB is an error. Lines in UTF-16 and UTF-32 become UTF-8.
    """
    rest = b""
    number = 0
    for block in read_blocks(path, encoding):
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
    for numbered in numbered_lines(path, encoding):
        line = decoded_line(path, numbered, bad, encoding)
        if line is not None:
            yield numbered[0], line


def decoded_line(path: Path, numbered: tuple[int, bytes], bad: BadLines, encoding: str) -> str | None:
    """Return the text of a line of `numbered_lines`; None if it is not valid text, which is reported."""
    number, raw = numbered
    if number == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    # A mark belongs to the first line only, and wide encodings are UTF-8 already.
    codec = "utf-8" if encoding == "utf-8-sig" or is_wide(encoding) else encoding
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not {encoding} text"
        bad.report(DataError(problem, path=path, line=number, hint=ENCODING_HINT))
        return None


def parsed_lines(
    path: Path,
    parse: Callable[[str], T],
    bad: BadLines | None = None,
    encoding: str = "utf-8",
    *,
    blank_lines: bool = False,
) -> Iterator[tuple[int, T]]:
    """Yield (line number, parsed line); file and line are added to a `DataError` of `parse`.

    Default: the first bad line raises. Blank lines are skipped unless `blank_lines`.
    """
    bad = BadLines(skip=False) if bad is None else bad
    for number, line in decoded_lines(path, bad, encoding):
        if blank_lines or line.strip():
            try:
                value = parse(line)
            except DataError as error:
                bad.report(DataError(error.reason, path=path, line=number, hint=error.hint))
                continue
            yield number, value


def parse_json(line: str, hint: str | None = None) -> Any:
    """Return the JSON value of a line, or raise `DataError`."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({str(error)[:80]})", hint=hint) from error


@contextmanager
def open_for_writing(path: Path) -> Iterator[IO[str]]:
    """Open a text file for writing in UTF-8; gzip if the name ends in ``.gz``, without a time stamp."""
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


def split_folder(path: Path, split: str | None, marks: Mapping[str, str]) -> tuple[Path, str]:
    """Return the folder and the split (``"train"`` or ``"test"``) to read.

    `marks` maps parts of file names to splits. The name of a file decides the split; for a folder it is the given
    split, or else the training split if there is one.
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
    for found in (path, path.with_name(path.name + ".gz")):
        if found.exists():
            return found
    raise DataError(f"the file with {what} is missing", path=path)
