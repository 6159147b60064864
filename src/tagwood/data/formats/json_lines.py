"""JSON lines: one object per line with text, labels, id and group. Also Annif's JSON lines and the repository's.

In: one file. Out: a `Record` per line, and the files of a `Dataset` with texts. Labels are a list of names, ids, or
objects with ``uri`` and ``label``; see `records` for the names of the fields. Annif's fields are ``text``, ``subjects``
and ``document_id``. Those of the extreme classification repository (XC) are ``uid``, ``title``, ``content``,
``target_ind`` and ``target_rel``; its labels whose ``target_rel`` is not positive are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tagwood.data.dataset import Dataset
from tagwood.data.files import existing, open_for_writing, parse_json, parsed_lines, split_folder
from tagwood.data.filter_pairs import find_filter_file, read_filter_pairs, without_pairs
from tagwood.data.records import (
    LABELS,
    DatasetBuilder,
    Named,
    ReadOptions,
    Record,
    find_columns,
    is_valid_text,
    line_records,
    need_texts,
    pick,
    vocab_of_names,
)
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError

_XC_PARTS = {"train": "trn.json", "test": "tst.json"}


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    noted = False

    def parse(line: str) -> Record:
        nonlocal noted
        content = parse_object(line)
        record = _parse(content, options)
        if not noted:
            find_columns(list(content), options)
            noted = True
        return record

    return line_records(path, options, parse, blank_lines=False)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file: ``id``, ``group``, ``text`` and ``labels`` with the label names, or their own whole numbers."""
    vocab = dataset.vocab
    keys: list[Any] = list(map(vocab.label_id, range(len(vocab)))) if vocab.id_kind == "integer" else vocab.keys()
    _write(dataset, path, "id", lambda text, row: {"text": text, "labels": [keys[label] for label in row]})


def write_annif(dataset: Dataset, path: Path) -> None:
    """Write a file as Annif reads it: ``document_id``, ``text`` and ``subjects`` with URI and label."""
    vocab = dataset.vocab
    labels = [
        ({"uri": uri} if (uri := vocab.uri(label)) else {}) | {"label": vocab.name(label)}
        for label in range(len(vocab))
    ]

    def content_of(text: str, row: list[int]) -> dict[str, Any]:
        return {"text": text, "subjects": [labels[label] for label in row]}

    _write(dataset, path, "document_id", content_of)


