"""Read one module by `ast`: what it documents, what it imports, what it exports. Nothing is executed.

In: source text. Out: a `Module`. Names inside a module are "function", "Class" or "Class.method".
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tagwood.errors import InputError

# SECTION data.pydocs.sources
# Find the source files of the standard library and of installed packages, without importing any of them.
#
# In: package names. Out: (module name, file) pairs in a fixed order, and the versions that key the cache.


STDLIB = "stdlib"
CORE_PACKAGES = (STDLIB, "numpy", "scipy", "sklearn")
"""What every installation of tagwood has; the demo uses these so that it shows the same everywhere."""

KNOWN_PACKAGES = (
    *CORE_PACKAGES,
    *("joblib", "pandas", "networkx", "matplotlib", "statsmodels", "skimage", "xarray", "polars", "sympy"),
)
"""What `build` takes by default where it is installed."""

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "skimage": "scikit-image"}
_SKIPPED_FOLDERS = {
    *("test", "tests", "testing", "conftest", "__pycache__", "site-packages", "dist-packages", "externals"),
    *(
        "idlelib",
        "lib2to3",
        "turtledemo",
        "ensurepip",
        "distutils",
        "encodings",
        "pydoc_data",
        "array_api_compat",
    ),
    *("array_api_extra", "_examples", "f2py", "_pyinstaller", "_vendored", "msilib", "benchmarks"),
}
_SKIPPED_MODULES = {"this", "antigravity", "setup", "conftest", "ntpath", "nturl2path", "numpy.matlib"}
# Python twins of compiled modules, and modules that users know by another name.
_RENAMED = {
    "posixpath": "os.path",
    "_collections_abc": "collections.abc",
    "_pydecimal": "decimal",
    "_pydatetime": "datetime",
    "_pyio": "io",
}


class Source(NamedTuple):
    """One module's file."""

    module: str
    path: Path
    is_package: bool


def installed(packages: Sequence[str] | None) -> list[str]:
    """Return the packages to read: those asked for, or every known one that is installed."""
    if packages is None:
        return [name for name in KNOWN_PACKAGES if _root(name) is not None]
    if isinstance(packages, str) or not packages:
        raise InputError("packages must be a list with at least one package name", given=repr(packages))
    for name in packages:
        if _root(name) is None:
            raise InputError(
                f"package {name!r} must be installed as Python source",
                hint=f"Install it, or choose among {', '.join(installed(None))}.",
            )
    return sorted(set(packages), key=lambda name: (name not in KNOWN_PACKAGES, name))


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the version of each package; the texts depend on nothing else."""
    found = {}
    for name in packages:
        try:
            found[name] = sys.version if name == STDLIB else metadata.version(_DISTRIBUTIONS.get(name, name))
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def find_sources(packages: Sequence[str]) -> list[Source]:
    """Return the modules of all packages, sorted by name; tests and vendored copies are left out."""
    found: dict[str, Source] = {}
    for name in packages:
        root = _root(name)
        assert root is not None
        for source in _walk(root, "" if name == STDLIB else name):
            if source.module in _RENAMED:
                source = source._replace(module=_RENAMED[source.module], is_package=False)
                found[source.module] = source
            else:
                found.setdefault(source.module, source)
    return [found[module] for module in sorted(found)]


def _root(name: str) -> Path | None:
    if name == STDLIB:
        return Path(sysconfig.get_path("stdlib"))
    try:
        spec = util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _walk(root: Path, prefix: str) -> Iterator[Source]:
    if root.is_file():
        yield Source(prefix, root, is_package=False)
        return
    own = root / "__init__.py"
    if prefix and own.is_file():
        yield Source(prefix, own, is_package=True)
    for entry in sorted(root.iterdir()):
        name = f"{prefix}.{entry.stem}" if prefix else entry.stem
        if entry.is_dir():
            if entry.name not in _SKIPPED_FOLDERS and (entry / "__init__.py").is_file():
                yield from _walk(entry, name)
        elif entry.suffix == ".py" and entry.stem.isidentifier() and not _is_skipped(name, entry.stem):
            yield Source(name, entry, is_package=False)


def _is_skipped(module: str, stem: str) -> bool:
    return stem == "__init__" or module in _SKIPPED_MODULES or stem in _SKIPPED_FOLDERS


# SECTION data.pydocs.compiled
# Docstrings of compiled objects, which no source file holds: `str.split`, `math.sqrt`, `numpy.sin`.
#
# In: package names. Out: public name -> docstring. Only modules that Python, NumPy or SciPy load anyway are
# looked at.


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


@dataclass
class Module:
    """The documented objects and the name bindings of one module.

    Parameters
    ----------
    name
        Dotted module name.
    is_package
        True for an ``__init__.py``.
    doc
        The module's docstring or None.
    docs
        Docstrings by name inside the module.
    imports
        Local name -> (module, name there); an imported module has "" as name.
    stars
        Modules of ``from m import *``.
    exports
        The literal entries of ``__all__``.
    computed
        True if ``__all__`` is, at least in part, not a literal list; then every name may be exported.
    instances
        Name -> name of the class or object it is made from: ``norm = norm_gen(...)``, ``abs = absolute``.
    """

    name: str
    is_package: bool
    doc: str | None = None
    docs: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    computed: bool = False
    instances: dict[str, str] = field(default_factory=dict)


def read_module(source: str, name: str, *, is_package: bool = False) -> Module | None:
    r"""Return what `source` binds and documents, or None if it is not valid Python.

    Examples
    --------
    >>> module = read_module("from ._b import g\ndef f():\n    'Do it.'", "a", is_package=True)
    >>> module.docs, module.imports
    ({'f': 'Do it.'}, {'g': ('a._b', 'g')})
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's docstrings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    module = Module(name, is_package, ast.get_docstring(tree))
    for node in _statements(tree.body):
        _read_statement(node, module)
    return module


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those under if, try and with."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)


