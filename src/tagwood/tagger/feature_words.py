"""The words behind features. In: an encoder, a text, feature numbers. Out: n-grams that people can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tagwood.errors import InputError
from tagwood.features.concat import ConcatEncoder

VECTOR = "[text vector]"
_WORD = re.compile(r"\w+")
_LONGEST = 5000  # words of a text that are looked up one by one


def feature_words(encoder: Any, text: str) -> Callable[[int], str]:
    """Return a function from feature to word.

    Hashed features have no names: those of `text` are found by encoding its words and pairs of words one by one.
    Numbers of a vector mean nothing one by one: all have the name `VECTOR`.
    """
    if isinstance(encoder, ConcatEncoder):
        return _by_block(encoder, text)
    if not hasattr(encoder, "feature_names"):
        return lambda feature: VECTOR
    try:
        names = encoder.feature_names()
    except InputError:
        found = _by_trying(encoder, text)
        return lambda feature: found.get(feature, f"feature {feature}")
    return lambda feature: str(names[feature])


def _by_block(encoder: ConcatEncoder, text: str) -> Callable[[int], str]:
    """Return a function that looks a feature up in the block it belongs to."""
    words = [feature_words(one, text) for one in encoder.encoders]
    starts = np.cumsum([0, *(one.n_features for one in encoder.encoders)])

    def word(feature: int) -> str:
        block = int(np.searchsorted(starts, feature, side="right")) - 1
        return words[block](feature - int(starts[block]))

    return word


def _by_trying(encoder: Any, text: str) -> dict[int, str]:
    words = _WORD.findall(text)[:_LONGEST]
    grams = list(dict.fromkeys([*words, *map(" ".join, pairwise(words))]))
    found: dict[int, str] = {}
    if not grams or not hasattr(encoder, "transform_parts"):
        return found
    rows = encoder.transform_parts(grams)
    for gram, begin, end in zip(grams, rows.indptr[:-1], rows.indptr[1:], strict=True):
        for feature in np.asarray(rows.indices[begin:end]).tolist():
            found.setdefault(feature, gram)  # words come before pairs, so a pair names only what is its own
    return found