def parse_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line, or raise `DataError` with the reason."""
    content = parse_json(line)
    if not isinstance(content, dict):
        raise DataError("is not a JSON object with fields")
    if "\\u" in line and not is_valid_text(json.dumps(content, ensure_ascii=False)):
        raise DataError("contains half of a surrogate pair, which is not valid text")
    return content


def text_of(content: dict[str, Any], options: ReadOptions = ReadOptions()) -> str:  # noqa: B008 (frozen)
    """Return title and text of an object, or the chosen fields, or raise `DataError`."""
    text = options.text_of(content)
    if text is None:
        wanted = f"field {', '.join(map(repr, options.text_columns))}" if options.text_columns else "text field"
        hint = "Name fields as in the file: text_columns (--text-columns)."
        raise DataError(f"has no {wanted} among {_fields(content)}", hint=hint)
    return text


def _fields(content: dict[str, Any]) -> str:
    return ", ".join(map(repr, list(content)[:8])) or "no fields"


def labels_of(value: Any, separator: str | None = None) -> list[int | str | Named]:
    """Return labels from a JSON value: a list of ids, names or objects, one id, or one name (or several, separated)."""
    if value is None:
        return []
    if isinstance(value, str):
        return [name for part in value.split(separator) if (name := part.strip())] if separator else [value]
    if type(value) is int:
        return [value]
    if not isinstance(value, list):
        raise DataError("the labels are not a list")
    return [_label(item) for item in value]


def _label(item: Any) -> int | str | Named:
    if isinstance(item, str) or type(item) is int:
        return item
    if isinstance(item, dict):
        uri, name = item.get("uri") or "", item.get("label") or item.get("name") or ""
        if isinstance(uri, str) and isinstance(name, str) and (uri or name):
            return Named(clean_uri(uri), name)
    raise DataError(f"{json.dumps(item)[:40]} is not a label: a name, an id, or an object with uri and label")


def _parse(content: dict[str, Any], options: ReadOptions) -> Record:
    field = pick(content, options.label_role)
    if field is None and options.need_labels:
        wanted = "label field" if options.label_column is None else f"field {options.label_column!r}"
        raise DataError(
            f"has no {wanted} among {_fields(content)}",
            hint=f"Name the field (--label-column), or call it one of {', '.join(LABELS)}; "
            "a row without labels has an empty list.",
        )
    return Record(
        text_of(content, options),
        [] if field is None else labels_of(content[field], options.separator),
        _string(content, pick(content, options.id_role)),
        _string(content, pick(content, options.group_role)),
        columns=content if options.keep_columns else None,
    )


def _string(content: dict[str, Any], name: str | None) -> str:
    value = None if name is None else content[name]
    if value is None or isinstance(value, str):
        return value or ""
    if type(value) is int:
        return str(value)
    raise DataError(f"{name!r} is neither text nor a whole number")


def _write(dataset: Dataset, path: Path, id_field: str, content_of: Callable[[str, list[int]], dict[str, Any]]) -> None:
    texts = need_texts(dataset, "a JSON lines file")
    with open_for_writing(path) as file:
        for row, (text, labels) in enumerate(zip(texts, dataset.label_lists(), strict=True)):
            content: dict[str, Any] = {} if dataset.ids is None else {id_field: dataset.ids[row]}
            if dataset.groups is not None:
                content["group"] = dataset.groups[row]
            content |= content_of(text, labels)
            file.write(json.dumps(content, ensure_ascii=False) + "\n")


def read_xc(path: Path, options: ReadOptions) -> Dataset:
    """Read the repository's ``trn.json.gz`` or its folder; label names are in ``lbl.json.gz`` beside it, if any.

    Pairs of row and label in ``filter_labels_train.txt`` or ``filter_labels_test.txt`` beside it are left out of the
    labels and kept as `filter_pairs`.
    """
    file = _xc_file(path, options)
    if options.vocab is None:
        options = replace(options, vocab=_label_names(file.parent))
    builder = DatasetBuilder(options)
    builder.add(xc_records(file, options), file, options.file)
    data = builder.finish()
    filters = find_filter_file(file.parent, "test" if "tst" in file.name else "train")
    if filters is None:
        return data
    lines = np.array(builder.lines, dtype=np.int64)
    pairs = read_filter_pairs(filters, int(lines.max(initial=0)), data.n_labels, options.bad)[lines - 1]
    labels = without_pairs(data.labels, pairs)
    options.report.labels_filtered = int(data.labels.nnz - labels.nnz)
    return replace(data, labels=labels, filter_pairs=pairs)


def xc_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of the repository's file, or of one split of its folder."""
    return line_records(_xc_file(path, options), options, lambda line: _parse_xc(line, options), blank_lines=False)


def write_xc(dataset: Dataset, path: Path) -> None:
    """Write the repository's file, with the whole text in ``content``."""

    def content_of(text: str, labels: list[int]) -> dict[str, Any]:
        return {"title": "", "content": text, "target_ind": labels, "target_rel": [1.0] * len(labels)}

    _write(dataset, path, "uid", content_of)


def _xc_file(path: Path, options: ReadOptions) -> Path:
    if not path.is_dir():
        return path
    folder, split = split_folder(path, options.split, {"trn.json": "train", "tst.json": "test"})
    return existing(folder / _XC_PARTS[split], "the rows")


def _parse_xc(line: str, options: ReadOptions) -> Record:
    content = parse_object(line)
    labels = content.get("target_ind", [])
    weights = content.get("target_rel", [1.0] * len(labels) if isinstance(labels, list) else [])
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError("'target_ind' is not a list of label ids")
    if not isinstance(weights, list) or len(weights) != len(labels):
        raise DataError("'target_rel' does not have one number per label")
    if not all(type(weight) in (int, float) for weight in weights):
        raise DataError("'target_rel' contains something that is not a number")
    return Record(
        text_of(content),
        [label for label, weight in zip(labels, weights, strict=True) if weight > 0],
        str(content.get("uid", "")),
        str(content.get(pick(content, options.group_role) or "") or ""),
        columns=content if options.keep_columns else None,
    )


def _label_names(folder: Path) -> LabelVocab | None:
    file = next((folder / name for name in ("lbl.json.gz", "lbl.json") if (folder / name).exists()), None)
    if file is None:
        return None
    titles = parsed_lines(file, lambda line: str(parse_object(line).get("title", "")))
    return vocab_of_names([title for _, title in titles])
