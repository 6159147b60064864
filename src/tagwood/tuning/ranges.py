r"""Ranges: which settings of a recipe a search may change, and between which values.

In: TOML with the sections and keys of a recipe; a list holds choices, ``{low, high}`` a span (whole numbers if both
ends are), with ``log = true`` or a ``step`` if wanted. Out: `Ranges`, checked against the recipe.

Examples
--------
>>> ranges = parse_ranges("[model]\ncost = {low = 0.1, high = 10, log = true}\nlink = ['l2-hinge', 'l3-hinge']")
>>> list(ranges.of), ranges.of["model.link"].values
(['model.cost', 'model.link'], ('l2-hinge', 'l3-hinge'))
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tagwood.errors import InputError
from tagwood.recipe import Recipe

# What is left out is left out on purpose: n_trees (more are always a little better and cost as much again),
# character n-grams (many times slower on long texts; put them into a file of ranges for short ones).
DEFAULT_RANGES = """\
[features]
ngrams = [[1, 1], [1, 2], [1, 3]]
min_df = {low = 1, high = 5}
sublinear_tf = [true, false]

[tree]
arity = [2, 8, 16, 32, 64, 128]
max_leaf_size = {low = 25, high = 400, log = true}
lam = [0.0, 0.25, 0.5, 1.0]

[model]
cost = {low = 0.1, high = 10.0, log = true}
link = ["l1-hinge", "l2-hinge", "l3-hinge", "l4-hinge", "sigmoid"]
tail = {low = 0.0, high = 1.0, step = 0.25}
negatives = ["teacher", "teacher+matcher"]
"""
_SPAN_KEYS = {"low", "high", "step", "log"}


@dataclass(frozen=True)
class Choice:
    """A few values to choose from, of any type that TOML has."""

    values: tuple[Any, ...]

    def ends(self) -> tuple[Any, ...]:
        """Return the values whose validity speaks for all."""
        return self.values


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`; whole ones if both ends are. `log` draws evenly in the logarithm."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def ends(self) -> tuple[Any, ...]:
        """Return the values whose validity speaks for all."""
        return self.low, self.high


@dataclass(frozen=True)
class Ranges:
    """Ranges by the name of their setting, such as ``"tree.arity"``, and the TOML text they came from."""

    of: Mapping[str, Choice | Span]
    text: str

    def __iter__(self) -> Iterator[str]:
        return iter(self.of)

    def check(self, recipe: Recipe) -> None:
        """Raise `InputError` for a setting that recipes do not have, or a value that it cannot take."""
        for name, values in self.of.items():
            for value in values.ends():
                try:
                    with_settings(recipe, {name: value}).tagger()
                except InputError as error:
                    raise InputError(
                        f"the range of {name}: {error.expected}", given=error.given, hint=error.hint
                    ) from error


def default_ranges() -> Ranges:
    """Return the ranges that are searched if none are named."""
    return parse_ranges(DEFAULT_RANGES)


def read_ranges(path: str | Path) -> Ranges:
    """Read ranges from a TOML file; only the settings it names are changed by a search."""
    try:
        return parse_ranges(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text", given=str(error.reason)) from error
    except InputError as error:
        raise InputError(f"{path}: {error.expected}", given=error.given, hint=error.hint) from error


def parse_ranges(text: str) -> Ranges:
    """Return the ranges of a TOML text."""
    try:
        sections = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("ranges must be valid TOML", given=str(error)) from error
    Recipe({name: dict.fromkeys(keys) if isinstance(keys, dict) else keys for name, keys in sections.items()})
    ranges = {
        f"{section}.{key}": _range(f"{section}.{key}", value)
        for section, keys in sections.items()
        for key, value in keys.items()
    }
    if not ranges:
        raise InputError("ranges must name one setting or more", given="none", hint="See docs/commands.md.")
    return Ranges(ranges, text)


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe with values by name, such as ``{"tree.arity": 8}``."""
    # JSON numbers, strings, booleans and lists of them are TOML too.
    return recipe.override([f"{name}={json.dumps(value)}" for name, value in settings.items()])


def _range(name: str, value: Any) -> Choice | Span:
    if isinstance(value, list) and value:
        return Choice(tuple(value))
    if isinstance(value, dict) and {"low", "high"} <= value.keys() <= _SPAN_KEYS:
        return _span(name, value)
    raise InputError(
        f"the range of {name} must be a list of values or a table with low and high (and log or step)",
        given=repr(value)[:60],
        hint="For example: [1, 2, 4], or {low = 0.1, high = 10, log = true}",
    )


def _span(name: str, value: dict[str, Any]) -> Span:
    low, high, step, log = (value.get(key) for key in ("low", "high", "step", "log"))
    numbers = [low, high, *([] if step is None else [step])]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise InputError(f"low, high and step of {name} must be numbers", given=repr(value)[:80])
    if not isinstance(log, bool | None):
        raise InputError(f"log of {name} must be true or false", given=repr(log))
    span = Span(low, high, step, bool(log))  # type: ignore[arg-type]
    if not span.low < span.high:
        raise InputError(f"low of {name} must be below high", given=f"{low} and {high}")
    if span.log and (span.low <= 0 or step is not None):
        raise InputError(
            f"a logarithmic range such as that of {name} must be above 0 and without step",
            given=repr(value)[:80],
        )
    if step is not None and (step <= 0 or (span.whole and not isinstance(step, int))):
        raise InputError(
            f"step of {name} must be above 0, and whole where low and high are", given=repr(step)
        )
    return span
