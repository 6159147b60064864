"""`tagwood vocab list|diff|load|undo|untrained`. In: models, vocabularies in TSV, CSV, SKOS. Out: lists, a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tagwood.data import LabelVocab
    from tagwood.data.vocab_files import Thesaurus


class Source(NamedTuple):
    """A label table and what else is known: training rows per label, the model's data, a SKOS file's extras."""

    vocab: LabelVocab
    counts: NDArray[np.int64] | None = None
    fingerprint: str | None = None
    thesaurus: Thesaurus | None = None

    def select(self, contains: str | None, *, masked: bool, sort: str, language: str | None) -> list[int]:
        """Return the ids of the selected labels, in order."""
        gone = self.vocab.removed_mask()
        chosen = [label for label in range(len(self.vocab)) if gone[label] or not masked]
        if contains is not None:
            needle = contains.casefold()
            chosen = [label for label in chosen if any(needle in text for text in self._texts(label))]
        if sort == "name":
            chosen.sort(key=lambda label: self.vocab.name(label, language).casefold())
        elif sort == "rows" and self.counts is not None:
            counts = self.counts
            chosen.sort(key=lambda label: -int(counts[label]))
        return chosen

    def line(self, label: int, language: str | None) -> str:
        """Return a label as a line: training rows, name, mask, URI."""
        rows = "" if self.counts is None else f"{self.counts[label]:>9,}  "
        uri = self.vocab.uri(label)
        mask = "  (masked)" if self._is_masked(label) else ""
        return f"{rows}{self.vocab.name(label, language)}{mask}{f'  <{uri}>' if uri else ''}"

    def entry(self, label: int, language: str | None = None) -> dict[str, Any]:
        """Return id, name and URI of a label."""
        return {"id": label, "name": self.vocab.name(label, language), "uri": self.vocab.uri(label)}

    def as_dict(self, label: int, language: str | None) -> dict[str, Any]:
        """Return everything known about a label."""
        facts = self.entry(label, language)
        facts["languages"] = {code: table[label] for code, table in self.vocab.languages.items() if table[label]}
        facts["masked"] = self._is_masked(label)
        if self.counts is not None:
            facts["rows"] = int(self.counts[label])
        if self.thesaurus is not None:
            facts["notation"] = self.thesaurus.notations[label] or None
            facts["broader"] = self.thesaurus.broader[label]
        return facts

    def describe(self, label: int) -> str:
        """Return the description of a label: in a SKOS file with alternative names, otherwise its name."""
        return self.vocab.name(label) if self.thesaurus is None else self.thesaurus.texts[label]

    def _is_masked(self, label: int) -> bool:
        return self.vocab.removed is not None and bool(self.vocab.removed[label])

    def _texts(self, label: int) -> list[str]:
        names = [self.vocab.name(label), *(table[label] for table in self.vocab.languages.values())]
        return [text.casefold() for text in (*names, self.vocab.uri(label) or "")]


def open_source(path: Path, language: str | None = None) -> Source:
    """Open a model folder or a file; `language` is that of the main names."""
    from tagwood.data import read_vocab
    from tagwood.data.vocab_files import rdf_format, read_skos

    if path.is_dir():
        tagger = common.load_tagger(path)
        return Source(tagger.vocab_, tagger.label_counts_, tagger.fingerprint_)
    if rdf_format(path) is not None:
        found = read_skos(path, language)
        return Source(found.vocab, thesaurus=found)
    return Source(read_vocab(path, language))


def bring_in(
    model: Path, source: Path, target: Path | None, add: bool, language: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Update the labels of a model and save it to `target` (None: nowhere); return what changed."""
    from tagwood.data.vocab_changes import update_table

    tagger, opened = common.open_tagger(model)
    newer = open_source(source)
    if options["by"] is None and newer.fingerprint is not None and newer.fingerprint == tagger.fingerprint_:
        options["by"] = "id"
    if language is not None and language not in newer.vocab.languages:
        known = ", ".join(newer.vocab.languages) or "none"
        raise InputError(
            f"the language must be one that {source.name} has names in",
            given=repr(language),
            hint=f"It has {known}.",
        )
    update = update_table(tagger.vocab_, newer.vocab, add=add, language=language, **options)
    if len(update.sources) == len(update.added):
        raise InputError(
            f"{model} and {source} must have labels in common",
            given=f"none by {update.by}",
            hint="Look at both with: tagwood vocab list",
        )
    if newer.thesaurus is not None and add and update.language not in (None, newer.thesaurus.language):
        newer = open_source(source, update.language)  # once more, with descriptions in that language
    texts = {i: newer.describe(update.sources[i]) for i in update.added}
    texts = {i: text for i, text in texts.items() if text.strip()}
    changed = update.vocab != tagger.vocab_ or bool(texts)
    if target is not None and (changed or target != model):
        keys = {i: update.vocab.uri(i) or update.vocab.name(i) for i in texts}
        tagger.update_labels(vocab=update.vocab, texts={keys[i]: text for i, text in texts.items()})
        common.save_changed(tagger, opened, model, target)
    entry = Source(update.vocab).entry
    return {
        "model": str(target or model),
        "changed": changed,
        "trained": int((tagger.label_counts_ > 0).sum()),
        "by": update.by,
        "language": update.language,
        "renamed": [{**entry(i), "before": before} for i, (before, _) in update.renamed.items()],
        "masked": [entry(i) for i in update.masked],
        "added": [entry(i) for i in update.added],
        "missing": len(update.missing),
        "left_out": update.left_out,
    }


