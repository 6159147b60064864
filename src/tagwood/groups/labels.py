"""`GroupedLabels`: which rows are in which group, and which labels each group has.

In: a group name per row, and labels per row or per group, also from a file. Out: the two 0/1 matrices that
`impute_labels` takes. Also: manual corrections of group labels (JSON lines of the service), applied to a `Dataset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tagwood._lazy import sparse
from tagwood._sparse import check_labels
from tagwood.data.dataset import Dataset
from tagwood.data.files import parse_json, parsed_lines
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

Members = Sequence[str | int | Iterable[str | int] | None]

_MAX_CHARS = 4000  # of a text in a correction
_CORRECTIONS_HINT = "Download corrections from the service, or take its file MODEL.corrections.jsonl."
_HINT = 'Expected group<TAB>label<TAB>label..., or {"group": "...", "labels": ["...", ...]}.'


@dataclass(frozen=True, eq=False)
class GroupedLabels:
    """Labels that are known for groups of rows and not for single rows.

    Parameters
    ----------
    sample_groups
        (n_rows, n_groups) 0/1 matrix, the paper's Y¹: 1 where the row is in the group; or a list with the group numbers
        of each row. A row may be in several groups or in none.
    group_labels
        (n_groups, n_labels) 0/1 matrix, the paper's Y²: 1 where the group has the label; or a list with the
        label ids of each group.
    names
        Name of each group, or None for groups without names.

    Examples
    --------
    Two boxes of two letters each; the archive labelled the boxes:

    >>> boxes = GroupedLabels.from_groups(["A", "A", "B", "B"], {"A": [0, 2], "B": [1]})
    >>> boxes.spread().toarray().astype(int).tolist()
    [[1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 1, 0]]
    """

    sample_groups: sparse.csr_array
    group_labels: sparse.csr_array
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        groups = check_labels(self.sample_groups, name="sample_groups")
        labels = check_labels(self.group_labels, name="group_labels")
        if isinstance(self.sample_groups, list | tuple) and groups.shape[1] < labels.shape[0]:
            groups.resize(groups.shape[0], labels.shape[0])  # the last groups have no rows
        if labels.shape[0] != groups.shape[1]:
            raise InputError(
                f"group_labels must have one row for each of the {groups.shape[1]:,} groups of sample_groups",
                given=f"{labels.shape[0]:,} rows",
                hint="sample_groups is (n_rows, n_groups) and group_labels is (n_groups, n_labels).",
            )
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != groups.shape[1]:
                raise InputError(
                    f"names must have one name for each of the {groups.shape[1]:,} groups",
                    given=f"{len(self.names):,} names",
                )
        object.__setattr__(self, "sample_groups", groups)
        object.__setattr__(self, "group_labels", labels)

    @classmethod
    def from_groups(cls, row_groups: Members, labels: Mapping[Any, Iterable[int]]) -> GroupedLabels:
        """Build from the group of each row and the label ids of each group.

        A row has a group name, a collection of names, or "", None or an empty collection for no group. Groups without
        labels may be missing in `labels`; labels of groups without rows are an error, because they would be lost.
        """
        groups, names = _membership(row_groups)
        known = set(names)
        unknown = [str(name) for name in labels if str(name) not in known]
        if unknown:
            raise InputError(
                "every group that has labels must have rows",
                given=f"{len(unknown):,} without, the first is {unknown[0]!r}",
                hint="Check the spelling of the group names in both files.",
            )
        by_name = {str(name): list(ids) for name, ids in labels.items()}
        matrix = check_labels([by_name.get(name, []) for name in names], name="labels")
        return cls(groups, matrix, names)

    @classmethod
    def from_rows(cls, row_groups: Members, labels: Any) -> GroupedLabels:
        """Build from `Dataset.groups` and `Dataset.labels`: a group has the labels of all its rows.

        A row with labels and without a group becomes a group of its own (named ""), so that it keeps them.

        Examples
        --------
        >>> orders = GroupedLabels.from_rows(["a", "b", "a"], [[0], [1], [2]])
        >>> orders.names, orders.group_labels.toarray().astype(int).tolist()
        (('a', 'b'), [[1, 0, 1], [0, 1, 0]])
        """
        groups, names = _membership(row_groups)
        Y = check_labels(labels, n_rows=groups.shape[0], name="labels")
        alone = np.flatnonzero((np.diff(groups.indptr) == 0) & (np.diff(Y.indptr) > 0))
        single = sparse.csr_array(
            (np.ones(alone.size, dtype=np.float32), (alone, np.arange(alone.size))),
            shape=(groups.shape[0], alone.size),
        )
        groups = sparse.csr_array(sparse.hstack([groups, single]))
        return cls(groups, sparse.csr_array(groups.T @ Y), (*names, *[""] * alone.size))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.sample_groups.shape[0])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.sample_groups.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.group_labels.shape[1])

    def spread(self) -> sparse.csr_array:
        """Return Y¹Y² as 0/1: every row with every label of its groups, the paper's baseline."""
        return check_labels(self.sample_groups @ self.group_labels)

    def __repr__(self) -> str:
        mean_size = self.sample_groups.nnz / max(1, self.n_groups)
        sizes = f"{self.n_rows:,} rows in {self.n_groups:,} groups of {mean_size:.1f} on average"
        return f"GroupedLabels({sizes}, {self.n_labels:,} labels)"


