"""Label tables as files: TSV and CSV, plain or gzip; SKOS is read by `skos`.

In: a path. Out: a `LabelVocab`, or the other way round. Columns: `id` (row number, or an outside key), `uri`,
`name` or `label`, `label_xx` per language, `removed`. Without a header line: names, or key and name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from tagwood.data.files import BadLines, decoded_lines, open_for_writing
from tagwood.data.strings import StringTable
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

_KEY_COLUMNS = ("uri", "key", "identifier")
_NAME_COLUMNS = ("name", "label", "title", "prefLabel")
_KNOWN = {"id", "removed", "notation", *_KEY_COLUMNS, *_NAME_COLUMNS}
_TRUE = {"1", "true", "yes"}


def read_vocab(path: str | Path, language: str | None = None) -> LabelVocab:
    """Read a label table from a TSV, CSV or SKOS file.

    The first line of a table decides which of the two it is, and whether it names columns. SKOS is Turtle, N-Triples,
    RDF/XML or JSON-LD; see `tagwood.data.skos`.

    Parameters
    ----------
    path
        The file, plain or gzip.
    language
        Of the main names, where a file has several: a column ``label_xx``, or a language of SKOS.

    Raises
    ------
    DataError
        With file, line and reason if the table is damaged.
    """
    from tagwood.data.skos import rdf_format, read_skos

    path = Path(path)
    if rdf_format(path) is not None:
        return read_skos(path, language).vocab
    vocab = _read_table(path)
    return vocab if language is None else _with_main(vocab, language, path)


def _read_table(path: Path) -> LabelVocab:
    lines = decoded_lines(path, BadLines(skip=False))
    first = next(lines, None)
    if first is None:
        return LabelVocab.from_names([])
    tab = "\t" in first[1] or ".csv" not in path.suffixes
    rows = _rows(path, chain([first], lines), tab=tab)
    cells = [cell.strip() for cell in next(rows, (0, []))[1]]
    if any(cell in _KNOWN or cell.startswith("label_") for cell in cells):
        return _from_columns(path, cells, rows)
    return _from_bare_rows(
        path, _rows(path, decoded_lines(path, BadLines(skip=False)), tab=tab, quoted=not tab)
    )


def write_vocab(vocab: LabelVocab, path: str | Path) -> None:
    """Write a label table with a header line: CSV if the name says ``.csv``, else TSV; gzip for ``.gz``."""
    path = Path(path)
    columns: dict[str, StringTable | map[str]] = {"id": map(str, range(len(vocab)))}
    if vocab.uris is not None:
        columns["uri"] = vocab.uris
    if vocab.names is not None:
        columns["name"] = vocab.names
    columns |= {f"label_{code}": table for code, table in vocab.languages.items()}
    if vocab.removed is not None:
        columns["removed"] = map(str, vocab.removed.astype(int).tolist())
    with open_for_writing(path) as file:
        delimiter = "," if ".csv" in path.suffixes else "\t"
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def clean_uri(text: str) -> str:
    """Return a URI without the angle brackets around it.

    Examples
    --------
    >>> clean_uri("<http://example.org/1>")
    'http://example.org/1'
    """
    text = text.strip()
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def _rows(
    path: Path, lines: Iterator[tuple[int, str]], *, tab: bool, quoted: bool = True
) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        (line + "\n" for _, line in lines),
        delimiter="\t" if tab else ",",
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    )
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(str(error), path=path, line=reader.line_num) from error


def _from_columns(path: Path, header: list[str], rows: Iterator[tuple[int, list[str]]]) -> LabelVocab:
    if len(set(header)) < len(header):
        raise DataError("a column name stands twice in the header", path=path, line=1)
    table = []
    for number, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"the header has {len(header)} columns, this line {len(row)}", path=path, line=number
            )
        table.append(row)
    columns = {name: [row[place] for row in table] for place, name in enumerate(header)}
    size = len(table)
    keys = next((columns[name] for name in _KEY_COLUMNS if name in columns), None)
    ids = columns.get("id")
    if ids is not None and ids != list(map(str, range(size))):
        if keys is not None or "removed" in columns:
            raise DataError(
                "the column 'id' must count the rows from 0", path=path, hint="Ids are rows and never reused."
            )
        keys = ids
    names = next((columns[name] for name in _NAME_COLUMNS if name in columns), None)
    languages = {
        name.removeprefix("label_"): cells for name, cells in columns.items() if name.startswith("label_")
    }
    if names is None and languages:
        names = next(iter(languages.values()))
    if names is None:
        names = list(map(str, range(size))) if keys is None else keys
    return _make(path, names, keys=keys, languages=languages, removed=columns.get("removed"))


def _from_bare_rows(path: Path, rows: Iterator[tuple[int, list[str]]]) -> LabelVocab:
    table = list(rows)
    width = min((len(row) for _, row in table), default=0)
    if width < 2:
        bad = next((number for number, row in table if len(row) > 1), None)
        if bad is not None:
            raise DataError("some lines have a key and a name, others only one of them", path=path, line=bad)
        return _make(path, [row[0] for _, row in table])
    return _make(path, [row[1] for _, row in table], keys=[row[0] for _, row in table])


def _make(
    path: Path,
    names: list[str],
    *,
    keys: list[str] | None = None,
    languages: dict[str, list[str]] | None = None,
    removed: list[str] | None = None,
) -> LabelVocab:
    try:
        vocab = LabelVocab(
            len(names),
            StringTable.from_strings(names),
            None if keys is None else StringTable.from_strings(map(clean_uri, keys)),
            {code: StringTable.from_strings(cells) for code, cells in (languages or {}).items()},
            None
            if removed is None
            else np.array([cell.strip().lower() in _TRUE for cell in removed], dtype=bool),
        )
        vocab.keys()
    except InputError as error:
        raise DataError(str(error), path=path) from error
    return vocab


def _with_main(vocab: LabelVocab, language: str, path: Path) -> LabelVocab:
    """Return the table with the names of a language for main names, where there are any."""
    if language not in vocab.languages:
        known = ", ".join(vocab.languages) or "none"
        raise InputError(
            f"the language must be one that {path.name} has names in",
            given=repr(language),
            hint=f"It has {known}.",
        )
    names = StringTable.from_strings(vocab.name(label, language) for label in range(len(vocab)))
    return replace(vocab, names=names)
