"""Learning from corrections: rows that a Tagger takes in at once, without training. In: texts, labels. Out: a model.

Rows go into the memory of a model that has one: `Neighbours`, alone or as a member of an `Ensemble`. The next training
learns them with everything else.

Decisions
---------
* A text that a person decided about is answered as that person said, whatever the model makes of it; other texts are
  left to the model.
* A row has a key, and a later row with the same key replaces it; `LearnedRows` knows which rows these are, and is
  stored with the model, so that feedback is never learned twice.
* The parts of a Tagger are never changed in place: a copy of a Tagger learns while the original answers requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import is_pointer
from tagwood._lazy import sparse
from tagwood.data.vocab import StringTable
from tagwood.errors import InputError
from tagwood.features.base import Encoder, takes_texts
from tagwood.models.base import LabelModel
from tagwood.models.ensemble import Ensemble
from tagwood.models.label_filter import LabelFilter
from tagwood.models.name_matcher import CERTAIN
from tagwood.models.neighbours import Neighbours
from tagwood.ranking import Ranking
from tagwood.storage import State

if TYPE_CHECKING:
    from tagwood.data.feedback import Feedback

ONE_STANDARD_ERROR = 0.68  # level of an interval
FEWEST_HELD_OUT = 20  # rows: fewer would measure mere chance
TRAINED = -1  # row of feedback that is part of the training data


class LearnedRow(NamedTuple):
    """What a person said of a text: the record, its row in the memory, the text as a hash, and labels.

    Models stored by earlier versions have neither text (0) nor labels.
    """

    record: str
    row: int
    text: int = 0
    right: tuple[int, ...] = ()
    rejected: tuple[int, ...] = ()


class Said(NamedTuple):
    """The labels of a text that people said are right, or wrong; those that they disagree about are in neither."""

    right: list[int]
    rejected: set[int]


@dataclass(frozen=True)
class LearnedRows:
    """Feedback that a model knows: the rows by their keys, and the keys by the hashes of their texts."""

    known: dict[str, LearnedRow] = field(default_factory=dict)
    keys: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.known)

    def has(self, key: str, record: str) -> bool:
        """Whether this record was learned, and not replaced since."""
        return key in self.known and self.known[key].record == record

    def add(self, rows: dict[str, LearnedRow]) -> LearnedRows:
        """Return these rows and others, which replace those with their keys."""
        keys = dict(self.keys)
        for key, row in rows.items():
            if key in self.known:
                before = self.known[key].text
                keys[before] = tuple(other for other in keys.get(before, ()) if other != key)
            if row.text:
                keys[row.text] = (*keys.get(row.text, ()), key)
        return LearnedRows(self.known | rows, keys)

    def keys_of(self, text: str) -> tuple[str, ...]:
        """Return the keys of what people said of exactly this text."""
        return self.keys.get(text_hash(text), ())

    def said(self, texts: Iterable[str]) -> dict[int, Said]:
        """Return what people said of exactly these texts, by the place of each text that they said something of."""
        found: dict[int, Said] = {}
        for place, text in enumerate(texts):
            rows = [self.known[key] for key in self.keys_of(text)]
            if rows:
                right = {label for row in rows for label in row.right}
                wrong = {label for row in rows for label in row.rejected}
                found[place] = Said(sorted(right - wrong), wrong - right)
        return found

    def state(self, model: LabelModel) -> State:
        """Return the stored form; rows are numbered as in the stored memory, which leaves out removed rows."""
        memory = memory_of(model)
        alive = np.ones(0, dtype=np.int64) if memory is None else (memory.dead_ == 0).astype(np.int64)
        place = np.cumsum(alive) - 1
        all_rows = list(self.known.values())
        rows = [one.row if one.row == TRAINED else int(place[one.row]) for one in all_rows]
        arrays: dict[str, NDArray[Any]] = {"rows": np.array(rows, dtype=np.int64)}
        arrays["texts"] = np.array([one.text for one in all_rows], dtype=np.int64)
        for name in ("right", "rejected"):
            sizes = [len(getattr(one, name)) for one in all_rows]
            arrays[f"{name}_ptr"] = np.cumsum([0, *sizes], dtype=np.int64)
            arrays[name] = np.array([label for one in all_rows for label in getattr(one, name)], dtype=np.int32)
        for name, strings in (("keys", list(self.known)), ("ids", [one.record for one in all_rows])):
            table = StringTable.from_strings(strings)
            arrays |= {f"{name}_blob": np.asarray(table.blob), f"{name}_offsets": np.asarray(table.offsets)}
        return State("LearnedRows", arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> LearnedRows:
        """Rebuild from the stored form."""
        rows = state.array("rows", np.int64, (None,))
        size = (rows.size + 1,)
        keys, ids = (
            StringTable(state.array(f"{name}_blob", np.uint8, (None,)), state.array(f"{name}_offsets", np.int64, size))
            for name in ("keys", "ids")
        )
        columns: list[Iterable[Any]] = [ids, rows.tolist()]
        if "texts" in state.arrays:
            columns += [state.array("texts", np.int64, rows.shape).tolist()]
            columns += [_stored_lists(state, name, rows.size) for name in ("right", "rejected")]
        return cls().add(dict(zip(keys, map(LearnedRow, *columns), strict=True)))


def _stored_lists(state: State, name: str, size: int) -> list[tuple[int, ...]]:
    ptr = state.array(f"{name}_ptr", np.int64, (size + 1,))
    labels = state.array(name, np.int32, (None,))
    if not is_pointer(ptr, size, labels.size) or (labels.size and labels.min() < 0):
        raise InputError("the labels of learned texts must fit together", given="others")
    return [tuple(labels[begin:end].tolist()) for begin, end in pairwise(ptr.tolist())]


def text_hash(text: str) -> int:
    """Return what a text is recognised by: 64 bits, not 0."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def learned_rows(
    keys: Sequence[str],
    ids: Sequence[str],
    rows: Iterable[int],
    texts: Sequence[str],
    Y: sparse.csr_array,
    rejected: sparse.csr_array | None,
) -> dict[str, LearnedRow]:
    """Return texts with their right and wrong labels as learned rows, by their keys."""
    columns = [_label_lists(Y), [()] * len(keys) if rejected is None else _label_lists(rejected)]
    return dict(zip(keys, map(LearnedRow, ids, rows, map(text_hash, texts), *columns), strict=True))


