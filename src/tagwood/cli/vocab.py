"""`tagwood vocab list|diff|load`: label tables of models and files. In: models, TSV, CSV, SKOS. Out: lists, a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, print_json, say
from tagwood.cli.vocab_sources import Source, open_source
from tagwood.errors import InputError

app = typer.Typer(
    help="List, compare and load label tables: those of models, TSV, CSV, or SKOS. Each has --json.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
_SOURCE = "Model folder, or a label table: TSV, CSV, SKOS (.ttl, .nt, .rdf, .jsonld)."


@app.callback(invoke_without_command=True)
def _overview(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_labels(
    source: Annotated[Path, typer.Argument(help=_SOURCE)],
    contains: Annotated[
        str | None, typer.Option("--filter", help="Only labels with this in a name or the URI.")
    ] = None,
    sort: Annotated[str, typer.Option(help="By id, name, or rows (most training rows first).")] = "id",
    masked: Annotated[bool, typer.Option("--masked", help="Only labels that are not suggested.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most labels to list; 0: all.")] = 50,
    language: Annotated[str | None, typer.Option("--language", "-L", help="Of the names.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-O", help="Write the whole table as .tsv or .csv instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the output if it exists.")] = False,
    json: JsonFlag = False,
) -> None:
    """List the labels of a model or a vocabulary, with the number of training rows where it is known."""
    from tagwood._check import check_choice, check_int

    check_choice(sort, "--sort", ["id", "name", "rows"])
    check_int(limit, "--limit", low=0)
    found = open_source(source, language)
    if output is not None:
        if contains is not None or masked:
            raise InputError("--output writes the whole table; leave out --filter and --masked")
        _write_table(found, output, force)
        return
    chosen = found.select(contains, masked=masked, sort=sort, language=language)
    shown = chosen[:limit] if limit else chosen
    if json:
        print_json({"labels": len(chosen), "listed": [found.as_dict(label, language) for label in shown]})
        return
    for label in shown:
        typer.echo(found.line(label, language))
    if len(shown) < len(chosen):
        say(f"{len(shown):,} of {len(chosen):,} labels; -l 0 lists all.")
    elif not chosen:
        say("No label fits.")


@app.command("diff")
def diff_labels(
    old: Annotated[Path, typer.Argument(help=_SOURCE)],
    new: Annotated[Path, typer.Argument(help="The same, newer.")],
    by: Annotated[
        str | None,
        typer.Option(
            help="What makes labels the same: uri, name or id. Default: id for two states of one model, else URIs "
            "if both have them, else names."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most labels per kind of change; 0: all.")] = 20,
    json: JsonFlag = False,
) -> None:
    """Say what changed between two label tables: added, removed, renamed, masked."""
    from tagwood.data.vocab_diff import compare_vocabs

    before, after = open_source(old), open_source(new)
    if by is None and before.fingerprint is not None and before.fingerprint == after.fingerprint:
        by = "id"
    found = compare_vocabs(before.vocab, after.vocab, by)
    changes = {
        "added": [after.entry(label) for label in found.added],
        "removed": [before.entry(label) for label in found.removed],
        "renamed": [
            {**after.entry(one.new), "language": one.language, "before": one.before, "name": one.after}
            for one in found.renamed
        ],
        "masked": [after.entry(label) for label in found.masked],
        "unmasked": [after.entry(label) for label in found.unmasked],
    }
    if json:
        print_json({"by": found.by, "same": found.is_empty, **changes})
        return
    say(f"{len(before.vocab):,} and {len(after.vocab):,} labels, compared by {found.by}")
    if found.is_empty:
        say("No change.")
    for line in change_lines(changes, limit):
        typer.echo(line)


@app.command("load")
def load_labels(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[Path, typer.Argument(help="The newer label table: TSV, CSV, SKOS, or another model.")],
    language: Annotated[
        str | None,
        typer.Option("--language", "-L", help="Of the names; default: the one the model's names are in."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="What makes labels the same: uri, name or id; default as for diff.")
    ] = None,
    add: Annotated[
        bool,
        typer.Option("--add", help="Also take in new labels, suggested by the words that describe them."),
    ] = False,
    mask_missing: Annotated[
        bool, typer.Option("--mask-missing", help="Mask labels that the newer table does not have.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-O", help="Model folder to write; default: MODEL itself.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a model at --output.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most labels per kind of change; 0: all.")] = 20,
    json: JsonFlag = False,
) -> None:
    """Bring a newer vocabulary into a model without training: names, languages, deprecated labels, new labels.

    The model folder is replaced in one step when the new state is complete.
    """
    from tagwood.cli.vocab_loading import bring_in
    from tagwood.storage.publish import check_replaceable

    target = model if output is None else output
    if not dry_run:
        check_replaceable(target, overwrite=force or output is None)
    facts = bring_in(
        model,
        source,
        None if dry_run else target,
        by=by,
        add=add,
        mask_missing=mask_missing,
        language=language,
    )
    if json:
        print_json(facts)
        return
    for line in change_lines(
        {name: facts[name] for name in ("renamed", "masked", "added", "described")}, limit
    ):
        typer.echo(line)
    if facts["left_out"]:
        say(f"In {source.name} but not in the model: {facts['left_out']:,}; --add takes them in.")
    if facts["missing"] and not mask_missing:
        say(f"In the model but not in {source.name}: {facts['missing']:,}; --mask-missing masks them.")
    if 20 * (len(facts["added"]) + len(facts["described"])) > facts["trained"]:
        say(
            "Labels known by description alone compete with trained ones: expect less precision until a training."
        )
    changes = "would change" if dry_run else "changed" if facts["changed"] else "is unchanged"
    say(f"{target} {changes}: names in {facts['language'] or 'the main language'}, by {facts['by']}")


def change_lines(changes: dict[str, list[dict[str, Any]]], limit: int) -> Iterator[str]:
    """Yield changes as lines under headings, at most `limit` of each kind (0: all)."""
    for kind, entries in changes.items():
        if not entries:
            continue
        yield f"{kind} {len(entries):,}"
        for entry in entries[:limit] if limit else entries:
            uri = f"  <{entry['uri']}>" if entry.get("uri") else ""
            code = f" ({entry['language']})" if entry.get("language") else ""
            name = f"{entry['before']} -> {entry['name']}" if "before" in entry else entry["name"]
            yield f"  {name}{code}{uri}"
        if limit and len(entries) > limit:
            yield f"  ... {len(entries) - limit:,} more"


def _write_table(found: Source, output: Path, force: bool) -> None:
    from tagwood.data.vocab_files import write_vocab
    from tagwood.data.writing import replace_path

    if not output.name.removesuffix(".gz").endswith((".tsv", ".csv")):
        raise InputError("the output's name must end in .tsv or .csv", given=output.name)
    with replace_path(output, overwrite=force, folder=False, companions=()) as place:
        write_vocab(found.vocab, place)
    say(f"{output}: {len(found.vocab):,} labels")
