"""Compare two label tables, and update the table of a model from a newer vocabulary.

In: the model's `LabelVocab` and a newer one. Out: a `VocabDiff`, or the model's table with new names, URIs, languages
and removed labels. Ids stay and new labels are appended, so that the model stays valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tagwood._check import check_choice
from tagwood.data.vocab import LabelVocab, StringTable
from tagwood.errors import InputError

_KEYS = ("uri", "name", "id")


class Renamed(NamedTuple):
    """A label with another name: its ids in both tables, the language (None: the main name), and both names."""

    old: int
    new: int
    language: str | None
    before: str
    after: str


@dataclass(frozen=True)
class VocabDiff:
    """The changes: ids of the new table for added, masked and unmasked labels, of the old one for removed labels."""

    by: str
    pairs: dict[int, int]
    added: list[int]
    removed: list[int]
    renamed: list[Renamed]
    masked: list[int]
    unmasked: list[int]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not any((self.added, self.removed, self.renamed, self.masked, self.unmasked))


def compare_vocabs(old: LabelVocab, new: LabelVocab, by: str | None = None) -> VocabDiff:
    """Compare two label tables.

    Labels are matched by ``"uri"`` (by name where a label has none), ``"name"`` or ``"id"`` (two states of one table).
    Default: URIs if both tables have some, else names.

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
    check_choice(by, "by", _KEYS)
    if by == "uri" and (old.uris is None or new.uris is None):
        raise InputError("to compare by URI, both tables must have URIs", hint="Compare by name or by id.")
    pairs = _pair_labels(old, new, by)
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


def _pair_labels(old: LabelVocab, new: LabelVocab, by: str) -> dict[int, int]:
    """Return id in `old` -> id in `new` of the labels in both tables, in rising order."""
    if by == "id":
        return {label: label for label in range(min(len(old), len(new)))}
    if by == "name":
        places = {key: label for label, key in enumerate(new.keys())}
        return {label: places[key] for label, key in enumerate(old.keys()) if key in places}
    places = {uri: label for label, uri in enumerate(new.uris or ()) if uri}
    pairs = {label: places[uri] for label, uri in enumerate(old.uris or ()) if uri in places}
    return dict(sorted((pairs | _pairs_by_name(old, new, pairs)).items()))


def _pairs_by_name(old: LabelVocab, new: LabelVocab, pairs: dict[int, int]) -> dict[int, int]:
    """Match the remaining labels by name, where one of the two has no URI."""
    met = set(pairs.values())
    left: dict[str, int | None] = {}
    for j in range(len(new)):
        if j not in met:
            name = new.name(j)
            left[name] = None if name in left else j  # homonyms are ambiguous
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


@dataclass(frozen=True)
class TableUpdate:
    """The updated table, and the changes in its own ids."""

    vocab: LabelVocab
    sources: dict[int, int]  # label -> its id in the newer vocabulary, for all labels in both
    renamed: dict[int, tuple[str, str]]  # label -> (name before, name now)
    masked: list[int]  # labels that are no longer suggested
    added: list[int]
    missing: list[int]  # labels that are not in the newer vocabulary
    left_out: int  # number of labels of the newer vocabulary that were not added
    # by, language: how labels were matched, and the language of the names (None: the main one)
    by: str
    language: str | None


