"""Docstrings of compiled objects, which no source file holds: `str.split`, `math.sqrt`, `numpy.sin`.

In: package names. Out: public name -> docstring. Only modules that Python, NumPy or SciPy load anyway are
looked at.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from types import ModuleType

from tagwood.data.pydocs.sources import STDLIB

_MODULES = {
    STDLIB: (
        *(
            "builtins",
            "itertools",
            "math",
            "cmath",
            "time",
            "collections",
            "functools",
            "io",
            "struct",
            "array",
        ),
        *("bisect", "heapq", "operator", "zlib", "binascii", "select", "sys", "gc", "os", "random", "re"),
    ),
    "numpy": ("numpy", "numpy.random", "numpy.linalg", "numpy.fft", "numpy.strings"),
    "scipy": ("scipy.special", "scipy.spatial"),
}


def compiled_docs(packages: Sequence[str]) -> dict[str, str]:
    """Return the docstrings of public compiled functions, classes and methods by public name.

    Examples
    --------
    >>> docs = compiled_docs(["stdlib"])
    >>> docs["math.sqrt"]
    'Return the square root of x.'
    """
    docs: dict[str, str] = {}
    for package in packages:
        for name in _MODULES.get(package, ()):
            module = importlib.import_module(name)
            prefix = "" if name == "builtins" else f"{name}."
            for key, doc in _public_docs(module):
                docs.setdefault(prefix + key, doc)
    return docs


def _public_docs(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or inspect.isfunction(value) or inspect.ismodule(value):
            continue
        if getattr(value, "__name__", name) in vars(module).keys() - {name}:
            continue  # a second name of the same thing, as numpy.acos is of numpy.arccos
        doc = _own_doc(value)
        if doc:
            yield name, doc
        if isinstance(value, type):
            for key, member in sorted(vars(value).items()):
                member_doc = None if key.startswith("_") or inspect.isfunction(member) else _own_doc(member)
                if member_doc:
                    yield f"{name}.{key}", member_doc


def _own_doc(value: object) -> str | None:
    """Return the docstring of a callable or attribute itself, not the one it shows because of its type."""
    doc = getattr(value, "__doc__", None)
    if not isinstance(doc, str) or not (callable(value) or inspect.isdatadescriptor(value)):
        return None
    return None if not isinstance(value, type) and doc == type(value).__doc__ else inspect.cleandoc(doc)
