"""scikit-learn's parameter contract without importing scikit-learn (which takes a second)."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tagwood._check import check_choice


class Params:
    """Constructor arguments, stored under their own names, can be read, changed and cloned.

    Examples
    --------
    >>> class Model(Params):
    ...     def __init__(self, width=10):
    ...         self.width = width
    >>> Model().set_params(width=5).get_params()
    {'width': 5}
    >>> Model(width=3)
    Model(width=3)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor arguments by name; `deep` is accepted for scikit-learn's sake."""
        names = list(inspect.signature(type(self)).parameters)
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments; fitted state stays until the next `fit`."""
        known = list(self.get_params())
        for name, value in params.items():
            setattr(self, check_choice(name, f"a parameter of {type(self).__name__}", known), value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        # By their texts: values read from a file are equal to the defaults, not the same objects.
        given = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default)]
        return f"{type(self).__name__}({', '.join(given)})"
