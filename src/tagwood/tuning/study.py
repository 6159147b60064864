"""`Ranges` of settings, and `Study`: the trials of a search, stored in a folder, so that it can be continued.

In: TOML with the sections and keys of a recipe; a list holds choices, ``{low, high}`` a span (of integers if both ends
are), with ``log = true`` or a ``step``. Out: settings to try next, and the finished trials. Only this module
imports optuna.

Decisions: the trials are optuna's journal, a file to which lines are appended. A process that is killed while it writes
leaves at most an unfinished last line, which is removed when the folder is opened again. One process at a time uses the
folder.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tagwood.errors import InputError, MissingExtraError
from tagwood.recipe import Recipe

if TYPE_CHECKING:
    import optuna


# Not searched on purpose: n_trees (more are always a little better and cost as much again), and character n-grams (many
# times slower on long texts; for short texts, add them to a file of ranges).
DEFAULT_RANGES = """\
[features]
ngrams = [[1, 1], [1, 2], [1, 3]]
min_df = {low = 1, high = 5}
sublinear_tf = [true, false]

[tree]
arity = [2, 8, 16, 32, 64, 128]
max_leaf_size = {low = 25, high = 400, log = true}
lam = [0.0, 0.25, 0.5, 1.0]

[model]
C = {low = 0.1, high = 10.0, log = true}
link = ["l1-hinge", "l2-hinge", "l3-hinge", "l4-hinge", "sigmoid"]
rare_label_weight = {low = 0.0, high = 1.0, step = 0.25}
negatives = ["teacher", "teacher+matcher"]
"""
_SPAN_KEYS = {"low", "high", "step", "log"}


@dataclass(frozen=True)
class Choice:
    """A few values to choose from, of any type that TOML has."""

    values: tuple[Any, ...]

    def ends(self) -> tuple[Any, ...]:
        """Return the values to check: if they are valid, all are."""
        return self.values


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`; integers if both ends are. `log` samples evenly in the logarithm."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether the values are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def ends(self) -> tuple[Any, ...]:
        """Return the values to check: if they are valid, all are."""
        return self.low, self.high


@dataclass(frozen=True)
class Ranges:
    """Ranges by the name of their setting, such as ``"tree.arity"``, and the TOML text they came from."""

    of: Mapping[str, Choice | Span]
    text: str

    def __iter__(self) -> Iterator[str]:
        return iter(self.of)

    def check(self, recipe: Recipe) -> None:
        """Raise `InputError` for a setting that recipes do not have, or a value that it cannot take."""
        for name, values in self.of.items():
            for value in values.ends():
                try:
                    with_settings(recipe, {name: value}).tagger()
                except InputError as error:
                    raise InputError(
                        f"the range of {name}: {error.expected}", given=error.given, hint=error.hint
                    ) from error


def default_ranges() -> Ranges:
    """Return the ranges that are searched if none are named."""
    return parse_ranges(DEFAULT_RANGES)


def read_ranges(path: str | Path) -> Ranges:
    """Read ranges from a TOML file; only the settings it names are changed by a search."""
    try:
        return parse_ranges(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text", given=str(error.reason)) from error
    except InputError as error:
        raise InputError(f"{path}: {error.expected}", given=error.given, hint=error.hint) from error


def parse_ranges(text: str) -> Ranges:
    """Return the ranges of a TOML text."""
    try:
        sections = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError("ranges must be valid TOML", given=str(error)) from error
    Recipe({name: dict.fromkeys(keys) if isinstance(keys, dict) else keys for name, keys in sections.items()})
    ranges = {
        f"{section}.{key}": _range(f"{section}.{key}", value)
        for section, keys in sections.items()
        for key, value in keys.items()
    }
    if not ranges:
        hint = "See docs/how-to/work-with-models.md."
        raise InputError("ranges must name one setting or more", given="none", hint=hint)
    return Ranges(ranges, text)


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe with values by name, such as ``{"tree.arity": 8}``."""
    # JSON numbers, strings, booleans and lists of them are TOML too.
    return recipe.override([f"{name}={json.dumps(value)}" for name, value in settings.items()])


def _range(name: str, value: Any) -> Choice | Span:
    if isinstance(value, list) and value:
        return Choice(tuple(value))
    if isinstance(value, dict) and {"low", "high"} <= value.keys() <= _SPAN_KEYS:
        return _span(name, value)
    raise InputError(
        f"the range of {name} must be a list of values or a table with low and high (and log or step)",
        given=repr(value)[:60],
        hint="For example: [1, 2, 4], or {low = 0.1, high = 10, log = true}",
    )