def _membership(row_groups: Members) -> tuple[sparse.csr_array, tuple[str, ...]]:
    if isinstance(row_groups, str) or not hasattr(row_groups, "__len__"):
        raise InputError("groups must be one group name per row", given=f"{type(row_groups).__name__}")
    numbers: dict[str, int] = {}
    columns: list[int] = []
    indptr = [0]
    for entry in row_groups:
        inside = [entry] if isinstance(entry, str | int | np.integer) else [] if entry is None else list(entry)
        columns += dict.fromkeys(numbers.setdefault(str(g), len(numbers)) for g in inside if str(g))
        indptr.append(len(columns))
    ones = np.ones(len(columns), dtype=np.float32)
    matrix = sparse.csr_array((ones, columns, indptr), shape=(len(indptr) - 1, len(numbers)))
    matrix.sort_indices()
    return matrix, tuple(numbers)


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
    found: dict[str, dict[str, None]] = {}
    for _, (group, labels) in parsed_lines(Path(path), _parse, encoding=encoding):
        found.setdefault(group, {}).update(dict.fromkeys(labels))
    return {group: list(labels) for group, labels in found.items()}


def _parse(line: str) -> tuple[str, list[str]]:
    if line.lstrip().startswith("{"):
        record = parse_json(line, _HINT)
        name, items = record.get("group"), record.get("labels")
        if not isinstance(name, str | int) or not isinstance(items, list):
            raise DataError("'group' and a list 'labels' are required", hint=_HINT)
        if not all(isinstance(label, str | int) for label in items):
            raise DataError("labels must be strings or ids", hint=_HINT)
        group, labels = str(name), [str(label) for label in items]
    else:
        group, *cells = (cell.strip() for cell in line.split("\t"))
        labels = [label for label in cells if label]
    if not group:
        raise DataError("the group has no name", hint=_HINT)
    return group, labels


class Correction(NamedTuple):
    """The right labels of one text of a group, from the review of groups in the service."""

    group: str
    text: str
    labels: tuple[str, ...]


def read_corrections(path: str | Path) -> list[Correction]:
    """Read corrections; of several for the same text, the last one counts."""
    found = {(one.group, one.text): one for _, one in parsed_lines(Path(path), _parse_correction)}
    return list(found.values())


def apply_corrections(data: Dataset, corrections: Iterable[Correction]) -> tuple[Dataset, int]:
    """Return the data with corrected rows, and the number of corrections whose row was found.

    A corrected row leaves its group and has the labels of the correction. These labels are removed from the other rows
    of the group, because a label of a group belongs to one of its rows, and now it is known to which.

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
        (group, text[:_MAX_CHARS]): row for row, (group, text) in enumerate(zip(data.groups, data.texts, strict=True))
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
        raise InputError("a correction's label must be in the data", given=repr(label), hint="Add it with --vocab.")
    return found


def _parse_correction(line: str) -> Correction:
    record = parse_json(line, _CORRECTIONS_HINT)
    fields = record if isinstance(record, dict) else {}
    group, text, labels = (fields.get(key) for key in ("from_group", "text", "labels"))
    if not isinstance(group, str) or not isinstance(text, str) or not isinstance(labels, list):
        raise DataError("'from_group', 'text' and 'labels' are required", hint=_CORRECTIONS_HINT)
    names = [one if isinstance(one, str) else _label_key(one) for one in labels]
    if not all(names):
        raise DataError("a label must have a name or URI", hint=_CORRECTIONS_HINT)
    return Correction(group, text[:_MAX_CHARS], tuple(names))


def _label_key(label: Any) -> str:
    found = (label.get("uri") or label.get("label")) if isinstance(label, dict) else None
    return found if isinstance(found, str) else ""
