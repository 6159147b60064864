"""`LabelIndex`: a search index over label names, a few dozen bytes per name, shared by all workers.

In: a label table. Out: arrays that `label_query` searches: folded names in one block, the places of all word starts in
alphabetical order, and for each name a bit set of its letter triples.

Decisions: letters are compared without case and accents; all but letters and digits is a space. Each letter of Chinese,
Japanese and Korean counts as the start of a word. Word starts are ordered by their first 16 bytes only: longer queries
are compared in full, but the order need not be. Triples are hashed to 128 bits, and what they find is checked letter by
letter, so that wrong hits cost time but are never shown.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.data.vocab import LabelVocab

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
