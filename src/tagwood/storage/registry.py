"""Which class a stored kind belongs to.

Classes register themselves with `@storable`. `load` has to work before their module was imported, so a fixed
table names the module of every kind in the package; nothing is ever imported by a name that comes from a
file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, Self, TypeVar

from tagwood.errors import InputError
from tagwood.storage.state import State, check_name


class Storable(Protocol):
    """What a class needs in order to be saved and loaded."""

    def state(self) -> State:
        """Return everything needed to rebuild this object; arrays may be shared, they are not changed."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the object; arrays are read-only maps of a file, and must be checked (`State.array`)."""
        ...


_Class = TypeVar("_Class", bound=type[Storable])

# kind -> module that registers it. One line for each storable class of the package.
MODULES: Final[dict[str, str]] = {
    "Calibrator": "tagwood.probabilities.calibration",
    "Centroids": "tagwood.models.neighbours",
    "ConcatEncoder": "tagwood.features.concat",
    "Disentangled": "tagwood.models.disentangled.model",
    "Ensemble": "tagwood.models.ensemble.model",
    "LabelIndex": "tagwood.neural.prime.label_index",
    "LinearTree": "tagwood.models.linear_tree.model",
    "MimlNetwork": "tagwood.neural.miml.model",
    "Neighbours": "tagwood.models.neighbours",
    "SetGenerator": "tagwood.neural.otseq2set.model",
    "PrototypeClassifiers": "tagwood.neural.prime.classifiers",
    "PrototypeModel": "tagwood.neural.prime.model",
    "SetRule": "tagwood.probabilities.sets",
    "SoftmaxTree": "tagwood.models.softmax_tree.model",
    "Tagger": "tagwood.tagger.tagger",
    "TextEncoder": "tagwood.neural.encoders.text_encoder",
    "TfidfEncoder": "tagwood.features.tfidf",
}

_classes: dict[str, type[Storable]] = {}


def storable(kind: str) -> Callable[[_Class], _Class]:
    """Register the decorated class as the one that stored models of `kind` are loaded into.

    Classes outside the package may register too; their module has to be imported before `load`.

    Examples
    --------
    >>> @storable("RegistryExample")
    ... class Example:
    ...     def state(self):
    ...         return State("RegistryExample")
    ...     @classmethod
    ...     def from_state(cls, state):
    ...         return cls()
    >>> type(restore(State("RegistryExample"))).__name__
    'Example'
    """
    check_name(kind, "the kind of a storable class")

    def register(cls: _Class) -> _Class:
        known = _classes.get(kind)
        # The same class again is a module that was reloaded; another class would take over stored models.
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InputError(
                f"kind '{kind}' must belong to one class",
                given=f"{cls.__module__}.{cls.__qualname__} besides {known.__module__}.{known.__qualname__}",
            )
        _classes[kind] = cls
        return cls

    return register


def class_of(kind: str) -> type[Storable] | None:
    """Return the class registered for `kind`, importing its module if need be; None if unknown."""
    if kind not in _classes and kind in MODULES:
        import_module(MODULES[kind])
    return _classes.get(kind)


def restore(state: State) -> Any:
    """Rebuild the object of a state: what a container calls for parts whose class it does not know."""
    cls = class_of(state.kind)
    if cls is None:
        raise InputError(
            "a stored model must be of a kind this tagwood knows",
            given=repr(state.kind),
            hint="Upgrade tagwood, or import the module that defines the class before you load.",
        )
    return cls.from_state(state)
