"""What each word of a text adds to its similarity with a vector. In: an encoder, a text, a vector. Out: words, weights.

Decisions
---------
* Leave-one-out, not gradient × input: a word's weight is what the score loses when all its occurrences are left out. It
  is in the unit of the score, exact about that question, the same for every kind of encoder, and it does not depend on
  the flatness of norms and cosines, which makes gradients of far texts vanish. The variants of a text are one batch.
* Words that say the same thing hide each other: leaving one out costs little. Weights do not add up to the score.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.encoders.tokens import TokenRows, token_places

_PIECE = re.compile(r"\w+|[^\w\s]+")
_MOST = 100  # variants of a text; longer texts are taken apart into stretches of several words


def explain_words(
    encoder: TextEncoder, text: str, vector: NDArray[np.float32], most: int = _MOST
) -> list[tuple[str, float]]:
    """Return the words of a text with what each adds to the cosine of text and `vector`, in order of the text.

    Parameters
    ----------
    encoder
        A fitted encoder.
    text
        One text; what lies behind its first `max_length` tokens has no weight and is not returned.
    vector
        (n_features,) of norm 1, such as a label's prototype.
    most
        Most words; a text with more is taken apart into stretches of neighbouring words.

    Examples
    --------
    >>> texts = ["the oak", "the sea", "the ash"] * 3
    >>> encoder = TextEncoder("bag", threads=1).fit(texts)
    >>> words = dict(explain_words(encoder, "The oak, the ash", encoder.transform(["oak"])[0]))
    >>> sorted(words), words["oak"] > 0.3 > words["ash"]
    (['The', 'ash', 'oak'], True)
    """
    rows = encoder.tokens([text])
    owner, words = _owners(text, token_places(encoder.tokenizer_, text)[: rows.ids.size])
    if not words:
        return []
    if len(words) > most:
        owner, words = _stretches(owner, words, most)
    variants = [rows.ids, *(rows.ids[owner != word] for word in range(len(words)))]
    # A variant whose words are all gone is an empty text, which has similarity 0, whatever marks are left.
    real = [ids if np.any(owner[owner != word] >= 0) else ids[:0] for word, ids in enumerate(variants, -1)]
    scores = encoder.embed(TokenRows.of(real)) @ np.asarray(vector, dtype=np.float32)
    return [(word, float(scores[0] - score)) for word, score in zip(words, scores[1:], strict=True)]


def _owners(text: str, places: list[tuple[int, int]]) -> tuple[NDArray[np.int64], list[str]]:
    """Return for each token the number of its word, -1 for marks and punctuation, and the words as first written."""
    pieces = list(_PIECE.finditer(text))
    ends = np.array([piece.end() for piece in pieces], dtype=np.int64)
    names: dict[str, int] = {}
    words: list[str] = []
    owner = np.full(len(places), -1, dtype=np.int64)
    for token, (begin, end) in enumerate(places):
        piece = int(np.searchsorted(ends, begin, side="right"))
        if begin == end or piece == len(pieces) or not pieces[piece][0][0].isalnum():
            continue
        word = pieces[piece][0]
        owner[token] = names.setdefault(word.casefold(), len(names))
        if len(words) < len(names):
            words.append(word)
    return owner, words


def _stretches(owner: NDArray[np.int64], words: list[str], most: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return owners and names of at most `most` stretches of neighbouring words."""
    size = -(-len(words) // most)
    joined = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
    return np.where(owner < 0, -1, owner // size), joined
