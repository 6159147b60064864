"""Which column or field is what: the names under which files of other tools hold text, labels, ids, groups.

In: the names of a table or object. Out: the name that holds a role, or the text of a row. Case does not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tagwood.errors import DataError

TITLE = ("title", "heading", "headline")
BODY = ("text", "content", "body", "abstract", "description", "document", "question", "query")
LABELS = (
    *("labels", "label", "subject_uris", "subjects", "subject", "tags", "tag"),
    *("keywords", "categories", "topics", "concepts", "target_ind"),
)
ID = ("id", "uid", "doc_id", "document_id", "docid")
GROUP = ("group", "group_id", "groups", "bag")


def pick(names: Iterable[str], role: tuple[str, ...]) -> str | None:
    """Return the first of `names` that plays `role`, in the order of the role's names.

    Examples
    --------
    >>> pick(["Body", "Tags"], LABELS), pick(["Body"], LABELS)
    ('Tags', None)
    """
    lower = {name.lower().strip(): name for name in names}
    return next((lower[name] for name in role if name in lower), None)


def join_text(content: Mapping[str, Any]) -> str | None:
    r"""Return title and body of a row, joined by a line break; None if it has neither field.

    Examples
    --------
    >>> join_text({"title": "Ash", "abstract": "A tree."})
    'Ash\nA tree.'
    """
    columns = [name for name in (pick(content, TITLE), pick(content, BODY)) if name is not None]
    if not columns:
        return None
    parts = [content[name] for name in columns]
    for name, part in zip(columns, parts, strict=True):
        if part is not None and not isinstance(part, str):
            raise DataError(f"{name!r} is not text")
    return "\n".join(part for part in parts if part)
