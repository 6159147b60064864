"""JSON lines: one object a line with text, labels (names, ids, or objects with uri and label), id and group.

In: one file; field names as in `fields`. Out: a `Dataset` with texts. Also Annif's JSON lines: ``text``,
``subjects`` (objects with ``uri`` and ``label``), ``document_id``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.data.dataset import Dataset
from tagwood.data.files import open_for_writing
from tagwood.data.records import (
    ID,
    LABELS,
    Named,
    ReadOptions,
    Record,
    build_dataset,
    is_valid_text,
    join_text,
    line_records,
    need_texts,
    pick,
)
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a file."""
    return build_dataset(records(path, options), path, options)


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    return line_records(path, options, lambda line: _parse(line, options), blank_lines=False)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file: ``id``, ``group``, ``text`` and ``labels`` with the label names."""
    _write(dataset, path, "id", "labels", dataset.vocab.keys())


def write_annif(dataset: Dataset, path: Path) -> None:
    """Write a file as Annif reads it: ``document_id``, ``text`` and ``subjects`` with URI and label."""
    vocab = dataset.vocab
    labels = [
        ({"uri": uri} if (uri := vocab.uri(label)) else {}) | {"label": vocab.name(label)}
        for label in range(len(vocab))
    ]
    _write(dataset, path, "document_id", "subjects", labels)


def parse_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line, or raise `DataError` with the reason."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({str(error)[:80]})") from error
    if not isinstance(content, dict):
        raise DataError("is not a JSON object with fields")
    if "\\u" in line and not is_valid_text(json.dumps(content, ensure_ascii=False)):
        raise DataError("holds half of a surrogate pair, which is not valid text")
    return content


def text_of(content: dict[str, Any]) -> str:
    """Return title and text of an object, or raise `DataError`."""
    text = join_text(content)
    if text is None:
        raise DataError(f"has no text field among {', '.join(map(repr, list(content)[:8])) or 'no fields'}")
    return text


def labels_of(value: Any) -> list[int | str | Named]:
    """Return labels from a JSON value: a list of ids, names or objects, or one name."""
    if value is None:
        return []
    if isinstance(value, str):
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


def _parse(line: str, options: ReadOptions) -> Record:
    content = parse_object(line)
    field = pick(content, LABELS)
    if field is None and options.need_labels:
        raise DataError(
            f"has no label field among {', '.join(map(repr, list(content)[:8])) or 'no fields'}",
            hint=f"Name it one of {', '.join(LABELS)}; a row without labels has an empty list.",
        )
    return Record(
        text_of(content),
        [] if field is None else labels_of(content[field]),
        _string(content, pick(content, ID)),
        _string(content, pick(content, options.group_role)),
    )


def _string(content: dict[str, Any], name: str | None) -> str:
    value = None if name is None else content[name]
    if value is None or isinstance(value, str):
        return value or ""
    if type(value) is int:
        return str(value)
    raise DataError(f"{name!r} is neither text nor a whole number")


def _write(dataset: Dataset, path: Path, id_field: str, label_field: str, labels: list[Any]) -> None:
    texts = need_texts(dataset, "a JSON lines file")
    with open_for_writing(path) as file:
        for row, (text, chosen) in enumerate(zip(texts, dataset.label_lists(), strict=True)):
            content: dict[str, Any] = {} if dataset.ids is None else {id_field: dataset.ids[row]}
            if dataset.groups is not None:
                content["group"] = dataset.groups[row]
            content |= {"text": text, label_field: [labels[label] for label in chosen]}
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
