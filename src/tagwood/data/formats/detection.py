"""How a format is recognised by its content, and by names only where that cannot decide.

In: a path. Out: the name of a format. Work is linear in the size of the sample: lines are cut into words, and no
pattern repeats a repetition, so that no content can make detection slow.
"""

from __future__ import annotations

import re
import string
from pathlib import Path

from tagwood.data.encodings import decode_start
from tagwood.data.files import read_start, reading_errors
from tagwood.data.formats.documents import is_document
from tagwood.data.formats.spreadsheets import is_spreadsheet
from tagwood.data.formats.tables import sniff_table
from tagwood.data.records import BODY, TITLE, ReadOptions, pick
from tagwood.errors import DataError

TABLE_ENDINGS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"},
    ".xlsx": "xlsx",
}
_SAMPLE_LINES = 50
_SAMPLE_BYTES = 1 << 16
_SCHEME = frozenset(string.ascii_lowercase + string.digits + "+.-")


def detect_format(path: str | Path, options: ReadOptions | None = None) -> str:
    """Return the name of the format of a file or folder; `options` name columns, delimiter and encoding."""
    path, options = Path(path), options or ReadOptions()
    if path.is_dir():
        return _detect_folder(path, options)
    start = read_start(path, _SAMPLE_BYTES)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        return "xlsx" if is_spreadsheet(path) or ending(path) == ".xlsx" else "csr"
    if start.startswith(b"\x93NUMPY"):
        return "csr"
    if start.startswith(b"%PDF-"):
        return "txt-key"
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise DataError("is an old Excel file (.xls)", path=path, hint="Save it as .xlsx or CSV.")
    lines = _sample(start, options.encoding)
    if not lines:
        raise DataError("is empty", path=path, hint="The first line must name the columns, or hold a row.")
    found = _detect_text(path, lines, options)
    if found is None:
        first = repr(lines[0][:60])
        raise _undecided(path, f"its content fits no known format (first of {len(lines)} lines: {first})")
    return found


def ending(path: Path) -> str:
    """Return the ending of a file's name in lower case, without ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _detect_folder(path: Path, options: ReadOptions) -> str:
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
    documents = [Path(name).stem for name in names if is_document(Path(name))]
    labelled = any(stem + end in has for stem in documents for end in (".key", ".tsv"))
    if labelled or (
        documents and not options.need_labels and not any(ending(Path(name)) in TABLE_ENDINGS for name in has)
    ):
        return "txt-key"
    if "manifest.json" in has:
        raise DataError("this is a model folder, not a dataset", path=path, hint="Give the file with the data.")
    shown = ", ".join(names[:8]) or "no files"
    raise _undecided(path, f"the folder contains no known dataset ({shown}{', ...' if len(names) > 8 else ''})")


def _detect_text(path: Path, lines: list[str], options: ReadOptions) -> str | None:
    first, rest = lines[0], lines[1:]
    counts = first.split()
    if all(map(_is_number, counts)):
        if len(counts) == 3 and all(map(_is_sparse_row, rest[:5])):
            return "repository"
        if len(counts) == 2 and all(map(_is_pair_row, rest[:5])):
            return "sparse-files"
    if first.lstrip().startswith("{"):
        return "xc-json" if '"target_ind"' in first and options.label_column is None else "jsonl"
    if re.fullmatch(r"(train|test)_(texts|labels)\.txt", path.name.removesuffix(".gz")):
        return "attentionxml"
    if sum(line.startswith("__label__") for line in lines) * 2 > len(lines):
        return "fasttext"
    return _detect_table(path, lines, options)


def _detect_table(path: Path, lines: list[str], options: ReadOptions) -> str | None:
    first = lines[1] if lines[0].startswith("sep=") and len(lines) > 1 else lines[0]
    table = sniff_table(lines if first is lines[0] else lines[1:], options)
    if table is not None:
        cells = [cell.strip() for cell in table.header]
        has_text = (bool(options.text_columns) and not options.lenient) or pick(cells, BODY) or pick(cells, TITLE)
        if table.n_known > 1 and has_text and pick(cells, options.label_role):
            return "tsv" if table.delimiter == "\t" else "csv"
    filled = [line for line in lines if line.strip()]
    if all("\t" in line for line in filled):
        parts = [line.split("\t", 1) for line in filled]
        if all(not head.strip() or _is_ids(head.strip()) for head, _ in parts):
            return "pecos"
        if all(all(map(_is_uri, tail.split())) for _, tail in parts):
            return "annif-tsv"
    named = TABLE_ENDINGS.get(ending(path))
    return named if named in ("csv", "tsv") else None


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _is_ids(word: str) -> bool:
    return all(map(_is_number, word.split(",")))


def _is_pair(word: str) -> bool:
    head, _, value = word.partition(":")
    return bool(value) and _is_number(head)


def _is_sparse_row(line: str) -> bool:
    first, *pairs = line.split() or [""]
    return (not first or _is_ids(first) or _is_pair(first)) and all(map(_is_pair, pairs))


def _is_pair_row(line: str) -> bool:
    return all(map(_is_pair, line.split()))


def _is_uri(word: str) -> bool:
    if word.startswith("<") and word.endswith(">"):
        return len(word) > 2 and not {"<", ">"} & set(word[1:-1])
    scheme, _, rest = word.partition(":")
    return bool(rest) and scheme[:1] in string.ascii_lowercase and bool(scheme) and _SCHEME.issuperset(scheme)


def _sample(start: bytes, encoding: str | None) -> list[str]:
    """Return the first complete lines of a file's start."""
    lines = decode_start(start, encoding).split("\n")
    if len(lines) > 1 and (len(start) >= _SAMPLE_BYTES or not lines[-1]):
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines[:_SAMPLE_LINES]]
    return lines if any(line.strip() for line in lines) else []


def _undecided(path: Path, reason: str) -> DataError:
    return DataError(
        reason, path=path, hint="Name the format: format='...' in Python, --format or --from in the shell."
    )