def _read_statement(node: ast.stmt, module: Module) -> None:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            _read_definition(node, module)
        case ast.ImportFrom():
            _read_import(node, module)
        case ast.Import():
            for alias in node.names:
                if alias.asname:
                    module.imports.setdefault(alias.asname, (alias.name, ""))
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.AugAssign(target=ast.Name(id="__all__")):
            _add_exports(node.value, module)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=maker))):
            module.instances.setdefault(name, maker)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
            module.instances.setdefault(name, other)
        case ast.Expr(value=ast.Call() as call):
            _read_call(call, module)


def _read_definition(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, module: Module) -> None:
    doc = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                child_doc = ast.get_docstring(child) or ""
                if child.name == "__init__":
                    doc = f"{doc}\n\n{child_doc}".strip()
                elif child_doc and not child.name.startswith("_"):
                    module.docs.setdefault(f"{node.name}.{child.name}", child_doc)
    if doc:
        module.docs.setdefault(node.name, doc)


def _read_import(node: ast.ImportFrom, module: Module) -> None:
    origin = node.module or ""
    if node.level:
        parts = module.name.split(".")
        parts = parts[: len(parts) - node.level + module.is_package]
        origin = ".".join([*parts, origin]) if origin else ".".join(parts)
    for alias in node.names:
        if alias.name == "*":
            module.stars.append(origin)
        else:
            module.imports.setdefault(alias.asname or alias.name, (origin, alias.name))


def _read_call(call: ast.Call, module: Module) -> None:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="__all__"), attr="extend" | "append"), args=[value]
        ):
            _add_exports(value, module)
        case ast.Call(
            func=ast.Name(id="add_newdoc"),
            args=[ast.Constant(value=str(name)), ast.Constant(value=str(doc))],
        ):
            # SciPy's way to document compiled functions: add_newdoc("erf", "...").
            module.docs.setdefault(name, doc)


def _add_exports(value: ast.expr, module: Module) -> None:
    items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            module.exports.append(item.value)
        else:
            module.computed = True
