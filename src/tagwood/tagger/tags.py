"""`Tag` and `Tags`: what a Tagger answers. In: label ids and scores. Out: names, URIs, and a word on trust."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self


class Tag(NamedTuple):
    """One suggested label."""

    label: int
    name: str
    uri: str | None
    score: float


class Tags(tuple[Tag, ...]):
    """The labels of one text, best first; `review` says that a promise cannot be kept and a person should look.

    Examples
    --------
    >>> tags = Tags([Tag(3, "oak", None, 0.9)])
    >>> tags[0].name, len(tags), tags.review
    ('oak', 1, False)
    """

    review = False

    def __new__(cls, tags: Iterable[Tag] = (), *, review: bool = False) -> Self:
        """Wrap tags."""
        made = super().__new__(cls, tags)
        if review:
            made.review = True
        return made

    @property
    def names(self) -> list[str]:
        """Names of the labels."""
        return [tag.name for tag in self]
