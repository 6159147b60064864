"""Texts with named fields (title, abstract, keywords, ...): one line per field.

In: the fields of a row, or a text made of them. Out: that text, or its fields. The last field may have several lines;
so a title and a body are a text whose first line is the title. A text with fewer lines than fields has no fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tagwood.errors import InputError


def join_fields(values: Sequence[str]) -> str:
    r"""Return a text of fields; "" if all of them are blank.

    Examples
    --------
    >>> join_fields(["On\noaks", "", "Oaks are trees.\nSo are elms."])
    'On oaks\n\nOaks are trees.\nSo are elms.'
    """
    *others, last = values
    text = "\n".join([*(" ".join(value.split()) for value in others), last])
    return text if text.strip() else ""


def split_fields(text: str, n_fields: int) -> list[str] | None:
    r"""Return the fields of a text, or None if it has fewer lines than fields, or words in one of them only.

    Examples
    --------
    >>> split_fields("On oaks\nOaks are trees.", 2), split_fields("Oaks are trees.", 2), split_fields("oaks\n", 2)
    (['On oaks', 'Oaks are trees.'], None, None)
    """
    parts = text.split("\n", n_fields - 1)
    return parts if len(parts) == n_fields and sum(map(bool, map(str.strip, parts))) > 1 else None


def field_names(rows: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of the fields of rows that are mappings, in order of first appearance; none for other rows.

    Examples
    --------
    >>> field_names([{"title": "oaks"}, {"text": "Oaks are trees.", "title": ""}]), field_names(["oaks"])
    (('title', 'text'), ())
    """
    return tuple(dict.fromkeys(str(name) for row in rows if isinstance(row, Mapping) for name in row))


def text_of_fields(given: Mapping[str, Any], names: Sequence[str]) -> str:
    r"""Return the text of a row given by its fields; missing fields are empty, unknown ones raise `InputError`.

    Examples
    --------
    >>> text_of_fields({"abstract": "Oaks are trees."}, ["title", "abstract"])
    '\nOaks are trees.'
    """
    if not names:
        raise InputError(
            "this model was trained on texts without named fields",
            given=_listed(given),
            hint="Send one text: the title, a line break, and the rest; or train with --text-columns.",
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"fields must be among those of the model: {_listed(names)}", given=_listed(unknown))
    wrong = next((name for name, value in given.items() if not isinstance(value, str | None)), None)
    if wrong is not None:
        raise InputError("fields must be texts", given=f"{type(given[wrong]).__name__} in {wrong!r}")
    return join_fields([given.get(name) or "" for name in names])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no field"
