"""`tune`: try recipes within a time limit and keep the best. In: a dataset, a recipe, ranges. Out: `Tuned`, and files.

The folder holds ``study.log`` (all trials), ``ranges.toml`` and ``best.toml`` (rewritten at each improvement). The same
call on the same folder continues the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np

from tagwood._check import check_float, check_int
from tagwood.data.dataset import Dataset
from tagwood.errors import InputError
from tagwood.metrics import LabelCounts, evaluate
from tagwood.metrics.measures import MetricName, parse_metric
from tagwood.models.tasks import Job, Runner
from tagwood.recipe import Recipe, parse_recipe
from tagwood.storage import State
from tagwood.storage.publish import write_file
from tagwood.tuning.study import Ranges, Study, Tuned, default_ranges, open_study, with_settings

BEST, RANGES = "best.toml", "ranges.toml"
TOGETHER = 8  # trials that a runner computes before the next ones are chosen
Report = Callable[[str, float], None]


@dataclass(frozen=True)
class Split:
    """Rows to fit on, rows to measure on, and the metric."""

    fitted: Dataset
    held: Dataset
    metric: MetricName

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric counts mistakes."""
        return self.metric.family == "hamming"


def split_rows(data: Dataset, metric: str, holdout: float, seed: int) -> Split:
    """Hold out a share of the training rows; they must have texts and labels of their own."""
    name = parse_metric(metric)
    if name.family == "depth":
        raise InputError(
            "the metric of a search must measure the quality of labels", given=str(name), hint="Such as P@5."
        )
    if data.texts is None:
        raise InputError("a search for settings needs texts", given="features only")
    if data.groups is not None:
        raise InputError(
            "a search for settings needs the labels of each row, and these are known for groups only",
            hint="Search on rows with labels of their own, then train on the groups with the recipe found.",
        )
    fitted, held = data.split(holdout, seed=seed)
    if fitted.labels.nnz == 0 or held.labels.nnz == 0:
        raise InputError(
            "both the rows to fit on and those held out must have labels",
            given=f"{fitted.n_rows:,} and {held.n_rows:,} rows",
            hint="Use more rows, or hold out another share of them.",
        )
    return Split(fitted, held, name)


def measure(recipe: Recipe, split: Split, progress: Callable[[str, float], None]) -> float:
    """Fit the recipe and return its metric on the held-out rows.

    Metrics with ``@k`` look at the order of labels only, which probabilities do not change: none are fitted then, and
    a trial takes half the time.
    """
    ranked = split.metric.k is not None
    if ranked:
        recipe = recipe.override(["sets.holdout=0.0"])
    tagger = recipe.override(["model.keep_texts=0"]).tagger()
    fitted, held = split.fitted, split.held
    tagger.fit(fitted, progress=progress)
    progress("measuring", 0.0)
    texts, pairs = held.texts or (), held.filter_pairs
    # Labels that the filter removes make room for others.
    more = 0 if pairs is None else int(np.diff(pairs.indptr).max(initial=0))
    ranking = tagger.rank(texts, k=(split.metric.k or 1) + more) if ranked else tagger.rank_sets(texts)
    name, counts = str(split.metric), LabelCounts.of(fitted.labels)
    return evaluate(held.labels, ranking, metrics=[name], train_labels=counts, filter_pairs=pairs)[name]


def run_trial(split: Split, recipe: str, threads: int) -> State:
    """Measure a recipe, in TOML, as a task; the reason of a failure is part of the result."""
    start = monotonic()
    value, reason = 0.0, ""
    try:
        own = parse_recipe(recipe).override([f"model.threads={threads}"])
        value = measure(own, split, lambda _, __: None)
    except (InputError, MemoryError) as error:
        reason = str(error) or type(error).__name__
    return State("Trial", params={"value": value, "seconds": monotonic() - start, "reason": reason})


class _TimeUp(Exception):  # noqa: N818  not an error
    """The time limit was reached during a trial."""


