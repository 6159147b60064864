"""Feedback: what people decided about suggested labels. In: JSON lines of the service, or texts with labels. Out: rows.

A record has a `text`, labels that were `accepted`, `rejected` or `added`, and suggestions left `untouched`; `by` is the
person, if known. A record with `labels` alone is a text with its right labels.

Decisions: accepted and added labels are right, rejected ones wrong; untouched ones say nothing. Of several records of
one person on the same text the last one counts; those of different people are rows of their own, so that disagreement
is kept. Names that the vocabulary does not know are proposals: they are counted, and the rest of the record is used.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._lazy import sparse
from tagwood.data.dataset import Dataset
from tagwood.data.files import parsed_lines
from tagwood.data.formats.json_lines import labels_of, parse_object
from tagwood.data.records import LabelIds, Named, label_matrix
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError

_HINT = "A record has 'text', and labels in 'accepted', 'rejected' and 'added', or in 'labels'."
_HELD_OUT = 5  # one text of so many is held out


class FeedbackRecord(NamedTuple):
    """One record; labels are given as in the file."""

    id: str
    text: str
    by: str
    time: str
    right: Sequence[int | str | Named]
    rejected: Sequence[int | str | Named]
    untouched: int = 0  # number of suggestions that nothing was decided about

    @property
    def key(self) -> str:
        """The text and the person, as a hash: a later record with the same key replaces this one."""
        return hashlib.sha256(f"{self.by}\0{self.text}".encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Feedback:
    """Feedback as rows over a vocabulary."""

    texts: list[str]
    labels: sparse.csr_array  # (n_rows, n_labels) labels that are right
    rejected: sparse.csr_array  # (n_rows, n_labels) labels that are wrong
    keys: list[str]  # see `FeedbackRecord`
    ids: list[str]
    n_records: int  # records, with those that later ones replace
    proposals: Counter[str]  # unknown names, by number of records
    n_empty: int = 0  # rows that were left out because no known label is right or wrong

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, index: ArrayLike) -> Feedback:
        """Return some of the rows."""
        wanted = np.asarray(index)
        chosen = np.arange(len(self))[wanted] if wanted.size else np.empty(0, dtype=np.int64)
        texts, keys, ids = ([column[row] for row in chosen] for column in (self.texts, self.keys, self.ids))
        parts = (self.labels[chosen], self.rejected[chosen])
        return Feedback(texts, *parts, keys, ids, len(texts), Counter())

    def held_out(self) -> NDArray[np.bool_]:
        """Return which rows measure what learning from the others does: every fifth text with labels, by its hash."""
        mine = [int(hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8], 16) for text in self.texts]
        held: NDArray[np.bool_] = (np.array(mine, dtype=np.int64) % _HELD_OUT == 0) & (np.diff(self.labels.indptr) > 0)
        return held

    def dataset(self, vocab: LabelVocab) -> Dataset:
        """Return the rows as training data; those with rejected labels only have no labels."""
        return Dataset(self.labels, vocab, texts=self.texts, rejected=self.rejected)


def read_feedback(path: str | Path, vocab: LabelVocab) -> Feedback:
    r"""Read feedback from JSON lines; wrong lines raise `DataError` with their number.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "feedback.jsonl"
    >>> _ = file.write_text('{"text": "a", "accepted": ["oak"], "rejected": ["sea"], "added": ["new"]}\n')
    >>> found = read_feedback(file, LabelVocab.from_names(["oak", "sea"]))
    >>> found.labels.indices.tolist(), found.rejected.indices.tolist(), dict(found.proposals)
    ([0], [1], {'new': 1})
    """
    records = []
    for number, record in parsed_lines(Path(path), parse_record):
        records.append(record if record.id else record._replace(id=f"line {number}"))
    try:
        return feedback_rows(records, vocab)
    except DataError as error:
        raise DataError(error.reason, path=Path(path), hint=error.hint) from error


def parse_record(line: str) -> FeedbackRecord:
    """Return the record of a line, or raise `DataError`."""
    content = parse_object(line)
    text, by = content.get("text"), content.get("by") or ""
    if not isinstance(text, str) or not isinstance(by, str):
        raise DataError("'text' must be a text, and 'by' the name of a person", hint=_HINT)
    fields = {name: labels_of(content.get(name)) for name in ("accepted", "added", "rejected", "untouched", "labels")}
    told = any(name in content for name in ("accepted", "added", "rejected"))
    if not told and "labels" not in content:
        raise DataError("has no decisions", hint=_HINT)
    right = [*fields["accepted"], *fields["added"]] if told else fields["labels"]
    both = {_key(label) for label in right} & {_key(label) for label in fields["rejected"]}
    if both:
        raise DataError(f"{min(both)!r} is right and rejected in one record", hint="Keep one of the two.")
    name, time = content.get("id"), content.get("time")
    return FeedbackRecord(
        name if isinstance(name, str) else "",
        text,
        by,
        time if isinstance(time, str) else "",
        right,
        fields["rejected"],
        len(fields["untouched"]),
    )


def feedback_rows(records: Iterable[FeedbackRecord], vocab: LabelVocab) -> Feedback:
    """Return records as rows: the last one of each person and text."""
    given = list(records)
    last = {record.key: record for record in given}
    proposals: Counter[str] = Counter()
    kept, right, wrong = [], [], []
    for record in last.values():
        pair = [_known(labels, vocab, proposals) for labels in (record.right, record.rejected)]
        if any(pair):
            kept.append(record)
            right.append(pair[0])
            wrong.append([label for label in pair[1] if label not in pair[0]])
    return Feedback(
        [record.text for record in kept],
        _matrix(right, len(vocab)),
        _matrix(wrong, len(vocab)),
        [record.key for record in kept],
        [record.id for record in kept],
        len(given),
        proposals,
        len(last) - len(kept),
    )


def with_feedback(data: Dataset, feedback: Feedback) -> Dataset:
    """Return training data with the rows of feedback after it, over the same vocabulary.

    Examples
    --------
    >>> vocab = LabelVocab.from_names(["oak", "sea"])
    >>> data = Dataset([[0]], vocab, texts=["a"])
    >>> more = with_feedback(data, feedback_rows([FeedbackRecord("1", "b", "", "", ["sea"], ["oak"])], vocab))
    >>> more.label_lists(), more.rejected.toarray().tolist()
    ([[0], [1]], [[0.0, 0.0], [1.0, 0.0]])
    """
    if data.texts is None or data.groups is not None:
        raise InputError("feedback can be added to texts with labels of their own", given="features or groups")
    empty = sparse.csr_array((data.n_rows, data.n_labels), dtype=np.float32)
    before = empty if data.rejected is None else data.rejected
    ids = None if data.ids is None else [*data.ids, *feedback.ids]
    return Dataset(
        sparse.vstack([data.labels, feedback.labels], format="csr"),
        data.vocab,
        texts=[*data.texts, *feedback.texts],
        ids=ids,
        rejected=sparse.csr_array(sparse.vstack([before, feedback.rejected], format="csr")),
    )


def _known(labels: Sequence[int | str | Named], vocab: LabelVocab, proposals: Counter[str]) -> list[int]:
    ids = LabelIds(vocab, "skip")
    found = []
    for label in labels:
        number = ids.of([label])
        found += number
        if not number:
            proposals[_key(label)] += 1
    return list(dict.fromkeys(found))


def _key(label: int | str | Named) -> str:
    return (label.uri or label.name) if isinstance(label, Named) else str(label)


def _matrix(lists: list[list[int]], n_labels: int) -> sparse.csr_array:
    flat = np.array([label for row in lists for label in row], dtype=np.int32)
    return label_matrix(flat, np.cumsum([0, *map(len, lists)]), n_labels)
