"""`FilterStore`: named label filters of a project. In: labels under a name. Out: `LabelFilter`s of a model.

Decisions: a filter is one file in a folder that all workers share. A new version replaces the file in one step, so a
request sees one version or the other, never a mixture, and all workers see the new one from their next request on. The
file holds what labels are called by (`lasting_names`), never rows of a label table: every model looks them up in its
own table, and leaves out what it does not know. What was looked up is kept until filter or model change, within a
limit. The first line of a file has size and checksum of the labels after it. A file that is damaged, such as one that
was cut short, is listed as such until it is replaced or deleted; requests that use it are refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
import orjson
from pydantic import ConfigDict, TypeAdapter

from tagwood.data.vocab import LabelVocab
from tagwood.models.label_filter import LabelFilter
from tagwood.service.problems import ProblemError
from tagwood.tagger import Tagger

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_FILTERS = 1000  # of a project
_NOT = "~"
_KEPT_ENTRIES = 20_000_000  # entries of all masks that are kept for a model; each takes about three bytes
_FEWEST_KEPT = 8

Terms: TypeAlias = tuple[str, ...]  # names of filters, with ``~`` for the labels outside one
Stamp: TypeAlias = tuple[int, int, int]  # what changes when a file is replaced


class FilterFacts(NamedTuple):
    """A stored filter: name, version (1, 2, ...), time of the version, and the number of labels that were sent.

    `damaged` tells that its file is; what can no longer be read of it is 0 or empty then.
    """

    name: str
    version: int
    created: str
    labels: int
    damaged: bool = False


class _Header(NamedTuple):
    """First line of a file: facts, and size and checksum of the labels after it."""

    version: int
    created: str
    labels: int
    size: int
    crc32: int


_STRICT = ConfigDict(strict=True)
_HEADER = TypeAdapter(_Header, config=_STRICT)
_LABELS = TypeAdapter(list[str | int], config=_STRICT)


class FilterStore:
    """The filters in a folder; without one, those of this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="tagwood-filters-") if folder is None else None
        self._folder = Path(self._own.name) if self._own is not None else Path(folder or "")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        # By model and terms, the one that was used last at the end.
        self._made: WeakKeyDictionary[Tagger, OrderedDict[Terms, tuple[list[Stamp], LabelFilter]]]
        self._made = WeakKeyDictionary()

    def close(self) -> None:
        """Remove the folder of filters that only this process has."""
        if self._own is not None:
            self._own.cleanup()

    def put(self, name: str, labels: Sequence[str | int]) -> FilterFacts:
        """Store a new version of a filter; labels are given by what they are called by in every model."""
        path = self._path(name)
        content = orjson.dumps(labels)
        with self._writing("stored; the old one stays in use"):
            before = self._facts(name)
            if before is None and len(self.names()) >= MOST_FILTERS:
                raise ProblemError("conflict", f"There are {MOST_FILTERS:,} filters already; delete one first.")
            version = 1 if before is None else before.version + 1
            created = datetime.now(UTC).isoformat(timespec="seconds")
            header = _Header(version, created, len(labels), len(content), crc32(content))
            part = path.with_suffix(".part")
            try:
                with part.open("wb") as file:
                    file.write(orjson.dumps(header._asdict()) + b"\n" + content)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            except OSError:
                part.unlink(missing_ok=True)
                raise
        return FilterFacts(name, *header[:3])

    def get(self, name: str) -> FilterFacts:
        """Return the facts about a filter."""
        facts = self._facts(name)
        if facts is None:
            raise _unknown(name)
        return facts

    def all(self) -> list[FilterFacts]:
        """Return the facts about all filters."""
        return [facts for name in self.names() if (facts := self._facts(name)) is not None]

    def delete(self, name: str) -> FilterFacts:
        """Delete a filter."""
        with self._writing("deleted"):
            facts = self.get(name)
            self._path(name).unlink()
        self._forget(name)
        return facts

    def names(self) -> list[str]:
        """Return the names of all filters."""
        return sorted(path.stem for path in self._folder.glob("*.json") if NAME.fullmatch(path.stem))

    def ages(self) -> dict[str, float]:
        """Return for each filter how many seconds ago it was stored."""
        found = {}
        for name in self.names():
            with suppress(OSError):
                found[name] = time.time() - self._path(name).stat().st_mtime
        return found

    def prepared(self, tagger: Tagger, wanted: Sequence[str]) -> LabelFilter | None:
        """Return what `filter_of` returns if nothing must be looked up for it, else None."""
        terms = _terms(wanted)
        return self._known(tagger, terms, self._stamps(terms))

    def filter_of(self, tagger: Tagger, wanted: Sequence[str]) -> LabelFilter:
        """Return the labels of a Tagger that are in all wanted filters; ``~name`` stands for labels outside one."""
        terms = _terms(wanted)
        stamps = self._stamps(terms)  # before reading: a version that comes in between is looked up by the next request
        found = self._known(tagger, terms, stamps)
        if found is None:
            found = reduce(and_, [self._look_up(tagger.vocab_, term) for term in terms])
            with self._lock:
                made = self._made.setdefault(tagger, OrderedDict())
                made[terms] = stamps, found
                made.move_to_end(terms)
                while len(made) > max(_FEWEST_KEPT, _KEPT_ENTRIES // max(1, found.n_labels)):
                    made.popitem(last=False)
        return found

    def _known(self, tagger: Tagger, terms: Terms, stamps: list[Stamp]) -> LabelFilter | None:
        with self._lock:
            made = self._made.get(tagger, OrderedDict())
            before, found = made.get(terms, (None, None))
            if before != stamps:
                return None
            made.move_to_end(terms)
            return found

    def _forget(self, name: str) -> None:
        """Drop what was made of a filter that is gone."""
        with self._lock:
            for made in self._made.values():
                for terms in [terms for terms in made if name in terms or _NOT + name in terms]:
                    del made[terms]

    def _look_up(self, vocab: LabelVocab, term: str) -> LabelFilter:
        name = term.removeprefix(_NOT)
        try:
            facts, content = self._read(name)
            labels = None if facts.damaged else _LABELS.validate_json(content)
        except FileNotFoundError:
            raise _unknown(name) from None
        except ValueError:
            labels = None
        if labels is None:
            detail = f"The file of filter {name!r} is damaged; replace it with PUT /v1/filters/{name}, or delete it."
            raise ProblemError("damaged-filter", detail)
        found = known_labels(vocab, labels)
        return ~found if term.startswith(_NOT) else found

    def _stamps(self, terms: Terms) -> list[Stamp]:
        """Return what changes when one of the filters does."""
        stamps = []
        for name in [term.removeprefix(_NOT) for term in terms]:
            try:
                info = self._path(name).stat()
            except OSError:
                self._forget(name)
                raise _unknown(name) from None
            stamps.append((info.st_ino, info.st_mtime_ns, info.st_size))
        return stamps

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            detail = (
                "A filter's name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit."
            )
            raise ProblemError("invalid-request", detail)
        return self._folder / f"{name}.json"

    def _facts(self, name: str) -> FilterFacts | None:
        try:
            return self._read(name)[0]
        except FileNotFoundError:
            return None

    def _read(self, name: str) -> tuple[FilterFacts, bytes]:
        """Return facts and labels of a filter as they are stored; raise `FileNotFoundError` if there is none."""
        try:
            line, _, content = self._path(name).read_bytes().partition(b"\n")
            header = _HEADER.validate_json(line)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):  # a folder or a file that cannot be read; or its first line is none of ours
            return FilterFacts(name, 0, "", 0, damaged=True), b""
        damaged = (len(content), crc32(content)) != (header.size, header.crc32)
        return FilterFacts(name, *header[:3], damaged=damaged), content

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Keep other workers from writing; an error of the file system says that the filter could not be `what`."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise ProblemError("not-stored", f"The filter could not be {what} ({error.strerror}).") from None


