"""Input validation and the parameter contract of scikit-learn.

Checks run where values enter the package; functions inside it trust their arguments. A violation raises `InputError`
with what was expected, what was given and what to do.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError, NotFittedError

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
BYTES = {"b": 1.0, "kb": 1e3, "k": 1e3, "mb": 1e6, "m": 1e6, "gb": 1e9, "g": 1e9, "tb": 1e12}
BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def check_int(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as an int within [low, high], or raise `InputError`.

    Examples
    --------
    >>> check_int(3, "k", low=1)
    3
    """
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if ok and (low is None or value >= low) and (high is None or value <= high):
        return int(value)
    raise InputError(f"{name} must be a whole number{_range_words(low, high)}", given=repr(value))


def check_float(
    value: Any, name: str, *, low: float | None = None, high: float | None = None, above: float | None = None
) -> float:
    """Return `value` as a finite float within [low, high] and greater than `above`, or raise `InputError`."""
    ok = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if ok:
        number = _as_float(value)
        if (
            math.isfinite(number)
            and (low is None or number >= low)
            and (high is None or number <= high)
            and (above is None or number > above)
        ):
            return number
    words = f" greater than {above}" if above is not None else _range_words(low, high)
    raise InputError(f"{name} must be a number{words}", given=repr(value))


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number that no float holds
        return math.inf


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise raise `InputError` with the nearest one.

    Examples
    --------
    >>> check_choice("beem", "search", ["beam", "exact"])
    Traceback (most recent call last):
    tagwood.errors.InputError: search must be one of 'beam', 'exact'; got 'beem'. Did you mean 'beam'?
    """
    known = list(choices)
    if isinstance(value, str) and value in known:
        return value
    near = get_close_matches(value, known, n=1) if isinstance(value, str) else []
    raise InputError(
        f"{name} must be one of {', '.join(map(repr, known))}",
        given=repr(value),
        hint=f"Did you mean {near[0]!r}?" if near else None,
    )


def name_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest known name, or all of them.

    Examples
    --------
    >>> name_hint("hidde", ["hidden", "steps"]), name_hint("x", ["hidden", "steps"])
    ("Did you mean 'hidden'?", 'Known: hidden, steps.')
    """
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."


