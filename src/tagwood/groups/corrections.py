"""Manual corrections of group labels, applied to the training data. In: JSON lines of the service. Out: a `Dataset`.

Decisions. A corrected row leaves its group and has the labels of the correction. These labels are removed from the
other rows of the group, because a label of a group belongs to one of its rows, and now it is known to which.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.data.files import parse_json, parsed_lines
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

_MAX_CHARS = 4000  # of a text in a correction
_HINT = "Download corrections from the service, or take its file MODEL.corrections.jsonl."


class Correction(NamedTuple):
    """The right labels of one text of a group."""

    group: str
    text: str
    labels: tuple[str, ...]


def read_corrections(path: str | Path) -> list[Correction]:
    """Read corrections; of several for the same text, the last one counts."""
    found = {(one.group, one.text): one for _, one in parsed_lines(Path(path), _parse)}
    return list(found.values())


def apply_corrections(data: Dataset, corrections: Iterable[Correction]) -> tuple[Dataset, int]:
    """Return the data with corrected rows, and the number of corrections whose row was found.

    Examples
    --------
    >>> data = Dataset([[0, 1], [0, 1]], LabelVocab.from_names(["oak", "sea"]), texts=["a", "b"], groups=["x", "x"])
    >>> corrected, used = apply_corrections(data, [Correction("x", "a", ("oak",))])
    >>> corrected.label_lists(), list(corrected.groups or ()), used
    ([[0], [1]], ['', 'x'], 1)
    """
    if data.groups is None or data.texts is None:
        raise InputError("corrections require data with texts and groups", given="data without them")
    places = {
        (group, text[:_MAX_CHARS]): row
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


def _parse(line: str) -> Correction:
    record = parse_json(line, _HINT)
    fields = record if isinstance(record, dict) else {}
    group, text, labels = (fields.get(key) for key in ("from_group", "text", "labels"))
    if not isinstance(group, str) or not isinstance(text, str) or not isinstance(labels, list):
        raise DataError("'from_group', 'text' and 'labels' are required", hint=_HINT)
    names = [one if isinstance(one, str) else _key(one) for one in labels]
    if not all(names):
        raise DataError("a label must have a name or URI", hint=_HINT)
    return Correction(group, text[:_MAX_CHARS], tuple(names))


def _key(label: Any) -> str:
    found = (label.get("uri") or label.get("label")) if isinstance(label, dict) else None
    return found if isinstance(found, str) else ""
