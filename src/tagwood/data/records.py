"""From records to a `Dataset`: what the readers of text formats share.

In: `Record`s, one per row, with label names or ids as in the file. Out: a `Dataset`. The names of columns and fields
that contain titles, texts, labels, ids and groups in the files of other tools are listed here; case does not matter.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.data.dataset import Dataset
from tagwood.data.encodings import Encoding, detect_encoding
from tagwood.data.fields import join_fields
from tagwood.data.files import BadLines, decoded_lines, parsed_lines
from tagwood.data.label_ids import is_dense
from tagwood.data.report import FileReport, ReadReport, shown
from tagwood.data.stored_texts import TextWriter
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

TITLE = ("title", "heading", "headline")
BODY = ("text", "content", "body", "abstract", "description", "document", "question", "query")
LABELS = (
    *("labels", "label", "subject_uris", "subjects", "subject", "tags", "tag"),
    *("keywords", "categories", "topics", "concepts", "target_ind"),
)
ID = ("id", "uid", "doc_id", "document_id", "docid")
GROUP = ("group", "group_id", "groups", "bag")
ROLES = (*TITLE, *BODY, *LABELS, *ID, *GROUP)
_MAX_LABELS = 2**31 - 2
_MAX_ID = 2**63 - 1
# Ids up to here, or up to ten times the number of labels, are rows of a label table; above, only ids in use are.
_MAX_WIDTH = 1 << 24  # columns that a small file may declare


def pick(names: Iterable[str], role: tuple[str, ...]) -> str | None:
    """Return the first of `names` in `role`, in the order of `role`."""
    lower = {name.lower().strip(): name for name in names}
    return next((lower[name] for name in role if name in lower), None)


def join_text(content: Mapping[str, Any], chosen: Sequence[str] = ()) -> str | None:
    """Return title and body of a row, or the chosen fields, joined by line breaks; None if it has none of them.

    Each of the chosen fields is one line, which is empty where the row does not have the field; see `fields`.
    """
    if chosen:
        names = [pick(content, (_plain(name),)) for name in chosen]
        values = ["" if name is None else _field_text(name, content[name]) for name in names]
        return join_fields(values) if any(name is not None for name in names) else None
    columns = [name for name in (pick(content, TITLE), pick(content, BODY)) if name is not None]
    for name in columns:
        if content[name] is not None and not isinstance(content[name], str):
            raise DataError(f"{name!r} is not text")
    return "\n".join(content[name] for name in columns if content[name]) if columns else None


def _field_text(name: str, value: Any) -> str:
    """Return a field of text, or of a list of texts such as keywords."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{name!r} is not text")
    return value or ""


class Named(NamedTuple):
    """A label as a file names it: URI, name, or both."""

    uri: str
    name: str


class Record(NamedTuple):
    """One row of a text format; `labels` are ids (int), names (str), or names with URIs (`Named`)."""

    text: str
    labels: Sequence[int | str | Named] = ()
    id: str = ""
    group: str = ""
    line: int = 0
    columns: Mapping[str, Any] | None = None  # all columns of the row, where they are asked for


