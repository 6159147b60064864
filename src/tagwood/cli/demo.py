"""`tagwood demo`: all steps on real text: corpus, statistics, training, evaluation, three questions.

In: nothing. Out: tables, or one JSON object. The corpus is `tagwood.demo`; it needs no network.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common

if TYPE_CHECKING:
    from tagwood.tagger import Tagger

QUESTIONS = (
    "smooth a noisy signal",
    "parse command line arguments",
    "read a table of numbers from a text file",
)


def demo(
    questions: Annotated[
        list[str] | None, typer.Argument(help="What you want to do, in quotes; three examples by default.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="Folder to save the model in, for tagwood serve or show."),
    ] = None,
    json: common.JsonFlag = False,
) -> None:
    """Train and try a model on the docstrings of your Python installation.

    Labels are the functions, classes and modules that a passage describes or refers to. Questions are answered with
    functions and classes.
    """
    from tagwood import demo as pydocs
    from tagwood.cli.check import facts_of
    from tagwood.data.statistics import compute_statistics
    from tagwood.metrics import evaluate
    from tagwood.tagger import Tagger

    with common.progress("Reading docstrings") as advance:
        train, test = pydocs.build(pydocs.CORE_PACKAGES, progress=advance)
    statistics = compute_statistics(train, test)
    if not json:
        common.print_data("The docstrings of Python, NumPy, SciPy and scikit-learn")
        common.print_data(common.facts_table(facts_of(statistics)))
        for warning in statistics.warnings:
            common.say(f"! {warning}")
    with common.stages("Training") as report_stage:
        tagger = Tagger().fit(train.texts or [], train.labels, vocab=train.vocab, progress=report_stage)
    report = evaluate(test.labels, tagger.rank(test.texts or [], 5), train_labels=train.labels)
    answers = [answer(tagger, question) for question in questions or QUESTIONS]
    if output is not None:
        tagger.save(output, notes="Made by tagwood demo", overwrite=True)
    if json:
        common.print_json(
            {
                "data": statistics.to_dict(),
                "training_seconds": tagger.training_seconds_,
                "metrics": report.to_dict(),
                "answers": answers,
            }
        )
    else:
        common.say(f"Trained in {tagger.training_seconds_:.1f} s.")
        common.print_data(report.to_table())
        common.print_data(_answer_table(answers))
        if output is not None:
            first = "" if common.service_is_installed() else "pip install 'tagwood[serve]' && "
            common.say(f"Open it in the browser: {first}tagwood serve {output}")


def answer(tagger: Tagger, question: str, k: int = 5) -> dict[str, Any]:
    """Return the labels of a question, best first, and the words in favour of the first one."""
    tags = tagger.tag_one(question, k, exclude=modules(tagger))
    words = tagger.explain(question, tags[0].label).words[:3] if tags else []
    return {
        "question": question,
        "labels": [(tag.name, tag.score) for tag in tags],
        "why": [word for word, contribution in words if contribution > 0],
    }


def modules(tagger: Tagger) -> list[int]:
    """Return the labels that are packages and modules: users look for a function or class."""
    names = [tagger.vocab_.name(label) for label in range(len(tagger.vocab_))]
    parents = {name.rpartition(".")[0] for name in names}
    # Classes that have methods are parents too, but not in lower case.
    return [label for label, name in enumerate(names) if name in parents and name.islower()]


def _answer_table(answers: list[dict[str, Any]]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Questions", title_justify="left", show_lines=True)
    table.add_column("question")
    table.add_column("labels, best first", no_wrap=True)
    table.add_column("words for the first")
    for found in answers:
        labels = "\n".join(f"[dim]{score:.2f}[/dim] {escape(name)}" for name, score in found["labels"])
        table.add_row(found["question"], labels, escape(", ".join(found["why"])))
    return table
