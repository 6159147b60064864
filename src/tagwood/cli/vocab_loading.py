"""The work of `tagwood vocab load`. In: a model folder and a newer label table. Out: the model's next state, facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagwood.cli.saving import save_changed
from tagwood.cli.vocab_sources import Source, open_source
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data.vocab_update import TableUpdate
    from tagwood.tagger import Tagger


def bring_in(
    model: Path,
    source: Path,
    target: Path | None,
    *,
    by: str | None,
    add: bool,
    mask_missing: bool,
    language: str | None,
) -> dict[str, Any]:
    """Update the labels of a model and save it to `target` (None: nowhere); return what changed."""
    from tagwood.cli.predict import load_tagger
    from tagwood.data.vocab_update import update_table

    tagger = load_tagger(model)
    newer = open_source(source)
    if by is None and newer.fingerprint is not None and newer.fingerprint == tagger.fingerprint_:
        by = "id"
    if language is not None and language not in newer.vocab.languages:
        known = ", ".join(newer.vocab.languages) or "none"
        raise InputError(
            f"the language must be one that {source.name} has names in",
            given=repr(language),
            hint=f"It has {known}.",
        )
    update = update_table(
        tagger.vocab_, newer.vocab, by=by, add=add, mask_missing=mask_missing, language=language
    )
    if len(update.sources) == len(update.added):
        raise InputError(
            f"{model} and {source} must have labels in common",
            given=f"none by {update.by}",
            hint="Look at both with: tagwood vocab list",
        )
    if newer.thesaurus is not None and add and update.language not in (None, newer.thesaurus.language):
        newer = open_source(source, update.language)  # once more, with descriptions in that language
    texts = _descriptions(tagger, update, newer) if add else {}
    changed = update.vocab != tagger.vocab_ or bool(texts)
    if target is not None and (changed or target != model):
        tagger.update_labels(vocab=update.vocab, texts={_key(update, i): text for i, text in texts.items()})
        save_changed(tagger, model, target)
    facts = {
        "model": str(target or model),
        "changed": changed,
        "trained": int((tagger.label_counts_ > 0).sum()),
    }
    return facts | _facts(update, texts)


def _descriptions(tagger: Tagger, update: TableUpdate, newer: Source) -> dict[int, str]:
    """Return the texts of labels that no training text has, by id."""
    counts, gone = tagger.label_counts_, update.vocab.removed_mask()
    known = {} if tagger.label_texts_ is None else tagger.label_texts_.to_dict()
    texts = {
        i: newer.describe(j)
        for i, j in update.sources.items()
        if not gone[i] and (i >= counts.size or counts[i] == 0)
    }
    return {i: text for i, text in texts.items() if text.strip() and known.get(i) != text}


def _key(update: TableUpdate, label: int) -> str:
    return update.vocab.uri(label) or update.vocab.name(label)


def _facts(update: TableUpdate, texts: dict[int, str]) -> dict[str, Any]:
    entry = Source(update.vocab).entry
    new = set(update.added)
    return {
        "by": update.by,
        "language": update.language,
        "renamed": [{**entry(i), "before": before} for i, (before, _) in update.renamed.items()],
        "masked": [entry(i) for i in update.masked],
        "added": [entry(i) for i in update.added],
        "described": [entry(i) for i in texts if i not in new],
        "missing": len(update.missing),
        "left_out": update.left_out,
    }
