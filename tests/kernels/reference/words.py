"""The kernel that turns texts into word numbers, in plain Python: what the native one must return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.text import _find, _texts, _tokens, _word_key


def word_rows(
    text: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint8],
    folds: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    n_words: int,
    longest: int,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the borders of the rows, and the numbers of each text's first `longest` words, -1 for unknown ones."""
    indptr, ids = [0], []
    for chars in _texts(text, offsets):
        for token in _tokens(chars, classes, folds)[:longest]:
            word = _find(_word_key([token]), slots.tolist(), n_words)
            ids.append(-1 if word is None else word)
        indptr.append(len(ids))
    return np.array(indptr, dtype=np.int64), np.array(ids, dtype=np.int32)
