"""`GroupReview`: groups with imputed labels, for manual review. In: groups kept in the model, and corrections so far.

Out: JSON values, and lines that `tagwood train` reads.

Decisions: the confidence of a label of a sample comes from imputation, not from the trained model, which has learned
the label with this sample and is always confident. A correction is a row of its own without a group, so that training
uses its labels unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from tagwood.tagger import Tagger
from tagwood.tagger.stored import GroupSamples, brief_label

_CORRECTED = (1.0, 0.0)  # confidence and similarity of a label that was added in a review

Corrections = dict[int, list[int]]  # row -> label ids


class GroupReview:
    """The groups of a Tagger that was fitted from group labels."""

    def __init__(self, tagger: Tagger, kept: GroupSamples) -> None:
        self._tagger = tagger
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def confidence(self) -> list[float]:
        """Mean confidence of the labels of each group."""
        ends = self.kept.label_ptr[self.kept.group_ptr]
        parts = np.split(self.kept.confidence, ends[1:-1]) if len(self) else []
        return [float(part.mean()) if part.size else 1.0 for part in parts]

    def listing(self, words: str, offset: int, limit: int, corrected: Corrections) -> dict[str, Any]:
        """Return a page of the groups whose names contain `words`, least confident first."""
        names = list(self.kept.names)
        found = [group for group, name in enumerate(names) if words.casefold() in name.casefold()]
        found.sort(key=lambda group: (self.confidence[group], group))
        groups = [self._summary(group, names[group], corrected) for group in found[offset : offset + limit]]
        return {"total": len(found), "in_training": self.kept.n_in_training, "groups": groups}

    def group(self, group: int, language: str | None, corrected: Corrections) -> dict[str, Any]:
        """Return a group with its samples."""
        return {
            "group": group,
            "name": self.kept.names[group],
            "labels": [brief_label(self._tagger, label, language) for label in self._labels(group)],
            "samples": [self._sample(sample, language, corrected) for sample in self.kept.samples(group)],
        }

    def rows(self, group: int) -> dict[int, int]:
        """Return the samples of a group by their row in the training data."""
        return {int(self.kept.rows[sample]): sample for sample in self.kept.samples(group)}

    def corrections(self, lines: bytes) -> Corrections:
        """Return the last correction of each row of this model's training data."""
        found: Corrections = {}
        n_labels = len(self._tagger.vocab_)
        for record in map(_parse, lines.splitlines()):
            labels = record.get("label_ids")
            if record.get("data") == self._tagger.fingerprint_ and isinstance(labels, list):
                known = [label for label in labels if isinstance(label, int) and 0 <= label < n_labels]
                found[int(record["row"])] = known
        return found

    def _summary(self, group: int, name: str, corrected: Corrections) -> dict[str, Any]:
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
        begin, end = self.kept.label_ptr[self.kept.group_ptr[group : group + 2]]
        return [int(label) for label in np.unique(self.kept.labels[begin:end])]

    def _sample(self, sample: int, language: str | None, corrected: Corrections) -> dict[str, Any]:
        row = int(self.kept.rows[sample])
        place = self.kept.labels_of(sample)
        figures = zip(self.kept.confidence[place].tolist(), self.kept.similarity[place].tolist(), strict=True)
        imputed = dict(zip(self.kept.labels[place].tolist(), figures, strict=True))
        labels = []
        for label in corrected.get(row, list(imputed)):
            confidence, similarity = imputed.get(label, _CORRECTED)
            brief = brief_label(self._tagger, label, language)
            labels.append({**vars(brief), "confidence": confidence, "similarity": similarity})
        return {"row": row, "text": self.kept.texts[sample], "labels": labels, "corrected": row in corrected}


def last_of_each_row(lines: bytes) -> Iterable[bytes]:
    """Return the last line of each row: a correction replaces earlier ones."""
    last: dict[tuple[Any, Any], bytes] = {}
    for line in lines.splitlines():
        record = _parse(line)
        if record:
            last[record.get("data"), record.get("row")] = line
    return last.values()


def _parse(line: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:  # a line that a crash cut short
        return {}
    return record if isinstance(record, dict) else {}
