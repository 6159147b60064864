"""`tagwood tune-threshold`: where to cut rankings into sets. In: a model, data it has not seen. Out: tables, a rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.cli.reading import Paths, Reading, labelled_rows, read_truth, say_report, with_reading
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.tagger import Tagger
    from tagwood.tuning.thresholds import Cut

_SHOWN = 5  # the table shows every fifth threshold


@with_reading
def tune_threshold(
    model: common.ModelArgument,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Texts and labels that the model was not trained on.")
    ],
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Metric to maximise: micro-F1, macro-F1, example-F1, ...")
    ] = "micro-F1",
    write: Annotated[
        bool, typer.Option("--write", help="Store the best threshold in the model as its set rule.")
    ] = False,
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    jobs: common.JobsOption = None,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Find the best threshold and the best fixed number of labels, and measure each promise.

    With --write, predict --sets and eval use the best threshold from then on; the model folder is replaced in one step.
    """
    from tagwood.storage.publish import check_replaceable
    from tagwood.tuning.thresholds import check_metric

    name = check_metric(metric)
    if write:
        check_replaceable(model, overwrite=True)
    tagger, opened = common.open_tagger(model, jobs)
    found = measure_cuts(tagger, data, reading, name, data_format, docs_limit)
    before = tagger.sets.rule
    if write:
        tagger.sets = replace(tagger.sets, rule=found.threshold.rule)
        common.save_changed(tagger, opened, model, model)
    if json:
        common.print_json(as_dict(found, name, tagger.sets.rule))
        return
    report(found, name)
    if write:
        common.say(f"{model}: the rule for sets is now {found.threshold.rule}, was {before}")


class Cuts(NamedTuple):
    """All cuts, and the best of each kind; without probabilities there are no promises."""

    n_rows: int
    thresholds: list[Cut]
    sizes: list[Cut]
    promises: list[Cut]
    own: list[Cut]
    threshold: Cut
    size: Cut


def measure_cuts(
    tagger: Tagger, data: Paths, reading: Reading, metric: str, data_format: str | None, docs_limit: int | None
) -> Cuts:
    """Rank the texts of a dataset and measure every rule that cuts the rankings to sets."""
    from tagwood.tagger.fitting import CANDIDATES
    from tagwood.tuning import thresholds as cuts

    found, said = read_truth(tagger, data, data_format, reading)
    say_report(said, brief=True)
    rows = labelled_rows(found, data[0], docs_limit)
    if rows.groups is not None:
        raise InputError(f"{data[0]} must hold texts and the labels of each", given="labels of groups")
    ranking, Y = replace(tagger.rank(rows.texts or (), k=CANDIDATES), n_labels=rows.n_labels), rows.labels
    thresholds = cuts.measure_thresholds(Y, ranking, metric)
    sizes = cuts.measure_sizes(Y, ranking, metric)
    promises, own = [], []
    if tagger.probabilities_ is not None:
        cut = tagger.probabilities_.cut
        promises = cuts.measure_rules(Y, ranking, cut, metric)
        own = cuts.measure_rules(Y, ranking, cut, metric, [tagger.sets.rule])
    best = cuts.best_cut(thresholds, metric), cuts.best_cut(sizes, metric)
    return Cuts(ranking.n_rows, thresholds, sizes, promises, own, *best)


def report(found: Cuts, metric: str) -> None:
    """Print the tables."""
    shown = [cut for cut in found.thresholds if _is_shown(cut, found.threshold)]
    common.print_data(cut_table("threshold", shown, metric, found.threshold))
    most = max(5, int(found.size.rule.removeprefix("top-")) + 2)
    common.print_data(cut_table("\nk", found.sizes[:most], metric, found.size))
    if found.promises:
        common.print_data(cut_table("\npromise", found.promises, metric, None))
    else:
        common.say("The model has no probabilities, and so no promises: it was trained on too few rows.")
    rules = {cut.rule: cut for cut in (found.threshold, found.size, *found.own)}
    best = ", ".join(f"{rule} {100 * cut.measures[metric]:.1f}" for rule, cut in rules.items())
    common.say(f"{metric} on {found.n_rows:,} rows: {best} %")


def cut_table(heading: str, cuts: list[Cut], metric: str, best: Cut | None) -> Any:
    """Return cuts as a table, in percent; the best one has a star."""
    from tagwood.tuning.thresholds import METRICS

    names = list(dict.fromkeys([*METRICS, metric]))
    rows = []
    for cut in cuts:
        rule = cut.rule.removeprefix("threshold>=").removeprefix("top-")
        figures = [f"{100 * cut.measures[name]:.1f}" for name in names]
        mark = " *" if best is not None and cut.rule == best.rule else ""
        rows.append([rule + mark, f"{cut.labels:.2f}", *figures, f"{100 * cut.review:.1f}"])
    numbers = dict.fromkeys(["size", *names, "review"], common.NUMBER)
    return common.make_table({heading: {"no_wrap": True}, **numbers}, rows)


def as_dict(found: Cuts, metric: str, rule: str) -> dict[str, Any]:
    """Return all cuts as JSON."""
    return {
        "metric": metric,
        "rows": found.n_rows,
        "rule": rule,
        "best_threshold": found.threshold._asdict(),
        "best_k": found.size._asdict(),
        "thresholds": [cut._asdict() for cut in found.thresholds],
        "sizes": [cut._asdict() for cut in found.sizes],
        "promises": [cut._asdict() for cut in found.promises],
    }


def _is_shown(cut: Cut, best: Cut) -> bool:
    value = float(cut.rule.removeprefix("threshold>="))
    return cut.rule == best.rule or value < 0.02 or round(100 * value) % _SHOWN == 0
