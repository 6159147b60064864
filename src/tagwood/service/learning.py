"""`LiveLearning`: corrections that a running service learns at once, in every worker. In: records. Out: a new model.

Decisions: a record to learn is a line of the feedback file with `learn` set, on disk before it is acknowledged. Every
worker learns these lines in the order of the file, before it answers its next request, and again after a restart or
with a new model, which may know some of them already. So no worker has to tell the others, and nothing is lost.

Whether learning does harm is measured as by `tagwood learn` where a request brings texts enough to hold some out. For
smaller requests every text is ranked before it is learned, by the model as it was loaded and by the model as it has
learned since; the last 500 such texts tell whether learning makes the model worse.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson

from tagwood.data.feedback import Feedback, FeedbackRecord, feedback_rows, parse_record
from tagwood.service.journal import append_lines
from tagwood.service.problems import ProblemError
from tagwood.service.progress import stored_records
from tagwood.tagger import Tagger
from tagwood.tagger.learning import (
    FEWEST_HELD_OUT,
    BeforeAfter,
    measure_learning,
    memory_of,
    row_quality,
    take_in,
)

_MOST_MEASURED = 500  # texts, the last ones, that tell whether learning does harm
Pair = tuple[float, float]  # nDCG@5 of a text by the model as loaded, and as it has learned


class Learned(NamedTuple):
    """What a request taught: texts learned and left out, and the measure before and after, if there is one."""

    learned: int
    left_out: int
    measured: BeforeAfter | None


class TaggerHolder(Protocol):
    """Holds the Tagger in use."""

    @property
    def tagger(self) -> Tagger:
        """The Tagger in use; a problem if there is none."""
        ...

    @property
    def name(self) -> str:
        """Short hash of the model as it was loaded."""
        ...

    def exchange(self, expected: Tagger, new: Tagger) -> bool:
        """Replace the Tagger in use, unless it is no longer the expected one; return whether it was."""
        ...


class LiveLearning:
    """What one worker has learned from the feedback file of a project; see the module for how workers agree."""

    def __init__(self, path: Path, holder: TaggerHolder) -> None:
        self._path = path
        self._holder = holder
        self._lock = threading.Lock()
        self._loaded: Tagger | None = None  # as it was loaded
        self._current: Tagger | None = None  # the same with what was learned since
        self._read = 0  # bytes of the file that were read: complete lines
        self._size = 0  # size of the file then
        self._pairs: deque[Pair] = deque(maxlen=_MOST_MEASURED)

    def is_behind(self) -> bool:
        """Whether there are lines to read, or a new model."""
        return self._holder.tagger is not self._current or _size(self._path) != self._size

    def catch_up(self) -> None:
        """Learn what other workers, or earlier runs of the service, have stored."""
        with self._lock:
            self._catch_up()

    def learn(self, records: Sequence[dict[str, Any]], *, force: bool) -> Learned:
        """Store records and learn them; a problem if the model cannot learn, or would become worse without `force`."""
        with self._lock:
            tagger = self._catch_up()
            if not can_learn(tagger):
                detail = "This model cannot learn at once: it has no memory of texts. Train with quality balanced."
                raise ProblemError("conflict", detail)
            lines = [{**record, "learn": True} for record in records]
            rows = feedback_rows([parse_record(orjson.dumps(one).decode()) for one in lines], tagger.vocab_)
            if not len(rows):
                raise ProblemError(
                    "invalid-request", "No record has a label of the vocabulary; nothing can be learned."
                )
            measured, pairs = self._measure(tagger, rows)
            if measured is not None and measured.worse and not force:
                detail = f"The model would become worse: {measured}. Look at the corrections, or send force."
                raise ProblemError("conflict", detail)
            for one in lines:
                one["measured"] = pairs.get(one["id"])
            grown = take_in(copy(tagger), rows)  # before storing: what cannot be learned is not stored
            self._store(tagger, grown, lines)
            return Learned(len(rows), rows.n_empty, measured)

    def _catch_up(self) -> Tagger:
        while True:
            tagger = self._holder.tagger
            size = _size(self._path)
            if tagger is not self._current or size < self._read:  # a new model, or another file: from the beginning
                self._loaded = tagger if tagger is not self._current else self._loaded
                self._read = 0
                self._pairs.clear()
            content = _read_lines(self._path, self._read)
            records = self._to_learn(content, tagger)
            rows = feedback_rows(records, tagger.vocab_)
            grown = take_in(copy(tagger), rows) if len(rows) and can_learn(tagger) else tagger
            self._current, self._size = grown, size
            self._read += len(content)
            if self._holder.exchange(tagger, grown):
                return grown

    def _to_learn(self, content: bytes, tagger: Tagger) -> list[FeedbackRecord]:
        """Return the last record of each person and text, unless the model knows it or a later one."""
        found: dict[str, FeedbackRecord] = {}
        for line, record in stored_records(content):
            if tagger.learned_.has(record.key, record.id):
                found.pop(record.key, None)
            elif line.get("learn"):
                found[record.key] = record
            if line.get("measured") and line.get("model") == self._holder.name:
                self._pairs.append(tuple(line["measured"]))
        return list(found.values())

    def _measure(self, tagger: Tagger, rows: Feedback) -> tuple[BeforeAfter | None, dict[str, Pair]]:
        """Return the measure of a request, and of each text that was ranked before it is learned, by record."""
        found = measure_learning(tagger, rows)
        assert self._loaded is not None
        if found is not None or tagger is self._loaded:
            return found, {}
        known = tagger.learned_.known
        new = rows.rows([bool(size) for size in np.diff(rows.labels.indptr)])
        new = new.rows([key not in known for key in new.keys])
        if not len(new):
            return None, {}
        both = [
            row_quality(new.labels, one.forgetting(new.texts).rank(new.texts, 5)).tolist()
            for one in (self._loaded, tagger)
        ]
        pairs = dict(zip(new.ids, zip(*both, strict=True), strict=True))
        recent = [*self._pairs, *pairs.values()][-_MOST_MEASURED:]
        if len(recent) < FEWEST_HELD_OUT:
            return None, pairs
        return BeforeAfter.of_rows(*zip(*recent, strict=True)), pairs

    def _store(self, tagger: Tagger, grown: Tagger, lines: list[dict[str, Any]]) -> None:
        """Write lines to the file, then put the Tagger that has learned them into use."""
        content = b"".join(orjson.dumps(one) + b"\n" for one in lines)
        try:
            append_lines(self._path, content)
        except OSError:
            raise ProblemError("not-stored", "The disk refused the record; try again later.") from None
        size = self._read + len(content)
        if _size(self._path) == size and self._holder.exchange(tagger, grown):  # no other worker wrote, no new model
            self._current, self._read, self._size = grown, size, size
            self._pairs.extend(one["measured"] for one in lines if one["measured"] is not None)
        else:
            self._catch_up()


def can_learn(tagger: Tagger) -> bool:
    """Whether a Tagger has a memory of texts."""
    return memory_of(tagger.model_) is not None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_lines(path: Path, begin: int) -> bytes:
    """Return the complete lines of a file from a byte on."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]
