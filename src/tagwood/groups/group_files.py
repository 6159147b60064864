"""Read the labels of groups from a file that lists them group by group.

In: TSV lines ``group<TAB>label<TAB>label ...`` or JSON lines ``{"group": ..., "labels": [...]}``, plain or
gzip. Out: group name -> label names, which `GroupedLabels.from_groups` takes once the names are ids.
"""

from __future__ import annotations

import json
from pathlib import Path

from tagwood.data.files import BadLines, decoded_lines
from tagwood.errors import DataError

_HINT = 'Expected group<TAB>label<TAB>label..., or {"group": "...", "labels": ["...", ...]}.'


def read_group_labels(path: str | Path, *, encoding: str = "utf-8") -> dict[str, list[str]]:
    r"""Return the label names of each group, in file order; a group on several lines has the labels of all.

    A line is a JSON object if it starts with ``{``, otherwise tab-separated: the group, then one label per
    column. Empty lines are skipped.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "boxes.tsv"
    >>> _ = file.write_text("box 1\tharbour\tships\nbox 2\tships\n")
    >>> read_group_labels(file)
    {'box 1': ['harbour', 'ships'], 'box 2': ['ships']}
    """
    path = Path(path)
    found: dict[str, dict[str, None]] = {}
    for number, line in decoded_lines(path, BadLines(skip=False), encoding):
        if not line.strip():
            continue
        group, labels = _parse(line, path, number)
        found.setdefault(group, {}).update(dict.fromkeys(labels))
    return {group: list(labels) for group, labels in found.items()}


def _parse(line: str, path: Path, number: int) -> tuple[str, list[str]]:
    group, labels = _parse_json(line, path, number) if line.lstrip().startswith("{") else _parse_tabs(line)
    if not group:
        raise DataError("the group has no name", path=path, line=number, hint=_HINT)
    return group, labels


def _parse_tabs(line: str) -> tuple[str, list[str]]:
    group, *labels = (cell.strip() for cell in line.split("\t"))
    return group, [label for label in labels if label]


def _parse_json(line: str, path: Path, number: int) -> tuple[str, list[str]]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"not valid JSON ({error})", path=path, line=number, hint=_HINT) from error
    labels = record.get("labels")
    group = record.get("group")
    if not isinstance(group, str | int) or not isinstance(labels, list):
        raise DataError("'group' and a list 'labels' are needed", path=path, line=number, hint=_HINT)
    if not all(isinstance(label, str | int) for label in labels):
        raise DataError("labels must be strings or ids", path=path, line=number, hint=_HINT)
    return str(group), [str(label) for label in labels]
