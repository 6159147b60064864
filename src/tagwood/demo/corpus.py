"""From docstrings to rows: one row per distinct passage, with its labels and its group.

In: public name -> docstring. Out: `Row`s in a fixed order, and their split into train and test.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tagwood.demo.modules import Module, compiled_docs, find_sources, read_module

# SECTION data.pydocs.names
# Public names: from where an object is defined to the name users import it by.
#
# In: the modules of some packages. Out: for every documented public object its best public name, and every
# other public name it can be reached by. `scipy.signal._savitzky_golay.savgol_filter` ->
# `scipy.signal.savgol_filter`.


Definition = tuple[str, str]  # (module, name inside the module)


def is_public(module: str) -> bool:
    """Tell whether no part of a dotted name starts with an underscore."""
    return not any(part.startswith("_") for part in module.split("."))


def public_names(modules: Mapping[str, Module]) -> tuple[dict[Definition, str], dict[str, str]]:
    """Return definition -> best public name, and every known public name -> best public name.

    Functions and classes only; a method is named after its class. The best name keeps the defined name,
    stands in a package around the defining module, is short, and comes first in the alphabet, in this order.
    """
    scope = _Scope(modules)
    candidates: dict[Definition, list[str]] = {}
    for module in sorted(modules):
        if is_public(module):
            for name in scope.exported(module):
                found = None if name.startswith("_") else scope.resolve(module, name)
                if found is not None:
                    candidates.setdefault(found, []).append(f"{module}.{name}")
    for definition in _unexported(scope, modules):
        if definition not in candidates:
            candidates[definition] = [f"{_public_parent(definition[0])}.{definition[1]}"]
    best: dict[Definition, str] = {}
    aliases: dict[str, str] = {}
    for definition, names in candidates.items():
        best[definition] = min(names, key=lambda name: _rank(name, definition))
        aliases.update(dict.fromkeys(names, best[definition]))
    return best, aliases


class _Scope:
    """Follows imports through modules; every answer is remembered."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules
        self._exported: dict[str, list[str]] = {}
        self._resolved: dict[Definition, Definition | None] = {}

    def exported(self, name: str) -> list[str]:
        """Return the names a module offers: its `__all__`, or what it defines and, in a package, imports."""
        if name not in self._exported:
            self._exported[name] = []  # a circle of star imports ends here
            module = self._modules[name]
            closed = module.exports and not module.computed
            names = module.exports if closed else [*module.exports, *self._offered(module)]
            self._exported[name] = list(dict.fromkeys(names))
        return self._exported[name]

    def resolve(self, module: str, name: str) -> Definition | None:
        """Return where `name`, seen from `module`, is defined and documented, or None."""
        key = (module, name)
        if key not in self._resolved:
            self._resolved[key] = None
            self._resolved[key] = self._look_up(module, name)
        return self._resolved[key]

    def _offered(self, module: Module) -> Iterator[str]:
        yield from (name for name in module.docs if "." not in name)
        yield from module.instances
        if module.is_package or module.computed:
            top = _top(module.name)
            yield from (name for name, (origin, _) in module.imports.items() if _top(origin) == top)
        for star in module.stars:
            if star in self._modules:
                yield from self.exported(star)

    def _look_up(self, module_name: str, name: str) -> Definition | None:
        module = self._modules.get(module_name)
        if module is None:
            return None
        if name in module.docs:
            return module_name, name
        if name in module.imports:
            origin, original = module.imports[name]
            return self.resolve(origin, original) if original else None
        if name in module.instances:
            return self.resolve(module_name, module.instances[name])
        for star in module.stars:
            found = self.resolve(star, name)
            if found is not None:
                return found
        return self._look_below(module, name) if module.is_package and name in module.exports else None

    def _look_below(self, package: Module, name: str) -> Definition | None:
        """Return the one submodule that documents a name which the package exports but loads lazily."""
        below = f"{package.name}."
        homes = [
            home for home, module in self._modules.items() if home.startswith(below) and name in module.docs
        ]
        return (homes[0], name) if len(homes) == 1 else None


