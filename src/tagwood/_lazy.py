"""Modules that take long to import, imported when something in them is first used.

``from tagwood._lazy import sparse`` stands for ``from scipy import sparse``, which imports most of NumPy and takes a
third of the time of ``tagwood predict MODEL TEXT``; one text is answered without it. A package whose ``__getattr__`` is
made by `lazy_names` imports a module of its own when one of its names is first used.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import sparse
else:

    class _Sparse:
        """`scipy.sparse`, imported with the first attribute."""

        def __getattr__(self, name: str) -> Any:
            from scipy import sparse as module

            value = getattr(module, name)
            setattr(self, name, value)
            return value

    sparse = _Sparse()


def lazy_names(package: str, **modules: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: for each of its modules, the names that are taken from it."""
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find


__all__ = ["lazy_names", "sparse"]
