"""`tagwood tune`: search for better settings. In: a dataset, ranges, a time limit. Out: a recipe for `train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, print_data, print_json, say, show, stages

if TYPE_CHECKING:
    from tagwood.tuning import Tuned

_INTERRUPTED = 130


def tune(
    data: Annotated[Path, typer.Argument(help="Training data: texts and labels, in any known format.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-O", help="Folder for the trials; the same folder continues a search."),
    ],
    minutes: Annotated[float, typer.Option(help="Time for this call.")] = 10.0,
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials of this call.")] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Such as P@5, nDCG@5, PSP@5, micro-F1.")
    ] = "P@5",
    ranges: Annotated[
        Path | None,
        typer.Option(help="TOML file of what may change; default: see ranges.toml in the folder."),
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="Settings to begin with, in a TOML file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, such as tree.arity=16; repeat it.")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of the rows to measure on.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the held-out rows and the search.")] = 0,
    vocab: Annotated[Path | None, typer.Option(help="Label table (TSV, CSV or SKOS).")] = None,
    on_unknown: Annotated[str, typer.Option(help="Labels missing in --vocab: error, add or skip.")] = "error",
    data_format: Annotated[str | None, typer.Option("--format", help="Default: from the content.")] = None,
    docs_limit: Annotated[
        int | None, typer.Option("--docs-limit", "-d", help="Use the first rows only.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Number of best trials to show.")] = 10,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; default all cores.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.")] = False,
    json: JsonFlag = False,
) -> None:
    """Search for better settings on rows held out from the training data.

    The best recipe is FOLDER/best.toml, for: tagwood train DATA --recipe FOLDER/best.toml. Ctrl-C keeps every finished
    trial; the same command goes on from there.
    """
    from tagwood.cli.train import choose_recipe, read_rows
    from tagwood.tuning import read_ranges
    from tagwood.tuning import tune as search

    begin = choose_recipe(recipe, settings or [], None)
    chosen = None if ranges is None else read_ranges(ranges)
    rows = read_rows(data, data_format, vocab, on_unknown, skip_bad, docs_limit)
    seen: list[Tuned] = []
    interrupted = False
    try:
        with stages("Tuning") as advance:
            found = search(
                rows,
                output,
                recipe=begin,
                ranges=chosen,
                metric=metric,
                minutes=minutes,
                max_trials=trials,
                holdout=holdout,
                seed=seed,
                threads=jobs,
                progress=advance,
                each=seen.append,
            )
    except KeyboardInterrupt:
        if not seen or not seen[-1].trials:
            raise
        found, interrupted = seen[-1], True
    report(found, output, limit, json)
    if interrupted:
        say("Interrupted; all finished trials are kept. The same command goes on from here.")
        raise typer.Exit(_INTERRUPTED)


def report(found: Tuned, folder: Path, limit: int, json: bool) -> None:
    """Show the best trials, as a table or as JSON."""
    if json:
        print_json(as_dict(found, folder, limit))
        return
    print_data(trial_table(found, limit))
    for number, reason in list(found.failures.items())[:3]:
        say(f"trial {number} gave no result: {reason}")
    say(
        f"{folder / 'best.toml'}: the best of {len(found.trials):,} trials on {found.held_out:,} held-out rows"
    )


def as_dict(found: Tuned, folder: Path, limit: int) -> dict[str, Any]:
    """Return what a search found as JSON."""
    return {
        "metric": found.metric,
        "held_out_rows": found.held_out,
        "finished_trials": len(found.trials),
        "failed_trials": len(found.failures),
        "recipe": str(folder / "best.toml"),
        "best": [trial._asdict() for trial in found.trials[:limit]],
    }


def trial_table(found: Tuned, limit: int) -> Any:
    """Return the best trials as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("trial", found.metric, "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for trial in found.trials[:limit]:
        words = ", ".join(
            f"{name.partition('.')[2]} {_cell(value)}" for name, value in trial.settings.items()
        )
        figures = str(trial.number), f"{trial.value:.4f}", f"{trial.seconds:.1f}"
        table.add_row(*figures, Text(words or "as given"))
    return table


def _cell(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else show(value)
