"""`tagwood update`: learn from new rows without a full training. In: a model folder, rows. Out: the updated model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset, LabelVocab
    from tagwood.tagger import Tagger


def update(
    model: common.ModelArgument,
    new: Annotated[Path, typer.Argument(help="New rows with labels; labels may be new.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows of the last training, for new labels; models of quality balanced have stored them."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-O", help="Folder of the updated model; the model itself by default.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Train on all rows: those of --data, with those of all updates, and the new.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", "-f", help="Replace a model at --output; with --full, train although rows of labels are missing."
        ),
    ] = False,
    data_format: common.FormatOption = None,
    jobs: common.JobsOption = None,
    notes: Annotated[
        str | None, typer.Option(help="Notes to store with the model; its present ones by default.")
    ] = None,
    json: common.JsonFlag = False,
) -> None:
    """Learn new rows and labels at a small part of the cost of training, and say when a full training is due.

    The folder is replaced in one step; a running service loads the new model without a pause.
    """
    from tagwood.storage.publish import check_replaceable

    folder = model if output is None else output
    if output is not None:
        check_replaceable(output, overwrite=force)
    tagger, opened = common.open_tagger(model, jobs)
    vocab, old = tagger.vocab_, None
    if data is not None:
        old = _read(data, tagger, vocab, data_format, on_unknown="add" if full else "skip")
        vocab = old.vocab
    rows = _empty(tagger, vocab) if _has_no_bytes(new) else _read(new, tagger, vocab, data_format, on_unknown="add")
    if full:
        tagger = _trained(tagger, old, rows, force=force)
    else:
        tagger.update(rows, old=old)
    if full or rows.n_rows or output is not None or notes is not None:
        common.save_changed(tagger, opened, model, folder, notes)
    facts = _facts(tagger, folder, rows)
    if json:
        common.print_json(facts)
        return
    if full:
        common.say(f"{folder}: trained on {tagger.n_rows_:,} rows")
        return
    common.say(
        f"{folder}: learned {facts['rows']:,} rows of {facts['labels']:,} labels, {facts['new_labels']:,} of them new; "
        f"{facts['cpu_seconds']:.1f} CPU seconds"
    )
    if facts["unchanged"]:
        common.say(f"! Only a full training changes {', '.join(facts['unchanged'])}; the other members have learned.")
    if facts["full_training_due"]:
        common.say(f"! A full training is due: {facts['full_training_due']}. Run tagwood update --full --data OLD,")
        common.say("  where OLD has the rows of the last training and of all updates since.")


def _has_no_bytes(path: Path) -> bool:
    """Whether a file is empty, as one of an hour without clicks may be."""
    return path.is_file() and path.stat().st_size == 0


def _empty(tagger: Tagger, vocab: LabelVocab) -> Dataset:
    from tagwood.data import Dataset

    return Dataset([], vocab, texts=[], fields=tagger.fields_)


def _read(path: Path, tagger: Tagger, vocab: LabelVocab, data_format: str | None, on_unknown: str) -> Dataset:
    from tagwood.data import read_dataset

    found = read_dataset(path, data_format, vocab=vocab, on_unknown=on_unknown, fields=tagger.fields_)
    if found.texts is None:
        raise InputError("rows must have texts", given=f"{path} with features only")
    return found


def _trained(tagger: Tagger, old: Dataset | None, new: Dataset, *, force: bool) -> Tagger:
    from tagwood.tagger import Tagger
    from tagwood.tagger.updating import check_complete, joined

    if old is None:
        hint = "Add --data OLD, with the rows of all updates, too."
        raise InputError("--full needs the rows of the last training", given="none", hint=hint)
    rows = joined(old, new)
    if not force:
        check_complete(tagger, rows)
    with common.stages("Training") as advance:
        return Tagger(**tagger.get_params(deep=False)).fit(rows, progress=advance)


def _facts(tagger: Tagger, folder: Path, rows: Dataset) -> dict[str, Any]:
    last: dict[str, Any] = {"rows": rows.n_rows, "labels": 0, "new_labels": 0, "cpu_seconds": 0.0, "unchanged": ()}
    if rows.n_rows and tagger.history_:
        last = tagger.history_[-1]._asdict()
    return {
        "model": str(folder),
        **last,
        "updates": len(tagger.history_),
        "full_training_due": tagger.full_training_due,
    }
