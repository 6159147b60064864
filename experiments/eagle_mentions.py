"""Docstrings whose passages speak of different things: the labels of a passage are the known objects it names.

In: the docstring corpus. Out: a problem of single passages, and the docstring of each training passage. A label is the
last part of a public name (``linspace``) where a passage writes it as code; it is masked there. A docstring has the
labels of all its passages, and a tenth of them are true of any one passage.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from scipy import sparse

from experiments.eagle_problems import THREADS, Problem, groups_of
from tagwood import demo as pydocs
from tagwood.features import TfidfEncoder

_CODE = re.compile(
    r"`+~?([A-Za-z_][\w.]*)(?:\(\))?`+"  # `name`
    r"|\b([A-Za-z_][\w.]*)\(\)"  # name()
    r"|\b([A-Za-z_]\w*(?:\.\w+)+)"  # package.name
    r"|\b(\w+_\w+)\b"  # some_name
)
_LEAST_ROWS = 3


@lru_cache(maxsize=2)
def mentions(*, held_out: bool = False) -> tuple[Problem, sparse.csr_array]:
    """Return the problem and the groups of its training passages; every fifth docstring is measured on.

    `held_out=True` leaves those out and measures on every fifth of the others.
    """
    train, test = pydocs.build(pydocs.CORE_PACKAGES)
    texts = [*(train.texts or ()), *(test.texts or ())]
    groups = [*(train.groups or ()), *(test.groups or ())]
    known = {train.vocab.name(label).rpartition(".")[2] for label in range(train.n_labels)}
    found = [_named(text, known) for text in texts]
    counts = Counter(name for names in found for name in names)
    found = [{name for name in names if counts[name] >= _LEAST_ROWS} for names in found]
    sizes, named = Counter(groups), {group for group, names in zip(groups, found, strict=True) if names}
    rows = [row for row, group in enumerate(groups) if sizes[group] > 1 and group in named]
    if held_out:
        rows = [row for row in rows if _part(groups[row], 0)]
    part = [_part(groups[row], int(held_out)) for row in rows]
    learned = [row for row, number in zip(rows, part, strict=True) if number]
    measured = [row for row, number in zip(rows, part, strict=True) if not number and found[row]]
    ids = {name: label for label, name in enumerate(sorted(set().union(*(found[row] for row in rows))))}
    encoder = TfidfEncoder(ngrams=(1, 1), threads=THREADS)
    problem = Problem(
        encoder.fit_transform([_masked(texts[row], found[row]) for row in learned]),
        _labels([found[row] for row in learned], ids),
        encoder.transform([_masked(texts[row], found[row]) for row in measured]),
        _labels([found[row] for row in measured], ids),
    )
    return problem, groups_of([groups[row] for row in learned])


def _named(text: str, known: set[str]) -> set[str]:
    words = (next(filter(None, match.groups())) for match in _CODE.finditer(text))
    return {last for word in words if len(last := word.rstrip(".").rpartition(".")[2]) > 2 and last in known}


def _masked(text: str, names: set[str]) -> str:
    return re.sub(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b", " ", text) if names else text


def _part(group: str, place: int) -> int:
    return blake2b(group.encode()).digest()[place] % 5


def _labels(names: list[set[str]], ids: dict[str, int]) -> sparse.csr_array:
    lists = [sorted(ids[name] for name in row) for row in names]
    indptr = np.cumsum([0, *map(len, lists)])
    columns = np.concatenate([np.array(row, dtype=np.int32) for row in lists])
    return sparse.csr_array(
        (np.ones(columns.size, dtype=np.float32), columns, indptr), shape=(len(lists), len(ids))
    )
