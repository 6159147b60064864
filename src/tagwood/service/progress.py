"""Progress of correcting: how often people agreed with suggestions, and which texts to look at next.

In: the feedback file of a project, and a file of texts that wait for review. Out: JSON values for the page.

Decisions: people agree with a suggestion by accepting it and disagree by rejecting it; suggestions that they left
untouched say nothing. A label that they added was missed. Texts wait in the order of the probability of their best
label, least certain first, which is computed once for each version of the model; a text with feedback leaves the queue.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tagwood.data.feedback import FeedbackRecord, parse_record
from tagwood.data.reading import read_records
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError
from tagwood.tagger import Tagger

DECISIONS = ("accepted", "rejected", "added", "untouched")
MOST_TEXTS = 5_000  # texts of a queue: all are ranked before the first one is shown
_MOST_DAYS = 60  # more of them are shown as months
_PORTION = 256


class QueuedText(NamedTuple):
    """A text that waits for review: its row in the file, its id there, and the score of its best label."""

    row: int
    id: str
    text: str
    score: float


def stored_records(content: bytes) -> Iterator[tuple[dict[str, Any], FeedbackRecord]]:
    """Return the lines that hold a record; others, such as one that a crash cut short, are skipped."""
    for line in content.splitlines():
        with suppress(DataError, UnicodeDecodeError, orjson.JSONDecodeError):
            yield orjson.loads(line), parse_record(line.decode())


def summarise(content: bytes, vocab: LabelVocab, language: str | None, limit: int) -> dict[str, Any]:
    """Return how often people agreed: in all, by day or month, and for the labels that they corrected most.

    Examples
    --------
    >>> lines = b'{"text": "a", "accepted": ["oak"], "rejected": ["ash"], "time": "2026-03-01T10:00:00"}'
    >>> found = summarise(lines, LabelVocab.from_names(["oak", "ash"]), None, 10)
    >>> found["agreement"], [(one["name"], one["rejected"]) for one in found["labels"]]
    (0.5, [('ash', 1), ('oak', 0)])
    """
    records = list(stored_records(content))
    days = {record.time[:10] for _, record in records}
    length = 10 if len(days) <= _MOST_DAYS else 7
    periods: dict[str, Counter[str]] = {}
    by_label: dict[str, Counter[str]] = {}
    names: dict[str, str] = {}
    for line, record in records:
        period = periods.setdefault(record.time[:length], Counter())
        period["records"] += 1
        keys = set()
        for kind in DECISIONS:
            for label in line.get(kind) or ():
                name, key = _name_and_key(label)
                names[key] = name
                keys.add(key)
                period[kind] += 1
                by_label.setdefault(key, Counter())[kind] += 1
        for key in keys:
            by_label[key]["records"] += 1
    found = sorted(by_label.items(), key=lambda one: (-one[1]["rejected"] - one[1]["added"], -one[1]["accepted"], one))
    shown = [(key, one) for key, one in found if one["accepted"] + one["rejected"] + one["added"]][:limit]
    return {
        **_counts(sum(periods.values(), Counter())),
        "texts": len({record.text for _, record in records}),
        "people": len({record.by for _, record in records if record.by}),
        "learned": sum(bool(line.get("learn")) for line, _ in records),
        "periods": [{"period": name, **_counts(counts)} for name, counts in sorted(periods.items())],
        "labels": [{**_label(key, names[key], vocab, language), **_counts(counts)} for key, counts in shown],
    }


def _name_and_key(label: Any) -> tuple[str, str]:
    if isinstance(label, dict):
        name = str(label.get("label") or label.get("uri"))
        return name, str(label.get("uri") or name)
    return str(label), str(label)


def _label(key: str, name: str, vocab: LabelVocab, language: str | None) -> dict[str, Any]:
    """Return a label as it is called today; a proposal, or one that is gone, has no id."""
    with suppress(InputError):  # ambiguous
        label = vocab.find(key)
        if label is not None:
            return {"id": vocab.number(label), "name": vocab.name(label, language), "uri": vocab.uri(label)}
    return {"id": None, "name": name, "uri": None}


def _counts(counts: Counter[str]) -> dict[str, Any]:
    decided = counts["accepted"] + counts["rejected"]
    agreement = counts["accepted"] / decided if decided else None
    return {name: counts[name] for name in ("records", *DECISIONS)} | {"agreement": agreement}


class ReviewQueue:
    """Texts of a file that wait for review, least certain first."""

    def __init__(self, path: Path, max_chars: int) -> None:
        self._path = path
        self._max_chars = max_chars
        self._lock = threading.Lock()
        self._model = ""
        self._ranked: list[QueuedText] = []

    def ranked(self, tagger: Tagger, model: str) -> list[QueuedText]:
        """Return all texts in the order of one version of the model."""
        with self._lock:
            if model != self._model:
                texts = list(islice(read_queue(self._path, self._max_chars), MOST_TEXTS))
                self._ranked = sorted(_scored(texts, tagger), key=lambda one: (one.score, one.row))
                self._model = model
            return self._ranked

    def waiting(self, tagger: Tagger, model: str, feedback: bytes) -> tuple[list[QueuedText], int]:
        """Return the texts without feedback, and the number of those with it."""
        done = {_digest(record.text) for _, record in stored_records(feedback)}
        ranked = self.ranked(tagger, model)
        left = [one for one in ranked if _digest(one.text) not in done]
        return left, len(ranked) - len(left)


def read_queue(path: Path, max_chars: int) -> Iterator[QueuedText]:
    """Return the texts of a file in any format that has texts, cut to the longest one that the service takes."""
    for row, record in enumerate(read_records(path)):
        if record.text and record.text.strip():
            yield QueuedText(row, record.id or str(row + 1), record.text[:max_chars], 0.0)


def _scored(texts: list[QueuedText], tagger: Tagger) -> Iterable[QueuedText]:
    for begin in range(0, len(texts), _PORTION):
        portion = texts[begin : begin + _PORTION]
        for one, tags in zip(portion, tagger.tag([one.text for one in portion], 1), strict=True):
            yield one._replace(score=float(tags[0].score) if len(tags) else 0.0)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
