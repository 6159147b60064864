"""`tagwood convert`: from one data format to another. In: a dataset. Out: the same in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tagwood.cli import common
from tagwood.cli.reading import Reading, say_report, say_skipped, with_reading


@with_reading
def convert(
    source: Annotated[list[Path], typer.Argument(metavar="IN", help="Files or folders in any supported format.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write; .gz compresses a file.")],
    from_format: Annotated[str | None, typer.Option("--from", help="Format of IN; detected by default.")] = None,
    to_format: Annotated[str | None, typer.Option("--to", help="Format of OUT; from its name by default.")] = None,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    groups: common.GroupsOption = None,
    split: Annotated[str | None, typer.Option(help="Part to read from a folder that has both: train or test.")] = None,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Convert a dataset to another format.

    OUT appears when it is complete, or not at all. What its format cannot hold (names in feature formats, groups in
    line formats) is reported on stderr; label names, URIs and languages are written to a table next to OUT if needed.
    """
    from tagwood.data import read_vocab, target_format, write_dataset
    from tagwood.data.reading import check_overwrite

    chosen = target_format(target, to_format)
    check_overwrite(target, chosen, overwrite=force)
    options = {"vocab": None if vocab is None else read_vocab(vocab), "on_unknown": on_unknown}
    data, report = reading.read(source, from_format, split=split, groups=groups, **options)
    write_dataset(data, target, chosen.name, overwrite=force)
    held = [part for part in ("texts", "features", "groups", "ids") if getattr(data, part) is not None]
    lost = [part for part in held if part not in chosen.holds]
    say_report(report)
    for what in lost:
        common.say(f"! {target} cannot hold the {what} of this dataset; they were dropped.")
    unused = sorted({column for file in report.files for column in file.unused_columns})
    if unused:
        common.say(f"! Columns that were dropped: {', '.join(unused)}.")
    say_skipped(reading)
    if json:
        facts = {"rows": data.n_rows, "labels": data.n_labels, "lost": lost, "lost_columns": unused}
        common.print_json(facts | {"bad_lines": report.bad_lines, "reading": report.to_dict()})
    else:
        skipped = f", {report.bad_lines:,} lines skipped" if report.bad_lines else ""
        common.say(f"{target}: {data.n_rows:,} rows, {data.n_labels:,} labels{skipped}")