class Columns(NamedTuple):
    """The columns of a table that make a `Record`."""

    text: list[str]
    labels: str | None
    id: str | None
    group: str | None


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers; see `read_dataset` for their meaning. Formats ignore what does not apply to them."""

    bad: BadLines = field(default_factory=lambda: BadLines(skip=False))
    vocab: LabelVocab | None = None
    on_unknown: str = "error"
    encoding: str | None = None
    separator: str | None = None
    split: str | None = None
    need_labels: bool = True
    groups: str | None = None
    text_columns: Sequence[str] = ()
    label_column: str | None = None
    id_column: str | None = None
    delimiter: str | None = None
    keep_columns: bool = False
    lenient: bool = False  # text columns may be missing: if all are, texts are found as if none were named
    writer: TextWriter | None = None  # takes the texts, which are then not in memory
    file: FileReport = field(default_factory=FileReport)  # filled by the reader, like the report
    report: ReadReport = field(default_factory=ReadReport)

    @property
    def label_role(self) -> tuple[str, ...]:
        """Names of the field with the labels of a row: the given one, or the usual ones."""
        return LABELS if self.label_column is None else (_plain(self.label_column),)

    @property
    def id_role(self) -> tuple[str, ...]:
        """Names of the field with the id of a row: the given one, or the usual ones."""
        return ID if self.id_column is None else (_plain(self.id_column),)

    @property
    def group_role(self) -> tuple[str, ...]:
        """Names of the field with the group of a row: the given one, or the usual ones."""
        return GROUP if self.groups is None else (_plain(self.groups),)

    def text_of(self, content: Mapping[str, Any]) -> str | None:
        """Return the text of a row; None if it has no field for it."""
        text = join_text(content, self.text_columns)
        return join_text(content) if text is None and self.lenient else text

    def encoding_of(self, path: Path) -> str:
        """Return the encoding of a file: the given one, or the detected one; it is noted in the report."""
        found = detect_encoding(path) if self.encoding is None else Encoding(self.encoding)
        self.file.encoding, self.file.encoding_guessed = found
        return found.name


def _plain(name: str) -> str:
    return name.lower().strip()


def choose_columns(header: Sequence[str], options: ReadOptions, hint: str | None = None) -> Columns:
    """Return the columns of a table, or raise `DataError` if named ones, the text or the labels are missing.

    `hint` is added if there is no column for the text.
    """
    listed = ", ".join(map(repr, header[:12])) or "nothing"
    labels = [options.label_column] if options.need_labels else []
    wanted = {"text_columns": () if options.lenient else options.text_columns, "label_column": labels}
    wanted |= {"id_column": [options.id_column], "groups": [options.groups]}
    for option, names in wanted.items():
        missing = [name for name in names if name is not None and pick(header, (_plain(name),)) is None]
        if missing:
            raise DataError(
                f"no column {', '.join(map(repr, missing))} among {listed}",
                hint=f"Name columns as in the file: {option} (--{option.replace('_', '-')}), or the --delimiter.",
            )
    found = find_columns(header, options)
    if not found.text:
        advice = "Name the columns that make the text: text_columns (--text-columns title,abstract)."
        raise DataError(f"no column for text or title among {listed}", hint=f"{advice} {hint or ''}".strip())
    if found.labels is None and options.need_labels:
        advice = f"Name the column: label_column (--label-column), or call it one of {', '.join(LABELS)}."
        raise DataError(f"no column for labels among {listed}", hint=advice)
    return found


def find_columns(header: Sequence[str], options: ReadOptions) -> Columns:
    """Return the columns of a table, or the fields of an object, that make a record; they are noted in the report."""
    roles: list[tuple[str, ...]] = [(_plain(name),) for name in options.text_columns] or [TITLE, BODY]
    text = [name for role in roles if (name := pick(header, role)) is not None]
    if options.lenient:
        _note_missing(options, text)
        text = text or [name for role in (TITLE, BODY) if (name := pick(header, role)) is not None]
    labels, name, group = (pick(header, role) for role in (options.label_role, options.id_role, options.group_role))
    file = options.file
    file.text_columns, file.label_column = text, labels or ""
    file.id_column, file.group_column = name or "", group or ""
    file.unused_columns = [column for column in header if column not in {*text, labels, name, group}]
    also = [column for column in file.unused_columns if pick([column], LABELS)]
    if also and labels is not None and options.label_column is None and options.need_labels:
        file.warnings.append(
            f"labels are taken from {labels!r}, but {shown(map(repr, also))} may hold labels too. "
            "Choose with --label-column."
        )
    return Columns(text, labels, name, group)


def _note_missing(options: ReadOptions, found: Sequence[str]) -> None:
    """Warn about text columns that a file does not have."""
    missing = [name for name in options.text_columns if pick(found, (_plain(name),)) is None]
    if missing:
        words = "it counts as empty" if found else "the text is taken from other columns, as one"
        options.file.warnings.append(f"no column {shown(map(repr, missing))}, as the model has it: {words}.")


class LabelIds:
    """Maps the labels of a file to ids: those of a vocabulary, or in order of first appearance."""

    def __init__(self, vocab: LabelVocab | None, on_unknown: str, *, words: bool = False) -> None:
        self._vocab = vocab
        self._on_unknown = on_unknown
        self._find = None if vocab is None else vocab.find_word if words else vocab.find
        self._known: dict[str, int | None] = {}
        self._new: list[Named] = []
        self._new_names: dict[str, int] = {}
        self._kind: type | None = None
        self.n_labels = 0
        self.n_unknown = 0

    def of(self, labels: Iterable[int | str | Named]) -> list[int]:
        """Return the ids of a row's labels without skipped unknown ones, or raise `DataError`."""
        ids = [self._number(label) if isinstance(label, int) else self._named(label) for label in labels]
        known = [number for number in ids if number is not None]
        self.n_labels += len(ids)
        self.n_unknown += len(ids) - len(known)
        return known

    def unknown_examples(self) -> list[str]:
        """Return some of the skipped labels."""
        return list(islice((key for key, number in self._known.items() if number is None), 6))

    def table(self, flat: NDArray[np.int64]) -> tuple[NDArray[np.int32], LabelVocab]:
        """Return the label ids of `of` as rows of a label table, and that table.

        Ids in a file without a vocabulary are rows already, unless they are large and sparse: then only those in use
        are labels, in order of id.
        """
        if self._vocab is None and self._kind is int:
            used, rows = np.unique(flat, return_inverse=True)
            width = int(used[-1]) + 1 if used.size else 0
            if not is_dense(width - 1, used.size):
                return rows.astype(np.int32), LabelVocab.of_ids(used.tolist())
            return flat.astype(np.int32), LabelVocab.numbered(width)
        return flat.astype(np.int32), self.vocab()

    def vocab(self) -> LabelVocab:
        """Return the given vocabulary with new labels added, or the names of the file."""
        names = [label.name or label.uri for label in self._new]
        uris = [label.uri for label in self._new]
        has_uris = any(uris)
        if self._vocab is not None:
            if names and self._kind is int and self._vocab.names is None:
                return self._vocab.add_ids(map(int, names))
            return self._vocab.add(names, uris=uris if has_uris else None) if names else self._vocab
        return LabelVocab.from_names(names, uris=uris if has_uris else None)

    def _number(self, label: int) -> int | None:
        self._check_kind(int)
        if self._vocab is not None and self._vocab.id_kind == "integer":
            return self._by_key(Named(str(label), ""))
        if self._vocab is not None and self._names_are_ids:
            return self._by_key(Named("", str(label)))
        high = _MAX_ID if self._vocab is None else len(self._vocab) - 1
        if 0 <= label <= high:
            return label
        if self._vocab is not None and label > high and self._on_unknown == "skip":
            self._known[str(label)] = None
            return None
        if self._vocab is not None and label > high and self._on_unknown == "add" and self._vocab.names is None:
            return self._by_key(Named("", str(label)))
        hint = None if self._vocab is None else f"The vocabulary has {high + 1:,} labels."
        raise DataError(f"label id {label} is not from 0 to {high:,}", hint=hint)

    @cached_property
    def _names_are_ids(self) -> bool:
        """Whether the vocabulary is one of sparse ids, whose names are the ids."""
        names = None if self._vocab is None else self._vocab.names
        return names is not None and len(names) > 0 and all(name.isascii() and name.isdigit() for name in names)

    def _named(self, label: str | Named) -> int | None:
        if isinstance(label, tuple) and not isinstance(label, Named):
            hint = "Use one kind of label: names, whole numbers or tuples."
            raise DataError(f"a label cannot be the tuple {label!r:.60} where others are names or numbers", hint=hint)
        self._check_kind(str)
        return self._by_key(Named("", label) if isinstance(label, str) else label)

    def _by_key(self, named: Named) -> int | None:
        key = named.uri or named.name
        if key in self._known:
            return self._known[key]
        if not key or not is_valid_text(key + named.name):
            raise DataError(f"a label must have a name of valid text, not {key!a}")
        number = self._look_up(named)
        self._known[key] = number
        return number

    def _look_up(self, label: Named) -> int | None:
        if self._vocab is not None and self._find is not None:
            try:
                number = self._find(label.uri or label.name)
            except InputError as error:
                raise DataError(error.expected, hint=error.hint) from error
            if number is not None or self._on_unknown == "skip":
                return number
            if self._on_unknown == "error":
                raise DataError(
                    f"label {label.uri or label.name!r} is not in the vocabulary",
                    hint="Allow unknown labels with on_unknown 'add' or 'skip' (--on-unknown).",
                )
        return self._add(label)

    def _add(self, label: Named) -> int:
        """Add a new label; a name without a URI means the label seen with this name, with or without a URI."""
        known = self._new_names.get(label.name)
        if known is not None and not label.uri:
            return known
        number = (0 if self._vocab is None else len(self._vocab)) + len(self._new)
        if known is not None:
            label = label._replace(name=label.uri)
        self._new_names[label.name] = number
        self._new.append(label)
        return number

    def _check_kind(self, kind: type) -> None:
        if self._kind is None:
            self._kind = kind
        elif self._kind is not kind:
            raise DataError("label names and label ids are mixed; use one of the two")


