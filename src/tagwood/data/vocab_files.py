"""Label tables as files: TSV, CSV and SKOS, plain or gzip.

In: a path. Out: a `LabelVocab`, and TSV or CSV back. Columns of a table are `id` (row number, or an external key),
`uri`, `name` or `label`, `label_xx` per language, alternative names (`alt` or `alt_xx`, with ``|`` between them),
`notation`, `removed`; without a header line, names, or keys and names.

SKOS is Turtle, N-Triples, RDF/XML or JSON-LD and needs the extra ``skos``. It is read as a `Thesaurus`: a `LabelVocab`
with a row per concept in the order of the file, and broader concepts and texts, which the table has no column for.

Decisions. A concept is a subject of type skos:Concept; in a file without that type, a subject with a preferred label.
Concepts without a URI (blank nodes) are left out. ``owl:deprecated true`` or ``skos:deprecated true`` marks a
concept as removed. The first
preferred label per language counts. Alternative labels of all languages and the notation are alternative names.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tagwood.data.files import (
    BadLines,
    decoded_lines,
    open_bytes,
    open_for_writing,
    read_start,
    reading_errors,
)
from tagwood.data.vocab import DETAILS, LabelVocab, StringTable, pack_names
from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.storage.publish import replace_path

_KEY_COLUMNS = ("uri", "key", "identifier")
_NAME_COLUMNS = ("name", "label", "title", "prefLabel")
_BETWEEN = "|"  # between alternative names
_KNOWN = {"id", "removed", "alt", *DETAILS, *_KEY_COLUMNS, *_NAME_COLUMNS}
_TRUE = {"1", "true", "yes"}
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_DEPRECATED = ("http://www.w3.org/2002/07/owl#deprecated", _SKOS + "deprecated")
_REPLACED = "http://purl.org/dc/terms/isReplacedBy"
_ENDINGS = {
    ".ttl": "TURTLE",
    ".turtle": "TURTLE",
    ".nt": "N_TRIPLES",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
    ".xml": "RDF_XML",
    ".jsonld": "JSON_LD",
}
_TURTLE_STARTS = (b"@prefix", b"@base", b"prefix ", b"base <")
_WANTED = {_TYPE, *_DEPRECATED, _REPLACED} | {
    _SKOS + name for name in ("prefLabel", "altLabel", "notation", "broader", "definition", "scopeNote")
}


def read_vocab(path: str | Path, language: str | None = None) -> LabelVocab:
    """Read a label table from a TSV, CSV or SKOS file, plain or gzip; a damaged one raises `DataError`.

    The first line of a table decides between TSV and CSV, and whether it has a header. `language` is that of the main
    names, where a file has several: a column ``label_xx``, or a language of SKOS.
    """
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
    if any(cell in _KNOWN or cell.startswith(("label_", "alt_")) for cell in cells):
        return _from_columns(path, cells, rows)
    return _from_bare_rows(path, _rows(path, decoded_lines(path, BadLines(skip=False)), tab=tab, quoted=not tab))


def write_vocab(vocab: LabelVocab, path: str | Path) -> None:
    """Write a label table with a header line: CSV if the name contains ``.csv``, else TSV; gzip for ``.gz``."""
    path = Path(path)
    columns: dict[str, Iterable[str]] = {"id": map(str, range(len(vocab)))}
    if vocab.uris is not None:
        columns["uri"] = vocab.uris
    if vocab.names is not None:
        columns["name"] = vocab.names
    columns |= {f"label_{code}": table for code, table in vocab.languages.items()}
    if vocab.alternatives is not None:
        columns["alt"] = (cell.replace("\n", _BETWEEN) for cell in vocab.alternatives)
    columns |= {what: (cell.replace("\n", _BETWEEN) for cell in found) for what, found in vocab.details.items()}
    if vocab.removed is not None:
        columns["removed"] = map(str, vocab.removed.astype(int).tolist())
    with replace_path(path, overwrite=True) as place, open_for_writing(place) as file:
        delimiter = "," if ".csv" in path.suffixes else "\t"
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def clean_uri(text: str) -> str:
    """Return a URI without the angle brackets around it."""
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
        raise DataError("the header has the same column twice", path=path, line=1)
    table = []
    for number, row in rows:
        if len(row) != len(header):
            raise DataError(f"the header has {len(header)} columns, this line {len(row)}", path=path, line=number)
        table.append(row)
    columns = {name: [row[place] for row in table] for place, name in enumerate(header)}
    size = len(table)
    keys = next((columns[name] for name in _KEY_COLUMNS if name in columns), None)
    ids = columns.get("id")
    if ids is not None and ids != list(map(str, range(size))):
        if keys is not None or "removed" in columns:
            raise DataError("the column 'id' must count the rows from 0", path=path, hint="An id is a row number.")
        keys = ids
    names = next((columns[name] for name in _NAME_COLUMNS if name in columns), None)
    languages = {name.removeprefix("label_"): cells for name, cells in columns.items() if name.startswith("label_")}
    if names is None and languages:
        names = next(iter(languages.values()))
    if names is None:
        names = list(map(str, range(size))) if keys is None else keys
    others = [cells for name, cells in columns.items() if name in ("alt", "notation") or name.startswith("alt_")]
    alternatives = (
        [[name for cell in row for name in cell.split(_BETWEEN)] for row in zip(*others, strict=True)]
        if others
        else None
    )
    removed = columns.get("removed")
    made = _make(path, names, keys=keys, languages=languages, removed=removed, alternatives=alternatives)
    details = {what: pack_names(cell.split(_BETWEEN) for cell in columns[what]) for what in DETAILS if what in columns}
    return replace(made, details=details)


def _from_bare_rows(path: Path, rows: Iterator[tuple[int, list[str]]]) -> LabelVocab:
    table = list(rows)
    width = min((len(row) for _, row in table), default=0)
    if width < 2:
        bad = next((number for number, row in table if len(row) > 1), None)
        if bad is not None:
            raise DataError("this line has a key and a name, others have only one cell", path=path, line=bad)
        return _make(path, [row[0] for _, row in table])
    return _make(path, [row[1] for _, row in table], keys=[row[0] for _, row in table])


def _make(
    path: Path,
    names: list[str],
    *,
    keys: list[str] | None = None,
    languages: dict[str, list[str]] | None = None,
    removed: list[str] | None = None,
    alternatives: list[list[str]] | None = None,
) -> LabelVocab:
    try:
        vocab = LabelVocab(
            len(names),
            StringTable.from_strings(names),
            None if keys is None else StringTable.from_strings(map(clean_uri, keys)),
            {code: StringTable.from_strings(cells) for code, cells in (languages or {}).items()},
            None if removed is None else np.array([cell.strip().lower() in _TRUE for cell in removed], dtype=bool),
            None if alternatives is None else pack_names(alternatives),
        )
        vocab.keys()
    except InputError as error:
        raise DataError(str(error), path=path) from error
    return vocab


def _with_main(vocab: LabelVocab, language: str, path: Path) -> LabelVocab:
    """Return the table with the names in `language` as main names, where there are any."""
    _check_language(language, vocab.languages, path)
    names = StringTable.from_strings(vocab.name(label, language) for label in range(len(vocab)))
    return replace(vocab, names=names)


@dataclass(frozen=True, eq=False)
class Thesaurus:
    """A SKOS vocabulary."""

    vocab: LabelVocab  # URIs, main names, names by language, deprecated concepts as removed
    language: str  # language of the main names; "" if they have none
    notations: list[str]  # notation (class mark, code) of each concept, "" where there is none
    broader: list[list[int]]  # ids of the broader concepts of each concept, those that are in the file
    texts: list[str]  # name, alternative names and definition of each concept in `language`


def _check_language(language: str, known: Collection[str], path: Path) -> None:
    if language not in known:
        raise InputError(
            f"language must be a language of the names in {path.name}",
            given=repr(language),
            hint=f"It has {', '.join(sorted(filter(None, known))) or 'none'}.",
        )


def rdf_format(path: Path) -> str | None:
    """Return the RDF format of a file by its name or its first bytes; None if it is not RDF."""
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if ending in (".tsv", ".csv"):
        return None
    start = read_start(path, 4096).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<?xml", b"<rdf:rdf")):
        return "RDF_XML"
    return "TURTLE" if start.startswith(_TURTLE_STARTS) else None


def read_skos(path: str | Path, language: str | None = None) -> Thesaurus:
    """Read a file in Turtle, N-Triples, RDF/XML or JSON-LD, recognised by its ending or its first bytes.

    `language` is that of the main names; concepts without a name in it have one in another language. Default: the
    language of most concepts, English in a tie. Invalid RDF and a file without concepts raise `DataError`.
    """
    path = Path(path)
    concepts = _concepts(path)
    if not concepts:
        raise DataError(
            "contains no SKOS concepts",
            path=path,
            hint="Concepts have a skos:prefLabel and the type skos:Concept.",
        )
    counts = Counter(code for concept in concepts.values() for code in concept.names)
    if language is None:
        language = max(counts, key=lambda code: (counts[code], code == "en"), default="")
    else:
        _check_language(language, counts, path)
    return _thesaurus(concepts, language, [code for code in counts if code])


@dataclass
class _Concept:
    """The statements of a file about one subject."""

    names: dict[str, str] = field(default_factory=dict)
    others: list[tuple[str, str]] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    notation: str = ""
    broader: list[str] = field(default_factory=list)
    replaced_by: list[str] = field(default_factory=list)
    deprecated: bool = False
    is_concept: bool = False


def _concepts(path: Path) -> dict[str, _Concept]:
    found: dict[str, _Concept] = {}
    typed = False
    for subject, predicate, value in _statements(path):
        concept = found.get(subject)
        if concept is None:
            concept = found[subject] = _Concept()
        text: str = value.value
        if predicate == _TYPE:
            concept.is_concept = concept.is_concept or text == _SKOS + "Concept"
            typed = typed or concept.is_concept
        elif predicate in _DEPRECATED:
            concept.deprecated = concept.deprecated or text.lower() in ("true", "1")
        elif predicate == _REPLACED:
            concept.replaced_by.append(text)
        else:
            _add(concept, predicate.removeprefix(_SKOS), text, getattr(value, "language", None) or "")
    return {uri: c for uri, c in found.items() if (c.is_concept if typed else c.names)}


def _add(concept: _Concept, what: str, text: str, language: str) -> None:
    text = " ".join(text.split())
    if not text:
        return
    if what == "prefLabel":
        concept.names.setdefault(language, text)
    elif what == "altLabel":
        concept.others.append((language, text))
    elif what == "notation":
        concept.notation = concept.notation or text
    elif what == "broader":
        concept.broader.append(text)
    else:
        concept.definitions.setdefault(language, text)


def _statements(path: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield (subject, predicate, object) for the wanted predicates; blank nodes are left out."""
    try:
        import pyoxigraph as rdf
    except ImportError as error:
        raise MissingExtraError("reading SKOS", extra="skos") from error
    kind = getattr(rdf.RdfFormat, rdf_format(path) or "TURTLE")
    with reading_errors(path), open_bytes(path) as file:
        try:
            # Relative names need a base; it is never shown.
            for statement in rdf.parse(file, format=kind, base_iri="urn:tagwood:base/"):
                predicate = statement.predicate.value
                ends = statement.subject, statement.object
                if predicate in _WANTED and rdf.BlankNode not in map(type, ends):
                    yield ends[0].value, predicate, ends[1]
        except (SyntaxError, ValueError) as error:
            reason = " ".join(str(getattr(error, "msg", None) or error).split())
            raise DataError(
                f"is not valid RDF ({reason[:120]})", path=path, line=getattr(error, "lineno", None)
            ) from error


