"""The words behind features. In: an encoder, a text, feature numbers. Out: n-grams that people can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tagwood.errors import InputError

_WORD = re.compile(r"\w+")
_LONGEST = 5000  # words of a text that are looked up one by one


def feature_words(encoder: Any, text: str) -> Callable[[int], str]:
    """Return a function from feature to word.

    Hashed features have no names: those of `text` are found by encoding its words and pairs of words one by one.
    """
    try:
        names = encoder.feature_names()
    except (AttributeError, InputError):
        found = _by_trying(encoder, text)
        return lambda feature: found.get(feature, f"feature {feature}")
    return lambda feature: str(names[feature])


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
