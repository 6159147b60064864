"""Initial embeddings of a set network: of words from a file of word vectors, of labels from the words of their names.

In: a vocabulary, a file, label texts. Out: float32 tables. Unknown words and labels start at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.features.words import FIRST, WordSequences

_F32 = NDArray[np.float32]


def read_vectors(path: str | Path, wanted: Mapping[str, int]) -> tuple[_F32, NDArray[np.bool_]]:
    """Return the vectors of some words, 0 for those that are not in the file, and a mask of those that are.

    The file is text with a word and its numbers on each line (GloVe; the header line of word2vec and fastText files is
    skipped), or an ``.npy`` table with the words, one per line, in a ``.txt`` file of the same name or in ``words.txt``
    next to it. `wanted` maps words to rows of the result.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            "word_vectors must be a file of word vectors",
            given=str(path),
            hint="Use GloVe's text format, or .npy.",
        )
    pairs = _table(path, wanted) if path.suffix == ".npy" else _lines(path, wanted)
    rows, found = list[int](), list[_F32]()
    for row, vector in pairs:
        rows.append(row)
        found.append(vector)
    if not rows:
        raise InputError(
            f"{path} must contain vectors of words in the texts",
            given="none of them",
            hint="Words are compared in lower case.",
        )
    vectors = np.zeros((max(wanted.values()) + 1, found[0].size), dtype=np.float32)
    vectors[rows] = found
    known = np.zeros(vectors.shape[0], dtype=bool)
    known[rows] = True
    if not np.isfinite(vectors).all():
        raise InputError(f"{path} must contain finite numbers", given="NaN or infinity")
    return vectors, known


def word_table(
    words: WordSequences, dimension: int, path: str | None, random: np.random.Generator
) -> tuple[_F32, float]:
    """Return the (n_words, dimension) initial word vectors and their standard deviation; a file sets the dimension."""
    if path is None:
        spread = dimension**-0.5
        table = random.normal(scale=spread, size=(words.n_words, dimension)).astype(np.float32)
    else:
        vectors, known = read_vectors(path, {word: row for row, word in enumerate(words.words(), FIRST)})
        spread = float(vectors[known].std())
        table = random.normal(scale=spread, size=(words.n_words, vectors.shape[1])).astype(np.float32)
        table[: known.size][known] = vectors[known]
    table[0] = 0.0
    return table, spread


def label_table(
    label_texts: Sequence[str],
    words: WordSequences,
    table: _F32,
    path: str | None,
    random: np.random.Generator,
) -> _F32:
    """Return (n_labels, dimension) label embeddings: the mean of the word vectors of each label's text.

    Words are looked up among the words of the texts, then in the file. Labels without known words start at random.
    """
    n_labels, dimension = len(label_texts), table.shape[1]
    spread = float(table[1:].std())
    vectors = random.normal(scale=spread, size=(n_labels, dimension)).astype(np.float32)
    try:
        own = WordSequences.learn(label_texts)
    except InputError:  # no label has a word
        return vectors
    known = {word: row for row, word in enumerate(words.words(), FIRST)}
    start, has = np.zeros((own.n_words, dimension), dtype=np.float32), np.zeros(own.n_words, dtype=bool)
    missing = {}
    for row, word in enumerate(own.words(), FIRST):
        if word in known:
            start[row], has[row] = table[known[word]], True
        else:
            missing[word] = row
    if path is not None and missing:
        try:
            found, there = read_vectors(path, missing)
        except InputError:  # the file has none of these words
            found, there = start[:0], has[:0]
        start[: there.size][there] = found[there]
        has[: there.size] |= there
    indptr, ids = own.rows(label_texts)
    row_of = np.repeat(np.arange(n_labels), np.diff(indptr))
    counts = np.bincount(row_of, weights=has[ids], minlength=n_labels)
    sums = np.zeros((n_labels, dimension), dtype=np.float64)
    np.add.at(sums, row_of, start[ids] * has[ids, None])
    named = counts > 0
    vectors[named] = (sums[named] / counts[named, None]).astype(np.float32)
    return vectors


def _table(path: Path, wanted: Mapping[str, int]) -> Iterator[tuple[int, _F32]]:
    beside = [path.with_suffix(".txt"), path.parent / "words.txt"]
    words = next((file for file in beside if file.is_file()), None)
    if words is None:
        raise InputError(
            f"the words of {path.name} must be in a file next to it, one per line",
            given=f"no {beside[0].name} or words.txt",
        )
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path} must be a NumPy table of numbers", given=str(error)) from error
    names = words.read_text(encoding="utf-8").splitlines()
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or vectors.shape[0] != len(names):
        raise InputError(
            f"{path} must be a table of floats with one row for each of the {len(names):,} words in {words.name}",
            given=f"{vectors.dtype} of shape {vectors.shape}",
        )
    for place, word in enumerate(names):
        row = wanted.get(word)
        if row is not None:
            yield row, np.asarray(vectors[place], dtype=np.float32)


def _lines(path: Path, wanted: Mapping[str, int]) -> Iterator[tuple[int, _F32]]:
    size = None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            word, _, rest = line.rstrip().partition(" ")
            row = wanted.get(word)
            if row is None or (number == 1 and len(rest.split()) == 1):
                continue
            try:
                vector = np.array(rest.split(), dtype=np.float32)
            except ValueError as error:
                raise InputError(f"line {number} of {path} must be a word and numbers", given=str(error)) from error
            if vector.size == 0 or vector.size != (size or vector.size):
                raise InputError(
                    f"line {number} of {path} must have {size or 'at least 1'} numbers",
                    given=f"{vector.size}",
                )
            size = vector.size
            yield row, vector