def _details(concepts: list[_Concept]) -> dict[str, StringTable]:
    """Return notation, broader concepts and replacements, as far as some concept has them."""
    columns = {
        "notation": [[c.notation] if c.notation else [] for c in concepts],
        "broader": [c.broader for c in concepts],
        "replaced_by": [c.replaced_by for c in concepts],
    }
    return {what: pack_names(cells) for what, cells in columns.items() if any(cells)}


def _thesaurus(concepts: dict[str, _Concept], main: str, codes: list[str]) -> Thesaurus:
    uris = list(concepts)
    ids = {uri: number for number, uri in enumerate(uris)}
    found = list(concepts.values())
    order = list(dict.fromkeys([main, "", "en", *codes]))
    names = [next((c.names[code] for code in order if code in c.names), "") for c in found]
    others = [[*(text for _, text in c.others), c.notation] if c.others or c.notation else [] for c in found]
    removed = np.array([c.deprecated for c in found], dtype=np.bool_)
    vocab = LabelVocab(
        len(uris),
        StringTable.from_strings(names),
        StringTable.from_strings(uris),
        {code: StringTable.from_strings(c.names.get(code, "") for c in found) for code in codes},
        removed if removed.any() else None,
        pack_names(others) if any(others) else None,
        details=_details(found),
    )
    return Thesaurus(
        vocab,
        main,
        [c.notation for c in found],
        [[ids[uri] for uri in c.broader if uri in ids] for c in found],
        [_describe(name, c, main) for name, c in zip(names, found, strict=True)],
    )


def _describe(name: str, concept: _Concept, language: str) -> str:
    others = (text for code, text in concept.others if code in (language, ""))
    definitions = (concept.definitions[code] for code in (language, "") if code in concept.definitions)
    return "; ".join(dict.fromkeys(text for text in chain([name], others, definitions) if text))
