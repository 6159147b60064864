"""Kinds of models by name, as recipes and `tagwood train --model` know them; each is imported when it is asked for.

In: a name. Out: a class, and the arguments that the name stands for. A new kind is one more line in `MODELS`.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tagwood._check import name_hint
from tagwood._params import Params
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
_SETS = "tagwood.neural.set_generator:SetGenerator"

# Value of ``kind`` in [model] -> what it stands for; the first one is the default.
MODELS: dict[str, Kind] = {
    "linear-tree": Kind("tagwood.models.linear_tree:LinearTree"),
    "softmax-tree": Kind("tagwood.models.softmax_tree:SoftmaxTree"),
    "prime": Kind(_PROTOTYPE, {"preset": "prime"}),
    "prime-lite": Kind(_PROTOTYPE, {"preset": "prime-lite"}),
    "dual-encoder": Kind(_PROTOTYPE, {"preset": "dual-encoder"}),
    "ngame": Kind(_PROTOTYPE, {"preset": "ngame"}),
    "otseq2set": Kind(_SETS, {"kind": "otseq2set"}),
    "seq2seq": Kind(_SETS, {"kind": "seq2seq"}),
    "mlc2seq": Kind(_SETS, {"kind": "mlc2seq"}),
    "sgm": Kind(_SETS, {"kind": "sgm"}),
}
LIGHT = ("linear-tree", "softmax-tree")  # whose settings are known without importing torch


def with_parts(kind: Kind, values: Mapping[str, Any]) -> Any:
    """Return a model of a kind; tables among the arguments change parts of it, such as its `Training`.

    A table changes the part that the model would have without it; one for an encoder is all that the encoder is given.
    """
    cls = kind.load()
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    model = cls(**{**kind.fixed, **{name: value for name, value in values.items() if name not in tables}})
    if not tables:
        return model
    settle = getattr(model, "_settings", None)
    hints = typing.get_type_hints(cls.__init__)
    for name, table in tables.items():
        part = getattr(model, name)
        if part is None and settle is not None:
            part = getattr(settle(), name, None)
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            _known_keys(name, table, [one.name for one in dataclasses.fields(part)])
            setattr(model, name, dataclasses.replace(part, **table))
            continue
        encoder = next((one for one in typing.get_args(hints.get(name)) if _takes_params(one)), None)
        if encoder is None:
            raise InputError(f"{name} must be a single value", given="a table of settings")
        _known_keys(name, table, list(inspect.signature(encoder).parameters))
        setattr(model, name, encoder(**table))
    return model


def plain_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which parts have become tables: the way back of `with_parts`.

    Examples
    --------
    >>> plain_parts({"kind": Kind("a:B"), "seed": 3})
    {'kind': {'home': 'a:B', 'fixed': {}}, 'seed': 3}
    """
    found = dict(values)
    for name, value in values.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found[name] = dataclasses.asdict(value)
        elif isinstance(value, Params):
            found[name] = value.get_params()
    return found


def _takes_params(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Params)


def _known_keys(name: str, table: Mapping[str, Any], known: list[str]) -> None:
    for key in table:
        if key not in known:
            raise InputError(
                f"{name} must be given only its own settings",
                given=repr(key),
                hint=name_hint(key, known),
            )
