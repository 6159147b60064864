"""Learning from new rows without a full training: `update_tagger`, and when a full training is due.

In: a fitted Tagger, new texts with labels, and the rows of the last training. Out: the same Tagger, updated, and a
`TaggerUpdate` for its history.

Decisions: the encoder, calibration, fusion and set rules stay as they are; they rest on many rows, and some more hardly
change them. A full training is due when rows or labels have grown so much that this no longer holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood.data.dataset import Dataset
from tagwood.errors import InputError
from tagwood.features.base import takes_texts
from tagwood.models.ensemble import Ensemble
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.linear_tree.training import LabelUsage
from tagwood.tagger.fitting import training_data

MOST_ROWS, MOST_LABELS = 0.1, 0.05  # shares of new rows and new labels above which a full training is due


class TaggerUpdate(NamedTuple):
    """An update: new rows, labels they have, labels new to the model, CPU time, when, and members that stayed."""

    rows: int
    labels: int
    new_labels: int
    cpu_seconds: float
    date: str
    unchanged: Sequence[str] = ()


def update_tagger(tagger: Any, data: Dataset, old: Dataset | None, start: float) -> TaggerUpdate:
    """Update a Tagger, whose label table has grown by the labels of `data` already; see `Tagger.update`.

    `start` is the CPU time at which the update began.
    """
    model, texts = tagger.model_, list(data.texts or ())
    Y, stay = data.labels, []
    before = int(np.count_nonzero(tagger.label_counts_))
    old_Y = None if old is None else old.labels
    if isinstance(model, Ensemble):
        known, vocab = int(model.n_labels_), tagger.vocab_
        if known < len(vocab):
            model.add_labels([vocab.name(label) for label in range(known, len(vocab))], vocab.label_names(known))
        reads_texts = takes_texts(model)
        rows = texts if reads_texts else tagger.encoder_.transform(texts)
        kept = None if old is None else list(old.texts or ()) if reads_texts else _encoded(tagger, old.texts or ())
        stay = model.update(rows, Y, kept, old_Y)
    else:
        _update_tree(tagger, tagger.encoder_.transform(texts), Y, old)
    counts = np.bincount(Y.indices, minlength=len(tagger.vocab_)).astype(np.int64)
    tagger.label_counts_ = tagger.label_counts_ + counts
    tagger.n_rows_ += data.n_rows
    calibrator = None if tagger.probabilities_ is None else tagger.probabilities_.calibrator
    if calibrator is not None:
        calibrator.grow(int(model.n_labels_))
    tagger.fingerprint_ = hashlib.sha256((tagger.fingerprint_ + data.fingerprint()).encode()).hexdigest()
    added = int(np.count_nonzero(tagger.label_counts_)) - before
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return TaggerUpdate(data.n_rows, int(np.count_nonzero(counts)), added, process_time() - start, date, stay)


def earlier_rows(tagger: Any, old: Any) -> Dataset | None:
    """Return the rows of the last training that `Tagger.update` was given, checked."""
    if old is None:
        return None
    if isinstance(old, Dataset):
        return training_data(old, None, None, None)
    if isinstance(old, tuple | list) and len(old) == 2:
        return training_data(tagger.as_texts(old[0]), old[1], None, tagger.vocab_)
    raise InputError(
        "old must be the texts and labels of the last training, or a Dataset",
        given=f"a {type(old).__name__}" + (f" of {len(old)}" if isinstance(old, tuple | list) else ""),
        hint="Pass old=(texts, labels).",
    )


def updatable_copy(tagger: Any) -> Any:
    """Return a copy of a Tagger that can be updated while the original stays as it is.

    What is copied are the objects that learn; they replace their arrays and never change them.
    """
    found = copy(tagger)
    found.model_ = copy(tagger.model_)
    if isinstance(found.model_, Ensemble):
        found.model_.members_ = [member._replace(model=copy(member.model)) for member in found.model_.members_]
    if tagger.probabilities_ is not None:
        found.probabilities_ = replace(tagger.probabilities_, calibrator=copy(tagger.probabilities_.calibrator))
    return found


def check_updatable(tagger: Any, data: Dataset, old: Dataset | None) -> None:
    """Raise `InputError` if the model cannot learn the rows; it has not changed by then."""
    model = tagger.model_
    if not hasattr(model, "update"):
        raise InputError(
            "this model cannot be updated", given=type(model).__name__, hint="Train it again on all rows (--full)."
        )
    if old is None and isinstance(model, TreeRanker):
        new = np.unique(data.labels.indices)
        new = new[~model.trained_labels(data.n_labels)[new]]
        if new.size:
            raise InputError(
                "an update that brings labels without rows so far needs the rows of the last training",
                given=f"{data.vocab.name(int(new[0]))!r}" + (f" and {new.size - 1:,} more" if new.size > 1 else ""),
                hint="Pass them (--data OLD, or old=(texts, labels)); models of quality balanced store them.",
            )


def _update_tree(tagger: Any, rows: Any, Y: sparse.csr_array, old: Dataset | None) -> None:
    """Update a linear tree; of the earlier rows only those that it needs are encoded."""
    usage = LabelUsage(tagger.label_counts_, int(tagger.n_rows_))
    if old is None:
        tagger.model_.update(rows, Y, usage=usage)
        return
    needed, texts = tagger.model_.rows_to_update(rows, Y, old.labels), old.texts or ()
    tagger.model_.update(rows, Y, _encoded(tagger, [texts[row] for row in needed]), old.labels[needed], usage=usage)


def due_because(history: list[TaggerUpdate], n_rows: int, counts: NDArray[np.int64]) -> str:
    """Return why a full training is due, given all updates since the last one; "" if it is not.

    Examples
    --------
    >>> due_because([TaggerUpdate(300, 200, 1, 0.5, "")], 1300, np.ones(500))
    'updates brought 300 of 1,300 rows'
    """
    rows, labels = (sum(getattr(one, name) for one in history) for name in ("rows", "new_labels"))
    n_labels = int(np.count_nonzero(counts))
    if rows > MOST_ROWS * n_rows:
        return f"updates brought {rows:,} of {n_rows:,} rows"
    if labels > MOST_LABELS * n_labels:
        return f"updates brought {labels:,} of {n_labels:,} labels"
    return ""


def check_complete(tagger: Any, data: Dataset) -> None:
    """Raise `InputError` if rows for a full training lack labels that a Tagger has learned: they would be forgotten.

    Labels that are masked may go. After updates, all others must have as many rows as the Tagger has learned;
    otherwise they must have some, since other rows than before are a choice then.
    """
    before = tagger.label_counts_
    after = np.bincount(data.labels.indices, minlength=before.size)[: before.size]
    needed = np.where(tagger.vocab_.removed_mask(), 0, before if tagger.history_ else np.minimum(before, 1))
    fewer = np.flatnonzero(after < needed)
    if not fewer.size:
        return
    gone = fewer[after[fewer] == 0]
    example = tagger.vocab_.name(int((gone if gone.size else fewer)[0]))
    raise InputError(
        "a full training needs all rows that the model has learned, those of its updates, too",
        given=f"{fewer.size:,} labels with fewer rows than it has learned, {gone.size:,} of them with none, "
        f"such as {example!r}",
        hint="Append the rows of the updates to the file of --data; to train without them, add --force.",
    )


def joined(old: Dataset, new: Dataset) -> Dataset:
    """Return the rows of two datasets of texts over the table of the second, which has grown from that of the first."""
    Y = sparse.csr_array(old.labels)
    Y.resize((Y.shape[0], new.n_labels))
    labels = sparse.csr_array(sparse.vstack([Y, new.labels]))
    return Dataset(labels, new.vocab, texts=[*(old.texts or ()), *(new.texts or ())], fields=new.fields)


def _encoded(tagger: Any, texts: Sequence[str]) -> Any:
    return tagger.encoder_.transform(list(texts))