def _label_lists(Y: sparse.csr_array) -> list[tuple[int, ...]]:
    return [tuple(Y.indices[begin:end].tolist()) for begin, end in pairwise(Y.indptr.tolist())]


def as_said(rankings: Sequence[Ranking], said: Sequence[Said], k: int, allowed: LabelFilter) -> Ranking:
    """Return what is answered to texts that people said something of: right labels first and certain, no rejected ones.

    Each text has a ranking of its own.

    Examples
    --------
    >>> said = [Said([2], {0})]
    >>> as_said([Ranking.from_lists([[(0, 0.5), (1, 0.25)]], 3)], said, 2, LabelFilter.of([0, 1, 2], 3))[0]
    [(2, 0.99), (1, 0.25)]
    """
    n_labels = rankings[0].n_labels
    rows = []
    for ranking, one in zip(rankings, said, strict=True):
        found = dict(ranking[0])
        certain = max([CERTAIN, *found.values()])
        right = [label for label in one.right if label < n_labels and label in allowed]
        right.sort(key=lambda label: found.get(label, -np.inf), reverse=True)
        others = [pair for pair in found.items() if pair[0] not in one.rejected and pair[0] not in right]
        rows.append([*((label, certain) for label in right), *others][:k])
    return Ranking.from_lists(rows, n_labels)


def memory_of(model: Any) -> Neighbours | None:
    """Return the memory of a model that takes rows at any time, or None."""
    if isinstance(model, Neighbours):
        return model
    if isinstance(model, Ensemble):
        return next((m.model for m in model.members_ if isinstance(m.model, Neighbours)), None)
    return None


class Change(NamedTuple):
    """What learning changes: the model, what it knows, rows of each label, and the number of rows."""

    model: Any
    learned: LearnedRows
    counts: NDArray[np.int64]
    n_rows: int


def learn_rows(
    tagger: Any,
    texts: list[str],
    Y: sparse.csr_array,
    rejected: sparse.csr_array | None,
    keys: list[str],
    ids: list[str],
) -> Change | None:
    """Return what learning rows changes; None if all of them are known already."""
    last = {key: row for row, key in enumerate(keys)}
    new = [row for key, row in last.items() if not ids[row] or not tagger.learned_.has(key, ids[row])]
    if not new:
        return None
    known = tagger.learned_.known
    replaced = [known[keys[row]].row for row in new if keys[row] in known]
    replaced = [row for row in replaced if row != TRAINED]
    chosen, wrong = Y[new], None if rejected is None else rejected[new]
    model = learned_model(tagger.model_, tagger.encoder_, [texts[row] for row in new], chosen, wrong, replaced)
    memory = memory_of(model)
    assert memory is not None
    first = memory.n_rows_ - len(new)
    own = [[column[row] for row in new] for column in (keys, ids, texts)]
    rows = learned_rows(own[0], own[1], range(first, first + len(new)), own[2], chosen, wrong)
    counts = np.bincount(chosen.indices, minlength=tagger.label_counts_.size).astype(np.int64)
    return Change(model, tagger.learned_.add(rows), counts, len(new) - len(replaced))