class DatasetBuilder:
    """Collects the records of one file after the other into a `Dataset`, and counts what is left out."""

    def __init__(self, options: ReadOptions, *, words: bool = False) -> None:
        self._bad = options.bad
        self._report = options.report
        self._ids = LabelIds(options.vocab, options.on_unknown, words=words)
        self._texts: list[str] | TextWriter = [] if options.writer is None else options.writer
        self._fields = tuple(options.text_columns)
        self._names: list[str] = []
        self._groups: list[str] = []
        self._flat, self._ends = array("q"), array("q", [0])
        self.lines = array("q")

    def add(self, records: Iterable[Record], path: Path, file: FileReport) -> None:
        """Read the records of a file; rows with invalid labels are bad lines."""
        for record in records:
            try:
                known = self._ids.of(record.labels)
            except DataError as error:
                self._bad.report(DataError(error.reason, path=path, line=record.line, hint=error.hint))
                continue
            self._flat.extend(known)
            self._ends.append(len(self._flat))
            self._texts.append(record.text)
            if isinstance(self._texts, list):
                self._names.append(record.id)
                self._groups.append(record.group)
            elif record.group:
                raise DataError("groups need all texts in memory", path=path, hint="Train without --max-ram.")
            self.lines.append(record.line)
            file.rows += 1
            self._report.rows_lost_labels += bool(record.labels) and not known
            self._report.rows_without_labels += not record.labels

    def finish(self) -> Dataset:
        """Return the dataset."""
        flat, vocab = self._ids.table(np.array(self._flat, dtype=np.int64))
        matrix = label_matrix(flat, np.array(self._ends, dtype=np.int64), len(vocab))
        names, groups = self._names, self._groups
        data = Dataset(
            matrix,
            vocab,
            texts=self._texts if isinstance(self._texts, list) else self._texts.finish(),
            groups=groups if any(groups) else None,
            ids=names if any(names) else None,
            fields=self._fields,
        )
        report = self._report
        report.labels, report.labels_unknown = self._ids.n_labels, self._ids.n_unknown
        report.unknown_examples = self._ids.unknown_examples()
        report.labels_repeated = flat.size - data.labels.nnz
        repeated = [name for name, count in Counter(names).items() if name and count > 1]
        report.duplicate_ids = sum(map(bool, names)) - len(set(names) - {""})
        report.duplicate_examples = repeated[:6]
        return data