def tune(
    data: Dataset,
    folder: str | Path,
    *,
    recipe: Recipe | None = None,
    ranges: Ranges | None = None,
    metric: str = "P@5",
    minutes: float = 10.0,
    max_trials: int | None = None,
    holdout: float = 0.2,
    seed: int = 0,
    threads: int | None = None,
    progress: Report | None = None,
    each: Callable[[Tuned], None] | None = None,
    runner: Runner | None = None,
) -> Tuned:
    """Search for the settings that are best on rows held out from the training data.

    The first trial is the recipe as given; the others vary the settings in `ranges` (optuna's TPE sampler). Ctrl-C ends
    the search and raises `KeyboardInterrupt`; finished trials are stored, and the next call continues from there. The
    value of the best of many trials is a little optimistic: measure the chosen recipe on other rows.

    Parameters
    ----------
    data
        Training rows with texts and labels, without test rows; the share `holdout` of them is measured on.
    folder
        Where the trials are stored; a folder with another search raises `InputError`.
    recipe, ranges
        Settings to start from, and those to vary; default: those of `Recipe` and `default_ranges`.
    metric
        Any metric name, such as ``"P@5"``, ``"nDCG@5"``, ``"PSP@5"``, ``"micro-F1"``.
    minutes, max_trials
        Limits of this call. A trial that is running when the time is up is abandoned, except for the first one.
    seed
        Seed of the search and of the choice of held-out rows.
    threads
        Threads of each trial; default all cores.
    progress, each
        Called with a description and the share of the time used; and before each trial with the trials so far.
    runner
        Computes trials as tasks, the first one alone and then eight at a time, whatever the number of workers; a trial
        is then not abandoned when the time is up.
    """
    check_float(minutes, "minutes", above=0)
    check_float(holdout, "holdout", low=0.01, high=0.9)
    check_int(seed, "seed", low=0)
    most = 1 << 60 if max_trials is None else check_int(max_trials, "max_trials", low=1)
    given = Recipe() if recipe is None else recipe
    ranges = default_ranges() if ranges is None else ranges
    given.tagger()
    ranges.check(given)
    split = split_rows(data, metric, holdout, seed)
    about = {
        "dataset": data.fingerprint(),
        "metric": str(split.metric),
        "share held out": str(holdout),
        "seed": str(seed),
        "recipe": _without_threads(given).to_toml(),
    }
    place = Path(folder)
    changes = {} if threads is None else {"model.threads": threads}
    search = _Search(split, given, place, changes, monotonic(), 60 * minutes, progress)
    lower = split.lower_is_better
    with open_study(place, about, ranges, lower_is_better=lower, seed=seed) as study:
        write_file(place / RANGES, ranges.text)
        if study.trials():  # a process that was stopped may have found the best settings without writing them
            search.write_best(study)
        left = most
        while left > 0:
            if each is not None:
                each(search.found(study))
            together = 1 if runner is None or not study.trials() else min(left, TOGETHER)
            left -= together
            go_on = search.try_next(study) if runner is None else search.try_together(study, runner, together)
            if not go_on:
                break
        return search.found(study)


@dataclass(frozen=True)
class _Search:
    """One call of `tune`: runs trials until the time limit."""

    split: Split
    given: Recipe
    folder: Path
    changes: dict[str, int]
    begin: float
    seconds: float
    progress: Report | None

    def try_next(self, study: Study) -> bool:
        """Run a trial; return False after the time limit."""
        before = study.trials()
        if before and self._share() >= 1:
            return False
        number, settings = study.ask()
        best = f", best {self.split.metric} {before[0].value:.4f}" if before else ""

        def report(stage: str, _: float) -> None:
            share = self._share()
            if before and share >= 1:
                raise _TimeUp
            if self.progress is not None:
                self.progress(f"trial {number}{best}, {stage}", min(share, 1.0))

        start = monotonic()
        try:
            value = measure(with_settings(self.given, settings | self.changes), self.split, report)
        except _TimeUp:
            study.fail(number, "")
            return False
        except (InputError, MemoryError) as error:
            study.fail(number, str(error) or type(error).__name__)
            if not before:  # if the recipe as given fails, so will the others
                raise
            return True
        study.tell(number, value, monotonic() - start)
        if study.trials()[0].number == number:
            self.write_best(study)
        return True

    def try_together(self, study: Study, runner: Runner, n: int) -> bool:
        """Run `n` trials as tasks; return False after the time limit."""
        before = study.trials()
        if before and self._share() >= 1:
            return False
        asked = [study.ask() for _ in range(n)]
        recipes = [with_settings(self.given, settings | self.changes).to_toml() for _, settings in asked]

        def report(_: str, share: float) -> None:
            if self.progress is not None:
                self.progress(f"trials {asked[0][0]} to {asked[-1][0]}, {share:.0%}", min(self._share(), 1.0))

        states = runner.run(Job("trials", run_trial, self.split, recipes), report)
        for (number, _), state in zip(asked, states, strict=True):
            reason = state.param("reason", str)
            if reason:
                study.fail(number, reason)
                if not before:
                    raise InputError("the recipe as given must be trained", given=f"an error: {reason}")
            else:
                study.tell(number, state.param("value", float), state.param("seconds", float))
        if study.trials() and (not before or study.trials()[0].number != before[0].number):
            self.write_best(study)
        return True

    def write_best(self, study: Study) -> None:
        """Write the recipe of the best trial."""
        write_file(self.folder / BEST, self.found(study).to_toml())

    def found(self, study: Study) -> Tuned:
        """Return the trials so far."""
        return Tuned(str(self.split.metric), study.trials(), study.failures(), self.given, self.split.held.n_rows)

    def _share(self) -> float:
        return (monotonic() - self.begin) / self.seconds


def _without_threads(recipe: Recipe) -> Recipe:
    """Return the recipe without the number of threads, which does not change results."""
    sections = {
        section: {key: value for key, value in values.items() if (section, key) != ("model", "threads")}
        for section, values in recipe.sections.items()
    }
    return replace(recipe, sections=sections)