def update_table(
    vocab: LabelVocab,
    newer: LabelVocab,
    *,
    by: str | None = None,
    add: bool = False,
    mask_missing: bool = False,
    language: str | None = None,
) -> TableUpdate:
    """Update the names, languages, URIs and removed labels of a model's table from a newer vocabulary.

    Removed labels of `newer` become masked, with `mask_missing` also labels that are not in it; masked labels stay so.
    With `add`, its further labels are appended. Labels are matched `by` as in `compare_vocabs`. `language` is that of
    the names; default: the one that agrees with most of the present names, so that a multilingual vocabulary does not
    translate the table.

    Examples
    --------
    >>> old = LabelVocab.from_names(["Esche", "Eiche"], uris=["urn:1", "urn:2"])
    >>> new = LabelVocab.from_names(
    ...     ["ash", "oak"], uris=["urn:1", "urn:2"], languages={"de": ["Esche", "Eichen"]})
    >>> update_table(old, new).renamed
    {1: ('Eiche', 'Eichen')}
    """
    diff = compare_vocabs(vocab, newer, by)
    pairs = diff.pairs
    if language is None:
        language = _agreeing_language(vocab, newer, pairs)
    names = {i: newer.name(j, language) for i, j in pairs.items()}
    renamed = {i: (vocab.name(i), name) for i, name in names.items() if name != vocab.name(i)}
    gone = newer.removed_mask()
    before = vocab.removed_mask()
    masked = [i for i, j in pairs.items() if gone[j] and not before[i]]
    if mask_missing:
        masked += [i for i in diff.removed if not before[i]]
    table = LabelVocab(
        len(vocab),
        vocab.names if not renamed else _column(vocab, {i: after for i, (_, after) in renamed.items()}),
        _uris(vocab, newer, pairs),
        _languages(vocab, newer, pairs),
        vocab.removed,
        _alternatives(vocab, newer, pairs),
        vocab.id_kind,
    )
    table = replace(table, details=_details(vocab, newer, pairs))
    table = table.remove(masked) if masked else table
    new = [j for j in diff.added if not gone[j]]
    added = list(range(len(vocab), len(vocab) + len(new))) if add else []
    if added:
        table = table.add(
            [newer.name(j, language) for j in new],
            uris=None if newer.uris is None else [newer.uri(j) or "" for j in new],
            languages={code: [column[j] for j in new] for code, column in newer.languages.items()},
            alternatives=None if newer.alternatives is None else [newer.alternatives[j].split("\n") for j in new],
            details={what: [column[j] for j in new] for what, column in newer.details.items()},
        )
    table.keys()  # raises if two labels have the same key
    return TableUpdate(
        table,
        pairs | (dict(zip(added, new, strict=True)) if add else {}),
        renamed,
        sorted(masked),
        added,
        diff.removed,
        0 if add else len(new),
        diff.by,
        language,
    )


def _agreeing_language(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> str | None:
    """Return the language of `newer` with most of the present names; None for its main names."""

    def agreeing(code: str | None) -> int:
        return sum(vocab.name(i) == newer.name(j, code) for i, j in pairs.items())

    return max([None, *newer.languages], key=agreeing)


def _column(vocab: LabelVocab, changes: dict[int, str]) -> StringTable:
    names = [vocab.name(i) if vocab.names is None else vocab.names[i] for i in range(len(vocab))]
    for label, name in changes.items():
        names[label] = name
    return StringTable.from_strings(names)


def _uris(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> StringTable | None:
    if newer.uris is None:
        return vocab.uris
    uris = [vocab.uri(i) or "" for i in range(len(vocab))]
    for i, j in pairs.items():
        uris[i] = uris[i] or newer.uris[j]
    return StringTable.from_strings(uris)


def _languages(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> dict[str, StringTable]:
    found = dict(vocab.languages)
    for code, column in newer.languages.items():
        names = list(found[code]) if code in found else [""] * len(vocab)
        for i, j in pairs.items():
            names[i] = column[j] or names[i]
        found[code] = StringTable.from_strings(names)
    return found


def _alternatives(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> StringTable | None:
    """Return the alternative names of `newer`, and the present ones of labels for which it has none."""
    if newer.alternatives is None:
        return vocab.alternatives
    names = [""] * len(vocab) if vocab.alternatives is None else list(vocab.alternatives)
    for i, j in pairs.items():
        names[i] = newer.alternatives[j] or names[i]
    return StringTable.from_strings(names)


def _details(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> dict[str, StringTable]:
    """Return notations, broader labels and replacements: those of `newer` for labels that it has."""
    found = dict(vocab.details)
    for what, column in newer.details.items():
        cells = list(found[what]) if what in found else [""] * len(vocab)
        for i, j in pairs.items():
            cells[i] = column[j]
        found[what] = StringTable.from_strings(cells)
    return found
