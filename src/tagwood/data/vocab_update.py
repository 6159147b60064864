"""A newer vocabulary brought into the label table of a model: ids stay, so that the model stays valid.

In: the model's table and a newer one. Out: the table with new names, URIs, languages and masks; added labels stand
behind the present ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from tagwood.data.strings import StringTable
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_diff import compare_vocabs


@dataclass(frozen=True)
class TableUpdate:
    """The new table, and what changed, in its own ids.

    Parameters
    ----------
    vocab
        The table.
    sources
        Label -> its id in the newer vocabulary, for all labels that are in it.
    renamed
        Label -> (name before, name now).
    masked
        Labels that are no longer to be suggested.
    added
        New labels.
    missing
        Labels that the newer vocabulary does not have.
    left_out
        Number of labels of the newer vocabulary that were not added.
    by, language
        What made labels the same, and the language of the names (None: the main one).
    """

    vocab: LabelVocab
    sources: dict[int, int]
    renamed: dict[int, tuple[str, str]]
    masked: list[int]
    added: list[int]
    missing: list[int]
    left_out: int
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
    """Bring names, languages, URIs and masks of a newer vocabulary into a table.

    Parameters
    ----------
    vocab
        The table of a model.
    newer
        The newer vocabulary; its removed labels become masked. Labels it has in use stay masked if they are.
    by
        What makes labels the same; see `compare_vocabs`.
    add
        Take in its labels that the table does not have.
    mask_missing
        Mask labels that it does not have.
    language
        Of the names; default: the one whose names agree with most of the present ones, so that a vocabulary in
        several languages does not translate the table.

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
        language = agreeing_language(vocab, newer, pairs)
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
    )
    table = table.remove(masked) if masked else table
    new = [j for j in diff.added if not gone[j]]
    added = list(range(len(vocab), len(vocab) + len(new))) if add else []
    if added:
        table = table.add(
            [newer.name(j, language) for j in new],
            uris=None if newer.uris is None else [newer.uri(j) or "" for j in new],
            languages={code: [column[j] for j in new] for code, column in newer.languages.items()},
        )
    table.keys()  # raises if two labels could not be told apart
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


def agreeing_language(vocab: LabelVocab, newer: LabelVocab, pairs: dict[int, int]) -> str | None:
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
