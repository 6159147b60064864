"""Where a step of the decoder looked. In: a text, what was generated for it, a label. Out: words and weights."""

from __future__ import annotations

import re

import numpy as np
import torch
from numpy.typing import NDArray

from tagwood.features.word_sequences import WordSequences
from tagwood.neural.set_decoding import Generated
from tagwood.neural.set_output import Columns

_EDGES = re.compile(r"^\W+|\W+$")


def text_pieces(text: str, words: WordSequences, longest: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return the pieces between a text's spaces, without punctuation around them, and the piece of each word read.

    Examples
    --------
    >>> pieces, owner = text_pieces("Fir (pine-tree), a", WordSequences.learn(["fir"]), 100)
    >>> pieces, owner.tolist()
    (['Fir', 'pine-tree', 'a'], [0, 1, 1])
    """
    raw = text.split()
    counts = words.counts(raw)
    owner = np.repeat(np.arange(len(raw)), counts)[:longest]
    return [_EDGES.sub("", piece) or piece for piece in raw], owner


def label_attention(made: Generated, columns: Columns | None, label: int) -> NDArray[np.float32]:
    """Return the attention to the words of the first row in a label's step, times its probability there.

    That is the step that generated the label, or the one in which it was most probable; all 0 for a label that is no
    candidate.
    """
    assert made.trace is not None
    looks, every = made.trace[0][0], made.trace[1][0]
    names = torch.arange(every.shape[1], device=every.device) if columns is None else columns.labels[0]
    place = torch.nonzero(names == label).flatten()
    if place.numel() == 0:
        return np.zeros(looks.shape[1], dtype=np.float32)
    log_probs = every[:, int(place[0])]
    said = torch.nonzero(made.labels[0] == label).flatten()
    step = int(said[0]) if said.numel() else int(log_probs.argmax())
    weights: NDArray[np.float32] = (looks[step] * log_probs[step].exp()).cpu().numpy()
    return weights


def sum_words(
    pieces: list[str], owner: NDArray[np.int64], weights: NDArray[np.float32]
) -> list[tuple[str, float]]:
    """Return each word once, in order of the text, with the sum of its weights.

    Examples
    --------
    >>> sum_words(["fir", "and", "fir"], np.array([0, 2]), np.array([0.25, 0.5], dtype=np.float32))
    [('fir', 0.75)]
    """
    found: dict[str, float] = {}
    for piece, weight in zip(
        owner.tolist(), weights.tolist(), strict=False
    ):  # a text without words has no owner
        found[pieces[piece]] = found.get(pieces[piece], 0.0) + weight
    return list(found.items())
