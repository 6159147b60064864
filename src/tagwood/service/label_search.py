"""`LabelQuery`: type-ahead over label names. In: what was typed. Out: labels, exact matches before fuzzy ones.

1. Names that are, or begin with, what was typed; 2. names with a later word that does; 3. names with all its words;
4. names that differ by few letters: those that share most letter triples are compared letter by letter.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.data.vocab import LabelVocab

# SECTION service.label_index
# `LabelIndex`: a search index over label names, a few dozen bytes per name, shared by all workers.
#
# In: a label table. Out: arrays that `label_query` searches: folded names in one block, the places of all word
# starts in
# alphabetical order, and for each name a bit set of its letter triples.
#
# Decisions: letters are compared without case and accents; all but letters and digits is a space. Each letter of
# Chinese,
# Japanese and Korean counts as the start of a word. Word starts are ordered by their first 16 bytes only: longer
# queries
# are compared in full, but the order need not be. Triples are hashed to 128 bits, and what they find is checked
# letter by
# letter, so that wrong hits cost time but are never shown.


KEY_BYTES = 16
LONGEST = 1000  # bytes of a name that are searched
_CHUNK = 50_000
_SPACE = 32
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """The arrays of the index; names in several languages are entries of their own.

    Parameters
    ----------
    blob
        Folded names as UTF-8, each followed by a 0 byte.
    offsets
        (n_entries + 1,) where each name begins.
    labels
        (n_entries,) label of each name.
    tables
        (n_entries,) 0: main name, i: the i-th language of the label table.
    word_entries, word_places
        Word starts in alphabetical order: the entry, and the byte in its name.
    triples
        (2, n_entries) bit sets of letter triples.
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int32]
    tables: NDArray[np.int8]
    word_entries: NDArray[np.int32]
    word_places: NDArray[np.uint16]
    triples: NDArray[np.uint64]

    @classmethod
    def build(cls, vocab: LabelVocab) -> LabelIndex:
        """Index the names of a label table; a table without names has nothing to index."""
        if vocab.names is None:
            names: Iterator[str] = iter(())
            tables = []
        else:
            tables = [vocab.names, *vocab.languages.values()][:127]
            names = chain.from_iterable(tables)
        folded = [fold(name).encode()[:LONGEST] for name in names]
        offsets = np.concatenate([[0], np.cumsum([len(name) + 1 for name in folded])]).astype(np.int64)
        blob = np.frombuffer(b"".join(name + b"\0" for name in folded), dtype=np.uint8)
        labels = np.tile(np.arange(len(vocab) if tables else 0, dtype=np.int32), len(tables))
        kinds = np.repeat(np.arange(len(tables), dtype=np.int8), len(vocab))
        entries, places = _sorted_words(blob, offsets)
        return cls(blob, offsets, labels, kinds, entries, places, _triples(blob, offsets))

    @classmethod
    def shared(cls, vocab: LabelVocab, folder: Path) -> LabelIndex:
        """Return the index in `folder`, memory-mapped; the first process that asks builds it."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "index.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _remove_old(folder.parent)
                place = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
                built = cls.build(vocab)
                for field in fields(cls):
                    np.save(place / f"{field.name}.npy", getattr(built, field.name))
                place.rename(folder)
            return cls(**{field.name: _map(folder / f"{field.name}.npy") for field in fields(cls)})

    @property
    def n_entries(self) -> int:
        """Number of names."""
        return self.labels.size

    def name(self, entry: int) -> bytes:
        """Return the folded name of an entry."""
        return self.blob[self.offsets[entry] : self.offsets[entry + 1] - 1].tobytes()

    def word_key(self, place: int) -> bytes:
        """Return what the word start number `place` is ordered by."""
        begin = int(self.offsets[self.word_entries[place]]) + int(self.word_places[place])
        return self.blob[begin : begin + KEY_BYTES].tobytes().partition(b"\0")[0]


def fold(text: str) -> str:
    """Return a text as names are compared: no case, no accents, one space for all but letters and digits.

    Examples
    --------
    >>> fold("Île-de-France  (Région)"), fold("ＳＱＬ_join"), fold("C++"), fold("+")
    ('ile de france region', 'sql join', 'c', '+')
    """
    if text.isascii():
        plain = text.translate(_ASCII)
    else:
        letters = unicodedata.normalize("NFKD", text).casefold()
        plain = "".join(one if one.isalnum() else " " for one in letters if not unicodedata.combining(one))
    return " ".join(plain.split()) or " ".join(text.split())


def triple_bits(name: bytes) -> NDArray[np.uint64]:
    """Return the (2,) bit set of the letter triples of a folded name, the space before it included."""
    blob = np.frombuffer(name + b"\0", dtype=np.uint8)
    return _triples(blob, np.array([0, blob.size], dtype=np.int64))[:, 0]


def _sorted_words(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    before = np.concatenate([[0], blob[:-1]]).astype(np.uint8) if blob.size else blob
    # Lead bytes E3 to ED: Japanese, Chinese and Korean, which do without spaces.
    starts = (((before == 0) | (before == _SPACE)) & (blob != _SPACE)) | ((blob >= 0xE3) & (blob <= 0xED))
    places = np.flatnonzero(starts & (blob != 0))
    padded = np.concatenate([blob, np.zeros(KEY_BYTES, dtype=np.uint8)])
    keys = [np.zeros(places.size, dtype=np.uint64), np.zeros(places.size, dtype=np.uint64)]
    inside = np.ones(places.size, dtype=bool)
    for step in range(KEY_BYTES):
        letter = padded[places + step]
        inside &= letter != 0
        keys[step // 8] = (keys[step // 8] << np.uint64(8)) | (letter * inside)
    order = np.lexsort((keys[1], keys[0]))
    entries = (np.searchsorted(offsets, places, side="right") - 1).astype(np.int32)
    within = (places - offsets[entries]).astype(np.uint16)
    return entries[order], within[order]


def _triples(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    n_entries = offsets.size - 1
    found = np.zeros((2, n_entries), dtype=np.uint64)
    for begin in range(0, n_entries, _CHUNK):
        end = min(begin + _CHUNK, n_entries)
        starts = offsets[begin:end] - offsets[begin]
        letters = blob[offsets[begin] : offsets[end]].astype(np.uint32)
        first = np.concatenate([[_SPACE], letters[:-1]]).astype(np.uint32)
        first[first == 0] = _SPACE
        third = np.concatenate([letters[1:], [0]]).astype(np.uint32)
        whole = (letters != 0) & (third != 0)
        hashed = ((first << 16 | letters << 8 | third) * np.uint32(0x9E3779B1)) >> np.uint32(25)
        bits = np.uint64(1) << (hashed & np.uint32(63)).astype(np.uint64)
        for half in (0, 1):
            mine = np.where(whole & (hashed >> np.uint32(6) == half), bits, np.uint64(0))
            found[half, begin:end] = np.bitwise_or.reduceat(mine, starts)
    return found


def _map(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.view(np.ndarray) if array.size else np.asarray(array)


def _remove_old(folder: Path, keep: int = 2) -> None:
    """Remove the indexes of models before the last; processes that still map them keep them until they end."""
    built = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    for one in built[: max(0, len(built) - keep)]:
        shutil.rmtree(one, ignore_errors=True)


_REMEMBERED = 4096
_COMPARED = 300  # names that are compared letter by letter
_LOOKED_AT = 2000  # names in which all words are looked for
_LONGEST = 120


class FoundName(NamedTuple):
    """A label, how it was found, and the name that matched."""

    label: int
    match: str
    matched: str


class LabelQuery:
    """Searches a `LabelIndex`.

    Parameters
    ----------
    index
        Of the same label table.
    vocab
        The label table.
    counts
        (n_labels,) training rows of each label: among equals, frequent labels come first.

    Examples
    --------
    >>> vocab = LabelVocab.from_names(["Oak", "Oak bark", "Red oak", "Ash"])
    >>> query = LabelQuery(LabelIndex.build(vocab), vocab, np.array([1, 5, 9, 2]))
    >>> [(found.matched, found.match) for found in query.search("oak", 5)]
    [('Oak', 'exact'), ('Oak bark', 'prefix'), ('Red oak', 'word')]
    >>> query.search("okabark", 1)[0].matched
    'Oak bark'
    """

    def __init__(self, index: LabelIndex, vocab: LabelVocab, counts: NDArray[np.int64]) -> None:
        self._index = index
        self._vocab = vocab
        self._counts = counts
        self._tables = [vocab.names, *vocab.languages.values()]
        self._search = lru_cache(_REMEMBERED)(self._search_folded)

    def search(self, text: str, limit: int) -> list[FoundName]:
        """Return up to `limit` labels, best first; the most frequent ones for an empty text."""
        exact = self._vocab.find(text) if text else None
        if exact is None and self._vocab.names is None and text.isdecimal() and len(text) < 11:
            exact = int(text) if int(text) < len(self._vocab) else None
        found = {} if exact is None else {exact: FoundName(exact, "exact", self._vocab.name(exact))}
        plain = fold(text[:_LONGEST])
        for label, match, matched in self._search(plain, limit) if plain else self._frequent(limit):
            found.setdefault(label, FoundName(label, match, matched))
        return list(found.values())[:limit]

    def _frequent(self, limit: int) -> list[FoundName]:
        top = min(limit, self._counts.size)
        order = np.argpartition(-self._counts, top - 1)[:top] if top else np.zeros(0, dtype=np.int64)
        order = order[np.lexsort((order, -self._counts[order]))]
        return [FoundName(int(label), "frequent", self._vocab.name(int(label))) for label in order]

    def _search_folded(self, plain: str, limit: int) -> tuple[FoundName, ...]:
        typed = plain.encode()
        found: dict[int, FoundName] = {}
        entries, places = self._starting_with(typed)
        self._take(found, entries[places == 0], "prefix", limit, typed)
        if len(found) < limit:
            self._take(found, entries[places > 0], "word", limit)
        if len(found) < limit:
            self._take(found, self._with_all_words(typed), "word", limit)
        if len(found) < limit and len(plain) > 1:
            for entry in self._like(plain, limit):
                self._add(found, entry, "fuzzy")
        return tuple(found.values())[:limit]

    def _take(
        self,
        found: dict[int, FoundName],
        entries: NDArray[np.int32],
        match: str,
        limit: int,
        typed: bytes = b"",
    ) -> None:
        """Add the best of some names: exact ones, then by frequency, then the shorter."""
        index = self._index
        counts = self._counts[index.labels[entries]]
        if entries.size > 4 * limit:
            best = np.argpartition(-counts, 4 * limit)[: 4 * limit]
            if typed:  # an exact name may be rare
                sizes = index.offsets[entries + 1] - index.offsets[entries] - 1
                best = np.union1d(best, np.flatnonzero(sizes == len(typed)))
            entries, counts = entries[best], counts[best]
        sizes = index.offsets[entries + 1] - index.offsets[entries] - 1
        exact = sizes == len(typed)
        for place in np.lexsort((entries, sizes, -counts, ~exact)):
            self._add(found, int(entries[place]), "exact" if exact[place] else match)
            if len(found) >= limit:
                return

    def _add(self, found: dict[int, FoundName], entry: int, match: str) -> None:
        label = int(self._index.labels[entry])
        table = self._tables[int(self._index.tables[entry])]
        name = "" if table is None else table[label]
        if label not in found and name:
            found[label] = FoundName(label, match, name)

    def _starting_with(self, typed: bytes) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Return entry and place of all words from which on a name reads as typed."""
        index, key = self._index, typed[:KEY_BYTES]
        places = range(index.word_entries.size)
        begin = bisect_left(places, key, key=index.word_key)
        end = bisect_right(places, key, lo=begin, key=lambda place: index.word_key(place)[: len(key)])
        entries, within = index.word_entries[begin:end], index.word_places[begin:end]
        rest = np.frombuffer(typed[KEY_BYTES:], dtype=np.uint8)
        if rest.size:
            first = index.offsets[entries] + within + KEY_BYTES
            same = first + rest.size < index.offsets[entries + 1]
            for step, letter in enumerate(rest):
                same[same] = index.blob[first[same] + step] == letter
            entries, within = entries[same], within[same]
        return entries, within

    def _with_all_words(self, typed: bytes) -> NDArray[np.int32]:
        """Return the names that have a word beginning with each of the typed ones, in any order."""
        words = typed.split()
        if len(words) < 2:
            return np.zeros(0, dtype=np.int32)
        rarest = min((self._starting_with(word)[0] for word in words), key=lambda entries: entries.size)
        candidates = np.unique(rarest)
        if candidates.size > _LOOKED_AT:
            counts = self._counts[self._index.labels[candidates]]
            candidates = candidates[np.argpartition(-counts, _LOOKED_AT)[:_LOOKED_AT]]
        wanted = [b" " + word for word in words]
        return np.array(
            [entry for entry in candidates if all(word in b" " + self._index.name(entry) for word in wanted)],
            dtype=np.int32,
        )

    def _like(self, plain: str, limit: int) -> list[int]:
        """Return the names that hold what was typed but for a few letters, the nearest first."""
        index = self._index
        if index.n_entries == 0:
            return []
        best = self._sharing_triples(plain)
        names = [index.name(entry).decode(errors="replace")[:_LONGEST] for entry in best]
        distance, at = edit_distances(plain, names)
        inside = np.array([plain in name for name in names], dtype=bool)  # in the middle of a word
        distance = np.where(inside, np.minimum(distance, 1), distance)
        allowed = 1 if len(plain) < 5 else 2 if len(plain) < 9 else len(plain) // 4
        counts = self._counts[index.labels[best]]
        lengths = np.array([len(name) for name in names], dtype=np.int64)
        order = (
            np.lexsort((best, lengths, -counts, at, distance)) if best.size else np.zeros(0, dtype=np.int64)
        )
        return [int(best[place]) for place in order if distance[place] <= allowed][: 2 * limit]

    def _sharing_triples(self, plain: str) -> NDArray[np.int64]:
        """Return the names that share most letter triples with what was typed; of equals the shorter ones."""
        index, bits = self._index, triple_bits(plain.encode())
        shared = np.bitwise_count(index.triples[0] & bits[0])
        shared += np.bitwise_count(index.triples[1] & bits[1])
        least = int(shared.max())
        while least > 1 and np.count_nonzero(shared >= least - 1) <= _COMPARED:
            least -= 1
        best = np.flatnonzero(shared >= max(1, least))
        if best.size > _COMPARED:
            sizes = index.offsets[best + 1] - index.offsets[best]
            best = best[np.argpartition(sizes, _COMPARED)[:_COMPARED]]
        return best


