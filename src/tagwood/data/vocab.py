"""`LabelVocab`: the table of labels with ids, names (in several languages, alternative ones), URIs, removed labels.

In: names and URIs. Out: a frozen value that data, models and service share; `vocab_files` reads and writes it. An id is
a row of the table. Rows are only appended and ids never reused, so that models stay valid when the vocabulary grows.
Strings are kept as one block of bytes (`StringTable`): a million names are small and load memory-mapped.

Users may call labels by whole numbers or tuples of their own, such as the numbers of products (`LabelVocab.of_ids`).
The ids are stored as text in the column of URIs, and `label_id` returns them as they were given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_int
from tagwood.errors import InputError
from tagwood.storage.state import check_packed, pack_strings

DETAILS = ("notation", "broader", "replaced_by")
ID_KINDS = ("row", "integer", "tuple")
_KINDS = {"integer": "whole number", "tuple": "tuple"}
_AMBIGUOUS, _UNKNOWN = -1, -2
_SHOWN = 5  # labels that an ambiguous name is told to stand for
_BETWEEN_NAMES = "\n"
_MAX_LABELS = 2**31 - 1
_MOST = np.uint64(2**63 - 1)  # largest id


@dataclass(frozen=True, eq=False)
class StringTable:
    """Strings by position: UTF-8 bytes in `blob`, string i at ``blob[offsets[i]:offsets[i + 1]]``.

    Examples
    --------
    >>> table = StringTable.from_strings(["ash", "", "Bäume"])
    >>> len(table), table[2], list(table), table.offsets
    (3, 'Bäume', ['ash', '', 'Bäume'], array([0, 3, 3, 9]))
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        check_packed(self.blob, self.offsets)

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> StringTable:
        """Pack strings; a lone surrogate, which UTF-8 cannot encode, raises `InputError`."""
        return cls(*pack_strings(strings))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, position: int) -> str:
        begin, end = self.offsets[position], self.offsets[position + 1]
        return self.blob[begin:end].tobytes().decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        data = self.blob.tobytes()
        begin = 0
        for end in self.offsets[1:].tolist():
            yield data[begin:end].decode(errors="replace")
            begin = end

    def begins_with(self, other: StringTable) -> bool:
        """Whether the first strings are those of another table."""
        size, end = len(other), int(other.offsets[-1])
        return np.array_equal(self.offsets[: size + 1], other.offsets) and np.array_equal(self.blob[:end], other.blob)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StringTable)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.blob, other.blob)
        )

    __hash__ = None  # type: ignore[assignment]

    def extend(self, strings: Iterable[str]) -> StringTable:
        """Return a table with `strings` appended."""
        more = StringTable.from_strings(strings)
        return StringTable(
            np.concatenate([self.blob, more.blob]),
            np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]]),
        )


@dataclass(frozen=True, eq=False)
class RowNames:
    """What the rows of a label table are called by, to recognize the table after labels were added to it."""

    size: int
    names: StringTable | None
    uris: StringTable | None

    def continues(self, before: RowNames) -> bool:
        """Whether the rows of another table are the first ones here: by URI if all have one, else by name.

        Rows of a table without names are called by their numbers, and are never others.

        Examples
        --------
        >>> before, after, other = (LabelVocab.from_names(names).row_names for names in ("ab", "abc", "bac"))
        >>> after.continues(before), other.continues(before), before.continues(after)
        (True, False, False)
        """
        if before.uris is not None and np.diff(before.uris.offsets).all():
            return self.uris is not None and self.uris.begins_with(before.uris)
        return before.names is None or (self.names is not None and self.names.begins_with(before.names))


def pack_names(names: Iterable[Iterable[str]]) -> StringTable:
    """Return a table with several names per entry, separated by line breaks; white space becomes single spaces."""
    return StringTable.from_strings(
        _BETWEEN_NAMES.join(dict.fromkeys(" ".join(name.split()) for name in some if name.strip())) for some in names
    )