def known_labels(vocab: LabelVocab, labels: Sequence[str | int]) -> LabelFilter:
    """Return a filter of labels given as texts (names, URIs, own ids) or numbers (own ids, or else rows of the table).

    Examples
    --------
    >>> known_labels(LabelVocab.from_names(["oak", "ash"]), ["ash", "elm", 7])
    LabelFilter(1 of 2 labels, 2 unknown ones left out)
    """
    rows = vocab.find_many(list(labels))
    mask = np.zeros(len(vocab), dtype=np.bool_)
    mask[rows[rows >= 0]] = True
    return LabelFilter(mask, n_unknown=int(np.sum(rows < 0)))


def lasting_names(vocab: LabelVocab, labels: Sequence[str | int]) -> list[str | int]:
    """Return labels by what they are called in other models, too: a row of the table by its URI or name.

    An unknown row becomes a text that names no label: it may be the row of some label in another table.

    Examples
    --------
    >>> lasting_names(LabelVocab.from_names(["oak", "ash"]), [1, "oak", 7]), lasting_names(LabelVocab(5), [1, 7])
    (['ash', 'oak', 'row 7'], [1, 7])
    """
    if not has_row_ids(vocab):
        return list(labels)

    def name(label: str | int) -> str:
        if isinstance(label, str):
            return label
        return vocab.uri(label) or vocab.name(label) if 0 <= label < len(vocab) else f"row {label}"

    return [name(label) for label in labels]


def has_row_ids(vocab: LabelVocab) -> bool:
    """Whether numbers stand for rows of the table, which may be other labels in the table of another model."""
    return vocab.names is not None and vocab.id_kind != "integer"


def _terms(wanted: Sequence[str]) -> Terms:
    return tuple(sorted(set(wanted)))


def _unknown(name: str) -> ProblemError:
    return ProblemError("unknown-filter", f"There is no filter {name[:64]!r}; send it with PUT /v1/filters/NAME first.")
