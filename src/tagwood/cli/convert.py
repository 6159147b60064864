"""`tagwood convert`: from one data format to another. In: a dataset. Out: the same in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tagwood.cli import common


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="File or folder in any supported format.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write; .gz compresses a file.")],
    from_format: Annotated[str | None, typer.Option("--from", help="Format of IN; detected by default.")] = None,
    to_format: Annotated[str | None, typer.Option("--to", help="Format of OUT; from its name by default.")] = None,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    split: Annotated[str | None, typer.Option(help="Part to read from a folder that has both: train or test.")] = None,
    skip_bad: common.SkipBadOption = False,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
) -> None:
    """Convert a dataset to another format.

    OUT appears when it is complete, or not at all. What its format cannot hold (names in feature formats, groups in
    line formats) is reported on stderr; label names, URIs and languages are written to a table next to OUT if needed.
    """
    from tagwood.data import BadLines, read_dataset, read_vocab, target_format, write_dataset
    from tagwood.data.reading import check_overwrite

    chosen = target_format(target, to_format)
    check_overwrite(target, chosen, overwrite=force)
    bad = BadLines(skip=skip_bad)
    table = None if vocab is None else read_vocab(vocab)
    data = read_dataset(source, from_format, vocab=table, on_unknown=on_unknown, skip_bad=bad, split=split)
    write_dataset(data, target, chosen.name, overwrite=force)
    held = [part for part in ("texts", "features", "groups", "ids") if getattr(data, part) is not None]
    lost = [part for part in held if part not in chosen.holds]
    for what in lost:
        common.say(f"! {target} cannot hold the {what} of this dataset; they were dropped.")
    for error in bad.first:
        common.say(f"! skipped: {error}")
    if json:
        common.print_json({"rows": data.n_rows, "labels": data.n_labels, "lost": lost, "bad_lines": bad.count})
    else:
        skipped = f", {bad.count:,} lines skipped" if bad.count else ""
        common.say(f"{target}: {data.n_rows:,} rows, {data.n_labels:,} labels{skipped}")