def build_dataset(records: Iterable[Record], path: Path, options: ReadOptions, *, words: bool = False) -> Dataset:
    """Collect the records of one file into a `Dataset`."""
    builder = DatasetBuilder(options, words=words)
    builder.add(records, path, options.file)
    return builder.finish()


def label_matrix(flat: NDArray[np.int32], ends: NDArray[np.int64], n_labels: int) -> sparse.csr_array:
    """Return label ids in file order as an (n_rows, n_labels) CSR array."""
    ones = np.ones(flat.size, dtype=np.float32)
    return sparse.csr_array((ones, flat, ends), shape=(ends.size - 1, n_labels))


def check_width(width: int, n_entries: int, what: str, path: Path) -> None:
    """Raise `DataError` if a file declares far more columns than it has entries: later steps need memory for each."""
    if width > max(_MAX_WIDTH, 1000 * n_entries):
        raise DataError(
            f"declares {width:,} {what}, but has only {n_entries:,} entries",
            path=path,
            hint=f"Number the {what} from 0 without large gaps, and correct the number.",
        )


def with_vocab(
    labels: sparse.csr_array, path: Path, options: ReadOptions, names: LabelVocab | None = None
) -> tuple[sparse.csr_array, LabelVocab]:
    """Return the label columns with the vocabulary of the options, or `names`, or plain ids.

    A vocabulary may have more labels than the file has columns, not fewer.
    """
    check_width(labels.shape[1], labels.nnz, "labels", path)
    vocab = options.vocab if options.vocab is not None else names
    if vocab is None:
        return labels, LabelVocab.numbered(labels.shape[1])
    if labels.shape[1] > len(vocab):
        raise DataError(
            f"the labels have {labels.shape[1]:,} columns, but the vocabulary {len(vocab):,} labels",
            path=path,
            hint="Use the vocabulary that belongs to this file.",
        )
    return CsrParts(labels.indptr, labels.indices, labels.data, len(vocab)).to_scipy(), vocab


