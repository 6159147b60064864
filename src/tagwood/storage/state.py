"""`State`: the stored form of a model: a kind, plain parameters, arrays and nested states.

Models convert themselves to a `State` (`state()`) and back (`from_state()`); the rest of `storage` writes and reads
it. `pack_strings` turns lists of strings into arrays.

A class registers the kind that it is stored as with `@storable`. `load` has to find it before its module is imported:
`MODULES` names the modules of the package, and installed packages name theirs by entry points (see `tagwood.plugins`).
Nothing is imported by a name that comes from a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tagwood._check import is_pointer
from tagwood.errors import InputError
from tagwood.plugins import plugin_class

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "uint8", "int8", "uint16", "int16", "float16",
        "uint32", "int32", "float32", "uint64", "int64", "float64",
    )
}  # fmt: skip
MAX_DEPTH = 16
_MAX_INT_BITS = 1024


@dataclass(frozen=True, eq=False)
class State:
    """The stored form of one model, or of one part of a model.

    Parameters
    ----------
    kind
        Name under which the class was registered with `storable`. Parts without a class of their own may use any
        name of letters, digits and underscores.
    params
        JSON values by name: None, bool, int, finite float, str, lists and dicts of them. NumPy scalars become
        Python numbers and tuples become lists.
    arrays
        Arrays of bool, int8 to int64, uint8 to uint64, float16 to float64, by name.
    parts
        Nested states by name, such as the members of an ensemble.

    Examples
    --------
    >>> state = State("Mean", params={"bias": 0.5}, arrays={"weights": np.zeros(3, dtype=np.float32)})
    >>> state.param("bias", float), state.array("weights", np.float32, (None,)).size
    (0.5, 3)
    """

    kind: str
    params: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.kind, "the kind of a state")
        object.__setattr__(self, "params", plain_json(self.params, f"params of {self.kind}"))
        for name, array in self.arrays.items():
            check_name(name, f"the name of an array of {self.kind}")
            if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
                raise InputError(
                    f"array '{name}' of {self.kind} must be a NumPy array of bool, ints or floats",
                    given=f"dtype {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__,
                    hint="Store texts with pack_strings and small values in params.",
                )
        for name, part in self.parts.items():
            check_name(name, f"the name of a part of {self.kind}")
            if not isinstance(part, State):
                raise InputError(
                    f"part '{name}' of {self.kind} must be a State",
                    given=type(part).__name__,
                    hint="Call its state() method.",
                )
        _check_depth(self, MAX_DEPTH)

    def param(self, name: str, *types: type) -> Any:
        """Return parameter `name` if it is of one of the `types` (an int is accepted as float)."""
        if name not in self.params:
            raise InputError(f"{self.kind} needs the parameter '{name}'")
        value = self.params[name]
        if type(value) is int and float in types and int not in types:
            return float(value)
        if type(value) not in types:
            wanted = " or ".join(kind.__name__ for kind in types)
            raise InputError(f"parameter '{name}' of {self.kind} must be {wanted}", given=repr(value))
        return value

    def array(self, name: str, dtype: DTypeLike, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
        """Return array `name` if it has this dtype and shape; None in `shape` means any size."""
        if name not in self.arrays:
            raise InputError(f"{self.kind} needs the array '{name}'")
        array = self.arrays[name]
        fits = shape is None or (
            array.ndim == len(shape)
            and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
        )
        if array.dtype != np.dtype(dtype) or not fits:
            sizes = "any shape" if shape is None else f"shape {str(shape).replace('None', 'any')}"
            raise InputError(
                f"array '{name}' of {self.kind} must be {np.dtype(dtype)} of {sizes}",
                given=f"{array.dtype} of shape {array.shape}",
            )
        return array

    def part(self, name: str) -> State:
        """Return the nested state `name`."""
        if name not in self.parts:
            raise InputError(f"{self.kind} needs the part '{name}'")
        return self.parts[name]


def check_name(value: Any, what: str) -> None:
    """Raise `InputError` unless `value` is 1 to 64 letters, digits and underscores."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InputError(f"{what} must be 1 to 64 letters, digits and underscores", given=repr(value))


def plain_json(value: Any, what: str, depth: int = MAX_DEPTH) -> Any:
    """Return `value` as plain JSON values, or raise `InputError` for other values."""
    if depth == 0:
        raise InputError(f"{what} must be nested at most {MAX_DEPTH} deep")
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_INT_BITS:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and _is_utf8(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain_json(item, f"{what}[{place}]", depth - 1) for place, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) and _is_utf8(key) for key in value):
        return {key: plain_json(item, f"{what}['{key}']", depth - 1) for key, item in value.items()}
    raise InputError(
        f"{what} must be None, bool, a finite number, valid text, or a list or dict (with str keys) of them",
        given=repr(value)[:80],
        hint="Put arrays into State.arrays and nested models into State.parts.",
    )


