"""Modules that take long to import, imported when something in them is first used.

``from tagwood._lazy import sparse`` stands for ``from scipy import sparse``, which imports most of NumPy and takes a
third of the time of ``tagwood predict MODEL TEXT``; one text is answered without it.
"""

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

__all__ = ["sparse"]