def check_threads(threads: int | None) -> int:
    """Return the number of threads to use; None means every core this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_int(threads, "threads", low=1, high=1024)


def as_list(values: Any, name: str) -> list[Any]:
    """Return a column of values as a list of Python values: lists, arrays, and series of pandas, Polars and Arrow.

    These packages are not imported: their series have ``to_pylist``, ``to_list`` or ``tolist``. Tables are refused.

    Examples
    --------
    >>> as_list(np.array([1, 2]), "ids")
    [1, 2]
    >>> as_list({"a": [1]}, "texts")
    Traceback (most recent call last):
    tagwood.errors.InputError: texts must be one column; got a dict with the columns 'a'. Pass one of them: table['a'].
    """
    columns = getattr(values, "columns", None)
    names = list(values) if isinstance(values, Mapping) else getattr(values, "column_names", columns)
    if names is not None:
        known = [str(column) for column in names]
        raise InputError(
            f"{name} must be one column",
            given=f"a {type(values).__name__} with the columns {', '.join(map(repr, known[:6]))}",
            hint=f"Pass one of them: table[{known[0]!r}]." if known else None,
        )
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        given = "a single text" if isinstance(values, str | bytes) else type(values).__name__
        raise InputError(f"{name} must be one entry per row", given=given, hint="Wrap it in a list.")
    for method in ("to_pylist", "to_list", "tolist"):
        convert = getattr(values, method, None)
        if callable(convert):
            found = convert()
            if not isinstance(found, list):  # an array without dimensions
                raise InputError(f"{name} must be one entry per row", given=repr(found)[:60], hint="Wrap it in a list.")
            return found
    return list(values)


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for a missing one: None, NaN, or the missing value of pandas."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


# What drops missing values, and what replaces them: the methods of columns, by package.
_MISSING = {
    "pandas": ("dropna()", "fillna({})"),
    "polars": ("drop_nulls()", "fill_null({})"),
    "pyarrow": ("drop_null()", "fill_null({})"),
}


def missing_hint(column: Any, name: str, filler: str | None = None) -> str:
    """Return how to drop the missing values of a column, or to replace them by `filler`, in the words of its package.

    Examples
    --------
    >>> missing_hint([None], "texts", "''")
    "Replace missing ones by ''."
    """
    calls = _MISSING.get(type(column).__module__.partition(".")[0])
    if filler is None:
        return "Leave missing ones out." if calls is None else f"Leave missing ones out: {name}.{calls[0]}."
    found = "" if calls is None else f": {name}.{calls[1].format(filler)}"
    return f"Replace missing ones by {filler}{found}."


def check_finite(values: NDArray[Any], name: str) -> None:
    """Raise `InputError` if `values` holds NaN or infinity."""
    # One pass over the sum settles the usual case.
    if values.size and not np.isfinite(values.sum(dtype=np.float64)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"{name} must hold finite numbers",
                given=f"{values.ravel()[bad[0]]} ({bad.size:,} such values)",
                hint="Replace or drop them.",
            )


def is_pointer(ptr: NDArray[Any], n_items: int, size: int, smallest: int = 0) -> bool:
    """Return whether `ptr` has the ``n_items + 1`` borders of items of at least `smallest`: from 0 to `size`, rising.

    Differences of stored numbers are taken only after they are known to rise: those of forged ones wrap around.

    Examples
    --------
    >>> is_pointer(np.array([0, 2, 2, 5]), 3, 5), is_pointer(np.array([0, 2**63 - 1, -2, 5]), 3, 5)
    (True, False)
    """
    if ptr.ndim != 1 or ptr.size != n_items + 1 or ptr[0] != 0 or ptr[-1] != size or np.any(ptr[1:] < ptr[:-1]):
        return False
    return smallest == 0 or bool(np.all(np.diff(ptr) >= smallest))


def check_stored_finite(values: NDArray[Any], name: str) -> None:
    """Raise `InputError` if a stored array holds NaN or infinity.

    Arrays above 64 MiB stay unread, since loading must not take seconds; what is computed from them is checked.
    """
    if values.nbytes <= 64 << 20:
        with np.errstate(all="ignore"):
            check_finite(values, name)


def _range_words(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return "" if high is None else f" of at most {high}"


class Params:
    """Constructor arguments, stored under their own names, can be read, changed and cloned.

    This is the parameter contract of scikit-learn, without its import time. Parameters of a parameter have nested
    names: ``base__C`` is the `C` of the model passed as `base`, ``solver__tolerance`` a field of the dataclass passed
    as `solver`.

    Examples
    --------
    >>> class Model(Params):
    ...     def __init__(self, size=10, base=None):
    ...         self.size = size
    ...         self.base = base
    >>> Model().set_params(size=5)
    Model(size=5)
    >>> Model(base=Model()).set_params(base__size=3).get_params()
    {'size': 10, 'base': Model(size=3), 'base__size': 3, 'base__base': None}
    """

    # What a parameter of None stands for, by name: its own parameters can then be set by their nested names.
    _defaults: ClassVar[Mapping[str, Callable[[], Any]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor arguments by name; with `deep` also those of arguments that have parameters."""
        params = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep:
            for name in list(params):
                params |= {f"{name}__{inner}": v for inner, v in _inner_params(self._part(name)).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments, also nested ones; fitted state stays until the next `fit`."""
        known = list(self.get_params(deep=False))
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            check_choice(name, f"a parameter of {type(self).__name__}", known)
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, inner_params in nested.items():
            setattr(self, name, _with_params(self._part(name), inner_params, name))
        return self

    def _part(self, name: str) -> Any:
        value = getattr(self, name)
        return self._defaults[name]() if value is None and name in self._defaults else value

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        # By their texts: values read from a file are equal to the defaults, not the same objects.
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"


def use_threads(part: Any, threads: int) -> None:
    """Let an object with parameters, and all such objects that it consists of, use a number of threads from now on.

    Examples
    --------
    >>> class Model(Params):
    ...     def __init__(self, threads=None, parts=()):
    ...         self.threads = threads
    ...         self.parts = parts
    >>> model = Model(parts=[("first", Model())])
    >>> use_threads(model, 2)
    >>> model
    Model(threads=2, parts=[('first', Model(threads=2))])
    """
    if isinstance(part, list | tuple):
        for one in part if part and not isinstance(part[-1], str) else ():
            use_threads(one, threads)
    elif hasattr(part, "get_params") and not isinstance(part, type):
        if hasattr(part, "threads"):
            part.threads = threads
        for one in vars(part).values():
            use_threads(one, threads)


def _inner_params(value: Any) -> dict[str, Any]:
    if isinstance(value, type):
        return {}
    if hasattr(value, "get_params"):
        params: dict[str, Any] = value.get_params()
        return params
    return {field.name: getattr(value, field.name) for field in fields(value)} if is_dataclass(value) else {}


def _with_params(value: Any, params: dict[str, Any], name: str) -> Any:
    """Return a part with changed parameters: itself, or a changed copy of a dataclass with settings."""
    if hasattr(value, "set_params"):
        return value.set_params(**params)
    if is_dataclass(value) and not isinstance(value, type):
        known = [field.name for field in fields(value)]
        for key in params:
            check_choice(key, f"a setting of {name}", known)
        return replace(value, **params)
    raise InputError(
        f"{name}__{next(iter(params))} must belong to a part with parameters",
        given=f"{name}={value!r}"[:80],
        hint=f"Pass an object as {name} first.",
    )


class Fitted(Params):
    """Parameters, and the check that `fit` came first."""

    _learned = "n_labels_"  # an attribute that exists once `fit` has run

    def _check_fitted(self) -> None:
        if not hasattr(self, self._learned):
            raise NotFittedError(
                f"this {type(self).__name__} must be fitted first",
                hint="Call fit(X, y), or load a saved model.",
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._learned)


def parse_quantity(text: str, name: str, units: dict[str, float], plain: str) -> float:
    """Return a quantity in bytes or seconds; a number without unit is in `plain`.

    Examples
    --------
    >>> parse_quantity("2.5GB", "--max-ram", BYTES, "mb"), parse_quantity("5", "--max-latency", SECONDS, "ms")
    (2500000000.0, 0.005)
    """
    match = _QUANTITY.fullmatch(text)
    unit = (match[2].lower() or plain) if match else ""
    if match is None or unit not in units or float(match[1]) <= 0:
        known = "500MB or 4GB" if units is BYTES else "2ms or 500us" if plain == "ms" else "90s or 10m"
        raise InputError(f"{name} must be a number above 0 with a unit, such as {known}", given=repr(text[:40]))
    return float(match[1]) * units[unit]


def show_amount(size: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> show_amount(2.34e9), show_amount(51e6), show_amount(800)
    ('2.3 GB', '51 MB', '0.8 kB')
    """
    return _scaled(size, {"GB": 1e9, "MB": 1e6, "kB": 1e3})


def show_time(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> show_time(150), show_time(4.2), show_time(0.0042), show_time(42e-6)
    ('2.5 min', '4.2 s', '4.2 ms', '42 µs')
    """
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    return _scaled(seconds, {"min": 60.0} if seconds >= 120 else units)


def _scaled(amount: float, units: dict[str, float]) -> str:
    """Return an amount in the largest of the units that is not above it, or in the last one."""
    unit = next((unit for unit, scale in units.items() if amount >= scale), list(units)[-1])
    value = amount / units[unit]
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