def _is_utf8(text: str) -> bool:
    # Lone surrogates, left by broken file names and decoders, cannot be written as UTF-8.
    return not any("\ud800" <= letter <= "\udfff" for letter in text) if not text.isascii() else True


def _check_depth(state: State, depth: int) -> None:
    if depth == 0:
        raise InputError(f"parts of a state must be nested at most {MAX_DEPTH} deep")
    for part in state.parts.values():
        _check_depth(part, depth - 1)


def pack_strings(strings: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pack strings into one array of UTF-8 bytes and the (n + 1,) offsets of their borders."""
    encoded = [_encode(place, text) for place, text in enumerate(strings)]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def check_packed(blob: NDArray[Any], offsets: NDArray[Any]) -> None:
    """Raise `InputError` unless the arrays have the form that `pack_strings` returns."""
    if blob.dtype != np.uint8 or blob.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise InputError(
            "packed strings must be a flat uint8 blob and flat int64 offsets",
            given=f"{blob.dtype} of shape {blob.shape} and {offsets.dtype} of shape {offsets.shape}",
        )
    if not offsets.size or not is_pointer(offsets, offsets.size - 1, blob.size):
        raise InputError(f"offsets of packed strings must rise from 0 to the size {blob.size:,}")


def unpack_strings(blob: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    """Return the strings packed by `pack_strings`; raise `InputError` for other arrays."""
    check_packed(blob, offsets)
    raw, borders = blob.tobytes(), offsets.tolist()
    try:
        if raw.isascii():  # bytes and characters have the same positions: decode once
            text = raw.decode("ascii")
            return [text[begin:end] for begin, end in pairwise(borders)]
        return [raw[begin:end].decode("utf-8") for begin, end in pairwise(borders)]
    except UnicodeDecodeError as error:
        raise InputError("packed strings must be valid UTF-8", given=str(error)) from error


def _encode(place: int, text: str) -> bytes:
    if not isinstance(text, str):
        raise InputError("pack_strings takes strings", given=f"{type(text).__name__} at place {place}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            "strings to store must be valid text",
            given=f"{text[:40]!r} at place {place}",
            hint="It contains a lone surrogate; read the file again with the right encoding.",
        ) from error


class Storable(Protocol):
    """What a class needs in order to be saved and loaded."""

    def state(self) -> State:
        """Return everything needed to rebuild this object; arrays are not copied or changed."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the object; arrays are read-only maps of a file, and must be checked (`State.array`)."""
        ...


_Class = TypeVar("_Class", bound=type[Storable])

# kind -> module that registers it. One line for each storable class of the package.
MODULES: Final[dict[str, str]] = {
    "Calibrator": "tagwood.probabilities.calibration",
    "Centroids": "tagwood.models.centroids",
    "ConcatEncoder": "tagwood.features.concat",
    "Disentangled": "tagwood.models.disentangled",
    "Ensemble": "tagwood.models.ensemble.model",
    "LabelIndex": "tagwood.neural.prime.label_index",
    "FeatureTagger": "tagwood.tagger.features",
    "LinearTree": "tagwood.models.linear_tree.model",
    "MimlNetwork": "tagwood.neural.miml",
    "NameMatcher": "tagwood.models.name_matcher",
    "Neighbours": "tagwood.models.neighbours",
    "SetGenerator": "tagwood.neural.otseq2set.model",
    "PrototypeClassifiers": "tagwood.neural.prime.classifiers",
    "PrototypeModel": "tagwood.neural.prime.model",
    "Shard": "tagwood.storage.shards",
    "SetRule": "tagwood.probabilities.sets",
    "SoftmaxTree": "tagwood.models.softmax_tree",
    "Tagger": "tagwood.tagger.tagger",
    "TextEncoder": "tagwood.neural.encoders.text_encoder",
    "TfidfEncoder": "tagwood.features.tfidf",
}

_classes: dict[str, type[Storable]] = {}


def storable(kind: str) -> Callable[[_Class], _Class]:
    """Register the decorated class as the one that stored models of `kind` are loaded into; see `save` for an example.

    A class outside the package must be imported before `load`, unless an entry point names it (see `tagwood.plugins`).
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
    """Return the class registered for `kind`, importing its module if needed; None if unknown."""
    if kind not in _classes and kind in MODULES:
        import_module(MODULES[kind])
    elif kind not in _classes:
        found = plugin_class(kind)
        if found is not None:
            _classes.setdefault(kind, found)
    return _classes.get(kind)


def restore(state: State) -> Any:
    """Rebuild the object of a state: what a container calls for parts whose class it does not know."""
    cls = class_of(state.kind)
    if cls is None:
        raise InputError(
            "a stored model must be of a known kind",
            given=repr(state.kind),
            hint="Upgrade tagwood, install the package that defines the class, or import its module first.",
        )
    return cls.from_state(state)
