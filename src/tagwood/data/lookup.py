"""From names and URIs back to label ids: the index that `LabelVocab` builds when it is first asked.

In: the columns of a label table. Out: ids for keys, and for each label a key that leads back to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tagwood.data.strings import StringTable
from tagwood.errors import InputError

_AMBIGUOUS = -1


class LabelLookup:
    """Finds labels by URI, then by main name; labels in use go before removed ones of the same name.

    `names` may be None: then the name of a label is its id.
    """

    def __init__(
        self,
        size: int,
        names: StringTable | None,
        uris: StringTable | None,
        removed: NDArray[np.bool_] | None,
    ) -> None:
        self.size = size
        self.names = names
        self.uris = uris
        self.removed = removed

    def find(self, key: str) -> int | None:
        """Return the id for a URI or name; None if there is none, `InputError` if there are several."""
        label = self.by_uri.get(key)
        if label is None:
            label = _as_id(key, self.size) if self.names is None else self.by_name.get(key)
        if label == _AMBIGUOUS:
            raise InputError(
                f"the name {key!r} stands for several labels", hint="Use the URI of the one you mean."
            )
        return label

    def find_word(self, word: str) -> int | None:
        """Like `find`, for a key whose spaces were written as ``_``."""
        label = self.find(word)
        return self.by_word.get(word) if label is None else label

    def keys(self) -> list[str]:
        """Return for each label a key that `find` turns back into its id: the name, or a homonym's URI."""
        names = list(map(str, range(self.size))) if self.names is None else list(self.names)
        if self.names_differ and (not self.by_uri or self.by_uri.keys().isdisjoint(names)):
            return names
        uris = [""] * self.size if self.uris is None else list(self.uris)
        return [self._key(label, *pair) for label, pair in enumerate(zip(names, uris, strict=True))]

    def words(self) -> list[str]:
        """Return for each label a key without white space that `find_word` turns back into its id."""
        words = [_word(key) for key in self.keys()]
        for label, word in enumerate(words):
            if self.find_word(word) != label:
                raise InputError(
                    "label names must differ by more than spaces and '_' in this format", given=repr(word)
                )
        return words

    @cached_property
    def by_uri(self) -> dict[str, int]:
        """First label in use with each URI."""
        return {} if self.uris is None else self._first_places(self.uris)

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The label in use with each name; -1 where there are several."""
        if self.names is None:
            return {}
        index = self._first_places(self.names)
        if len(index) < self.size:
            for label, name in enumerate(self.names):
                other = index.get(name, label)
                if other not in (label, _AMBIGUOUS) and self._is_removed(other) == self._is_removed(label):
                    index[name] = _AMBIGUOUS
        return index

    @cached_property
    def by_word(self) -> dict[str, int]:
        """Label of each key with its spaces written as ``_``."""
        return {_word(key): label for label, key in enumerate(self.keys())}

    @property
    def names_differ(self) -> bool:
        """Whether every label has a main name of its own."""
        return self.names is None or len(self.by_name) == self.size

    def _key(self, label: int, name: str, uri: str) -> str:
        if name and self.by_uri.get(name, label) == label:
            found = label if self.names is None else self.by_name.get(name)
            if found == label or (found is None and self.by_uri.get(name) == label):
                return name
        if uri and self.by_uri.get(uri) == label:
            return uri
        raise InputError(
            f"label {label} needs a name or URI of its own",
            given=f"name {name!r} and URI {uri!r}",
            hint="Give homonyms different URIs.",
        )

    def _is_removed(self, label: int) -> bool:
        return self.removed is not None and bool(self.removed[label])

    def _first_places(self, strings: Iterable[str]) -> dict[str, int]:
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
