"""Which format a file or folder has, by what is inside.

In: a path. Out: the name of a format, or a `DataError` that says what was looked at. The rules are tried in
order; names decide only where contents cannot.
"""

from __future__ import annotations

import re
from pathlib import Path

from tagwood.data.fields import BODY, LABELS, TITLE, pick
from tagwood.data.files import read_start, reading_errors
from tagwood.errors import DataError

_SAMPLE_LINES = 50
_THREE_COUNTS = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_TWO_COUNTS = re.compile(r"\s*\d+\s+\d+\s*")
_SPARSE_ROW = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S+)*\s*")
_PAIRS = re.compile(r"\s*(\d+:\S+\s*)*")
_PECOS_ROW = re.compile(r"\s*(\d+(,\d+)*)?\s*\t.*", re.DOTALL)
_URIS = re.compile(r"(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+)?(\s+(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+))*\s*")


def detect_format(path: str | Path) -> str:
    """Return the name of the format of a file or folder.

    Raises
    ------
    DataError
        If the contents fit no format; the message says what was found and how to name the format.
    """
    path = Path(path)
    if path.is_dir():
        return _detect_folder(path)
    start = read_start(path)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"PK\x03\x04", b"\x93NUMPY")):
        return "csr"
    lines = _sample(start)
    found = _detect_text(path, lines)
    if found is None:
        shown = repr(lines[0][:60]) if lines else "nothing"
        raise _undecided(
            path, f"its content fits no known format (the first of {len(lines)} lines read is {shown})"
        )
    return found


def _detect_folder(path: Path) -> str:
    with reading_errors(path):
        names = sorted(file.name.removesuffix(".gz") for file in path.iterdir())
    has = set(names)
    if any(re.fullmatch(r"[XY]\.(trn|tst)\.np[yz]", name) for name in names):
        return "csr"
    if has & {"trn_X_Y.txt", "tst_X_Y.txt"}:
        return "sparse-files"
    if {"train_texts.txt", "train_labels.txt"} <= has or {"test_texts.txt", "test_labels.txt"} <= has:
        return "attentionxml"
    if has & {"trn.json", "tst.json"}:
        return "xc-json"
    stems = {name.removesuffix(".txt") for name in names if name.endswith(".txt")}
    if any(stem + end in has for stem in stems for end in (".key", ".tsv")):
        return "txt-key"
    shown = ", ".join(names[:8]) or "no files"
    raise _undecided(
        path, f"the folder holds no dataset that is known ({shown}{', ...' if len(names) > 8 else ''})"
    )


def _detect_text(path: Path, lines: list[str]) -> str | None:
    if not lines:
        return None
    first, rest = lines[0], lines[1:]
    if _THREE_COUNTS.fullmatch(first) and all(map(_SPARSE_ROW.fullmatch, rest[:5])):
        return "repository"
    if _TWO_COUNTS.fullmatch(first) and all(map(_PAIRS.fullmatch, rest[:5])):
        return "sparse-files"
    if first.lstrip().startswith("{"):
        return "xc-json" if '"target_ind"' in first else "jsonl"
    name = path.name.removesuffix(".gz")
    if re.fullmatch(r"(train|test)_(texts|labels)\.txt", name):
        return "attentionxml"
    if sum(line.startswith("__label__") for line in lines) * 2 > len(lines):
        return "fasttext"
    return _detect_table(lines)


def _detect_table(lines: list[str]) -> str | None:
    filled = [line for line in lines if line.strip()]
    first = lines[0]
    for separator, name in (("\t", "tsv"), (",", "csv")):
        cells = [cell.strip().strip('"') for cell in first.split(separator)]
        if len(cells) > 1 and pick(cells, LABELS) and (pick(cells, BODY) or pick(cells, TITLE)):
            return name
    if not all("\t" in line for line in filled):
        return None
    if all(map(_PECOS_ROW.fullmatch, filled)):
        return "pecos"
    if all(_URIS.fullmatch(line.split("\t", 1)[1]) for line in filled):
        return "annif-tsv"
    return None


def _sample(start: bytes) -> list[str]:
    """Return the first complete lines of a file's start."""
    lines = start.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n")
    if len(lines) > 1 and (len(start) >= 1 << 16 or not lines[-1]):
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines[:_SAMPLE_LINES]]
    return lines if any(line.strip() for line in lines) else []


def _undecided(path: Path, reason: str) -> DataError:
    return DataError(
        reason, path=path, hint="Name the format: format='...' in Python, --format or --from in the shell."
    )
