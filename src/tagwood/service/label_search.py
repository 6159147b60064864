"""`LabelNameSearch`: search as you type over label names. In: the query. Out: labels, exact matches before fuzzy ones.

1. Names that equal or start with the query; 2. names in which a later word does; 3. names with all words of the query;
4. names that differ by a few letters: those that share the most letter triples are compared letter by letter.
`LabelNameIndex` holds the arrays behind it, a few dozen bytes per name, memory-mapped and shared by all workers.

Decisions: names are compared without case and accents; all characters but letters and digits count as spaces. Every
character of Chinese, Japanese and Korean starts a word. Word starts are sorted by their first 16 bytes only; the rest
of longer queries is compared in full. Triples are hashed to 128 bits; candidates are verified letter by letter, so that
hash collisions cost time but never show a wrong label.
"""

from __future__ import annotations

import fcntl
import shutil
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.data.vocab import LabelVocab
from tagwood.storage.publish import replace_path

_KEY_BYTES = 16
_MAX_NAME_BYTES = 1000  # longer names are searched by their beginning
_MAX_QUERY = 120  # characters
_CACHED_QUERIES = 4096
_MAX_COMPARED = 300  # names that are compared letter by letter
_MAX_CANDIDATES = 2000  # names that are searched for all words of the query
_CHUNK = 50_000
_SPACE = 32
_ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}


@dataclass(frozen=True, eq=False)
class LabelNameIndex:
    """The arrays of the index; each name of each language is an entry."""

    blob: NDArray[np.uint8]  # folded names as UTF-8, each followed by a 0 byte
    offsets: NDArray[np.int64]  # (n_entries + 1,) where each name begins
    labels: NDArray[np.int32]  # (n_entries,) label of each name
    tables: NDArray[np.int8]  # (n_entries,) 0: main name, i: the i-th language of the table, -1: alternative name
    # word_entries, word_places: word starts in alphabetical order: the entry, and the byte in its name
    word_entries: NDArray[np.int32]
    word_places: NDArray[np.uint16]
    triples: NDArray[np.uint64]  # (2, n_entries) bit sets of letter triples

    @classmethod
    def build(cls, vocab: LabelVocab) -> LabelNameIndex:
        """Index the names of a label table; the index of a table without names is empty."""
        tables = [] if vocab.names is None else [vocab.names, *vocab.languages.values()][:127]
        others = [(label, name) for label in range(len(vocab) if tables else 0) for name in vocab.other_names(label)]
        names = [*(name for table in tables for name in table), *(name for _, name in others)]
        folded = [fold(name).encode()[:_MAX_NAME_BYTES] for name in names]
        offsets = np.concatenate([[0], np.cumsum([len(name) + 1 for name in folded])]).astype(np.int64)
        blob = np.frombuffer(b"".join(name + b"\0" for name in folded), dtype=np.uint8)
        labels = np.tile(np.arange(len(vocab) if tables else 0, dtype=np.int32), len(tables))
        labels = np.append(labels, np.array([label for label, _ in others], dtype=np.int32))
        kinds = np.repeat(np.arange(len(tables), dtype=np.int8), len(vocab))
        kinds = np.append(kinds, np.full(len(others), -1, dtype=np.int8))
        entries, places = _sorted_words(blob, offsets)
        return cls(blob, offsets, labels, kinds, entries, places, _triples(blob, offsets))

    @classmethod
    def shared(cls, vocab: LabelVocab, folder: Path) -> LabelNameIndex:
        """Return the index in `folder`, memory-mapped; the first process builds it."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "index.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _remove_old(folder.parent)
                built = cls.build(vocab)
                with replace_path(folder, folder=True) as place:
                    place.mkdir()
                    for field in fields(cls):
                        np.save(place / f"{field.name}.npy", getattr(built, field.name))
            return cls(**{field.name: _map(folder / f"{field.name}.npy") for field in fields(cls)})

    def name(self, entry: int) -> bytes:
        """Return the folded name of an entry."""
        return self.blob[self.offsets[entry] : self.offsets[entry + 1] - 1].tobytes()

    def word_key(self, place: int) -> bytes:
        """Return the sort key of the word start number `place`."""
        begin = int(self.offsets[self.word_entries[place]]) + int(self.word_places[place])
        return self.blob[begin : begin + _KEY_BYTES].tobytes().partition(b"\0")[0]


def fold(text: str) -> str:
    """Return a text in the form in which names are compared: no case, no accents, letters and digits only.

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


