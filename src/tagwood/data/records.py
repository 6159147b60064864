"""From records to a `Dataset`: what the readers of text formats share.

In: `Record`s, one per row, with label names or ids as in the file. Out: a `Dataset`. The names of columns and fields
that contain titles, texts, labels, ids and groups in the files of other tools are listed here; case does not matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import CsrParts
from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, decoded_lines, parsed_lines
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
_MAX_LABELS = 2**31 - 2


def pick(names: Iterable[str], role: tuple[str, ...]) -> str | None:
    """Return the first of `names` in `role`, in the order of `role`."""
    lower = {name.lower().strip(): name for name in names}
    return next((lower[name] for name in role if name in lower), None)


def join_text(content: Mapping[str, Any], chosen: Sequence[str] = ()) -> str | None:
    """Return title and body of a row, or the chosen fields, joined by line breaks; None if it has none of them.

    The first of the chosen fields is the title: one line, which is empty where the row does not have the field.
    """
    if chosen:
        names = [pick(content, (name.lower().strip(),)) for name in chosen]
        title, *others = ("" if name is None else _field_text(name, content[name]) for name in names)
        text = "\n".join([" ".join(title.split()), *filter(None, others)])
        return None if not any(names) else text if text.strip() else ""
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


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers; see `read_dataset` for their meaning. Formats ignore what does not apply to them."""

    bad: BadLines = field(default_factory=lambda: BadLines(skip=False))
    vocab: LabelVocab | None = None
    on_unknown: str = "error"
    encoding: str = "utf-8"
    separator: str | None = None
    split: str | None = None
    need_labels: bool = True
    groups: str | None = None
    text_columns: Sequence[str] = ()

    @property
    def group_role(self) -> tuple[str, ...]:
        """Names of the field with the group of a row: the given one, or the usual ones."""
        return GROUP if self.groups is None else (self.groups.lower().strip(),)


class LabelIds:
    """Maps the labels of a file to ids: those of a vocabulary, or in order of first appearance."""

    def __init__(self, vocab: LabelVocab | None, on_unknown: str, *, words: bool = False) -> None:
        self._vocab = vocab
        self._on_unknown = on_unknown
        self._find = None if vocab is None else vocab.find_word if words else vocab.find
        self._known: dict[str, int | None] = {}
        self._new: list[Named] = []
        self._new_names: dict[str, int] = {}
        self._numbers_up_to = -1
        self._kind: type | None = None

    def of(self, labels: Iterable[int | str | Named]) -> list[int]:
        """Return the ids of a row's labels without skipped unknown ones, or raise `DataError`."""
        ids = (self._number(label) if isinstance(label, int) else self._named(label) for label in labels)
        return [number for number in ids if number is not None]

    def vocab(self) -> LabelVocab:
        """Return the given vocabulary with new labels added, or the vocabulary of the file."""
        names = [label.name or label.uri for label in self._new]
        uris = [label.uri for label in self._new]
        has_uris = any(uris)
        if self._vocab is not None:
            return self._vocab.add(names, uris=uris if has_uris else None) if names else self._vocab
        if self._kind is int:
            return LabelVocab.numbered(self._numbers_up_to + 1)
        return LabelVocab.from_names(names, uris=uris if has_uris else None)

    def _number(self, label: int) -> int | None:
        self._check_kind(int)
        high = _MAX_LABELS if self._vocab is None else len(self._vocab) - 1
        if 0 <= label <= high:
            self._numbers_up_to = max(self._numbers_up_to, label)
            return label
        if self._vocab is not None and label > high and self._on_unknown == "skip":
            return None
        hint = None if self._vocab is None else f"The vocabulary has {high + 1:,} labels."
        raise DataError(f"label id {label} is not from 0 to {high:,}", hint=hint)

    def _named(self, label: str | Named) -> int | None:
        self._check_kind(str)
        named = Named("", label) if isinstance(label, str) else label
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


def build_dataset(records: Iterable[Record], path: Path, options: ReadOptions, *, words: bool = False) -> Dataset:
    """Collect records into a `Dataset`; rows with invalid labels are bad lines."""
    ids = LabelIds(options.vocab, options.on_unknown, words=words)
    texts: list[str] = []
    names: list[str] = []
    groups: list[str] = []
    flat, ends = array("i"), array("q", [0])
    for record in records:
        try:
            flat.extend(ids.of(record.labels))
        except DataError as error:
            options.bad.report(DataError(error.reason, path=path, line=record.line, hint=error.hint))
            continue
        ends.append(len(flat))
        texts.append(record.text)
        names.append(record.id)
        groups.append(record.group)
    vocab = ids.vocab()
    return Dataset(
        label_matrix(np.frombuffer(flat, dtype=np.int32), np.frombuffer(ends, dtype=np.int64), len(vocab)),
        vocab,
        texts=texts,
        groups=groups if any(groups) else None,
        ids=names if any(names) else None,
    )


def label_matrix(flat: NDArray[np.int32], ends: NDArray[np.int64], n_labels: int) -> sparse.csr_array:
    """Return label ids in file order as an (n_rows, n_labels) CSR array."""
    ones = np.ones(flat.size, dtype=np.float32)
    return sparse.csr_array((ones, flat, ends), shape=(ends.size - 1, n_labels))


def with_vocab(
    labels: sparse.csr_array, path: Path, options: ReadOptions, names: LabelVocab | None = None
) -> tuple[sparse.csr_array, LabelVocab]:
    """Return the label columns with the vocabulary of the options, or `names`, or plain ids.

    A vocabulary may have more labels than the file has columns, not fewer.
    """
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
    lines = parsed_lines(path, parse, options.bad, options.encoding, blank_lines=blank_lines)
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