@dataclass(frozen=True, eq=False)
class LabelVocab:
    """A frozen label table. Build it with `from_names` or `numbered`, grow it with `add`.

    Parameters
    ----------
    size
        Number of labels, removed ones included.
    names
        Main name of each label, or None for a table whose names are just the ids.
    uris
        URI (or any other external key) of each label, empty where there is none.
    languages
        Names in further languages: language code -> table, empty where there is none.
    removed
        (size,) bool: True for labels that are no longer suggested. They keep their ids.
    alternatives
        Alternative names and notation of each label, in any language, separated by line breaks; see `label_names`.
    id_kind
        What a label that is not called by a text is called by: its ``"row"`` of the table; or an ``"integer"`` or
        ``"tuple"`` of its own, which `uris` has as text.

    details
        What a thesaurus says beside names, by `DETAILS`, empty where there is nothing: ``"notation"``; URIs of
        ``"broader"`` labels and of those that a label is ``"replaced_by"``, separated by line breaks.

    Examples
    --------
    >>> vocab = LabelVocab.from_names(["ash", "oak"], languages={"de": ["Esche", ""]})
    >>> vocab.name(0, "de"), vocab.name(1, "de"), vocab.find("oak"), vocab.find("elm")
    ('Esche', 'oak', 1, None)
    >>> vocab.add(["elm"]).id("elm")
    2
    """

    size: int
    names: StringTable | None = None
    uris: StringTable | None = None
    languages: Mapping[str, StringTable] = field(default_factory=dict)
    removed: NDArray[np.bool_] | None = None
    alternatives: StringTable | None = None
    id_kind: str = "row"
    details: Mapping[str, StringTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_int(self.size, "the number of labels", low=0, high=_MAX_LABELS)
        check_choice(self.id_kind, "id_kind", ID_KINDS)
        if self.id_kind != "row" and self.uris is None:
            raise InputError("a vocabulary with ids of its own must have them as URIs", given="no URIs")
        object.__setattr__(self, "languages", dict(self.languages))
        object.__setattr__(self, "details", dict(self.details))
        for what in self.details:
            check_choice(what, "details", DETAILS)
        columns = {"names": self.names, "URIs": self.uris, "removed": self.removed, **self.languages}
        columns["alternative names"] = self.alternatives
        columns |= self.details
        for what, column in columns.items():
            if column is not None and len(column) != self.size:
                raise InputError(
                    f"a vocabulary of {self.size:,} labels must have as many entries in {what!r}",
                    given=f"{len(column):,}",
                )

    @classmethod
    def from_names(
        cls,
        names: Iterable[str],
        *,
        uris: Sequence[str] | None = None,
        languages: Mapping[str, Sequence[str]] | None = None,
        alternatives: Iterable[Iterable[str]] | None = None,
    ) -> LabelVocab:
        """Build a table with ids in the order of `names`; two labels with the same name must have different URIs."""
        table = StringTable.from_strings(names)
        vocab = cls(
            len(table),
            table,
            None if uris is None else StringTable.from_strings(uris),
            {code: StringTable.from_strings(column) for code, column in (languages or {}).items()},
            alternatives=None if alternatives is None else pack_names(alternatives),
        )
        if not vocab._names_differ:
            vocab.keys()  # raises unless homonyms have different URIs
        return vocab

    @classmethod
    def numbered(cls, size: int) -> LabelVocab:
        """Build a table of labels without names; it takes no memory, whatever its size."""
        return cls(size)

    @classmethod
    def of_ids(cls, ids: Iterable[int | tuple[Any, ...]]) -> LabelVocab:
        """Build a table of labels that are called by whole numbers of any size, or by tuples of texts and numbers.

        Examples
        --------
        >>> vocab = LabelVocab.of_ids([7, 1_000_000_007])
        >>> vocab.label_id(1), vocab.find_many([1_000_000_007, 8]).tolist(), vocab.name(1)
        (1000000007, [1, -1], '1000000007')
        """
        listed = list(ids)
        kind = "tuple" if listed and isinstance(listed[0], tuple) else "integer"
        uris = StringTable.from_strings(map(encode_id, listed))
        vocab = cls(len(listed), StringTable.from_strings(repeat("", len(listed))), uris, id_kind=kind)
        if len(vocab._by_uri) < len(listed):
            raise InputError(
                "ids of labels must differ", given=f"{len(vocab._by_uri):,} different ones of {len(listed):,}"
            )
        return vocab

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelVocab)
            and (self.size, self.uris, self.languages) == (other.size, other.uris, other.languages)
            and self.id_kind == other.id_kind
            and (self.alternatives, self.details) == (other.alternatives, other.details)
            and (self.names == other.names or list(self._all_names()) == list(other._all_names()))
            and np.array_equal(self.removed_mask(), other.removed_mask())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LabelVocab({self.size:,} labels)"

    def name(self, label: int, language: str | None = None) -> str:
        """Return a label's name: in `language` if known, else the main one, else the URI, else the id."""
        label = check_int(label, "label", low=0, high=self.size - 1)
        if language is not None and language in self.languages:
            name = self.languages[language][label]
            if name:
                return name
        if self.names is None:
            return str(label)
        return self.names[label] or self.uri(label) or str(label)

    def label_names(self, first: int = 0) -> list[list[str]]:
        """Return all names of each label from id `first` on: main name, other languages, alternative names.

        Examples
        --------
        >>> LabelVocab.from_names(["ash", "oak"], alternatives=[["Fraxinus"], []]).label_names()
        [['ash', 'Fraxinus'], ['oak']]
        """
        found: list[dict[str, None]] = [{} for _ in range(first, self.size)]
        for table in (self.names, *self.languages.values(), self.alternatives):
            for names, cell in zip(found, () if table is None else islice(table, first, None), strict=False):
                names.update(dict.fromkeys(filter(None, cell.split(_BETWEEN_NAMES))))
        return [list(names) for names in found]

    def keeps_names(self, before: LabelVocab) -> bool:
        """Whether the labels of another table have the same names here, in all languages; more labels may follow.

        Examples
        --------
        >>> before = LabelVocab.from_names(["ash", "oak"])
        >>> LabelVocab.from_names(["ash", "oak", "elm"]).keeps_names(before)
        True
        >>> LabelVocab.from_names(["ash", "elm"]).keeps_names(before)
        False
        """
        if self.languages.keys() != before.languages.keys():
            return False
        pairs = [(self.names, before.names), (self.alternatives, before.alternatives)]
        pairs += [(self.languages[one], before.languages[one]) for one in before.languages]
        return all(new is old or (new is not None and old is not None and new.begins_with(old)) for new, old in pairs)

    def uri(self, label: int) -> str | None:
        """Return the URI of a label, or None."""
        label = check_int(label, "label", low=0, high=self.size - 1)
        return (self.uris[label] or None) if self.uris is not None else None

    def label_id(self, label: int) -> int | tuple[Any, ...]:
        """Return the id of a row of the table as it was given; the row itself where labels have no ids of their own."""
        if self.id_kind == "row" or self.uris is None:
            return label
        return decode_id(self.uris[label], self.id_kind) if self.uris[label] else label

    def number(self, label: int) -> int:
        """Return the whole number that a row of the table is called by: one of its own, or else the row."""
        found = self.label_id(label)
        return label if isinstance(found, tuple) else found

    def find_many(self, labels: Any) -> NDArray[np.int64]:
        """Return the rows of many labels, -1 for unknown ones, without a Python loop for numbers.

        Parameters
        ----------
        labels
            Ids (rows, or whatever `id_kind` says), or names and URIs: a collection or an array of NumPy, Arrow, pandas
            or Polars.
        """
        values = as_array(labels)
        if isinstance(values, list):
            return self._find_texts(values)
        if values.ndim != 1 and values.size:
            raise InputError("labels must be a list of labels", given=f"an array of shape {values.shape}")
        if values.dtype.kind in "iu":
            numbers = values.astype(np.int64)
            rows = self._find_numbers(numbers)
            return rows if values.dtype.kind == "i" else np.where(values > _MOST, -1, rows)  # others wrap around
        return self._find_texts(values.ravel().tolist())

    def find(self, key: str) -> int | None:
        """Return the id of the label with this URI, or else main name, or else any other name; None if there is none.

        Other names are those of further languages, alternative names and notations. Of labels with the same name, those
        in use go before removed ones; several labels in use raise `InputError`.

        Examples
        --------
        >>> vocab = LabelVocab.from_names(["ash", "oak"], alternatives=[["tree", "582"], ["tree"]])
        >>> vocab.find("582")
        0
        >>> vocab.find("tree")
        Traceback (most recent call last):
        tagwood.errors.InputError: the name 'tree' is ambiguous: 'ash', 'oak'. Use the URI or main name of the label.
        """
        label = self._find_own(key)
        if label is None:
            label = self._by_other_name.get(key)
        if label == _AMBIGUOUS:
            several = ", ".join(repr(self._described(one)) for one in self.find_all(key)[:_SHOWN])
            raise InputError(f"the name {key!r} is ambiguous: {several}", hint="Use the URI or main name of the label.")
        return label

    def find_all(self, key: str) -> list[int]:
        """Return all labels in use that have a URI, or else main name, or else other name, in the order of ids."""
        label = self._find_own(key)
        label = self._by_other_name.get(key) if label is None else label
        if label != _AMBIGUOUS:
            return [] if label is None else [label]
        named = [i for i, name in enumerate(self._all_names()) if name == key]
        others = named or [i for i, names in enumerate(self.label_names()) if key in names]
        return [i for i in others if not self._is_removed(i)] or others

    def below(self, labels: Iterable[int]) -> NDArray[np.int64]:
        """Return labels and all that are narrower, by the broader labels in `details`, as rising ids."""
        found = {check_int(label, "label", low=0, high=self.size - 1) for label in labels}
        narrower = self._narrower
        if not narrower:
            raise InputError(
                "branches need a vocabulary with broader labels",
                given="none",
                hint="Load one with: tagwood vocab load MODEL subjects.ttl",
            )
        waiting = list(found)
        while waiting:
            new = [one for one in narrower.get(waiting.pop(), ()) if one not in found]
            found.update(new)
            waiting += new
        return np.array(sorted(found), dtype=np.int64)

    def detail(self, label: int, what: str) -> list[str]:
        """Return what `details` say about a label: its notation, or URIs of broader labels or of its replacements."""
        table = self.details.get(what)
        return [] if table is None else table[label].split(_BETWEEN_NAMES) if table[label] else []

    def other_names(self, label: int) -> list[str]:
        """Return the alternative names and notations of a label."""
        cell = "" if self.alternatives is None else self.alternatives[label]
        return cell.split(_BETWEEN_NAMES) if cell else []

    def with_uri(self, uri: str) -> int | None:
        """Return the label with a URI; None if there is none."""
        return self._by_uri.get(uri)

    def own_keys(self) -> set[str]:
        """Return all main names and URIs."""
        return (
            {*self._by_name, *self._by_uri} if self.names is not None else {*map(str, range(self.size)), *self._by_uri}
        )

    def _find_own(self, key: str) -> int | None:
        """Return the label with this URI or main name, -1 where there are several, None if there is none."""
        label = self._by_uri.get(key)
        if label is None and self.id_kind == "tuple" and key.startswith("["):
            with suppress(InputError):  # the same tuple with other spaces or escapes
                label = self._by_uri.get(encode_id(decode_id(key, "tuple")))
        if label is None:
            label = _as_id(key, self.size) if self.names is None else self._by_name.get(key)
        return label

    def _described(self, label: int) -> str:
        uri = self.uri(label)
        return self.name(label) if uri is None else f"{self.name(label)} <{uri}>"

    def find_word(self, word: str) -> int | None:
        """Like `find`, for formats whose label names have ``_`` in place of spaces."""
        label = self.find(word)
        return self._by_word.get(word) if label is None else label

    def id(self, key: str) -> int:
        """Return the id of the label with this URI or main name, or raise `InputError`."""
        label = self.find(key)
        if label is None:
            raise InputError("a label must be in the vocabulary", given=repr(key), hint=f"It has {self.size:,} labels.")
        return label

    def keys(self) -> list[str]:
        """Return one string per label that `find` maps back to its id: the name, or a homonym's URI."""
        names = list(self._all_names())
        if self._names_differ and (not self._by_uri or self._by_uri.keys().isdisjoint(names)):
            return names
        uris = [""] * self.size if self.uris is None else list(self.uris)
        return [self._key(label, *pair) for label, pair in enumerate(zip(names, uris, strict=True))]

    def words(self) -> list[str]:
        """Return one string without white space per label that `find_word` maps back to its id."""
        words = [_word(key) for key in self.keys()]
        for label, word in enumerate(words):
            if self.find_word(word) != label:
                raise InputError("label names must differ by more than spaces and '_' in this format", given=repr(word))
        return words

    def removed_mask(self) -> NDArray[np.bool_]:
        """Return (size,) bool, True for removed labels."""
        return np.zeros(self.size, dtype=np.bool_) if self.removed is None else self.removed

    def add(
        self,
        names: Sequence[str],
        *,
        uris: Sequence[str] | None = None,
        languages: Mapping[str, Sequence[str]] | None = None,
        alternatives: Iterable[Iterable[str]] | None = None,
        details: Mapping[str, Sequence[str]] | None = None,
    ) -> LabelVocab:
        """Return a vocabulary with new labels appended; present ones keep their ids."""
        self._check_new(names, uris)
        blanks = [""] * len(names)
        older = [""] * self.size
        mains = self.names if self.names is not None else StringTable.from_strings(map(str, range(self.size)))
        tables = {}
        for code in dict.fromkeys([*self.languages, *(languages or {})]):
            old = self.languages.get(code) or StringTable.from_strings(older)
            tables[code] = old.extend((languages or {}).get(code, blanks))
        both = self.uris
        if uris is not None and both is None:
            both = StringTable.from_strings(older)
        others = self.alternatives
        if alternatives is not None or others is not None:
            others = (others or StringTable.from_strings(older)).extend(pack_names(alternatives or blanks))
        facts = {
            what: (self.details.get(what) or StringTable.from_strings(older)).extend((details or {}).get(what, blanks))
            for what in dict.fromkeys([*self.details, *(details or {})])
        }
        return LabelVocab(
            self.size + len(names),
            mains.extend(names),
            None if both is None else both.extend(blanks if uris is None else uris),
            tables,
            None if self.removed is None else np.append(self.removed, np.zeros(len(names), dtype=np.bool_)),
            others,
            self.id_kind,
            facts,
        )

    def add_ids(self, ids: Iterable[int | tuple[Any, ...]]) -> LabelVocab:
        """Return a vocabulary with labels appended that are called by ids, as in `of_ids`.

        Rows of a table without names become ids of the labels, so that numbers with gaps can follow.
        """
        new = list(ids)
        if self.id_kind == "row" and self.names is None:
            return replace(LabelVocab.of_ids(range(self.size)), removed=self.removed).add_ids(new)
        if self.id_kind != ("tuple" if new and isinstance(new[0], tuple) else "integer"):
            raise InputError(f"new labels must be called by {self.id_kind}s", given=repr(new[:1])[:60])
        return self.add([""] * len(new), uris=[encode_id(one) for one in new])

    def remove(self, labels: Iterable[int]) -> LabelVocab:
        """Return a vocabulary in which `labels` are marked as removed; their ids are never reused."""
        mask = self.removed_mask().copy()
        mask[[check_int(label, "label", low=0, high=self.size - 1) for label in labels]] = True
        return replace(self, removed=mask)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the table as plain arrays for storage; `from_arrays` restores it."""
        arrays: dict[str, NDArray[np.generic]] = {"size": np.array([self.size], dtype=np.int64)}
        tables = {"names": self.names, "uris": self.uris, "alternatives": self.alternatives}
        tables |= {f"language.{code}": table for code, table in self.languages.items()}
        tables |= {f"detail.{what}": table for what, table in self.details.items()}
        for name, table in tables.items():
            if table is not None:
                arrays[f"{name}.blob"] = table.blob
                arrays[f"{name}.offsets"] = table.offsets
        if self.removed is not None:
            arrays["removed"] = self.removed.astype(np.uint8)
        if self.id_kind != "row":
            arrays["id_kind"] = np.array([ID_KINDS.index(self.id_kind)], dtype=np.uint8)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> LabelVocab:
        """Rebuild a table from `to_arrays`; memory-mapped arrays stay on disk."""

        def table(name: str) -> StringTable | None:
            blob, offsets = arrays.get(f"{name}.blob"), arrays.get(f"{name}.offsets")
            return None if blob is None or offsets is None else StringTable(blob, offsets)  # type: ignore[arg-type]

        size = arrays.get("size")
        if size is None or size.shape != (1,):
            raise InputError("the arrays of a vocabulary must contain its 'size'", given=", ".join(sorted(arrays)))
        tables = {name.removesuffix(".blob"): table(name.removesuffix(".blob")) for name in arrays}
        languages = {
            name.removeprefix("language."): found
            for name, found in tables.items()
            if name.startswith("language.") and found is not None
        }
        removed = None if "removed" not in arrays else arrays["removed"].astype(np.bool_)
        kind = ID_KINDS[int(arrays["id_kind"][0]) % len(ID_KINDS)] if "id_kind" in arrays else "row"
        details = {what: found for what in DETAILS if (found := table(f"detail.{what}")) is not None}
        others = table("alternatives")
        return cls(int(size[0]), table("names"), table("uris"), languages, removed, others, kind, details)

    def _all_names(self) -> Iterable[str]:
        return map(str, range(self.size)) if self.names is None else self.names

    def _check_new(self, names: Sequence[str], uris: Sequence[str] | None) -> None:
        """Raise `InputError` for new labels that have the key of a present label in use, or of each other."""
        removed = self.removed_mask()
        taken = set()
        for name, uri in zip(names, [""] * len(names) if uris is None else uris, strict=True):
            key = uri or name
            if self.id_kind != "row" and not _is_id(uri, self.id_kind):
                raise InputError(
                    f"a new label needs a {_KINDS[self.id_kind]} as its id, as the others of the table have",
                    given=repr(key),
                    hint="Give the id, and the name as its description: update_labels(texts={ID: NAME}).",
                )
            old = self._find_own(key) if key else None
            if not key or key in taken or (old is not None and (old == _AMBIGUOUS or not removed[old])):
                raise InputError("a new label needs a name or URI of its own", given=repr(key))
            taken.add(key)

    def _find_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.id_kind == "integer":
            known, rows = self._by_number
            at = np.minimum(np.searchsorted(known, numbers), max(0, known.size - 1))
            return np.where(known[at] == numbers, rows[at], -1) if known.size else np.full(numbers.size, -1)
        return np.where((numbers >= 0) & (numbers < self.size), numbers, -1)

    def _find_texts(self, values: list[Any]) -> NDArray[np.int64]:
        """Return the rows of labels in a list that may hold texts and ids."""
        kinds = set(map(type, values))
        if kinds <= {int}:
            with suppress(OverflowError):
                return self._find_numbers(np.array(values, dtype=np.int64))
        if kinds == {int, str}:
            rows = np.empty(len(values), dtype=np.int64)
            for kind in kinds:
                places = [place for place, value in enumerate(values) if type(value) is kind]
                rows[places] = self._find_texts([values[place] for place in places])
            return rows
        if kinds != {str}:
            return np.array([self._find_any(value) for value in values], dtype=np.int64)
        if self.names is None:
            return np.array([-1 if (row := self.find(value)) is None else row for value in values], dtype=np.int64)
        rows = np.fromiter(map(self._by_name.get, values, repeat(_UNKNOWN)), np.int64, len(values))
        if self._by_uri:
            by_uri = np.fromiter(map(self._by_uri.get, values, repeat(_UNKNOWN)), np.int64, len(values))
            rows = np.where(by_uri >= 0, by_uri, rows)
        again = self._by_other_name or self.id_kind == "tuple" or (rows == _AMBIGUOUS).any()
        for place in np.flatnonzero(rows < 0) if again else ():
            row = self.find(values[int(place)])  # raises if the name is ambiguous
            rows[place] = _UNKNOWN if row is None else row
        return np.maximum(rows, -1)

    def _find_any(self, value: Any) -> int:
        if isinstance(value, str | tuple):
            row = self.find(value if isinstance(value, str) else encode_id(value))
            return -1 if row is None else row
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**63:
                return -1
            return int(self._find_numbers(np.array([value], dtype=np.int64))[0])
        raise InputError("a label must be a name, a URI or an id", given=repr(value)[:60])

    @cached_property
    def row_names(self) -> RowNames:
        """What the rows are called by."""
        return RowNames(self.size, self.names, self.uris)

    @cached_property
    def _by_number(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The whole numbers that labels are called by, rising, and the row of each."""
        texts = list(self.uris or ())
        rows = np.array([row for row, text in enumerate(texts) if text], dtype=np.int64)
        numbers = np.array([decode_id(texts[row], self.id_kind) for row in rows], dtype=np.int64)
        order = np.argsort(numbers, kind="stable")
        return numbers[order], rows[order]

    @cached_property
    def _by_uri(self) -> dict[str, int]:
        """The first label in use with each URI."""
        return {} if self.uris is None else self._first_labels(self.uris)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The label in use with each main name; -1 where there are several."""
        if self.names is None:
            return {}
        index = self._first_labels(self.names)
        if len(index) < self.size:
            for label, name in enumerate(self.names):
                other = index.get(name, label)
                if other not in (label, _AMBIGUOUS) and self._is_removed(other) == self._is_removed(label):
                    index[name] = _AMBIGUOUS
        return index

    @cached_property
    def _by_other_name(self) -> dict[str, int]:
        """The label in use with each name of a further language, alternative name or notation; -1 for several."""
        index: dict[str, int] = {}
        for table in (*self.languages.values(), self.alternatives):
            for label, cell in enumerate(() if table is None else table):
                for name in cell.split(_BETWEEN_NAMES) if cell else ():
                    first = index.setdefault(name, label)
                    if first != label and (first == _AMBIGUOUS or self._is_removed(first) == self._is_removed(label)):
                        index[name] = _AMBIGUOUS
                    elif first != label and self._is_removed(first):
                        index[name] = label
        return index

    @cached_property
    def _narrower(self) -> dict[int, list[int]]:
        """Narrower labels of each label that has some."""
        found: dict[int, list[int]] = {}
        for label in range(self.size if "broader" in self.details else 0):
            for uri in self.detail(label, "broader"):
                above = self._by_uri.get(uri)
                if above is not None:
                    found.setdefault(above, []).append(label)
        return found

    @cached_property
    def _by_word(self) -> dict[str, int]:
        """The label of each key with its spaces written as ``_``."""
        return {_word(key): label for label, key in enumerate(self.keys())}

    @property
    def _names_differ(self) -> bool:
        return self.names is None or len(self._by_name) == self.size

    def _key(self, label: int, name: str, uri: str) -> str:
        if name and self._by_uri.get(name, label) == label:
            found = label if self.names is None else self._by_name.get(name)
            if found == label or (found is None and self._by_uri.get(name) == label):
                return name
        if uri and self._by_uri.get(uri) == label:
            return uri
        raise InputError(
            f"label {label} needs a name or URI of its own",
            given=f"name {name!r} and URI {uri!r}",
            hint="Give homonyms different URIs.",
        )

    def _is_removed(self, label: int) -> bool:
        return self.removed is not None and bool(self.removed[label])

    def _first_labels(self, strings: Iterable[str]) -> dict[str, int]:
        """Return the first label of each string, one in use before a removed one."""
        index: dict[str, int] = {}
        for label, string in enumerate(strings):
            first = index.setdefault(string, label)
            if first != label and self._is_removed(first) and not self._is_removed(label):
                index[string] = label
        index.pop("", None)
        return index


def encode_id(value: Any) -> str:
    """Return the text that stands for an id: a whole number, or a tuple of texts and whole numbers.

    Examples
    --------
    >>> encode_id(1_000_000_007), encode_id(("shop 1", 42)), decode_id('["shop 1",42]', "tuple")
    ('1000000007', '["shop 1",42]', ('shop 1', 42))
    """
    if isinstance(value, tuple):
        plain = [int(part) if isinstance(part, np.integer) else part for part in value]
        if not plain or any(isinstance(part, bool) or not isinstance(part, str | int) for part in plain):
            raise InputError("an id must be a tuple of texts and whole numbers", given=repr(value)[:60])
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -(2**63) <= value < 2**63:
        raise InputError("an id must be a whole number of 64 bits or a tuple", given=repr(value)[:60])
    return str(int(value))


def decode_id(text: str, kind: str) -> int | tuple[Any, ...]:
    """Return the id that a text of `encode_id` stands for."""
    try:
        return int(text) if kind == "integer" else tuple(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the text of an id must be that of {kind}s", given=repr(text)[:60]) from error


def _is_id(text: str, kind: str) -> bool:
    try:
        return encode_id(decode_id(text, kind)) == text
    except InputError:
        return False


def as_array(labels: Any) -> NDArray[Any] | list[Any]:
    """Return labels as an array if they are a column of NumPy, Arrow, pandas or Polars, and else as a list."""
    if isinstance(labels, str | bytes | bytearray) or not hasattr(labels, "__iter__"):
        decode = ".decode()" if isinstance(labels, bytes | bytearray) else ""
        hint = f"Wrap it: [{labels!r}{decode}]."
        raise InputError("labels must be a collection", given=repr(labels)[:60], hint=hint if len(hint) < 80 else None)
    convert = getattr(labels, "to_numpy", None)
    if convert is None:
        return labels if isinstance(labels, np.ndarray) else list(labels)
    try:
        return np.asarray(convert(zero_copy_only=False))  # Arrow copies only if it is told to
    except TypeError:
        return np.asarray(convert())


def _word(key: str) -> str:
    return "_".join(key.split())


def _as_id(key: str, size: int) -> int | None:
    if key.isascii() and key.isdigit() and len(key) < 11 and str(int(key)) == key and int(key) < size:
        return int(key)
    return None
