"""Read the docstrings of installed packages and cut them into passages.

In: package names. Out: one `Docstring` for each documented public object, under the name users import it by
(`scipy.signal.savgol_filter`, not `scipy.signal._savitzky_golay.savgol_filter`), and the passages of a docstring.
"""

from __future__ import annotations

import builtins
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

STDLIB = "stdlib"

_SKIPPED = {
    *("conftest", "externals", "test", "testing", "tests", "distutils", "f2py", "matlib", "core"),
    *("antigravity", "encodings", "ensurepip", "genericpath", "idlelib", "lib2to3", "ntpath", "nturl2path"),
    *(
        "posix",
        "posixpath",
        "pydoc_data",
        "readline",
        "rlcompleter",
        "site",
        "this",
        "tkinter",
        "turtle",
        "turtledemo",
    ),
}
_REPLACEABLE = ("hook", "showwarning")  # ends of names that programs assign their own functions to
_ITEM_SECTIONS = {
    *("parameters", "other parameters", "returns", "yields", "receives", "raises", "warns", "attributes"),
    *("methods", "arguments", "keyword arguments"),
}
_DROPPED_SECTIONS = {"references", "references and notes"}
_MAX_WORDS = 150
_MIN_WORDS = 5
_UNDERLINE = re.compile(r"^\s*([-=~^])\1{2,}\s*$")
_ROLE = re.compile(r":[a-z:]+:`~?([^`<]*?)(?:\s*<[^`>]*>)?`")
_CITATION = re.compile(r"\s*\[[A-Za-z0-9]+\]_")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)( -+> .*)?$")
_LIST_ITEM = re.compile(r"^(:\w+|- |\* |\d+[.)] )")


class Docstring(NamedTuple):
    """The docstring of one public object; `parent` is the class of a method, otherwise the module."""

    name: str
    parent: str
    module: str
    text: str


class Passages(NamedTuple):
    """The texts of a docstring, and the names in its "See Also" section."""

    texts: list[str]
    see_also: list[str]


def read_docstrings(
    packages: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> tuple[list[Docstring], dict[str, str]]:
    """Return the docstrings sorted by name, and a dictionary from every public name to the best one.

    The best name of an object keeps the name of its definition, is in a package around the defining module, is short,
    and comes first in the alphabet, in this order of importance. `progress` is called with (modules read, modules).
    """
    objects: dict[int, tuple[Any, list[str]]] = {}
    found: dict[str, Docstring] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated modules and names
        modules = module_names(packages)
        for done, name in enumerate(modules, start=1):
            module = _import(name)
            if module is not None and module.__doc__:
                found[name] = Docstring(name, name, name, module.__doc__)
            for key, value in _public_values(module):
                public = key if name == "builtins" else f"{name}.{key}"
                objects.setdefault(id(value), (value, []))[1].append(public)
            if progress is not None:
                progress(done, len(modules))
    best_names: dict[str, str] = {}
    for value, names in objects.values():
        best = min(names, key=lambda name: _preference(name, value))
        best_names.update(dict.fromkeys(names, best))
        found.update((entry.name, entry) for entry in _docstrings_of(value, best))
    return [found[name] for name in sorted(found)], best_names


def module_names(packages: Sequence[str]) -> list[str]:
    """Return the public modules of the packages, sorted; tests and vendored copies are left out."""
    names: set[str] = set()
    for package in packages:
        if package != STDLIB:
            names.update(_with_submodules(package))
            continue
        for name in sys.stdlib_module_names:
            if _is_public(name):
                names.update(_with_submodules(name))
        names.add("os.path")
    return sorted(names)


def _with_submodules(name: str) -> Iterator[str]:
    yield name
    for found in pkgutil.iter_modules(getattr(_import(name), "__path__", []), f"{name}."):
        if _is_public(found.name.rpartition(".")[2]):
            yield from _with_submodules(found.name) if found.ispkg else [found.name]


def _is_public(name: str) -> bool:
    return not name.startswith("_") and name not in _SKIPPED


def _import(name: str) -> Any:
    """Return a module, or None where it needs another system or a package that is not installed."""
    try:
        return import_module(name)
    except Exception:  # whatever foreign code raises on import
        return None


def _public_values(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the documented objects of `__all__`, or those that the module itself defines."""
    listed = getattr(module, "__all__", vars(module) if module is builtins else None)
    for name in sorted(vars(module) if listed is None else set(listed)) if module else []:
        value = getattr(module, name, None)
        foreign = listed is None and getattr(value, "__module__", None) != module.__name__
        skipped = name.startswith("_") or name.endswith(_REPLACEABLE) or inspect.ismodule(value)
        if not (foreign or skipped) and _own_text(value):
            yield name, value


def _preference(name: str, value: Any) -> tuple[bool, bool, int, str]:
    parent, _, last = name.rpartition(".")
    renamed = last != getattr(value, "__name__", last)
    outside = parent != "" and not f"{getattr(value, '__module__', '')}.".startswith(f"{parent}.")
    return renamed, outside, name.count("."), name


def _docstrings_of(value: Any, name: str) -> Iterator[Docstring]:
    """Yield the docstring of an object and, of a class, those of its own public members."""
    module = name.rpartition(".")[0] or "builtins"
    yield Docstring(name, module, module, _own_text(value))
    for key, member in vars(value).items() if isinstance(value, type) else []:
        if not key.startswith("_") and not isinstance(member, type) and (text := _own_text(member)):
            yield Docstring(f"{name}.{key}", name, module, text)


def _own_text(value: Any) -> str:
    """Return the docstring of a callable or attribute itself, not the one that it inherits from its type."""
    text = getattr(value, "__doc__", None)
    if not isinstance(text, str) or not (callable(value) or hasattr(type(value), "__get__")):
        return ""
    return "" if not isinstance(value, type) and text == type(value).__doc__ else text


def cut(docstring: str) -> Passages:
    r"""Return the passages of a docstring: paragraphs, one per parameter or return value, and examples.

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
            for text in map(_clean, blocks):
                n_words = sum(any(map(str.isalpha, word)) for word in text.split())
                if n_words >= (_MIN_WORDS if texts else 3):  # a summary may be shorter
                    texts.append(text)
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
    """Yield the blocks between blank lines; list items start a block, directives are left out."""
    block: list[str] = []
    directive = False
    for line in [*lines, ""]:
        text = line.strip()
        if text.startswith(".. ") or (directive and text and line[0] == " "):
            directive, text = True, ""
        elif text:
            directive = False
        if not text or (block and _LIST_ITEM.match(text)):
            if block:
                yield block
            block = []
        if text:
            block.append(text)


def _items(lines: list[str]) -> Iterator[list[str]]:
    """Yield one block per entry of a parameter list; an entry starts without indent."""
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
    """Yield blocks of prose with the code below it, without the code's output."""
    block: list[str] = []
    output = in_prose = False
    for line in lines:
        text = line.strip()
        if text.startswith((">>> ", "... ")):
            block.append(text[4:])
            output, in_prose = True, False
        elif not text:
            output = in_prose = False
        elif not output and not text.startswith(".. "):
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
    """Return a block as one line of plain text, without signature and reStructuredText markup."""
    if block and _SIGNATURE.match(block[0]):
        block = block[1:]
    if any(line.startswith(">>> ") for line in block):
        block = [line[4:] for line in block if line.startswith((">>> ", "... "))]
    text = _CITATION.sub("", _ROLE.sub(r"\1", " ".join(block)))
    return " ".join(text.replace("`", "").replace("**", "").replace("::", ":").split()[:_MAX_WORDS])
