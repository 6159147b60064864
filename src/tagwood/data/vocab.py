"""`LabelVocab`: the one table of labels: id <-> name <-> URI, names in several languages, which are removed.

An id is the row of the table. Rows are only ever appended: an id is never reused, and models stay valid when
the vocabulary grows. Files: `vocab_files`. In: names and URIs. Out: a frozen value that all parts share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_int
from tagwood.data.lookup import LabelLookup
from tagwood.data.strings import StringTable
from tagwood.errors import InputError

_MAX_LABELS = 2**31 - 1


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
        URI (or any other outside key) of each label, empty where there is none.
    languages
        Names in further languages: language code -> table, empty where there is none.
    removed
        (size,) bool: True for labels that are no longer to be suggested. They keep their ids.

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

    def __post_init__(self) -> None:
        check_int(self.size, "the number of labels", low=0, high=_MAX_LABELS)
        object.__setattr__(self, "languages", dict(self.languages))
        columns = {"names": self.names, "URIs": self.uris, "removed": self.removed, **self.languages}
        for what, column in columns.items():
            if column is not None and len(column) != self.size:
                raise InputError(
                    f"a vocabulary of {self.size:,} labels needs as many entries in {what!r}",
                    given=f"{len(column):,}",
                )

    @classmethod
    def from_names(
        cls,
        names: Iterable[str],
        *,
        uris: Sequence[str] | None = None,
        languages: Mapping[str, Sequence[str]] | None = None,
    ) -> LabelVocab:
        """Build a table with ids in the order of `names`.

        A name may stand twice only if the URIs tell the labels apart.
        """
        table = StringTable.from_strings(names)
        vocab = cls(
            len(table),
            table,
            None if uris is None else StringTable.from_strings(uris),
            {code: StringTable.from_strings(column) for code, column in (languages or {}).items()},
        )
        if not vocab._lookup.names_differ:
            vocab.keys()  # raises unless the URIs tell the homonyms apart
        return vocab

    @classmethod
    def numbered(cls, size: int) -> LabelVocab:
        """Build a table of labels known by their ids only; it takes no memory, whatever its size."""
        return cls(size)

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelVocab)
            and (self.size, self.uris, self.languages) == (other.size, other.uris, other.languages)
            and _same_names(self, other)
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

    def uri(self, label: int) -> str | None:
        """Return the URI of a label, or None."""
        label = check_int(label, "label", low=0, high=self.size - 1)
        return (self.uris[label] or None) if self.uris is not None else None

    def find(self, key: str) -> int | None:
        """Return the id of the label with this URI or else this main name; None if there is none."""
        return self._lookup.find(key)

    def find_word(self, word: str) -> int | None:
        """Like `find`, for formats whose labels cannot hold spaces and have ``_`` in their place."""
        return self._lookup.find_word(word)

    def id(self, key: str) -> int:
        """Return the id of the label with this URI or main name, or raise `InputError`."""
        label = self.find(key)
        if label is None:
            raise InputError(
                "a label must be in the vocabulary", given=repr(key), hint=f"It has {self.size:,} labels."
            )
        return label

    def keys(self) -> list[str]:
        """Return one string per label that `find` turns back into its id: the name, or a homonym's URI."""
        return self._lookup.keys()

    def words(self) -> list[str]:
        """Return one string without white space per label that `find_word` turns back into its id."""
        return self._lookup.words()

    def removed_mask(self) -> NDArray[np.bool_]:
        """Return (size,) bool, True for removed labels."""
        return np.zeros(self.size, dtype=np.bool_) if self.removed is None else self.removed

    def add(
        self,
        names: Sequence[str],
        *,
        uris: Sequence[str] | None = None,
        languages: Mapping[str, Sequence[str]] | None = None,
    ) -> LabelVocab:
        """Return a vocabulary with new labels behind the present ones, which keep their ids."""
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
        return LabelVocab(
            self.size + len(names),
            mains.extend(names),
            None if both is None else both.extend(blanks if uris is None else uris),
            tables,
            None if self.removed is None else np.append(self.removed, np.zeros(len(names), dtype=np.bool_)),
        )

    def remove(self, labels: Iterable[int]) -> LabelVocab:
        """Return a vocabulary in which `labels` are marked as removed; their ids stay taken for ever."""
        mask = self.removed_mask().copy()
        mask[[check_int(label, "label", low=0, high=self.size - 1) for label in labels]] = True
        return replace(self, removed=mask)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the table as plain arrays for storage; `from_arrays` turns them back."""
        arrays: dict[str, NDArray[np.generic]] = {"size": np.array([self.size], dtype=np.int64)}
        tables = {"names": self.names, "uris": self.uris}
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
            raise InputError(
                "the arrays of a vocabulary must hold its 'size'", given=", ".join(sorted(arrays))
            )
        codes = [
            key.removeprefix("language.").removesuffix(".blob")
            for key in arrays
            if key.startswith("language.")
        ]
        languages = {code: table(f"language.{code}") for code in codes if not code.endswith(".offsets")}
        removed = arrays.get("removed")
        return cls(
            int(size[0]),
            table("names"),
            table("uris"),
            {code: found for code, found in languages.items() if found is not None},
            None if removed is None else removed.astype(np.bool_),
        )

    def _all_names(self) -> Iterable[str]:
        return map(str, range(self.size)) if self.names is None else self.names

    def _check_new(self, names: Sequence[str], uris: Sequence[str] | None) -> None:
        """Refuse new labels that could not be told from present ones in use, or from each other."""
        removed = self.removed_mask()
        taken = set()
        for name, uri in zip(names, [""] * len(names) if uris is None else uris, strict=True):
            key = uri or name
            old = self.find(key) if key else None
            if not key or key in taken or (old is not None and not removed[old]):
                raise InputError("a new label needs a name or URI of its own", given=repr(key))
            taken.add(key)

    @cached_property
    def _lookup(self) -> LabelLookup:
        return LabelLookup(self.size, self.names, self.uris, self.removed)


def _same_names(a: LabelVocab, b: LabelVocab) -> bool:
    if a.names is not None and b.names is not None:
        return a.names == b.names
    if a.names is None and b.names is None:
        return True
    return all(x == y for x, y in zip(a._all_names(), b._all_names(), strict=True))
