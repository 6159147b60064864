"""`LabelVocab`: the table of labels with ids, names (in several languages, alternative ones), URIs, removed labels.

In: names and URIs. Out: a frozen value that data, models and service share; `vocab_files` reads and writes it. An id is
a row of the table. Rows are only appended and ids never reused, so that models stay valid when the vocabulary grows.
Strings are kept as one block of bytes (`StringTable`): a million names are small and load memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_int
from tagwood.errors import InputError
from tagwood.storage.state import check_packed, pack_strings

_AMBIGUOUS = -1
_BETWEEN_NAMES = "\n"
_MAX_LABELS = 2**31 - 1


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

    def __post_init__(self) -> None:
        check_int(self.size, "the number of labels", low=0, high=_MAX_LABELS)
        object.__setattr__(self, "languages", dict(self.languages))
        columns = {"names": self.names, "URIs": self.uris, "removed": self.removed, **self.languages}
        columns["alternative names"] = self.alternatives
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

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelVocab)
            and (self.size, self.uris, self.languages) == (other.size, other.uris, other.languages)
            and self.alternatives == other.alternatives
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

    def uri(self, label: int) -> str | None:
        """Return the URI of a label, or None."""
        label = check_int(label, "label", low=0, high=self.size - 1)
        return (self.uris[label] or None) if self.uris is not None else None

    def find(self, key: str) -> int | None:
        """Return the id of the label with this URI or else this main name; None if there is none.

        Of labels with the same name, those in use go before removed ones; several labels in use raise `InputError`.
        """
        label = self._by_uri.get(key)
        if label is None:
            label = _as_id(key, self.size) if self.names is None else self._by_name.get(key)
        if label == _AMBIGUOUS:
            raise InputError(f"the name {key!r} is ambiguous", hint="Use the URI of the label.")
        return label

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
        return LabelVocab(
            self.size + len(names),
            mains.extend(names),
            None if both is None else both.extend(blanks if uris is None else uris),
            tables,
            None if self.removed is None else np.append(self.removed, np.zeros(len(names), dtype=np.bool_)),
            others,
        )

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
        for name, table in tables.items():
            if table is not None:
                arrays[f"{name}.blob"] = table.blob
                arrays[f"{name}.offsets"] = table.offsets
        if self.removed is not None:
            arrays["removed"] = self.removed.astype(np.uint8)
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
        return cls(int(size[0]), table("names"), table("uris"), languages, removed, table("alternatives"))

    def _all_names(self) -> Iterable[str]:
        return map(str, range(self.size)) if self.names is None else self.names

    def _check_new(self, names: Sequence[str], uris: Sequence[str] | None) -> None:
        """Raise `InputError` for new labels that have the key of a present label in use, or of each other."""
        removed = self.removed_mask()
        taken = set()
        for name, uri in zip(names, [""] * len(names) if uris is None else uris, strict=True):
            key = uri or name
            old = self.find(key) if key else None
            if not key or key in taken or (old is not None and not removed[old]):
                raise InputError("a new label needs a name or URI of its own", given=repr(key))
            taken.add(key)

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


def _word(key: str) -> str:
    return "_".join(key.split())


def _as_id(key: str, size: int) -> int | None:
    if key.isascii() and key.isdigit() and len(key) < 11 and str(int(key)) == key and int(key) < size:
        return int(key)
    return None
