"""From docstrings to rows: one row per distinct passage, with its labels and its group.

In: public name -> docstring. Out: `Row`s in a fixed order, and their split into train and test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from tagwood.data.pydocs.compiled import compiled_docs
from tagwood.data.pydocs.modules import Module, read_module
from tagwood.data.pydocs.names import is_public, public_names
from tagwood.data.pydocs.passages import cut
from tagwood.data.pydocs.sources import find_sources

_WORD = re.compile(r"\w+")
_MAX_HOMES = 4  # a passage in more docstrings than this is boilerplate and tells nothing
_TEST_SHARE = 5  # one passage in five is a candidate for the test part


@dataclass
class Entry:
    """One documented object."""

    name: str
    home: str  # the class of a method, else the module
    module: str
    doc: str


@dataclass
class Row:
    """One distinct passage; `group` is the first docstring it stands in, `homes` counts them."""

    text: str
    group: str
    labels: list[str]
    homes: int = field(default=1)


def read_entries(
    packages: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> tuple[list[Entry], dict[str, str]]:
    """Return the documented public objects sorted by name, and other public name -> name.

    `progress` is told (files done, files in all).
    """
    sources = find_sources(packages)
    modules: dict[str, Module] = {}
    for done, source in enumerate(sources, start=1):
        text = source.path.read_bytes().decode(errors="replace")
        module = read_module(text, source.module, is_package=source.is_package)
        if module is not None:
            modules[source.module] = module
        if progress is not None:
            progress(done, len(sources))
    names, aliases = public_names(modules)
    entries = {entry.name: entry for entry in _source_entries(modules, names)}
    for name, doc in compiled_docs(packages).items():
        if name not in entries and name not in aliases:
            entries[name] = _compiled_entry(name, doc, entries.keys() | modules.keys())
    return [entries[name] for name in sorted(entries)], aliases


def make_rows(entries: Iterable[Entry], aliases: Mapping[str, str]) -> list[Row]:
    """Return the distinct passages with the labels of every docstring they stand in."""
    known = list(entries)
    finder = _Finder(known, aliases)
    rows: dict[str, Row] = {}
    for entry in known:
        texts, see_also = cut(entry.doc)
        found = (finder.find(reference, entry) for reference in see_also)
        labels = dict.fromkeys([entry.name, entry.home, entry.module, *filter(None, found)])
        for text in texts:
            masked = mask_name(text, entry.name)
            key = " ".join(_WORD.findall(masked.casefold()))
            row = rows.setdefault(key, Row(masked, entry.name, [], 0))
            row.labels = list(dict.fromkeys([*row.labels, *labels]))
            row.homes += row.group != entry.name or not row.homes
    return [row for key, row in rows.items() if key and row.homes <= _MAX_HOMES]


def mask_name(text: str, name: str) -> str:
    """Replace an object's own name by ``_``, so that a passage does not simply say its label.

    A name that is also an English word is replaced only where it is code: called, or after a dot.

    Examples
    --------
    >>> mask_name("savgol_filter smooths x: y = savgol_filter(x, 5, 2)", "scipy.signal.savgol_filter")
    '_ smooths x: y = _(x, 5, 2)'
    >>> mask_name("The sum of the elements: np.sum(x)", "numpy.sum")
    'The sum of the elements: _(x)'
    """
    own = name.rpartition(".")[2]
    if own not in text:
        return text
    word = own.isalpha() and (own.islower() or own.istitle())
    prefix = r"(?:\b[A-Za-z_]\w*\.)+"
    pattern = rf"{prefix}{own}\b|\b{own}(?=\()" if word else rf"(?:{prefix})?\b{own}\b"
    return re.sub(pattern, "_", text)


def choose_test(rows: Sequence[Row]) -> list[bool]:
    """Tell for each row whether it is a test row: about one in five, by the hash of its text.

    No label is left without a training row, so single passages always train. As rows are distinct, no text
    stands on both sides.
    """
    left = Counter(label for row in rows for label in row.labels)
    chosen = []
    for row in rows:
        digest = blake2b(row.text.encode(errors="replace"), digest_size=8).digest()
        test = int.from_bytes(digest) % _TEST_SHARE == 0 and all(left[label] > 1 for label in row.labels)
        if test:
            left.subtract(row.labels)
        chosen.append(test)
    return chosen


def _source_entries(modules: Mapping[str, Module], names: Mapping[tuple[str, str], str]) -> Iterator[Entry]:
    for module in modules.values():
        if module.doc and is_public(module.name):
            yield Entry(module.name, module.name, module.name, module.doc)
        for inner, doc in module.docs.items():
            owner, _, method = inner.partition(".")
            public = names.get((module.name, owner))
            if public is not None:
                home = public.rpartition(".")[0]
                yield (
                    Entry(f"{public}.{method}", public, home, doc)
                    if method
                    else Entry(public, home, home, doc)
                )


def _compiled_entry(name: str, doc: str, known: Iterable[str]) -> Entry:
    home = name.rpartition(".")[0]
    if not home:
        return Entry(name, "builtins", "builtins", doc)
    # "numpy.ndarray.sort" and "str.split" stand in classes, "numpy.random.choice" in a module.
    if name.count(".") == 1 and home not in known:
        return Entry(name, home, "builtins", doc)
    last = home.rpartition(".")[2]
    in_class = home not in known or last[:1].isupper() or home in _TYPES
    return Entry(name, home, home.rpartition(".")[0] if in_class and "." in home else home, doc)


_TYPES = {
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.generic",
    "numpy.flatiter",
    "numpy.nditer",
    "numpy.broadcast",
}


class _Finder:
    """Finds the object that a "See Also" entry means."""

    def __init__(self, entries: Iterable[Entry], aliases: Mapping[str, str]) -> None:
        self._names = dict(aliases) | {entry.name: entry.name for entry in entries}
        by_end: dict[tuple[str, str], set[str]] = {}
        for name, target in self._names.items():
            by_end.setdefault((name.split(".")[0], name.rpartition(".")[2]), set()).add(target)
        self._by_end = {key: next(iter(targets)) for key, targets in by_end.items() if len(targets) == 1}

    def find(self, reference: str, entry: Entry) -> str | None:
        """Return the name of the object, looked for near `entry` first, or None."""
        if reference.startswith("np."):
            reference = f"numpy.{reference[3:]}"
        scopes = [entry.name, entry.home]
        parts = entry.module.split(".")
        scopes += [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
        for scope in [*scopes, ""]:
            found = self._names.get(f"{scope}.{reference}" if scope else reference)
            if found is not None:
                return found
        return self._by_end.get((parts[0], reference)) if "." not in reference else None
