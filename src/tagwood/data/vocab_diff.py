"""What changed between two label tables: added, removed, renamed, masked. In: two `LabelVocab`. Out: `VocabDiff`.

Labels are the same if their URIs are; where one of them has none, if their names are; or, for two states of one table,
if their ids are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tagwood._check import check_choice
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError

WAYS = ("uri", "name", "id")


class Renamed(NamedTuple):
    """A label with another name: its ids in both tables, the language (None: the main name), and both names."""

    old: int
    new: int
    language: str | None
    before: str
    after: str


@dataclass(frozen=True)
class VocabDiff:
    """What changed: ids of the new table for added, masked and unmasked labels, of the old one for removed ones."""

    by: str
    pairs: dict[int, int]
    added: list[int]
    removed: list[int]
    renamed: list[Renamed]
    masked: list[int]
    unmasked: list[int]

    @property
    def is_empty(self) -> bool:
        """Whether the tables say the same."""
        return not any((self.added, self.removed, self.renamed, self.masked, self.unmasked))


def compare_vocabs(old: LabelVocab, new: LabelVocab, by: str | None = None) -> VocabDiff:
    """Compare two label tables.

    Parameters
    ----------
    old, new
        The tables.
    by
        What makes two labels the same: ``"uri"`` (labels without one go by name), ``"name"`` or ``"id"``. Default:
        URIs if both tables have some, else names.

    Examples
    --------
    >>> old = LabelVocab.from_names(["ash", "oak"], uris=["urn:1", "urn:2"])
    >>> new = LabelVocab.from_names(["oak", "ash tree", "elm"], uris=["urn:2", "urn:1", "urn:3"])
    >>> diff = compare_vocabs(old, new)
    >>> diff.added, diff.removed, diff.renamed
    ([2], [], [Renamed(old=0, new=1, language=None, before='ash', after='ash tree')])
    """
    if by is None:
        by = "name" if old.uris is None or new.uris is None else "uri"
    check_choice(by, "by", WAYS)
    if by == "uri" and (old.uris is None or new.uris is None):
        raise InputError("to compare by URI, both tables must have URIs", hint="Compare by name or by id.")
    pairs = pair_labels(old, new, by)
    met = set(pairs.values())
    gone_before, gone_after = old.removed_mask(), new.removed_mask()
    return VocabDiff(
        by,
        pairs,
        [label for label in range(len(new)) if label not in met],
        [label for label in range(len(old)) if label not in pairs],
        [change for pair in pairs.items() for change in _renamed(old, new, *pair)],
        [j for i, j in pairs.items() if gone_after[j] and not gone_before[i]],
        [j for i, j in pairs.items() if gone_before[i] and not gone_after[j]],
    )


def pair_labels(old: LabelVocab, new: LabelVocab, by: str) -> dict[int, int]:
    """Return id in `old` -> id in `new` of the labels that are in both, rising."""
    if by == "id":
        return {label: label for label in range(min(len(old), len(new)))}
    if by == "name":
        places = {key: label for label, key in enumerate(new.keys())}
        return {label: places[key] for label, key in enumerate(old.keys()) if key in places}
    places = {uri: label for label, uri in enumerate(new.uris or ()) if uri}
    pairs = {label: places[uri] for label, uri in enumerate(old.uris or ()) if uri in places}
    return dict(sorted((pairs | _pairs_by_name(old, new, pairs)).items()))


def _pairs_by_name(old: LabelVocab, new: LabelVocab, pairs: dict[int, int]) -> dict[int, int]:
    """Pair labels that are left over by their names, where one of the two has no URI."""
    met = set(pairs.values())
    left: dict[str, int | None] = {}
    for j in range(len(new)):
        if j not in met:
            name = new.name(j)
            left[name] = None if name in left else j  # homonyms: nobody knows which
    found: dict[int, int] = {}
    for i in range(len(old)):
        j_or_none = left.get(old.name(i)) if i not in pairs else None
        if j_or_none is not None and (old.uri(i) is None or new.uri(j_or_none) is None):
            found[i] = j_or_none
            left[old.name(i)] = None
    return found


def _renamed(old: LabelVocab, new: LabelVocab, i: int, j: int) -> list[Renamed]:
    changes = [Renamed(i, j, None, old.name(i), new.name(j))]
    for code in old.languages.keys() & new.languages.keys():
        before, after = old.languages[code][i], new.languages[code][j]
        if before and after:
            changes.append(Renamed(i, j, code, before, after))
    return sorted((c for c in changes if c.before != c.after), key=lambda c: c.language or "")
