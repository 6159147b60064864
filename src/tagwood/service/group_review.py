"""`GroupReview`: groups whose labels were worked out, shown to a person who knows better.

In: the groups kept in the model, and the corrections so far. Out: JSON values, and lines that `tagwood train` reads.

Decisions: how sure a label of a sample is, is what imputation said, not the trained model, which has learned the label
with the sample and is always sure. A correction is a row of its own without a group, so that training takes its labels
as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tagwood.tagger.stored import GroupSamples

if TYPE_CHECKING:
    from tagwood.service.loaded import Loaded

GIVEN = (1.0, 0.0)  # confidence and similarity of a label that a person gave

Corrections = dict[int, list[int]]  # row -> label ids


class GroupReview:
    """The groups of a model.

    Parameters
    ----------
    loaded
        The model.
    kept
        Its groups.
    """

    def __init__(self, loaded: Loaded, kept: GroupSamples) -> None:
        self._loaded = loaded
        self.kept = kept

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.kept)

    @cached_property
    def confidence(self) -> list[float]:
        """Mean confidence of the labels of each group."""
        ends = self.kept.label_ptr[self.kept.group_ptr]
        parts = np.split(self.kept.confidence, ends[1:-1]) if len(self) else []
        return [float(part.mean()) if part.size else 1.0 for part in parts]

    def listing(self, words: str, offset: int, limit: int, corrected: Corrections) -> dict[str, Any]:
        """Return a page of groups whose names hold `words`, least confident first."""
        names = list(self.kept.names)
        found = [group for group, name in enumerate(names) if words.casefold() in name.casefold()]
        found.sort(key=lambda group: (self.confidence[group], group))
        return {
            "total": len(found),
            "in_training": self.kept.n_in_training,
            "groups": [
                self._brief(group, names[group], corrected) for group in found[offset : offset + limit]
            ],
        }

    def group(self, group: int, language: str | None, corrected: Corrections) -> dict[str, Any]:
        """Return a group with its samples."""
        samples = [self._sample(sample, language, corrected) for sample in self.kept.samples(group)]
        labels = self._labels(group)
        return {
            "group": group,
            "name": self.kept.names[group],
            "labels": [self._loaded.brief(label, language) for label in labels],
            "samples": samples,
        }

    def rows(self, group: int) -> dict[int, int]:
        """Return the samples of a group by their row in the training data."""
        return {int(self.kept.rows[sample]): sample for sample in self.kept.samples(group)}

    def corrections(self, lines: bytes) -> Corrections:
        """Return the last correction of each row of this model's training data."""
        found: Corrections = {}
        fingerprint = self._loaded.tagger.fingerprint_
        for line in lines.splitlines():
            record = _parsed(line)
            if record.get("data") == fingerprint and isinstance(record.get("label_ids"), list):
                found[int(record["row"])] = [label for label in record["label_ids"] if self._is_label(label)]
        return found

    def _brief(self, group: int, name: str, corrected: Corrections) -> dict[str, Any]:
        rows = self.rows(group)
        return {
            "group": group,
            "name": name,
            "samples": len(rows),
            "labels": len(self._labels(group)),
            "confidence": self.confidence[group],
            "corrected": any(row in corrected for row in rows),
        }

    def _labels(self, group: int) -> list[int]:
        begin, end = (
            self.kept.label_ptr[self.kept.group_ptr[group]],
            self.kept.label_ptr[self.kept.group_ptr[group + 1]],
        )
        return [int(label) for label in np.unique(self.kept.labels[begin:end])]

    def _sample(self, sample: int, language: str | None, corrected: Corrections) -> dict[str, Any]:
        row = int(self.kept.rows[sample])
        where = self.kept.labels_of(sample)
        figures = zip(self.kept.confidence[where].tolist(), self.kept.similarity[where].tolist(), strict=True)
        near = dict(zip(self.kept.labels[where].tolist(), figures, strict=True))
        labels = corrected.get(row, list(near))
        return {
            "row": row,
            "text": self.kept.texts[sample],
            "labels": [self._imputed(label, near.get(label, GIVEN), language) for label in labels],
            "corrected": row in corrected,
        }

    def _imputed(self, label: int, figures: tuple[float, float], language: str | None) -> dict[str, Any]:
        confidence, similarity = figures
        return {**self._loaded.brief(label, language), "confidence": confidence, "similarity": similarity}

    def _is_label(self, label: Any) -> bool:
        return isinstance(label, int) and 0 <= label < len(self._loaded.tagger.vocab_)


def last_of_each_row(lines: bytes) -> Iterable[bytes]:
    """Yield the last line of each row: a correction replaces the one before."""
    last: dict[tuple[Any, Any], bytes] = {}
    for line in lines.splitlines():
        record = _parsed(line)
        if record:
            last[record.get("data"), record.get("row")] = line
    return last.values()


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:  # a line that a crash cut short
        return {}
    return record if isinstance(record, dict) else {}
