"""JSON lines of the extreme classification repository: ``uid, title, content, target_ind, target_rel``.

In: ``trn.json.gz`` or its folder. Out: a `Dataset` with texts (title and content) and label ids. Labels whose
``target_rel`` is not positive are left out. Label names come from ``lbl.json.gz`` beside it, where it is
there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, existing, open_for_writing, split_folder
from tagwood.data.formats.json_lines import parse_object, text_of
from tagwood.data.records import (
    LabelIds,
    ReadOptions,
    Record,
    build_dataset,
    line_records,
    need_texts,
    pick,
    vocab_of_names,
)
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError

_PARTS = {"train": "trn.json", "test": "tst.json"}


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a file, or one split of a folder."""
    file = _file(path, options)
    vocab = options.vocab if options.vocab is not None else _label_names(file.parent)
    return build_dataset(records(file, options), file, options, ids=LabelIds(vocab, options.on_unknown))


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file, or of one split of a folder."""
    return line_records(_file(path, options), options, lambda line: _parse(line, options), blank_lines=False)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file; the whole text goes to ``content``."""
    texts = need_texts(dataset, "trn.json")
    with open_for_writing(path) as file:
        for row, (text, labels) in enumerate(zip(texts, dataset.label_lists(), strict=True)):
            content: dict[str, Any] = {"uid": dataset.ids[row]} if dataset.ids is not None else {}
            content |= {"title": "", "content": text, "target_ind": labels, "target_rel": [1.0] * len(labels)}
            if dataset.groups is not None:
                content["group"] = dataset.groups[row]
            file.write(json.dumps(content, ensure_ascii=False) + "\n")


def _file(path: Path, options: ReadOptions) -> Path:
    if not path.is_dir():
        return path
    folder, split = split_folder(path, options.split, {"trn.json": "train", "tst.json": "test"})
    return existing(folder / _PARTS[split], "the rows")


def _parse(line: str, options: ReadOptions) -> Record:
    content = parse_object(line)
    labels = content.get("target_ind", [])
    weights = content.get("target_rel", [1.0] * len(labels) if isinstance(labels, list) else [])
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError("'target_ind' is not a list of label ids")
    if not isinstance(weights, list) or len(weights) != len(labels):
        raise DataError("'target_rel' does not have one number per label")
    if not all(type(weight) in (int, float) for weight in weights):
        raise DataError("'target_rel' holds something that is not a number")
    return Record(
        text_of(content),
        [label for label, weight in zip(labels, weights, strict=True) if weight > 0],
        str(content.get("uid", "")),
        str(content.get(pick(content, options.group_role) or "") or ""),
    )


def _label_names(folder: Path) -> LabelVocab | None:
    file = next((folder / name for name in ("lbl.json.gz", "lbl.json") if (folder / name).exists()), None)
    if file is None:
        return None
    options = ReadOptions(bad=BadLines(skip=False))
    titles = line_records(
        file, options, lambda line: Record(str(parse_object(line).get("title", ""))), blank_lines=False
    )
    return vocab_of_names([record.text for record in titles])
