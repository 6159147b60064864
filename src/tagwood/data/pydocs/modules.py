"""Read one module by `ast`: what it documents, what it imports, what it exports. Nothing is executed.

In: source text. Out: a `Module`. Names inside a module are "function", "Class" or "Class.method".
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field


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
