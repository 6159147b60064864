"""Corrections of group labels by a person, put into the training data. In: JSON lines of the service. Out: a `Dataset`.

Decisions: a corrected row leaves its group and keeps the labels it was given. What it was given is taken from the other
rows of the group, because a group's label is known to be somewhere in the group, and now it is known where.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, decoded_lines
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

LONGEST = 4000  # characters of a text that corrections hold
_HINT = "Download corrections from the service, or take its file MODEL.corrections.jsonl."


class Correction(NamedTuple):
    """The right labels of one text of a group."""

    group: str
    text: str
    labels: tuple[str, ...]


def read_corrections(path: str | Path) -> list[Correction]:
    """Read corrections; of several for the same text, the last one counts."""
    found: dict[tuple[str, str], Correction] = {}
    for number, line in decoded_lines(Path(path), BadLines(skip=False), "utf-8"):
        if line.strip():
            one = _parse(line, Path(path), number)
            found[one.group, one.text] = one
    return list(found.values())


def apply_corrections(data: Dataset, corrections: Iterable[Correction]) -> tuple[Dataset, int]:
    """Return the data with corrected rows, and how many corrections found their row.

    Examples
    --------
    >>> data = Dataset([[0, 1], [0, 1]], LabelVocab.from_names(["oak", "sea"]), texts=["a", "b"], groups=["x", "x"])
    >>> mended, used = apply_corrections(data, [Correction("x", "a", ("oak",))])
    >>> mended.label_lists(), list(mended.groups or ()), used
    ([[0], [1]], ['', 'x'], 1)
    """
    if data.groups is None or data.texts is None:
        raise InputError("corrections need data with texts and groups", given="data without")
    places = {
        (group, text[:LONGEST]): row
        for row, (group, text) in enumerate(zip(data.groups, data.texts, strict=True))
    }
    known = {places[one.group, one.text]: one for one in corrections if (one.group, one.text) in places}
    groups = list(data.groups)
    lists = [list(labels) for labels in data.label_lists()]
    taken: dict[str, set[int]] = {}
    for row, one in known.items():
        lists[row] = sorted({_find(data.vocab, label) for label in one.labels})
        taken.setdefault(groups[row], set()).update(lists[row])
        groups[row] = ""
    for row, group in enumerate(groups):
        if group in taken:
            lists[row] = [label for label in lists[row] if label not in taken[group]]
    ends = np.cumsum([0, *map(len, lists)])
    flat = np.array([label for labels in lists for label in labels], dtype=np.int32)
    shape = (len(lists), len(data.vocab))
    Y = sparse.csr_array((np.ones(flat.size, dtype=np.float32), flat, ends), shape=shape)
    return Dataset(Y, data.vocab, texts=data.texts, groups=groups, ids=data.ids), len(known)


def _find(vocab: LabelVocab, label: str) -> int:
    found = vocab.find(label)
    if found is None:
        raise InputError(
            "a correction's label must be in the data", given=repr(label), hint="Add it with --vocab."
        )
    return found


def _parse(line: str, path: Path, number: int) -> Correction:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError("is not JSON", path=path, line=number, hint=_HINT) from None
    group, text = (record.get(key) if isinstance(record, dict) else None for key in ("from_group", "text"))
    labels = record.get("labels") if isinstance(record, dict) else None
    if not isinstance(group, str) or not isinstance(text, str) or not isinstance(labels, list):
        raise DataError("'from_group', 'text' and 'labels' are needed", path=path, line=number, hint=_HINT)
    names = [one if isinstance(one, str) else _key(one) for one in labels]
    if not all(names):
        raise DataError("a label needs a name or URI", path=path, line=number, hint=_HINT)
    return Correction(group, text[:LONGEST], tuple(names))


def _key(label: Any) -> str:
    found = (label.get("uri") or label.get("label")) if isinstance(label, dict) else None
    return found if isinstance(found, str) else ""
