"""Kinds of models by name, as recipes and `tagwood train --model` know them; each is imported when it is asked for.

In: a name. Out: a class, and the arguments that the name stands for. A new kind is one more line in `MODELS`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tagwood.errors import InputError


@dataclass(frozen=True)
class Kind:
    """Where the class of a model is, ``"module:class"``, and which of its arguments the kind fixes."""

    home: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        """Import and return the class; `MissingExtraError` names what is not installed."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)

    def describes(self, model: object) -> bool:
        """Whether a model is of this kind; imports nothing."""
        own = type(model)
        if f"{own.__module__}:{own.__qualname__}" != self.home:
            return False
        return all(getattr(model, name, None) == value for name, value in self.fixed.items())

    def parameters(self) -> list[str]:
        """Return the names of the arguments that are free."""
        return [name for name in inspect.signature(self.load()).parameters if name not in self.fixed]


_PROTOTYPE = "tagwood.neural.prototype:PrototypeModel"

# Value of ``kind`` in [model] -> what it stands for; the first one is the default.
MODELS: dict[str, Kind] = {
    "linear-tree": Kind("tagwood.models.linear_tree:LinearTree"),
    "softmax-tree": Kind("tagwood.models.softmax_tree:SoftmaxTree"),
    "prime": Kind(_PROTOTYPE, {"preset": "prime"}),
    "prime-lite": Kind(_PROTOTYPE, {"preset": "prime-lite"}),
    "dual-encoder": Kind(_PROTOTYPE, {"preset": "dual-encoder"}),
    "ngame": Kind(_PROTOTYPE, {"preset": "ngame"}),
}
LIGHT = ("linear-tree", "softmax-tree")  # whose settings are known without importing torch


def with_parts(cls: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which tables have become the dataclasses that the class takes under these names.

    Examples
    --------
    >>> @dataclass
    ... class Pace:
    ...     steps: int = 10
    >>> class Walker:
    ...     def __init__(self, pace: Pace | None = None) -> None: ...
    >>> Walker.__init__.__annotations__["pace"] = Pace | None
    >>> with_parts(Walker, {"pace": {"steps": 3}})
    {'pace': Pace(steps=3)}
    """
    found = dict(values)
    for name, value in values.items():
        if not isinstance(value, Mapping):
            continue
        part = _dataclass_of(typing.get_type_hints(cls.__init__).get(name))
        if part is None:
            raise InputError(f"{name} must be a single value", given="a table of settings")
        known = [one.name for one in dataclasses.fields(part)]
        for key in value:
            if key not in known:
                raise InputError(
                    f"{name} must be given only its own settings",
                    given=repr(key),
                    hint=f"Known: {', '.join(known)}.",
                )
        found[name] = part(**value)
    return found


def plain_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which dataclasses have become tables: the way back of `with_parts`."""
    return {
        name: dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
        for name, value in values.items()
    }


def _dataclass_of(hint: Any) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((one for one in options if dataclasses.is_dataclass(one)), None)