def _unexported(scope: _Scope, modules: Mapping[str, Module]) -> Iterator[Definition]:
    """Yield what private modules declare as public, for packages that take it over at run time."""
    for name in sorted(modules):
        module = modules[name]
        if not is_public(name) and "." in name and not name.startswith("_"):
            declares = module.exports or module.computed or name.endswith("_add_newdocs")
            for export in scope.exported(name) if declares else []:
                found = None if export.startswith("_") else scope.resolve(name, export)
                if found is not None and not is_public(found[0]) and _top(found[0]) == _top(name):
                    yield found


def _top(module: str) -> str:
    return module.partition(".")[0]


def _public_parent(module: str) -> str:
    parts = module.split(".")
    first = next(place for place, part in enumerate(parts) if part.startswith("_"))
    return ".".join(parts[:first])


def _rank(name: str, definition: Definition) -> tuple[bool, bool, int, str]:
    home, _, last = name.rpartition(".")
    module, defined = definition
    # SciPy documents the distribution `norm` in its class `norm_gen`.
    renamed = last != defined.removesuffix("_gen")
    return renamed, not f"{module}.".startswith(f"{home}."), name.count("."), name


# SECTION data.pydocs.passages
# Cut a docstring into passages: summary, paragraphs, one per parameter and return value, notes, examples.
#
# In: a docstring (numpydoc sections or plain text). Out: the passages as plain text, and the names of its "See
# Also" section, which are labels and therefore not text.


_ITEM_SECTIONS = {
    *("parameters", "other parameters", "returns", "yields", "receives", "raises", "warns", "attributes"),
    *("methods", "arguments", "keyword arguments"),
}
_DROPPED_SECTIONS = {"references", "see also", "references and notes"}
_MAX_WORDS = 150
_MIN_WORDS = 5
_UNDERLINE = re.compile(r"^\s*([-=~^])\1{2,}\s*$")
_ROLE = re.compile(r":[a-z:]+:`~?([^`<]*?)(?:\s*<[^`>]*>)?`")
_CITATION = re.compile(r"\s*\[[A-Za-z0-9]+\]_")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)( -+> .*)?$")
_FIELD = re.compile(r"^(:\w+|- |\* |\d+[.)] )")
_TEMPLATE = re.compile(r"%\(\w+\)s")


class Passages(NamedTuple):
    """What a docstring says, and what it points to."""

    texts: list[str]
    see_also: list[str]


def cut(docstring: str) -> Passages:
    r"""Return the passages of a docstring and the names in its "See Also" section.

    Examples
    --------
    >>> doc = '''Smooth a series.
    ...
    ... Parameters
    ... ----------
    ... width : int
    ...     How many numbers to take.
    ...
    ... See Also
    ... --------
    ... sharpen : The opposite.
    ... '''
    >>> cut(doc)
    Passages(texts=['Smooth a series.', 'width : int How many numbers to take.'], see_also=['sharpen'])
    """
    texts: list[str] = []
    see_also: list[str] = []
    for title, lines in _sections(inspect.cleandoc(docstring)):
        if title == "see also":
            see_also += _names(lines)
        elif title not in _DROPPED_SECTIONS:
            if title in _ITEM_SECTIONS:
                blocks = _items(lines)
            else:
                blocks = _examples(lines) if title.startswith("example") else _paragraphs(lines)
            texts += [text for text in map(_clean, blocks) if _tells(text, summary=not texts)]
    return Passages(texts, list(dict.fromkeys(see_also)))


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (title in lower case, lines); the first section has no title."""
    title, lines = "", list[str]()
    for line in docstring.splitlines():
        if _UNDERLINE.match(line) and lines and lines[-1].strip():
            head = lines.pop()
            yield title, lines
            title, lines = head.strip().rstrip(":").lower(), []
        elif not _UNDERLINE.match(line):
            lines.append(line)
    yield title, lines


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the blocks between blank lines; list entries and fields start blocks, directives are left out."""
    block: list[str] = []
    directive = False
    for line in [*lines, ""]:
        text = line.strip()
        if text.startswith(".. ") or (directive and text and line[0] == " "):
            directive, text = True, ""
        elif text:
            directive = False
        if not text or (block and _FIELD.match(text)):
            if block:
                yield block
            block = []
        if text:
            block.append(text)


