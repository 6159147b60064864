"""`FilterStore`: named label filters of a project. In: labels under a name. Out: `LabelFilter`s of a model.

Decisions: a filter is one file in a folder that all workers share. A new version replaces the file in one step, so a
request sees one version or the other, never a mixture, and all workers see the new one from their next request on. The
file holds the labels as they were sent: they are looked up again when the model changes, and labels that a model does
not know are left out. What was looked up is kept until filter or model change. A file that is damaged, such as one that
was cut short, is listed as such until it is replaced or deleted; requests that use it are refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from pydantic import TypeAdapter

from tagwood.data.vocab import LabelVocab
from tagwood.models.label_filter import LabelFilter
from tagwood.service.problems import ProblemError
from tagwood.tagger import Tagger

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_FILTERS = 1000  # of a project
_NOT = "~"


class FilterFacts(NamedTuple):
    """A stored filter: name, version (1, 2, ...), time of the version, and the number of labels that were sent.

    `damaged` tells that its file is; what can no longer be read of it is 0 or empty then.
    """

    name: str
    version: int
    created: str
    labels: int
    damaged: bool = False


_FACTS = TypeAdapter(FilterFacts)
_LABELS = TypeAdapter(list[str | int])


class FilterStore:
    """The filters in a folder; without one, those of this process only."""

    def __init__(self, folder: Path | None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="tagwood-filters-") if folder is None else None
        self._folder = Path(self._own.name) if self._own is not None else Path(folder or "")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._made: WeakKeyDictionary[Tagger, dict[tuple[Any, ...], LabelFilter]] = WeakKeyDictionary()

    def close(self) -> None:
        """Remove the folder of filters that only this process has."""
        if self._own is not None:
            self._own.cleanup()

    def put(self, name: str, labels: Sequence[str | int]) -> FilterFacts:
        """Store a new version of a filter."""
        path = self._path(name)
        with self._locked():
            before = self._facts(path)
            if before is None and len(self.names()) >= MOST_FILTERS:
                raise ProblemError("conflict", f"There are {MOST_FILTERS:,} filters already; delete one first.")
            version = 1 if before is None else before.version + 1
            facts = FilterFacts(name, version, datetime.now(UTC).isoformat(timespec="seconds"), len(labels))
            part = path.with_suffix(".part")
            try:
                with part.open("wb") as file:
                    file.write(orjson.dumps(facts._asdict()) + b"\n" + orjson.dumps(labels))
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            except OSError:
                part.unlink(missing_ok=True)
                raise ProblemError("not-stored", "The filter could not be stored; the old one stays in use.") from None
        return facts

    def get(self, name: str) -> FilterFacts:
        """Return the facts about a filter."""
        facts = self._facts(self._path(name))
        if facts is None:
            raise _unknown(name)
        return facts

    def delete(self, name: str) -> FilterFacts:
        """Delete a filter."""
        with self._locked():
            facts = self.get(name)
            self._path(name).unlink()
        return facts

    def names(self) -> list[str]:
        """Return the names of all filters."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def is_prepared(self, tagger: Tagger, wanted: Sequence[str]) -> bool:
        """Whether `filter_of` has nothing to look up."""
        return self._key(wanted) in self._made.get(tagger, {})

    def filter_of(self, tagger: Tagger, wanted: Sequence[str]) -> LabelFilter:
        """Return the labels of a Tagger that are in all wanted filters; ``~name`` stands for labels outside one."""
        key = self._key(wanted)
        made = self._made.setdefault(tagger, {})
        if key not in made:
            parts = []
            for one in wanted:
                stored = self._read(one.removeprefix(_NOT))
                found = known_labels(tagger.vocab_, stored)
                parts.append(~found if one.startswith(_NOT) else found)
            whole = parts[0]
            for part in parts[1:]:
                whole = whole & part
            names = [{place[0] for place in old} for old in made]
            for old in [old for old, own in zip(list(made), names, strict=True) if own == {place[0] for place in key}]:
                del made[old]  # older versions of the same filters
            made[key] = whole
        return made[key]

    def _key(self, wanted: Sequence[str]) -> tuple[Any, ...]:
        """Return what changes when one of the filters does."""
        key = []
        for one in wanted:
            try:
                info = self._path(one.removeprefix(_NOT)).stat()
            except OSError:
                raise _unknown(one.removeprefix(_NOT)) from None
            key.append((one, info.st_ino, info.st_mtime_ns, info.st_size))
        return tuple(key)

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            detail = (
                "A filter's name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit."
            )
            raise ProblemError("invalid-request", detail)
        return self._folder / f"{name}.json"

    def _facts(self, path: Path) -> FilterFacts | None:
        try:
            with path.open("rb") as file:
                facts = _FACTS.validate_json(file.readline())
                file.seek(-1, os.SEEK_END)
                return facts._replace(damaged=file.read() != b"]")  # the labels are cut short
        except FileNotFoundError:
            return None
        except ValueError:
            return FilterFacts(path.stem, 0, "", 0, damaged=True)

    def _read(self, name: str) -> list[str | int]:
        try:
            return _LABELS.validate_json(self._path(name).read_bytes().partition(b"\n")[2])
        except FileNotFoundError:
            raise _unknown(name) from None
        except ValueError:
            detail = f"The file of filter {name!r} is damaged; replace it with PUT /v1/filters/{name}, or delete it."
            raise ProblemError("damaged-filter", detail) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def known_labels(vocab: LabelVocab, labels: Sequence[str | int]) -> LabelFilter:
    """Return a filter of labels given as texts (names, URIs, own ids) or numbers (own ids, or else rows of the table).

    Examples
    --------
    >>> known_labels(LabelVocab.from_names(["oak", "ash"]), ["ash", "elm", 7])
    LabelFilter(1 of 2 labels, 2 unknown ones left out)
    """
    texts = [one for one in labels if isinstance(one, str)]
    numbers = [one for one in labels if not isinstance(one, str)]
    rows = np.concatenate([vocab.find_many(texts), vocab.find_many(numbers)])
    mask = np.zeros(len(vocab), dtype=np.bool_)
    mask[rows[rows >= 0]] = True
    return LabelFilter(mask, n_unknown=int(np.sum(rows < 0)))


def _unknown(name: str) -> ProblemError:
    return ProblemError("unknown-filter", f"There is no filter {name[:64]!r}; send it with PUT /v1/filters/NAME first.")