def edit_distances(typed: str, names: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many letters must change so that a name holds `typed` from some word on, and whether not at its start.

    Insertion, deletion, exchange, and the swap of two neighbours count 1. What follows in the name is free.

    Examples
    --------
    >>> distance, later = edit_distances("mapel", ["maple syrup", "red maple", "oak"])
    >>> distance.tolist(), later.tolist()
    ([1, 1, 4], [False, True, False])
    """
    width = max(map(len, names), default=0)
    letters = np.zeros((len(names), width), dtype=np.uint32)
    for row, name in enumerate(names):
        letters[row, : len(name)] = np.frombuffer(name.encode("utf-32-le"), dtype=np.uint32)
    starts = np.zeros((len(names), width + 1), dtype=bool)
    starts[:, 0] = True
    starts[:, 1:] = letters == 32
    steps = np.arange(width + 1, dtype=np.int16)
    # Sellers' algorithm on all names at once: a match may begin at a word and end anywhere.
    free, fixed = (_distances(typed, letters, start, steps) for start in (starts, starts & (steps == 0)))
    return free, fixed > free


def _distances(
    typed: str, letters: NDArray[np.uint32], starts: NDArray[np.bool_], steps: NDArray[np.int16]
) -> NDArray[np.int64]:
    far = np.int16(1 << 13)
    before = np.minimum.accumulate(np.where(starts, np.int16(0), far) - steps, axis=1) + steps
    older, last = before, None
    for letter in map(ord, typed):
        now = np.empty_like(before)
        now[:, 0] = before[:, 0] + 1
        now[:, 1:] = np.minimum(before[:, 1:] + 1, before[:, :-1] + (letters != letter))
        if last is not None:
            swap = (letters[:, 1:] == last) & (letters[:, :-1] == letter)
            now[:, 2:] = np.minimum(now[:, 2:], np.where(swap, older[:, :-2] + 1, far))
        now = np.minimum.accumulate(now - steps, axis=1) + steps
        older, before, last = before, now, letter
    return before.min(axis=1).astype(np.int64) if before.size else np.zeros(0, dtype=np.int64)
