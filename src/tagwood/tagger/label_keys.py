"""Labels as users name them: names, URIs or ids in, ids of the label table out; and changes of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_int
from tagwood.data.strings import StringTable
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError

Label: TypeAlias = str | int

_SEARCHED = 200_000  # looking for a near name in more would take seconds


def find_label(vocab: LabelVocab, label: Label) -> int:
    """Return the id of a label given by name, URI or id.

    Examples
    --------
    >>> find_label(LabelVocab.from_names(["oak", "maple"]), "mapel")
    Traceback (most recent call last):
    tagwood.errors.InputError: the label must be in the vocabulary; got 'mapel'. Did you mean 'maple'?
    """
    if not isinstance(label, str):
        return check_int(label, "the label", low=0, high=len(vocab) - 1)
    found = vocab.find(label)
    if found is None and vocab.names is None and label.isdecimal() and int(label) < len(vocab):
        found = int(label)
    if found is not None:
        return found
    names = () if vocab.names is None or len(vocab) > _SEARCHED else list(vocab.names)
    near = get_close_matches(label, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"It has {len(vocab):,} labels."
    raise InputError("the label must be in the vocabulary", given=repr(label), hint=hint)


def find_labels(vocab: LabelVocab, labels: Iterable[Label]) -> list[int]:
    """Return the ids of several labels."""
    if isinstance(labels, str):
        raise InputError("labels must be a collection", given=repr(labels), hint=f"Wrap it: [{labels!r}].")
    return [find_label(vocab, label) for label in labels]


def updated_vocab(
    vocab: LabelVocab,
    rename: Mapping[Label, str],
    mask: Iterable[Label],
    unmask: Iterable[Label],
) -> LabelVocab:
    """Return the table with new names and other labels masked; ids stay."""
    removed = vocab.removed_mask().copy()
    removed[find_labels(vocab, mask)] = True
    removed[find_labels(vocab, unmask)] = False
    changed = replace(vocab, removed=removed if removed.any() else None)
    if not rename:
        return changed
    names = list(vocab.names) if vocab.names is not None else list(map(str, range(len(vocab))))
    for label, name in rename.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError("a label's new name must be a text", given=repr(name))
        names[find_label(vocab, label)] = name
    in_use = [name for name, gone in zip(names, removed, strict=True) if not gone]
    if vocab.uris is None and len(set(in_use)) < len(in_use):
        twice = next(name for name in rename.values() if in_use.count(name) > 1)
        raise InputError("labels without URIs must have names of their own", given=f"{twice!r} twice")
    return replace(changed, names=StringTable.from_strings(names))


def with_texts(
    vocab: LabelVocab, texts: Mapping[str, str], counts: NDArray[np.int64]
) -> tuple[LabelVocab, dict[int, str]]:
    """Return the table grown by the names it does not know, and the texts by label id."""
    new = [name for name in texts if vocab.find(name) is None]
    if new:
        vocab = vocab.add(new)
    described = {vocab.id(name): text for name, text in texts.items()}
    for label, text in described.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError("a label's description must be a text", given=repr(text))
        if label < counts.size and counts[label]:
            raise InputError(
                "only labels without training texts take descriptions",
                given=f"{vocab.name(label)!r} with {counts[label]:,} texts",
            )
    return vocab, described


def teach_labels(model: Any, vocab: LabelVocab, described: Mapping[int, str]) -> dict[int, str]:
    """Let a model take in the labels that are new in the table, if it can; return the descriptions that are left.

    A model that can has ``add_labels(texts)``; labels without a description have their name.
    """
    if not hasattr(model, "add_labels"):
        return dict(described)
    known = int(model.n_labels_)
    if known < len(vocab):
        model.add_labels([described.get(i, vocab.name(i)) for i in range(known, len(vocab))])
    return {label: text for label, text in described.items() if label < known}


def masked_ids(vocab: LabelVocab) -> list[int]:
    """Return the ids of labels that are not to be suggested."""
    return [] if vocab.removed is None else np.flatnonzero(vocab.removed).tolist()
