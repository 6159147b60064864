"""`DataFigures`: all that a forecast takes from the data, measured on samples in about a second. In: a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tagwood.data.dataset import Dataset
from tagwood.errors import InputError
from tagwood.features.tfidf import TfidfEncoder
from tagwood.planning.label_figures import LabelFigures, measure_labels
from tagwood.planning.text_figures import TextFigures, measure_texts

TREE_FEATURES = 512  # most features of a label that shape the tree, see `LinearTree`


@dataclass(frozen=True)
class DataFigures:
    """What a dataset is for an encoder.

    Parameters
    ----------
    rows
        Rows to train on.
    characters
        Of all their texts.
    texts, labels
        What the texts and the labels are.
    grouped
        Whether labels are known for groups only.
    """

    rows: int
    characters: float
    texts: TextFigures
    labels: LabelFigures
    grouped: bool


def measure_figures(
    data: Dataset, encoder: TfidfEncoder, *, share: float = 1.0, seed: int = 0, threads: int = 1
) -> DataFigures:
    """Measure a dataset with texts; `share` of its rows will be trained on.

    Reads a sample of texts and labels: about a second for a dataset of any size.

    Examples
    --------
    >>> data = Dataset([[0], [1], [0]] * 4, texts=["oak tree", "sea water", "old oak"] * 4)
    >>> figures = measure_figures(data, TfidfEncoder(ngrams=(1, 1)))
    >>> figures.rows, figures.texts.n_features, figures.labels.pairs
    (12, 5.0, 12)
    """
    if data.texts is None:
        raise InputError("a forecast needs texts", given="features only")
    if data.labels.nnz == 0:
        raise InputError("a forecast needs labels", given="none", hint="Look at the data with: tagwood check")
    random = np.random.default_rng(seed)
    rows = max(1, round(share * data.n_rows))
    texts = measure_texts(data.texts, encoder, rows, random, threads)
    labels = measure_labels(data, encoder, texts, rows / data.n_rows, TREE_FEATURES, random)
    characters = float(sum(map(len, data.texts))) * rows / data.n_rows
    return DataFigures(rows, characters, texts, labels, data.groups is not None)
