"""`Study`: the trials of a search, kept in a folder by optuna, so that a search can be stopped and continued.

In: ranges. Out: settings to try next; the trials that were measured. The only module that imports optuna.

Decisions: the file is optuna's journal, lines that are only ever appended. A process that is killed while it writes
leaves at most an unfinished last line, which is cut off when the folder is opened again; one process at a time holds
the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tagwood.errors import InputError, MissingExtraError
from tagwood.recipe import Recipe
from tagwood.tuning.ranges import Choice, Ranges, Span, with_settings

if TYPE_CHECKING:
    import optuna

JOURNAL = "study.log"
_NAME = "tagwood"
_DIGITS = 3  # of a number that is tried: nobody wants to read more in a recipe


class Trial(NamedTuple):
    """A finished trial: its number from 0, the metric, the seconds it took, and the settings that were tried."""

    number: int
    value: float
    seconds: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class Tuned:
    """What a search found: the finished trials, best first.

    Parameters
    ----------
    metric
        What was measured.
    trials
        Trial 0 is the recipe as it was given, without changes.
    failures
        Why trials gave no result, by their numbers.
    given
        The recipe that the search began with.
    held_out
        Number of rows that the metric was measured on.
    """

    metric: str
    trials: list[Trial]
    failures: dict[int, str]
    given: Recipe
    held_out: int

    @property
    def recipe(self) -> Recipe:
        """The best recipe: the given one with the settings of the best trial."""
        return with_settings(self.given, self.trials[0].settings) if self.trials else self.given

    def to_toml(self) -> str:
        """Return the best recipe as TOML, with a line on where it comes from."""
        best = self.trials[0]
        words = f"# {self.metric} {best.value:.4f} on {self.held_out:,} held-out rows, trial {best.number}.\n"
        return words + self.recipe.to_toml()


class Study:
    """Trials in a folder; made by `open_study`."""

    def __init__(self, study: optuna.Study, ranges: Ranges) -> None:
        self._study = study
        self._ranges = ranges
        self._spaces = {name: _distribution(ranges.of[name]) for name in ranges}
        self._running: dict[int, optuna.Trial] = {}

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Return the number and the settings of the next trial; the first one to succeed changes nothing."""
        trial = self._study.ask(self._spaces if self.trials() else {})
        self._running[trial.number] = trial
        return trial.number, self._settings(trial.params)

    def tell(self, number: int, value: float, seconds: float) -> None:
        """Keep the result of a trial."""
        trial = self._running.pop(number)
        trial.set_user_attr("seconds", seconds)
        self._study.tell(trial, value)

    def fail(self, number: int, reason: str) -> None:
        """Keep the reason why a trial has no result."""
        from optuna.trial import TrialState

        trial = self._running.pop(number)
        trial.set_user_attr("reason", reason)
        self._study.tell(trial, state=TrialState.FAIL)

    def trials(self) -> list[Trial]:
        """Return the finished trials, best first; of equal ones the first."""
        from optuna.study import StudyDirection
        from optuna.trial import TrialState

        done = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        found = [
            Trial(
                trial.number,
                float(trial.value or 0.0),
                trial.user_attrs["seconds"],
                self._settings(trial.params),
            )
            for trial in done
        ]
        sign = 1 if self._study.direction == StudyDirection.MINIMIZE else -1
        return sorted(found, key=lambda trial: (sign * trial.value, trial.number))

    def failures(self) -> dict[int, str]:
        """Return the reasons of failed trials; those that were cut off by a time limit or a kill have none."""
        trials = self._study.get_trials(deepcopy=False)
        return {t.number: t.user_attrs["reason"] for t in trials if t.user_attrs.get("reason")}

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _value(self._ranges.of[name], params[name]) for name in self._ranges if name in params}


@contextmanager
def open_study(
    folder: Path, about: Mapping[str, str], ranges: Ranges, *, lower_is_better: bool, seed: int
) -> Iterator[Study]:
    """Open the study of a folder, or begin one; nobody else can use it meanwhile.

    `about` says what the trials have in common; a folder with another search raises `InputError`.
    """
    optuna = _optuna()
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        _hold(lock, folder)
        with _quiet(optuna):
            study = _load(optuna, folder, lower_is_better=lower_is_better)
        _check_same(study, folder, {**about, "ranges": json.dumps(_plain(ranges))})
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
        yield Study(study, ranges)
    finally:
        os.close(lock)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("a search for settings", extra="tune") from error
    return optuna


def _load(optuna: Any, folder: Path, *, lower_is_better: bool) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
    from optuna.trial import TrialState

    path = folder / JOURNAL
    _mend(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path), JournalFileOpenLock(str(path))))
        direction = "minimize" if lower_is_better else "maximize"
        study = optuna.create_study(
            storage=storage, study_name=_NAME, direction=direction, load_if_exists=True
        )
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)  # of a process that was stopped
    except Exception as error:  # whatever a file that optuna did not write makes it raise
        raise InputError(
            f"{path} must be the journal of a search",
            given=f"{type(error).__name__}: {str(error)[:80]}",
            hint="Choose another folder.",
        ) from error
    return study


def _mend(path: Path) -> None:
    """Cut off an unfinished last line and a lock that a killed process left; the folder is ours now."""
    Path(f"{path}.lock").unlink(missing_ok=True)
    if path.is_file():
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


def _check_same(study: optuna.Study, folder: Path, about: Mapping[str, str]) -> None:
    """Compare what a study says about itself with what is wanted; a new one is told."""
    known = study.user_attrs.get("about")
    if known is None:
        study.set_user_attr("about", dict(about))
        return
    other = [name for name, value in about.items() if known.get(name) != value]
    if other:
        raise InputError(
            f"{folder} holds a search with another {' and another '.join(other)}",
            hint="To continue it, use the same data and options as before; otherwise choose another folder.",
        )


def _hold(lock: int, folder: Path) -> None:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(
            f"another process is searching in {folder}", hint="Wait for it, or choose another folder."
        ) from error


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        with suppress(Exception):
            optuna.logging.set_verbosity(before)


def _plain(ranges: Ranges) -> dict[str, Any]:
    return {
        name: [type(found).__name__, *map(str, vars(found).values())] for name, found in ranges.of.items()
    }


def _distribution(values: Choice | Span) -> Any:
    from optuna import distributions

    if isinstance(values, Choice):  # optuna takes plain values only, so lists go as JSON
        return distributions.CategoricalDistribution([json.dumps(value) for value in values.values])
    if values.whole:
        step = 1 if values.step is None else int(values.step)
        return distributions.IntDistribution(int(values.low), int(values.high), log=values.log, step=step)
    return distributions.FloatDistribution(values.low, values.high, log=values.log, step=values.step)


def _value(values: Choice | Span, param: Any) -> Any:
    if isinstance(values, Choice):
        return json.loads(param)
    if values.whole:
        return int(param)
    return min(max(float(f"{param:.{_DIGITS}g}"), values.low), values.high)
