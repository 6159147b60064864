"""`tagwood learn`: a model takes in corrections at once. In: a model, feedback. Out: the model, unless it is worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data.feedback import Feedback
    from tagwood.data.vocab import LabelVocab
    from tagwood.tagger import Tagger
    from tagwood.tagger.learning import BeforeAfter


def learn(
    model: common.ModelArgument,
    feedback: Annotated[Path, typer.Argument(help="JSON lines as stored by tagwood serve, or texts with labels.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-O", help="Model folder to write; MODEL itself by default.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Write the model even if it became worse; replace one at --output.")
    ] = False,
    json: common.JsonFlag = False,
) -> None:
    """Take corrections into a model at once, without training: texts like the corrected ones profit.

    A fifth of the corrected texts is held out first, and measures the model before and after; a model that became worse
    is not written. Then the model learns all of them. Records that it knows already are not learned again. Train with
    tagwood train --with-feedback from time to time.
    """
    from tagwood.data.feedback import read_feedback
    from tagwood.storage.publish import check_replaceable
    from tagwood.tagger.learning import take_in

    target = model if output is None else output
    if output is not None:
        check_replaceable(output, overwrite=force)
    tagger, opened = common.open_tagger(model)
    given = read_feedback(feedback, tagger.vocab_)
    say_feedback(given, feedback)
    new = given.rows([not tagger.learned_.has(*pair) for pair in zip(given.keys, given.ids, strict=True)])
    found = check_quality(tagger, new, force=force)
    if len(new):
        take_in(tagger, new)
        common.save_changed(tagger, opened, model, target)
    facts = summarise(given, len(new), found)
    if json:
        common.print_json({"model": str(target), **facts})
    else:
        common.say(f"{target}: {len(new):,} texts learned, {len(given) - len(new):,} were known before")


def check_quality(tagger: Tagger, rows: Feedback, *, force: bool) -> BeforeAfter | None:
    """Measure what learning does on held-out feedback; raise `InputError` if the model would become worse."""
    from tagwood.tagger.learning import measure_learning

    found = measure_learning(tagger, rows)
    if found is None:
        common.say(f"{int(rows.held_out().sum())} held-out texts are too few to measure what learning does.")
        return None
    return judge(found, force=force)


def judge(found: BeforeAfter, *, force: bool, option: str = "--force") -> BeforeAfter:
    """Print the measures of held-out feedback before and after; raise `InputError` if the second is worse."""
    if found.worse and not force:
        raise InputError(
            "a model must not become worse",
            given=str(found),
            hint=f"Look at the feedback (tagwood check), or write the model anyway with {option}.",
        )
    common.say(str(found))
    return found


def say_feedback(found: Feedback, path: Path) -> None:
    """Print how many records were read, and what was not used."""
    rejected_only = int(((found.labels.sum(axis=1) == 0) & (found.rejected.sum(axis=1) > 0)).sum())
    common.say(
        f"{path}: {found.n_records:,} records, {len(found):,} texts, {found.labels.nnz:,} right and "
        f"{found.rejected.nnz:,} rejected labels"
    )
    replaced = found.n_records - len(found) - found.n_empty
    for count, words in (
        (replaced, "records were replaced by later ones of the same person"),
        (found.n_empty, "texts have no known label and were left out"),
        (rejected_only, "texts have rejected labels only: they count against these labels, and for none"),
        (found.proposals.total(), f"labels are not in the vocabulary, such as {_examples(found)}"),
    ):
        if count:
            common.say(f"  {count:,} {words}")


def _examples(found: Feedback) -> str:
    return ", ".join(repr(name) for name, _ in found.proposals.most_common(3))


def summarise(found: Feedback, n_learned: int, measured: BeforeAfter | None) -> dict[str, Any]:
    """Return what was read and learned, for JSON."""
    return {
        "records": found.n_records,
        "texts": len(found),
        "learned": n_learned,
        "right": int(found.labels.nnz),
        "rejected": int(found.rejected.nnz),
        "left_out": found.n_empty,
        "proposals": dict(found.proposals),
        "measured": None if measured is None else measured._asdict(),
    }


def read_for_training(path: Path, vocab: LabelVocab) -> Feedback:
    """Read feedback to train on, and print what it holds."""
    from tagwood.data.feedback import read_feedback

    found = read_feedback(path, vocab)
    say_feedback(found, path)
    return found
