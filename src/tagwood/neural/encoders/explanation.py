"""What each word of a text adds to its similarity with a vector. In: encoder, text, vector. Out: words and weights.

Decisions
---------
* Leave-one-out, not gradient × input: the weight of a word is what the score loses without all its occurrences. This is
  in the unit of the score, exact, defined for every encoder, and unaffected by the flatness of norms and cosines, which
  makes the gradients of distant texts vanish. All variants of a text form one batch.
* Words with the same meaning hide each other: leaving one out costs little. Weights do not add up to the score.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.encoders.tokens import TokenRows, token_places

_PIECE = re.compile(r"\w+|[^\w\s]+")
MAX_WORDS = 100  # longer texts are split into phrases of several words


def explain_words(encoder: TextEncoder, text: str, vector: NDArray[np.float32]) -> list[tuple[str, float]]:
    """Return the words of a text, in order, with what each adds to the cosine of text and `vector`.

    Parameters
    ----------
    encoder
        A fitted encoder.
    text
        One text; words beyond its first `max_length` tokens are not returned. A text of more than 100 different words
        is split into phrases of neighbouring words.
    vector
        (n_features,) of norm 1, such as a label's prototype.

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
    if len(words) > MAX_WORDS:
        owner, words = _phrases(owner, words)
    variants = [rows.ids, *(rows.ids[owner != word] for word in range(len(words)))]
    # A variant without words is an empty text with similarity 0, whatever punctuation is left.
    real = [ids if np.any(owner[owner != word] >= 0) else ids[:0] for word, ids in enumerate(variants, -1)]
    scores = encoder.embed(TokenRows.of(real)) @ np.asarray(vector, dtype=np.float32)
    return [(word, float(scores[0] - score)) for word, score in zip(words, scores[1:], strict=True)]


def _owners(text: str, places: list[tuple[int, int]]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each token's word (-1 if it belongs to none), and the words as first written."""
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


def _phrases(owner: NDArray[np.int64], words: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the owners and names of at most `MAX_WORDS` phrases of neighbouring words."""
    size = -(-len(words) // MAX_WORDS)
    joined = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
    return np.where(owner < 0, -1, owner // size), joined
