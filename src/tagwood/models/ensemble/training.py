"""`MemberTraining`: fits the members of an `Ensemble`, on parts of the rows and on all, within a budget.

In: unfitted members, what each of them reads, label sets. Out: fitted members, what each costs, and which were left out
because the time does not suffice.

With a `Runner` and without a limit of time, members are fitted as tasks: all members of all folds, or, where rows are
held out once, those that are not trained in parts themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, csr_parts
from tagwood.features.base import Encoder
from tagwood.models.ensemble.budget import Budget, Clock, Costs, state_bytes
from tagwood.models.ensemble.members import Inputs, Member, Split
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.tasks import Job
from tagwood.storage import State
from tagwood.storage.state import restore

Progress = Callable[[str, float], None]
Floats = NDArray[np.float64]
_COPIES_TIME = 1.4  # training of trees with copies, relative to trees
_PILOT_ROWS = 500  # to find out how long a member takes
_TIMED_ROWS = 30
_WANTED = 40


class MemberRows(NamedTuple):
    """What members are fitted from as tasks: models, the different inputs and which of them each reads, and labels."""

    models: tuple[Any, ...]
    inputs: tuple[Any, ...]
    reads: tuple[int, ...]
    Y: CsrParts
    splits: tuple[NDArray[np.int64], ...]  # rows to train on
    options: dict[str, Any]


class MemberFit(NamedTuple):
    """A task: which member, and on which split; None for all rows."""

    place: int
    split: int | None


def fit_member(shared: MemberRows, part: MemberFit, threads: int) -> State:
    """Fit one member, as a task."""
    model = shared.models[part.place]
    model = type(model)(**model.get_params(deep=False))
    if hasattr(model, "threads"):
        model.threads = threads
    rows, Y, options = shared.inputs[shared.reads[part.place]], shared.Y.to_scipy(), dict(shared.options)
    rows = rows.to_scipy() if isinstance(rows, CsrParts) else rows
    rejected = options.pop("rejected", None)
    rejected = None if rejected is None else rejected.to_scipy()
    if part.split is not None:
        some = shared.splits[part.split]
        rows = [rows[row] for row in some] if isinstance(rows, list) else rows[some]
        Y, rejected = Y[some], None if rejected is None else rejected[some]
    state: State = Member("", None, model).fit(rows, Y, options | {"rejected": rejected}).model.state()
    return state


def _plain(rows: Any) -> Any:
    return csr_parts(sparse.csr_array(rows)) if sparse.issparse(rows) else rows


class MemberTraining:
    """Fits members in their order; those for which the time does not suffice are left out.

    Parameters
    ----------
    members
        Unfitted members, the indispensable one first.
    inputs
        What each member reads.
    Y
        (n_rows, n_labels) label sets.
    options
        Of `Member.fit`.
    report
        Called with the name of a stage and the share done.

    Attributes
    ----------
    places : numbers of the members that are trained
    seconds : (n_members,) CPU time of each
    """

    def __init__(
        self,
        members: list[Member],
        inputs: Inputs,
        Y: sparse.csr_array,
        options: dict[str, Any],
        report: Progress,
    ) -> None:
        self.members, self.inputs, self.Y = members, inputs, Y
        self.options, self.report = options, report
        self.places = list(range(len(members)))
        self.seconds: Floats = np.zeros(len(members))
        self._per_tree = 0.0
        self._done: dict[MemberFit, Any] = {}  # models that were fitted as tasks

    def run_tasks(self, models: dict[int, Any], splits: list[Split], rounds: list[int | None]) -> None:
        """Fit members as tasks, for the rounds that follow: unfitted models by their places, on splits or all rows."""
        runner = self.options.get("runner")
        whole = {p: m for p, m in models.items() if len(rounds) > 1 or not isinstance(m, TreeRanker)}
        if runner is None or not whole:
            return
        different = list({id(rows): rows for rows in self.inputs.of}.values())
        reads = tuple(next(n for n, one in enumerate(different) if one is rows) for rows in self.inputs.of)
        kept = {name: value for name, value in self.options.items() if name not in ("runner", "progress")}
        kept["rejected"] = None if kept.get("rejected") is None else csr_parts(kept["rejected"])
        shared = MemberRows(
            tuple(models.get(place) for place in range(len(self.members))),
            tuple(map(_plain, different)),
            reads,
            csr_parts(self.Y),
            tuple(split.train for split in splits),
            kept,
        )
        parts = [MemberFit(place, number) for number in rounds for place in whole]
        states = runner.run(Job("members", fit_member, shared, parts), self.report)
        for part, state in zip(parts, states, strict=True):
            model = restore(state)
            if hasattr(model, "threads"):
                model.threads = models[part.place].threads
            self._done[part] = model

    def fit_without(self, split: Split, clock: Clock, done: float, number: int = 0) -> list[Member]:
        """Fit the members without the held-out rows of a split; return them in the order of `places`."""
        train, Y = self.inputs.some(split.train), self.Y[split.train]
        fitted = []
        for place in list(self.places):
            member = self.members[place]
            if MemberFit(place, number) in self._done:
                fitted.append(member._replace(model=self._done.pop(MemberFit(place, number))))
                continue
            rounds = self._rounds(member, split, clock)
            limited = done == 0 and place and clock.seconds is not None
            # Where no time is left, none is spent on a forecast.
            if limited and not (clock.allows(0.0) and clock.allows(rounds * self._expected(place, train, Y))):
                self.places.remove(place)
                continue
            self.report(f"{member.name}, without held-out rows", done)
            start = perf_counter()
            fitted.append(self._fit(place, member.fresh(), train.of[place], Y, split.train))
            if done == 0:
                taken = perf_counter() - start
                clock.reserve(taken * (rounds - 1))
                if isinstance(member.model, TreeRanker):
                    self._per_tree = taken / _n_trees(member.model)
        return fitted

    def fit_all(self, place: int, fitted: Member) -> Member:
        """Return a member fitted on all rows, with the choices that it made on a part of them."""
        if MemberFit(place, None) in self._done:
            return fitted._replace(model=self._done.pop(MemberFit(place, None)))
        return self._fit(place, fitted.fresh(), self.inputs.of[place], self.Y)

    def _fit(
        self, place: int, member: Member, rows: Any, Y: sparse.csr_array, some: NDArray[np.int64] | None = None
    ) -> Member:
        """Fit a member, on `some` of the rows or all."""
        start = process_time()
        rejected = self.options.get("rejected")
        if some is not None and rejected is not None:
            rejected = rejected[some]
        member.fit(rows, Y, {**self.options, "rejected": rejected})
        self.seconds[place] += process_time() - start
        return member

    def _expected(self, place: int, train: Inputs, Y: sparse.csr_array) -> float:
        """Return the seconds in which a member will be trained on some rows."""
        member = self.members[place]
        if isinstance(member.model, TreeRanker) and self._per_tree:
            return self._per_tree * _n_trees(member.model)
        return Pilot.of(member, train.of[place], Y, self.options).seconds(*Y.shape)

    def _rounds(self, member: Member, split: Split, clock: Clock) -> float:
        """Return how many times as long as this one all trainings of a member take."""
        if getattr(member.model, "remembers_texts", False):  # the time is spent on each text once
            return float(self.Y.shape[0] / split.train.size)
        return clock.rounds


class Pilot(NamedTuple):
    """What trainings of a member on few rows tell about its time: a fixed part, and that of a row and of a label."""

    fixed: float
    per_row: float
    per_label: float

    @classmethod
    def of(cls, member: Member, rows: Any, Y: sparse.csr_array, options: dict[str, Any]) -> Pilot:
        """Train a member on few rows and few labels, then with more rows, then with more labels.

        The first training is not timed: it may read weights, or remember texts.
        """
        usable = np.flatnonzero(np.diff(Y.indptr))
        few, more = usable[: _PILOT_ROWS // 5], usable[:_PILOT_ROWS]
        of_few = np.unique(Y[few].indices)
        others = np.setdiff1d(np.arange(Y.shape[1]), of_few)[:_PILOT_ROWS]

        def train(chosen: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
            some = [rows[row] for row in chosen] if isinstance(rows, list) else rows[chosen]
            named = {
                name: [options[name][label] for label in labels]
                for name in ("label_texts", "label_names")
                if options.get(name) is not None
            }
            start = perf_counter()
            member.fresh().fit(some, sparse.csr_array(Y[chosen][:, labels]), named)
            return perf_counter() - start

        train(few, of_few)
        base = train(few, of_few)
        per_row = max(0.0, train(more, of_few) - base) / max(1, more.size - few.size)
        per_label = max(0.0, train(few, np.union1d(of_few, others)) - base) / max(1, others.size)
        return cls(base, per_row, per_label)

    def seconds(self, n_rows: int, n_labels: int) -> float:
        """Return the seconds of a training."""
        return self.fixed + self.per_row * n_rows + self.per_label * n_labels


def _n_trees(model: TreeRanker) -> float:
    n_trees = model.base_tree().n_trees
    from tagwood.models.disentangled import Disentangled

    return n_trees * _COPIES_TIME if isinstance(model, Disentangled) else n_trees


def measure_costs(budget: Budget, members: list[Member], encoder: Encoder | None, rows: Any, growth: float) -> Costs:
    """Return the size and latency of fitted members.

    Parameters
    ----------
    budget
        The limits.
    members, encoder
        Fitted members and the encoder that they share.
    rows
        Texts or features to rank.
    growth
        By how much members grow when they are fitted on all rows.
    """
    sample = [rows[row : row + 1] for row in range(_TIMED_ROWS)]
    shared_latency, shared_bytes = 0.0, 0.0
    if encoder is not None:
        shared_latency = _median_seconds([(encoder.transform, one) for one in sample])
        shared_bytes = state_bytes(encoder.state())
    sizes, latency = [], []
    for member in members:
        own = 0.0 if member.encoder is None else state_bytes(member.encoder.state())
        sizes.append(own + growth * state_bytes(member.model.state()))
        alone = [Inputs.encode([member], encoder, one).of[0] for one in sample]
        taken = _median_seconds([(partial(member.rank, k=_WANTED), one) for one in alone])
        if member.encoder is not None:
            taken += _median_seconds([(member.encoder.transform, one) for one in sample])
        latency.append(taken)
    return Costs(budget, sizes, latency, shared_bytes, shared_latency)


def _median_seconds(calls: list[tuple[Callable[[Any], Any], Any]]) -> float:
    times = []
    for call, value in calls:
        start = process_time()
        call(value)
        times.append(process_time() - start)
    return float(np.median(times)) if times else 0.0
