"""The demo corpus: real text that every machine has, the docstrings of Python and of its scientific packages.

In: installed packages. Out: a train and a test `Dataset`. Rows are passages of docstrings; labels are the object that
a passage describes (`scipy.signal.savgol_filter`), the class of a method, the module, and the objects of the "See Also"
section, which is not part of the text. Each docstring is a group of its passages.

Decisions. An object's own name is masked in its passages, because a text that contains its label measures nothing;
other names stay, as in real text. A passage of up to four docstrings is one row with the labels of all; a passage of
more docstrings is boilerplate and left out. The split is by the hash of the text, so that no text is on both sides,
and every label of a test row has a training row.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path

import numpy as np

from tagwood.data.dataset import Dataset
from tagwood.data.vocab import LabelVocab
from tagwood.demo.docstrings import STDLIB, Docstring, cut, read_docstrings
from tagwood.errors import InputError, StorageError
from tagwood.storage.publish import write_file

__all__ = ["CORE_PACKAGES", "Row", "build", "make_rows"]

CORE_PACKAGES = (STDLIB, "numpy", "scipy", "sklearn")
"""The packages that every installation of tagwood has."""

_FORMAT = 3  # a change of the rows or of the cache file changes this number
_MAX_DOCSTRINGS = 4  # a passage of more docstrings than this is boilerplate
_TEST_SHARE = 5  # one passage in five may become a test row
_WORD = re.compile(r"\w+")


@dataclass
class Row:
    """One distinct passage; `groups` are the docstrings that contain it."""

    text: str
    groups: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


def build(
    packages: Sequence[str] = CORE_PACKAGES,
    *,
    cache: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Dataset, Dataset]:
    """Return the docstring corpus as a train and a test part.

    The first call imports all public modules of the packages and takes several seconds; later calls read the corpus
    from the user's cache folder. The same installed versions give the same corpus, except for functions that other
    imported packages have replaced.

    Parameters
    ----------
    packages
        Names of packages as imported; ``"stdlib"`` is the standard library.
    cache
        Whether to use and keep the file in the cache folder.
    progress
        Called with (modules read, all modules) while docstrings are read.

    Returns
    -------
    train, test
        Datasets with texts, labels, groups and a common vocabulary; about one passage in five is a test row.
    """
    if isinstance(packages, str) or not packages:
        raise InputError("packages must be a list with at least one package name", given=repr(packages))
    for name in packages:
        if name != STDLIB and (not name.isidentifier() or util.find_spec(name) is None):
            raise InputError(f"package {name!r} must be installed", hint=f"Install it, or use {STDLIB!r}.")
    file = _cache_file(packages)
    rows = _load(file) if cache else None
    if rows is None:
        rows = make_rows(*read_docstrings(packages, progress))
        if cache:
            _store(file, rows)
    return _split(rows)


def make_rows(docstrings: Sequence[Docstring], best_names: Mapping[str, str]) -> list[Row]:
    """Return the distinct passages with the labels of every docstring that contains them."""
    find = _Finder(docstrings, best_names).find
    rows: dict[str, Row] = {}
    for entry in docstrings:
        texts, see_also = cut(entry.text)
        related = filter(None, (find(reference, entry) for reference in see_also))
        labels = [entry.name, entry.parent, entry.module, *related]
        for text in texts:
            masked = _mask_name(text, entry.name)
            row = rows.setdefault(" ".join(_WORD.findall(masked.casefold())), Row(masked))
            row.labels = list(dict.fromkeys([*row.labels, *labels]))
            row.groups = list(dict.fromkeys([*row.groups, entry.name]))
    return [row for key, row in rows.items() if key and len(row.groups) <= _MAX_DOCSTRINGS]


def _mask_name(text: str, name: str) -> str:
    """Replace an object's own name by ``_``, so that a passage does not contain its label.

    A name that is also an English word is replaced only where it is code: called, or after a dot.

    Examples
    --------
    >>> _mask_name("savgol_filter smooths x: y = savgol_filter(x, 5, 2)", "scipy.signal.savgol_filter")
    '_ smooths x: y = _(x, 5, 2)'
    >>> _mask_name("The sum of the elements: np.sum(x)", "numpy.sum")
    'The sum of the elements: _(x)'
    """
    own = name.rpartition(".")[2]
    if own not in text:
        return text
    word = own.isalpha() and (own.islower() or own.istitle())
    prefix = r"(?:\b[A-Za-z_]\w*\.)+"
    pattern = rf"{prefix}{own}\b|\b{own}(?=\()" if word else rf"(?:{prefix})?\b{own}\b"
    return re.sub(pattern, "_", text)


class _Finder:
    """Finds the object that a "See Also" entry refers to."""

    def __init__(self, docstrings: Iterable[Docstring], best_names: Mapping[str, str]) -> None:
        self._names = {**best_names, **{entry.name: entry.name for entry in docstrings}}
        by_end: dict[tuple[str, str], set[str]] = {}
        for name, best in self._names.items():
            by_end.setdefault((name.split(".")[0], name.rpartition(".")[2]), set()).add(best)
        self._by_end = {key: next(iter(names)) for key, names in by_end.items() if len(names) == 1}

    def find(self, reference: str, entry: Docstring) -> str | None:
        """Return the name of the object, searched near `entry` first, or None."""
        if reference.startswith("np."):
            reference = f"numpy.{reference[3:]}"
        parts = entry.module.split(".")
        modules = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
        for scope in [entry.name, entry.parent, *modules]:
            if f"{scope}.{reference}" in self._names:
                return self._names[f"{scope}.{reference}"]
        return self._names.get(reference) or self._by_end.get((parts[0], reference))


def _split(rows: Sequence[Row]) -> tuple[Dataset, Dataset]:
    """Return the train and the test part; a row that is the only one left of a label stays in the train part."""
    left = Counter(label for row in rows for label in row.labels)
    test = np.zeros(len(rows), dtype=np.bool_)
    for place, row in enumerate(rows):
        digest = hashlib.blake2b(row.text.encode(errors="replace"), digest_size=8).digest()
        if int.from_bytes(digest) % _TEST_SHARE == 0 and all(left[label] > 1 for label in row.labels):
            test[place] = True
            left.subtract(row.labels)
    ids = {name: label for label, name in enumerate(sorted(left))}
    whole = Dataset(
        [[ids[label] for label in row.labels] for row in rows],
        LabelVocab.from_names(list(ids)),
        texts=[row.text for row in rows],
        groups=[row.groups[0] for row in rows],
    )
    return whole.rows(~test), whole.rows(test)


def _cache_file(packages: Sequence[str]) -> Path:
    """Return the file for the installed versions of the packages, in the user's cache folder."""
    owners = metadata.packages_distributions()
    versions = [
        (name, sys.version if name == STDLIB else [metadata.version(owner) for owner in owners.get(name, [])])
        for name in sorted(set(packages))
    ]
    key = hashlib.sha256(json.dumps([_FORMAT, versions]).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "tagwood" / f"docstrings-{key}.json.gz"


def _load(file: Path) -> list[Row] | None:
    """Return the rows of the cache file, or None where there is none or it is damaged."""
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        return [Row(text, groups, labels) for text, groups, labels in content]
    except (OSError, EOFError, ValueError, TypeError, zlib.error):
        return None


def _store(file: Path, rows: Sequence[Row]) -> None:
    """Write the cache file; a folder that cannot be written is not an error."""
    content = json.dumps([(row.text, row.groups, row.labels) for row in rows]).encode()
    with suppress(OSError, StorageError):
        write_file(file, gzip.compress(content, compresslevel=3, mtime=0))