def read_label_names(path: Path, n_labels: int, bad: BadLines, encoding: str) -> LabelVocab | None:
    """Return the label names of a file, one per line, if it exists and has as many as there are labels."""
    if not path.exists():
        return None
    names = [line.strip() for _, line in decoded_lines(path, bad, encoding)]
    return vocab_of_names(names) if len(names) == n_labels else None


def vocab_of_names(names: Sequence[str]) -> LabelVocab:
    """Return a vocabulary of label names in order of id; if some are blank or the same, the ids are URIs."""
    distinct = len(set(names)) == len(names) and "" not in names
    return LabelVocab.from_names(names, uris=None if distinct else [f"label:{i}" for i in range(len(names))])


def line_records(
    path: Path, options: ReadOptions, parse: Callable[[str], Record], *, blank_lines: bool = True
) -> Iterator[Record]:
    """Yield a record per line."""
    lines = parsed_lines(path, parse, options.bad, options.encoding_of(path), blank_lines=blank_lines)
    return (record._replace(line=number) for number, record in lines)


def parse_ids(text: str) -> list[int]:
    """Return label ids from text such as ``"3,17"``; blank text is an empty list."""
    if not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdigit()) or len(part) > 18:
            raise DataError(f"{part[:40]!r} is not a label id")
    return [int(part) for part in parts]


def is_valid_text(text: str) -> bool:
    """Tell whether `text` can be encoded as UTF-8; strings from JSON may contain lone surrogates, which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def flat_text(text: str) -> str:
    """Return a text on one line: line breaks and tabs become spaces."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").replace("\t", " ")


def need_texts(dataset: Dataset, what: str) -> Sequence[str]:
    """Return the texts of a dataset, or raise `InputError` if it has none."""
    if dataset.texts is None:
        raise InputError(
            f"{what} contains texts, but this dataset has only features",
            hint="Write it as 'repository', 'sparse-files' or 'csr'.",
        )
    return dataset.texts
