"""The demo corpus: real text that every machine has, the docstrings of Python and of its scientific packages.

In: installed packages. Out: a train and a test `Dataset`. Rows are passages of docstrings; labels are the
object a passage describes (`scipy.signal.savgol_filter`), the class of a method, the module, and the objects
of the "See Also" section, which is not part of the text. Each docstring is a group of its passages.

Decisions. Sources are parsed and never run; only compiled functions of modules that Python, NumPy and SciPy
load anyway are asked for their docstrings. An object's own name is masked in its passages, because a text
that says its label measures nothing; other names stay, as in real text. A passage that stands in up to four
docstrings is one row with the labels of all; one that stands in more is boilerplate and left out. The split
is by the hash of the text, so a text is never on both sides, and every label of a test row has a training
row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tagwood.data.dataset import Dataset
from tagwood.data.vocab import LabelVocab
from tagwood.demo import corpus
from tagwood.demo.corpus import Row, choose_test, make_rows, read_entries
from tagwood.demo.modules import CORE_PACKAGES, KNOWN_PACKAGES, installed, versions

__all__ = ["CORE_PACKAGES", "KNOWN_PACKAGES", "build"]


def build(
    packages: Sequence[str] | None = None,
    cache: bool | Path = True,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Dataset, Dataset]:
    """Return the docstring corpus as a train and a test part; seconds at first, then from the cache.

    The same installed versions give the same corpus, bit for bit.

    Parameters
    ----------
    packages
        Names of packages as imported; ``"stdlib"`` is the standard library. Default: every installed one of
        `KNOWN_PACKAGES`. `CORE_PACKAGES` are there on every machine.
    cache
        True: keep the corpus in the user's cache folder; False: do not; or a folder to keep it in.
    progress
        Called with (files read, files in all) while sources are read.

    Returns
    -------
    train, test
        Datasets with texts, labels, groups and a common vocabulary; about one passage in five is a test row.
    """
    names = installed(packages)
    folder = (corpus.default_folder() if cache is True else Path(cache)) if cache else None
    file = None if folder is None else corpus.file_for(folder, versions(names))
    rows = None if file is None else corpus.load(file)
    if rows is None:
        rows = make_rows(*read_entries(names, progress))
        if file is not None:
            corpus.store(file, rows)
    return _datasets(rows)


def _datasets(rows: list[Row]) -> tuple[Dataset, Dataset]:
    names = sorted({label for row in rows for label in row.labels})
    ids = {name: place for place, name in enumerate(names)}
    whole = Dataset(
        [[ids[label] for label in row.labels] for row in rows],
        LabelVocab.from_names(names),
        texts=[row.text for row in rows],
        groups=[row.group for row in rows],
    )
    test = np.array(choose_test(rows), dtype=np.bool_)
    return whole.rows(~test), whole.rows(test)