def _span(name: str, value: dict[str, Any]) -> Span:
    low, high, step, log = (value.get(key) for key in ("low", "high", "step", "log"))
    numbers = [low, high, *([] if step is None else [step])]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise InputError(f"low, high and step of {name} must be numbers", given=repr(value)[:80])
    if not isinstance(log, bool | None):
        raise InputError(f"log of {name} must be true or false", given=repr(log))
    span = Span(low, high, step, bool(log))  # type: ignore[arg-type]
    if not span.low < span.high:
        raise InputError(f"low of {name} must be below high", given=f"{low} and {high}")
    if span.log and (span.low <= 0 or step is not None):
        raise InputError(
            f"a logarithmic range such as that of {name} must be above 0 and without step",
            given=repr(value)[:80],
        )
    if step is not None and (step <= 0 or (span.whole and not isinstance(step, int))):
        raise InputError(f"step of {name} must be above 0, and whole where low and high are", given=repr(step))
    return span


JOURNAL = "study.log"
_NAME = "tagwood"
_DIGITS = 3  # significant digits of a number in a recipe


class RecipeTrial(NamedTuple):
    """A finished trial: its number from 0, the metric, the seconds it took, and the settings that were tried."""

    number: int
    value: float
    seconds: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class Tuned:
    """The result of a search: its finished trials, best first."""

    metric: str
    trials: list[RecipeTrial]  # trial 0 is the recipe as it was given, without changes
    failures: dict[int, str]  # reasons of failed trials, by number
    given: Recipe  # the recipe that the search started from
    held_out: int  # number of rows that the metric was measured on

    @property
    def recipe(self) -> Recipe:
        """The best recipe: the given one with the settings of the best trial."""
        return with_settings(self.given, self.trials[0].settings) if self.trials else self.given

    def to_toml(self) -> str:
        """Return the best recipe as TOML, with a comment on its origin."""
        best = self.trials[0]
        words = f"# {self.metric} {best.value:.4f} on {self.held_out:,} held-out rows, trial {best.number}.\n"
        return words + self.recipe.to_toml()


class Study:
    """The trials in a folder; see `open_study`."""

    def __init__(self, study: optuna.Study, ranges: Ranges) -> None:
        self._study = study
        self._ranges = ranges
        self._spaces = {name: _distribution(ranges.of[name]) for name in ranges}
        self._running: dict[int, optuna.Trial] = {}

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Return the number and the settings of the next trial; the first one to succeed is the recipe as given."""
        trial = self._study.ask(self._spaces if self.trials() else {})
        self._running[trial.number] = trial
        return trial.number, self._settings(trial.params)

    def tell(self, number: int, value: float, seconds: float) -> None:
        """Store the result of a trial."""
        trial = self._running.pop(number)
        trial.set_user_attr("seconds", seconds)
        self._study.tell(trial, value)

    def fail(self, number: int, reason: str) -> None:
        """Store the reason why a trial failed."""
        from optuna.trial import TrialState

        trial = self._running.pop(number)
        trial.set_user_attr("reason", reason)
        self._study.tell(trial, state=TrialState.FAIL)

    def trials(self) -> list[RecipeTrial]:
        """Return the finished trials, best first; earlier ones first among equals."""
        from optuna.study import StudyDirection
        from optuna.trial import TrialState

        done = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        found = [
            RecipeTrial(
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
        """Return the reasons of failed trials; those that were interrupted have none."""
        trials = self._study.get_trials(deepcopy=False)
        return {t.number: t.user_attrs["reason"] for t in trials if t.user_attrs.get("reason")}

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _value(self._ranges.of[name], params[name]) for name in self._ranges if name in params}


@contextmanager
def open_study(
    folder: Path, about: Mapping[str, str], ranges: Ranges, *, lower_is_better: bool, seed: int
) -> Iterator[Study]:
    """Open the study of a folder, or start one, and lock it.

    `about` describes what the trials have in common; a folder with another search raises `InputError`.
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


class _HeldLock:
    """The lock of a journal whose folder is locked already; optuna's own locks are files whose renaming can fail."""

    def acquire(self) -> bool:
        """Return that the lock is held."""
        return True

    def release(self) -> None:
        """Keep the lock of the folder."""


def _load(optuna: Any, folder: Path, *, lower_is_better: bool) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    path = folder / JOURNAL
    _repair(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path), _HeldLock()))  # type: ignore[arg-type]
        direction = "minimize" if lower_is_better else "maximize"
        study = optuna.create_study(storage=storage, study_name=_NAME, direction=direction, load_if_exists=True)
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)  # left by a process that was stopped
    except OSError:  # a full disk, for example
        raise
    except Exception as error:  # of any kind, if optuna did not write the file
        raise InputError(
            f"{path} must be the journal of a search",
            given=f"{type(error).__name__}: {str(error)[:80]}",
            hint="Choose another folder.",
        ) from error
    return study


def _repair(path: Path) -> None:
    """Remove an unfinished last line that a killed process left; the folder is locked by this process."""
    if path.is_file():
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


def _check_same(study: optuna.Study, folder: Path, about: Mapping[str, str]) -> None:
    """Raise `InputError` if a study is of another search; a new one stores its description."""
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
    return {name: [type(found).__name__, *map(str, vars(found).values())] for name, found in ranges.of.items()}


def _distribution(values: Choice | Span) -> Any:
    from optuna import distributions

    if isinstance(values, Choice):  # optuna takes plain values only, so lists become JSON
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
