"""Cut a text into pieces so that the words of an explanation can be highlighted. In: text, words. Out: pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tagwood.features.unicode import fold_text, word_spans


def segments(text: str, words: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    """Return the pieces of a text in order, each with what it adds to a label's score, or None.

    An n-gram's weight is shared out evenly over its words, where they stand side by side. In scripts without spaces
    each character is a word, as it is for the encoder.

    Examples
    --------
    >>> segments("Old oaks, bark.", [("oaks", 0.5), ("oaks bark", 0.5), ("ash", 1.0)])
    [{'text': 'Old ', 'weight': None}, {'text': 'oaks', 'weight': 0.75}, {'text': ', ', 'weight': None}, \
{'text': 'bark', 'weight': 0.25}, {'text': '.', 'weight': None}]
    """
    weights: dict[tuple[str, ...], float] = {}
    for word, weight in words:
        key = tuple(_words(word))
        weights[key] = weights.get(key, 0.0) + weight
    longest = max(map(len, weights), default=0)
    spans, tokens = word_spans(text), _words(text)
    sums: dict[int, float] = {}
    for place in range(len(tokens)):
        for size in range(1, longest + 1):
            gram = tuple(tokens[place : place + size])
            if len(gram) == size and gram in weights:
                for inside in range(place, place + size):
                    sums[inside] = sums.get(inside, 0.0) + weights[gram] / size
    return _pieces(text, [(spans[place], weight) for place, weight in sorted(sums.items())])


def _words(text: str) -> list[str]:
    return [fold_text(text[begin:end]) for begin, end in word_spans(text)]


def _pieces(text: str, marked: list[tuple[tuple[int, int], float]]) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    done = 0
    for (begin, end), weight in marked:
        if begin > done:
            pieces.append({"text": text[done:begin], "weight": None})
        pieces.append({"text": text[begin:end], "weight": weight})
        done = end
    if done < len(text):
        pieces.append({"text": text[done:], "weight": None})
    return pieces
