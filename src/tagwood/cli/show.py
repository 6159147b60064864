"""`tagwood show`: describe a model. In: a model folder. Out: passport, members, recipe, tree, largest labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common

if TYPE_CHECKING:
    from tagwood.tagger import Tagger


def show(
    model: common.ModelArgument,
    limit: Annotated[int, typer.Option("--limit", "-l", min=0, help="Number of most frequent labels to list.")] = 10,
    depth: Annotated[int, typer.Option(help="Depth down to which the label tree is drawn.")] = 1,
    label: Annotated[
        str | None,
        typer.Option(help="Show one label instead: its senses with words, similar labels and texts."),
    ] = None,
    language: common.LanguageOption = None,
    json: common.JsonFlag = False,
) -> None:
    """Show a model: passport, quality and members, recipe, label tree, most frequent labels, calibration."""
    tagger = common.load_tagger(model)
    if label is not None:
        found = tagger.senses(label, language=language)
        common.print_json(found.to_dict()) if json else common.print_data(found.to_text())
        return
    facts = describe_tagger(tagger, model, limit)
    if json:
        common.print_json(facts)
        return
    facts["passport"]["size"] = common.show_bytes(facts["passport"].pop("bytes"))
    passport = {name.replace("_", " "): value for name, value in facts["passport"].items()}
    parts = (facts[part] for part in ("labels", "tree", "quality", "probabilities"))
    common.print_data(common.facts_table(passport | {name: v for part in parts for name, v in part.items()}))
    if facts["members"]:
        lines = "\n".join(common.member_lines(tagger))
        typer.echo(f"\nMembers, measured on held-out rows\n{_indented(lines)}")
    if facts["updates"]:
        typer.echo(f"\nUpdates since the last full training\n{_history(facts['updates'])}")
        if tagger.full_training_due:
            typer.echo(f"  A full training is due: {tagger.full_training_due}.")
    typer.echo(f"\nLargest labels\n{_listed(facts['largest_labels'])}")
    if facts["recipe"] is not None:
        typer.echo(f"\nRecipe\n{_indented(facts['recipe'])}")
    if facts["tree"]:
        typer.echo(f"\nLabel tree\n{_indented(draw_tree(tagger, depth))}")


def describe_tagger(tagger: Tagger, folder: Path, limit: int) -> dict[str, Any]:
    """Return the facts of a model by topic."""
    from tagwood.storage import read_manifest
    from tagwood.tagger.browsing import tree_browsers
    from tagwood.tagger.overview import largest_labels, tree_sizes

    manifest, vocab = read_manifest(folder), tagger.vocab_
    tree = tree_sizes(tagger, tree_browsers(tagger)) or {}
    return {
        "passport": {
            "model": str(folder),
            "bytes": manifest.folder_bytes,
            "created": manifest.created,
            "notes": manifest.notes,
            "data_fingerprint": manifest.fingerprint,
            "seed": manifest.seed,
            "training_seconds": manifest.training_seconds,
            "versions": [f"{name} {version}" for name, version in manifest.versions.items()],
        },
        "labels": {
            "labels": len(vocab),
            "labels in training": int((tagger.label_counts_ > 0).sum()),
            "labels masked": int(vocab.removed_mask().sum()),
            "languages": list(vocab.languages),
        },
        "largest_labels": [{"label": one.name, "rows": one.rows} for one in largest_labels(tagger, limit)],
        "tree": {name.replace("_", " "): value for name, value in tree.items()},
        "updates": [one._asdict() for one in tagger.history_],
        "full_training_due": tagger.full_training_due,
        "quality": _quality_facts(tagger),
        "members": [one._asdict() for one in tagger.members()],
        "probabilities": _probability_facts(tagger),
        "recipe": _recipe_text(tagger),
    }


def draw_tree(tagger: Tagger, depth: int) -> str:
    """Return the first label tree as indented lines, at most 60 of them."""
    from tagwood.tagger.fitting import linear_tree_of

    model: Any = linear_tree_of(tagger.model_) or tagger.model_
    text = model.trees_[0].tree.to_text(tagger.vocab_.name, max_depth=depth - 1)
    lines = text.splitlines()
    return "\n".join(lines[:60] + ([f"... {len(lines) - 60:,} more lines"] if len(lines) > 60 else []))


def _quality_facts(tagger: Tagger) -> dict[str, Any]:
    facts: dict[str, Any] = {"quality": tagger.effective_quality}
    if tagger.fields_:
        from tagwood.tagger.overview import field_weights

        facts["fields"] = [
            name if n == 1 else f"{name} (counts {n} times)" for name, n in field_weights(tagger).items()
        ]
    if tagger.simpler_because_:
        facts["one model only, because"] = tagger.simpler_because_
    if tagger.measures_ is not None:
        facts["rows measured"] = tagger.measures_.n_rows
        facts |= {name: round(value, 4) for name, value in tagger.measures_.values.items()}
    return facts


def _probability_facts(tagger: Tagger) -> dict[str, Any]:
    found = tagger.probabilities_
    if found is None:
        return {"calibrated": False}
    return {"calibrated": True, "rows held out for sets": found.held_out.n_rows, "set rule": tagger.sets.rule}


def _recipe_text(tagger: Tagger) -> str | None:
    from tagwood.errors import InputError
    from tagwood.recipe import recipe_of

    try:
        return recipe_of(tagger).to_toml()
    except InputError:  # parts that recipes do not describe
        return None


def _history(updates: list[dict[str, Any]]) -> str:
    lines = []
    for one in updates:
        kept = f"; unchanged: {', '.join(one['unchanged'])}" if one["unchanged"] else ""
        counts = f"{one['rows']:,} rows, {one['labels']:,} labels, {one['new_labels']:,} of them new"
        lines.append(f"  {one['date']}  {counts}, {one['cpu_seconds']:.1f} CPU seconds{kept}")
    return "\n".join(lines)


def _listed(labels: list[dict[str, Any]]) -> str:
    return "\n".join(f"{one['rows']:>9,}  {one['label']}" for one in labels)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.rstrip().splitlines())