def forget_texts(tagger: Any, texts: Iterable[str]) -> tuple[Any, LearnedRows] | None:
    """Return a model and what it knows without what people said of some texts; None if it knows nothing of them."""
    known = tagger.learned_.known
    keys = {key for text in texts for key in tagger.learned_.keys_of(text)}
    if not keys:
        return None
    rows = [known[key].row for key in keys if known[key].row != TRAINED]
    learned = LearnedRows().add({key: row for key, row in known.items() if key not in keys})
    if not rows:
        return tagger.model_, learned
    nothing = sparse.csr_array((0, tagger.label_counts_.size), dtype=np.float32)
    return learned_model(tagger.model_, tagger.encoder_, [], nothing, None, rows), learned


def check_lengths(n_rows: int, columns: Mapping[str, int | None]) -> None:
    """Raise `InputError` if a column does not have an entry for each text."""
    for name, size in columns.items():
        if size is not None and size != n_rows:
            raise InputError(f"{name} must have one entry for each of the {n_rows:,} texts", given=f"{size:,}")


def learned_model(
    model: Any, encoder: Encoder, texts: list[str], Y: sparse.csr_array, rejected: Any, replaced: list[int]
) -> Any:
    """Return a copy of a model that knows more rows, without those that they replace; the model stays as it is."""
    if memory_of(model) is None:
        raise InputError(
            "learning at once needs a model with a memory of texts",
            given=type(model).__name__,
            hint="Train with quality balanced or best and 500 rows or more, or: tagwood train --with-feedback.",
        )
    if isinstance(model, Ensemble):
        X = texts if takes_texts(model) else encoder.transform(texts)
        return model.learned(X, Y, rejected, replaced)
    return copy(model).add_rows(encoder.transform(texts), Y, rejected).remove_rows(np.array(replaced, dtype=np.int64))


class BeforeAfter(NamedTuple):
    """nDCG@5 of two models on the same held-out rows; `worse` if the second loses more than a standard error."""

    n_rows: int
    before: float
    after: float
    worse: bool

    @classmethod
    def of_rows(cls, before: ArrayLike, after: ArrayLike) -> BeforeAfter:
        """Compare the nDCG@5 of each row by two models.

        Examples
        --------
        >>> BeforeAfter.of_rows([1.0, 0.5, 1.0], [1.0, 0.5, 0.0])
        BeforeAfter(n_rows=3, before=0.8333333333333334, after=0.5, worse=False)
        """
        first, second = (np.asarray(values, dtype=np.float64) for values in (before, after))
        lost = first - second
        error = lost.std(ddof=1) / np.sqrt(lost.size) if lost.size > 1 else np.inf
        return cls(lost.size, float(first.mean()), float(second.mean()), bool(lost.mean() > error))

    def __str__(self) -> str:
        return f"nDCG@5 {100 * self.before:.1f} -> {100 * self.after:.1f} % on {self.n_rows:,} held-out texts of people"


def row_quality(Y: sparse.csr_array, ranking: Ranking) -> NDArray[np.float64]:
    """Return the nDCG@5 of each row.

    Examples
    --------
    >>> Y = sparse.csr_array(np.eye(2, dtype=np.float32))
    >>> row_quality(Y, Ranking.from_lists([[(0, 1.0)], [(0, 1.0)]], 2)).tolist()
    [1.0, 0.0]
    """
    from tagwood.metrics.matching import match
    from tagwood.metrics.measures import prepare

    (sums,) = prepare(ranking.n_labels, ["nDCG@5"]).sums(match(Y, ranking)).values()
    return np.asarray(sums.over, dtype=np.float64)  # type: ignore[union-attr]


def before_after(Y: sparse.csr_array, before: Ranking, after: Ranking) -> BeforeAfter:
    """Compare the rankings of held-out rows by a model before and after learning.

    Examples
    --------
    >>> Y = sparse.csr_array(np.eye(2, dtype=np.float32))
    >>> right, wrong = (Ranking.from_lists([[(a, 1.0)], [(b, 1.0)]], 2) for a, b in ((0, 1), (1, 0)))
    >>> before_after(Y, right, wrong)
    BeforeAfter(n_rows=2, before=1.0, after=0.0, worse=True)
    """
    return BeforeAfter.of_rows(row_quality(Y, before), row_quality(Y, after))


def take_in(tagger: Any, rows: Feedback) -> Any:
    """Let a Tagger learn feedback, and return it."""
    return tagger.learn(rows.texts, rows.labels, rejected=rows.rejected, keys=rows.keys, ids=rows.ids)


def measure_learning(tagger: Any, rows: Feedback) -> BeforeAfter | None:
    """Measure what learning does on held-out feedback, with a copy of the Tagger; None if there is too little."""
    held = rows.held_out()
    if held.sum() < FEWEST_HELD_OUT:
        return None
    test = rows.rows(held)
    both = (tagger, take_in(copy(tagger), rows.rows(~held)))
    before, after = (one.forgetting(test.texts).rank(test.texts, 5) for one in both)
    return before_after(test.labels, before, after)
