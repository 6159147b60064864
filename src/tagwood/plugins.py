"""Models, encoders and tree builders of other packages, found by their entry points.

In: a kind (``"models"``, ``"encoders"``, ``"trees"``) and a name. Out: what the installed package registers under the
entry point group ``tagwood.models``, ``tagwood.encoders`` or ``tagwood.trees``. Recipes, the command line, storage and
`LinearTree` look here for names that tagwood does not define itself; a package is imported only when its name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagwood.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugin_names(kind: str) -> list[str]:
    """Return the registered names of a kind."""
    return sorted({point.name for point in _points(kind)})


def load_plugin(kind: str, name: str) -> Any:
    """Import and return what is registered under a name; `InputError` if that fails or there is none."""
    point = next((one for one in _points(kind) if one.name == name), None)
    if point is None:
        known = ", ".join(plugin_names(kind)) or "none"
        raise InputError(f"no installed package registers {name!r} in tagwood.{kind}", hint=f"Known: {known}.")
    return _load(point)


def plugin_class(class_name: str) -> type | None:
    """Return the registered model or encoder class of this name, which stored models carry; None if there is none."""
    for kind in ("models", "encoders"):
        for point in _points(kind):
            if point.attr == class_name:
                found: type = _load(point)
                return found
    return None


def plugin_name(kind: str, cls: type) -> str | None:
    """Return the name under which a class is registered; nothing is imported."""
    place = cls.__module__, cls.__qualname__
    return next((point.name for point in _points(kind) if (point.module, point.attr) == place), None)


def _points(kind: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow to import, and needed for names that are not known only

    return tuple(entry_points(group=f"tagwood.{kind}"))


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever the other package raises
        raise InputError(
            f"{point.value}, registered as {point.name!r} in {point.group}, must be importable",
            given=f"{type(error).__name__}: {error}",
        ) from error