def _sorted_words(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    before = np.concatenate([[0], blob[:-1]]).astype(np.uint8) if blob.size else blob
    # Lead bytes E3 to ED: Japanese, Chinese and Korean, which are written without spaces.
    starts = (((before == 0) | (before == _SPACE)) & (blob != _SPACE)) | ((blob >= 0xE3) & (blob <= 0xED))
    places = np.flatnonzero(starts & (blob != 0))
    padded = np.concatenate([blob, np.zeros(_KEY_BYTES, dtype=np.uint8)])
    keys = [np.zeros(places.size, dtype=np.uint64), np.zeros(places.size, dtype=np.uint64)]
    inside = np.ones(places.size, dtype=bool)
    for step in range(_KEY_BYTES):
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
    """Remove the indexes of older models; processes that still map them can continue to use them."""
    built = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime)
    for one in built[: max(0, len(built) - keep)]:
        shutil.rmtree(one, ignore_errors=True)


class FoundName(NamedTuple):
    """A label, the kind of match, and the name that matched."""

    label: int
    match: str
    matched: str


class LabelNameSearch:
    """Searches a `LabelNameIndex`; among equal matches, labels with more training rows (`counts`) come first.

    Examples
    --------
    >>> vocab = LabelVocab.from_names(["Oak", "Oak bark", "Red oak", "Ash"])
    >>> query = LabelNameSearch(LabelNameIndex.build(vocab), vocab, np.array([1, 5, 9, 2]))
    >>> [(found.matched, found.match) for found in query.search("oak", 5)]
    [('Oak', 'exact'), ('Oak bark', 'prefix'), ('Red oak', 'word')]
    >>> query.search("okabark", 1)[0].matched
    'Oak bark'
    """

    def __init__(self, index: LabelNameIndex, vocab: LabelVocab, counts: NDArray[np.int64]) -> None:
        self._index = index
        self._vocab = vocab
        self._counts = counts
        self._tables = [vocab.names, *vocab.languages.values()]
        self._cache: dict[tuple[str, int], tuple[FoundName, ...]] = {}

    def search(self, text: str, limit: int) -> list[FoundName]:
        """Return up to `limit` labels, best first; for an empty query the most frequent ones."""
        same = self._vocab.find_all(text) if text else []
        exact = same[0] if len(same) == 1 else None
        if exact is None and self._vocab.names is None and text.isdecimal() and len(text) < 11:
            exact = int(text) if int(text) < len(self._vocab) else None
        found = {} if exact is None else {exact: FoundName(exact, "exact", self._vocab.name(exact))}
        plain = fold(text[:_MAX_QUERY])
        for label, match, matched in self._search(plain, limit) if plain else self._frequent(limit):
            found.setdefault(label, FoundName(label, match, matched))
        return list(found.values())[:limit]

    def _frequent(self, limit: int) -> list[FoundName]:
        top = min(limit, self._counts.size)
        order = np.argpartition(-self._counts, top - 1)[:top] if top else np.zeros(0, dtype=np.int64)
        order = order[np.lexsort((order, -self._counts[order]))]
        return [FoundName(int(label), "frequent", self._vocab.name(int(label))) for label in order]

    def _search(self, plain: str, limit: int) -> tuple[FoundName, ...]:
        """Return a cached answer, or search; `lru_cache` would be a cycle that keeps the files of an old model open."""
        found = self._cache.get((plain, limit))
        if found is None:
            if len(self._cache) >= _CACHED_QUERIES:
                self._cache.clear()
            found = self._cache[plain, limit] = self._search_folded(plain, limit)
        return found

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
        """Add the best of some names: exact matches first, then by frequency, then by length."""
        index = self._index
        counts = self._counts[index.labels[entries]]
        if entries.size > 4 * limit:
            best = np.argpartition(-counts, 4 * limit)[: 4 * limit]
            if typed:  # exact matches may be rare labels
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
        if label in found:
            return
        name = self._shown(entry, label)
        if name:
            found[label] = FoundName(label, match, name)

    def _shown(self, entry: int, label: int) -> str:
        """Return the name of an entry as the label table has it."""
        place = int(self._index.tables[entry])
        if place < 0:
            folded = self._index.name(entry)
            names = self._vocab.other_names(label)
            return next((name for name in names if fold(name).encode()[:_MAX_NAME_BYTES] == folded), "")
        table = self._tables[place]
        return "" if table is None else table[label]

    def _starting_with(self, typed: bytes) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Return entry and position of all word starts at which a name continues with the query."""
        index, key = self._index, typed[:_KEY_BYTES]
        places = range(index.word_entries.size)
        begin = bisect_left(places, key, key=index.word_key)
        end = bisect_right(places, key, lo=begin, key=lambda place: index.word_key(place)[: len(key)])
        entries, within = index.word_entries[begin:end], index.word_places[begin:end]
        rest = np.frombuffer(typed[_KEY_BYTES:], dtype=np.uint8)
        if rest.size:
            first = index.offsets[entries] + within + _KEY_BYTES
            same = first + rest.size < index.offsets[entries + 1]
            for step, letter in enumerate(rest):
                same[same] = index.blob[first[same] + step] == letter
            entries, within = entries[same], within[same]
        return entries, within

    def _with_all_words(self, typed: bytes) -> NDArray[np.int32]:
        """Return the names that have, for each word of the query, a word starting with it."""
        words = typed.split()
        if len(words) < 2:
            return np.zeros(0, dtype=np.int32)
        rarest = min((self._starting_with(word)[0] for word in words), key=lambda entries: entries.size)
        candidates = np.unique(rarest)
        if candidates.size > _MAX_CANDIDATES:
            counts = self._counts[self._index.labels[candidates]]
            candidates = candidates[np.argpartition(-counts, _MAX_CANDIDATES)[:_MAX_CANDIDATES]]
        wanted = [b" " + word for word in words]
        return np.array(
            [entry for entry in candidates if all(word in b" " + self._index.name(entry) for word in wanted)],
            dtype=np.int32,
        )

    def _like(self, plain: str, limit: int) -> list[int]:
        """Return the names that contain the query up to a few letters, nearest first."""
        index = self._index
        if index.labels.size == 0:
            return []
        best = self._sharing_triples(plain)
        names = [index.name(entry).decode(errors="replace")[:_MAX_QUERY] for entry in best]
        distance, at = edit_distances(plain, names)
        inside = np.array([plain in name for name in names], dtype=bool)  # in the middle of a word
        distance = np.where(inside, np.minimum(distance, 1), distance)
        allowed = 1 if len(plain) < 5 else 2 if len(plain) < 9 else len(plain) // 4
        counts = self._counts[index.labels[best]]
        lengths = np.array([len(name) for name in names], dtype=np.int64)
        order = np.lexsort((best, lengths, -counts, at, distance))
        return [int(best[place]) for place in order if distance[place] <= allowed][: 2 * limit]

    def _sharing_triples(self, plain: str) -> NDArray[np.int64]:
        """Return the names that share the most letter triples with the query; shorter names win ties."""
        index, blob = self._index, np.frombuffer(plain.encode() + b"\0", dtype=np.uint8)
        bits = _triples(blob, np.array([0, blob.size], dtype=np.int64))[:, 0]
        shared = np.bitwise_count(index.triples[0] & bits[0])
        shared += np.bitwise_count(index.triples[1] & bits[1])
        least = int(shared.max())
        while least > 1 and np.count_nonzero(shared >= least - 1) <= _MAX_COMPARED:
            least -= 1
        best = np.flatnonzero(shared >= max(1, least))
        if best.size > _MAX_COMPARED:
            sizes = index.offsets[best + 1] - index.offsets[best]
            best = best[np.argpartition(sizes, _MAX_COMPARED)[:_MAX_COMPARED]]
        return best


def edit_distances(typed: str, names: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the edit distance of `typed` to the best place in each name, and whether that place is a later word.

    Insertions, deletions, substitutions and swaps of adjacent letters count 1. Matches start at a word and may end
    anywhere.

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
    # Sellers' algorithm on all names at once.
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