app = typer.Typer(
    help="List, compare and update label vocabularies of models and files (TSV, CSV, SKOS). Each has --json.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
SourceArgument = Annotated[
    Path, typer.Argument(help="Model folder or vocabulary file: TSV, CSV, SKOS (.ttl, .nt, .rdf, .jsonld).")
]
ByOption = Annotated[
    str | None,
    typer.Option(
        help="How labels are matched: uri, name or id. By default id for two versions of one model, otherwise URIs "
        "if both have them, otherwise names."
    ),
]
ChangesOption = Annotated[
    int,
    typer.Option("--limit", "-l", help="Largest number of labels to list per kind of change; 0 for all."),
]


@app.callback(invoke_without_command=True)
def _overview(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_labels(
    source: SourceArgument,
    contains: Annotated[
        str | None, typer.Option("--filter", help="List only labels with this text in a name or the URI.")
    ] = None,
    sort: Annotated[str, typer.Option(help="Order: id, name, or rows (most training rows first).")] = "id",
    masked: Annotated[bool, typer.Option("--masked", help="List only masked labels.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Largest number of labels to list; 0 for all.")] = 50,
    language: common.LanguageOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="Write the whole vocabulary to a .tsv or .csv file instead."),
    ] = None,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
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
        common.print_json({"labels": len(chosen), "listed": [found.as_dict(label, language) for label in shown]})
        return
    for label in shown:
        typer.echo(found.line(label, language))
    if len(shown) < len(chosen):
        common.say(f"{len(shown):,} of {len(chosen):,} labels; -l 0 lists all.")
    elif not chosen:
        common.say("No matching label.")


@app.command("diff")
def diff_labels(
    old: SourceArgument,
    new: Annotated[Path, typer.Argument(help="Newer model folder or vocabulary file.")],
    by: ByOption = None,
    limit: ChangesOption = 20,
    json: common.JsonFlag = False,
) -> None:
    """Show the differences between two vocabularies: added, removed, renamed, masked labels."""
    from tagwood.data.vocab_changes import compare_vocabs

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
        common.print_json({"by": found.by, "same": found.is_empty, **changes})
        return
    common.say(f"{len(before.vocab):,} and {len(after.vocab):,} labels, compared by {found.by}")
    if found.is_empty:
        common.say("No change.")
    print_changes(changes, limit)


@app.command("load")
def load_labels(
    model: common.ModelArgument,
    source: Annotated[Path, typer.Argument(help="Newer vocabulary: TSV, CSV, SKOS, or another model.")],
    language: Annotated[
        str | None,
        typer.Option("--language", "-L", help="Language of the names; that of the model by default."),
    ] = None,
    by: ByOption = None,
    add: Annotated[
        bool,
        typer.Option("--add", help="Also add new labels, which are suggested by their names and descriptions."),
    ] = False,
    mask_missing: Annotated[
        bool, typer.Option("--mask-missing", help="Mask labels that the newer vocabulary does not have.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-O", help="Model folder to write; MODEL itself by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing model at --output.")] = False,
    limit: ChangesOption = 20,
    json: common.JsonFlag = False,
) -> None:
    """Update the vocabulary of a model without training: names, languages, deprecated labels, new labels.

    --add touches only what is new: labels that the model has keep their scores. New labels compete by a probability
    that was learned in training. Promises about label sets were fitted without new labels, and hold without them.

    The model folder is replaced in one step when the new version is complete; vocab undo goes back.
    """
    from tagwood.storage.publish import check_replaceable

    target = model if output is None else output
    if not dry_run:
        check_replaceable(target, overwrite=force or output is None)
    options = {"by": by, "mask_missing": mask_missing}
    facts = bring_in(model, source, None if dry_run else target, add, language, options)
    if json:
        common.print_json(facts)
        return
    print_changes({name: facts[name] for name in ("renamed", "masked", "added")}, limit)
    if facts["left_out"]:
        common.say(f"In {source.name} but not in the model: {facts['left_out']:,}; --add takes them in.")
    if facts["missing"] and not mask_missing:
        common.say(f"In the model but not in {source.name}: {facts['missing']:,}; --mask-missing masks them.")
    if facts["added"]:
        common.say("New labels are suggested by their names. Promises were fitted without them: see vocab load --help.")
    changes = "would change" if dry_run else "changed" if facts["changed"] else "is unchanged"
    common.say(f"{target} {changes}: names in {facts['language'] or 'the main language'}, by {facts['by']}")


def print_changes(changes: dict[str, list[dict[str, Any]]], limit: int) -> None:
    """Write changes as lines under headings, at most `limit` of each kind (0: all)."""
    for kind, entries in changes.items():
        if not entries:
            continue
        typer.echo(f"{kind} {len(entries):,}")
        for entry in entries[:limit] if limit else entries:
            uri = f"  <{entry['uri']}>" if entry.get("uri") else ""
            code = f" ({entry['language']})" if entry.get("language") else ""
            name = f"{entry['before']} -> {entry['name']}" if "before" in entry else entry["name"]
            typer.echo(f"  {name}{code}{uri}")
        if limit and len(entries) > limit:
            typer.echo(f"  ... {len(entries) - limit:,} more")


def _write_table(found: Source, output: Path, force: bool) -> None:
    from tagwood.data.vocab_files import write_vocab
    from tagwood.storage.publish import replace_path

    if not output.name.removesuffix(".gz").endswith((".tsv", ".csv")):
        raise InputError("the output's name must end in .tsv or .csv", given=output.name)
    with replace_path(output, overwrite=force) as place:
        write_vocab(found.vocab, place)
    common.say(f"{output}: {len(found.vocab):,} labels")


@app.command("undo")
def undo(model: common.ModelArgument, json: common.JsonFlag = False) -> None:
    """Go back to the vocabulary before the last vocab load or vocab untrained."""
    tagger, opened = common.open_tagger(model)
    if tagger.earlier_labels_ is None:
        raise InputError("there must be an earlier vocabulary to go back to", given=f"none in {model}")
    before = len(tagger.vocab_)
    tagger.undo_labels()
    common.save_changed(tagger, opened, model, model)
    facts = {"model": str(model), "labels_before": before, "labels": len(tagger.vocab_)}
    if json:
        common.print_json(facts)
        return
    common.say(
        f"{model} has the vocabulary before the last change: {len(tagger.vocab_):,} labels, {before:,} until now"
    )


@app.command("untrained")
def untrained(
    model: common.ModelArgument,
    on: Annotated[bool, typer.Option("--on/--off", help="Suggest labels that no training text has, or none of them.")],
    json: common.JsonFlag = False,
) -> None:
    """Switch labels without training texts on, to be suggested by their names, or off."""
    tagger, opened = common.open_tagger(model)
    tagger.update_labels(untrained=on)
    common.save_changed(tagger, opened, model, model)
    found = 0 if tagger.new_labels_ is None else int(tagger.new_labels_.labels.size)
    if json:
        common.print_json({"model": str(model), "untrained": found})
        return
    common.say(f"{model}: {found:,} labels without training texts are suggested by their names")