def _items(lines: list[str]) -> Iterator[list[str]]:
    """Yield one block per entry of a parameter list: an entry starts without indent."""
    block: list[str] = []
    for line in lines:
        if line.strip() and line[0] != " " and block:
            yield block
            block = []
        if line.strip() and not line.strip().startswith(".. "):
            block.append(line.strip())
    if block:
        yield block


def _examples(lines: list[str]) -> Iterator[list[str]]:
    """Yield blocks of prose with the code below it; what the code prints is left out."""
    block: list[str] = []
    printed = in_prose = False
    for line in lines:
        text = line.strip()
        if text.startswith((">>> ", "... ")):
            block.append(text[4:])
            printed, in_prose = True, False
        elif not text:
            printed = in_prose = False
        elif not printed and not text.startswith(".. "):
            if block and not in_prose:
                yield block
                block = []
            block.append(text)
            in_prose = True
    if block:
        yield block


def _names(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() and line[0] != " ":
            for part in re.split(r"\s:(?:\s|$)", _ROLE.sub(r"\1", line), maxsplit=1)[0].split(","):
                name = part.strip().strip("`~.")
                if _NAME.fullmatch(name):
                    yield name


def _clean(block: list[str]) -> str:
    """Return a block as one line of plain text, without reStructuredText marks."""
    if block and _SIGNATURE.match(block[0]):
        block = block[1:]
    if any(line.startswith(">>> ") for line in block):
        block = [line[4:] for line in block if line.startswith((">>> ", "... "))]
    text = _CITATION.sub("", _ROLE.sub(r"\1", " ".join(block)))
    return " ".join(text.replace("`", "").replace("**", "").replace("::", ":").split()[:_MAX_WORDS])


def _tells(text: str, *, summary: bool) -> bool:
    words = [word for word in text.split() if any(map(str.isalpha, word))]
    return len(words) >= (3 if summary else _MIN_WORDS) and not _TEMPLATE.search(text)


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


# SECTION data.pydocs.cache
# Keep the rows of the corpus on disk.
#
# In and out: `Row`s. A file that cannot be trusted counts as missing.


FORMAT = 1  # raise it whenever the same sources would give other rows


def default_folder() -> Path:
    """Return tagwood's folder in the place where this system keeps what can be made again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tagwood"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tagwood"


def file_for(folder: Path, versions: Mapping[str, str]) -> Path:
    """Return the cache file of these package versions."""
    key = json.dumps([FORMAT, sorted(versions.items())])
    return folder / f"pydocs-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json.gz"


def load(file: Path) -> list[Row] | None:
    """Return the stored rows, or None if there is no file or it is damaged."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            content = json.load(stream)
        rows = [Row(text, group, labels) for text, group, labels in content["rows"]]
        return rows if content["sha256"] == _digest(rows) else None
    except (OSError, EOFError, ValueError, TypeError, KeyError, LookupError):
        return None


def store(file: Path, rows: Sequence[Row]) -> None:
    """Write the rows to a temporary file and rename it; a folder that cannot be written is no error."""
    content = {"sha256": _digest(rows), "rows": [(row.text, row.group, row.labels) for row in rows]}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(gzip.compress(json.dumps(content).encode(), compresslevel=3, mtime=0))
            Path(temporary).replace(file)
        finally:
            Path(temporary).unlink(missing_ok=True)


def _digest(rows: Sequence[Row]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update("\x1f".join([row.text, row.group, *row.labels, ""]).encode(errors="surrogatepass"))
    return digest.hexdigest()
