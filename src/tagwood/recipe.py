r"""Recipes: a TOML text <-> the settings of a Tagger, so that a training run is a file that can be read and repeated.

In: ``[features] [groups] [tree] [model] [sets]``. Out: a Tagger. Defaults are those of the classes and are written
nowhere else.

Examples
--------
>>> recipe = parse_recipe("[features]\nngrams = [1, 1]").override(["tree.arity=8", "model.C=2"])
>>> tagger = recipe.tagger()
>>> tagger.encoder.ngrams, tagger.model.arity, tagger.model.C
((1, 1), 8, 2)
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tagwood._check import Params, check_choice, name_hint
from tagwood.errors import InputError
from tagwood.features.base import Encoder
from tagwood.features.concat import ConcatEncoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.base import LabelModel
from tagwood.models.disentangled import CopySettings, Disentangled
from tagwood.models.linear_tree import LinearTree, Solver
from tagwood.tagger.fitting import GroupRule, SetRules, default_encoder
from tagwood.tagger.tagger import Tagger

# SECTION tagger.feature_kinds
# Kinds of features by name, as [features] of a recipe knows them. In: settings. Out: an unfitted encoder, and back.
#
# ``tfidf`` (the default), ``text-encoder`` (vectors of a network), or ``both`` side by side.


FEATURES = ("tfidf", "text-encoder", "both")
_COMMON = ("seed", "threads")  # of the whole run, in [model]
_TFIDF = [name for name in inspect.signature(TfidfEncoder).parameters if name not in _COMMON]
# Named here as well, because importing the class imports torch; a test compares them.
_NETWORK = ["encoder", "dimension", "layers", "max_length", "vocabulary", "trained", "precision"]
FEATURE_KEYS = ["kind", *_TFIDF, *_NETWORK, "weights"]


def make_encoder(settings: Mapping[str, Any], model: LabelModel, common: Mapping[str, Any]) -> Encoder:
    """Return the unfitted encoder that [features] describes; `common` holds seed and threads, where given."""
    kind = check_choice(settings.get("kind", "tfidf"), "kind of features", FEATURES)
    own = {"tfidf": _TFIDF, "text-encoder": _NETWORK, "both": [*_TFIDF, *_NETWORK, "weights"]}[kind]
    for key in settings:
        if key not in {*own, "kind"}:
            raise InputError(
                f"the features {kind!r} must be given only their own settings",
                given=repr(key),
                hint=f"Known: {', '.join(own)}.",
            )
    words: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in settings.items() if key in _TFIDF
    }
    if "threads" in common:
        words["threads"] = common["threads"]
    if kind == "tfidf":
        return default_encoder(model, **words)
    from tagwood.neural.encoders.text_encoder import TextEncoder

    network = TextEncoder(**{key: v for key, v in settings.items() if key in _NETWORK}, **common)
    if network.encoder not in ("small", "bag"):
        network.folder()  # a wrong path is named before data are read
    if kind == "text-encoder":
        return network
    encoder = ConcatEncoder([TfidfEncoder(**words), network], settings.get("weights"))
    encoder.check_params()
    return encoder


def describe_encoder(encoder: Encoder) -> dict[str, Any] | None:
    """Return the settings of an encoder as [features] has them; None if no recipe describes it."""
    if isinstance(encoder, TfidfEncoder):
        return encoder.get_params(deep=False)
    if type(encoder).__name__ == "TextEncoder":
        return {"kind": "text-encoder", **_network(encoder)}
    if isinstance(encoder, ConcatEncoder) and [type(one).__name__ for one in encoder.encoders] == [
        "TfidfEncoder",
        "TextEncoder",
    ]:
        words, network = (_network(one) for one in encoder.encoders)
        weights = None if encoder.weights is None else list(encoder.weights)
        return {"kind": "both", **words, **network, "weights": weights}
    return None


def _network(encoder: Any) -> dict[str, Any]:
    return {name: value for name, value in encoder.get_params(deep=False).items() if name not in _COMMON}


# SECTION tagger.model_kinds
# Kinds of models by name, as recipes and `tagwood train --model` know them; each is imported when it is asked for.
#
# In: a name. Out: a class, and the arguments that the name stands for. A new kind is one more line in `MODELS`.


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


_PROTOTYPE = "tagwood.neural.prime.model:PrototypeModel"
_SETS = "tagwood.neural.otseq2set.model:SetGenerator"

# Value of ``kind`` in [model] -> what it stands for; the first one is the default.
MODELS: dict[str, Kind] = {
    "linear-tree": Kind("tagwood.models.linear_tree.model:LinearTree"),
    "softmax-tree": Kind("tagwood.models.softmax_tree.model:SoftmaxTree"),
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
    settle = getattr(model, "resolved_settings", None)
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
            found[name] = value.get_params(deep=False)
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


_TREE_KEYS = (
    "arity",
    "max_leaf_size",
    "n_trees",
    "tree",
    "lam",
)  # parameters of the model that shape its tree
# Any of these in [tree] makes a linear tree one whose labels have copies; fields of CopySettings have a prefix.
_COPY_KEYS = ("copies", "rounds", "retrain_matcher", "merge")
_PREFIX = "copies_"
_ALL = ("seed", "threads")  # of the whole run, in [model]


def _names(target: Any) -> list[str]:
    return list(inspect.signature(target).parameters)


def _model_keys(kind: Kind) -> list[str]:
    """Return what may be set of a model, wherever it stands."""
    own = kind.parameters()
    return [name for name in own if name != "solver"] + (_names(Solver) if "solver" in own else [])


def _without_twice(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


# Section -> the keys it may hold.
KEYS: dict[str, list[str]] = {
    "features": FEATURE_KEYS,
    "groups": _names(GroupRule),
    "tree": [*_TREE_KEYS, *_COPY_KEYS, *(f"{_PREFIX}{name}" for name in _names(CopySettings))],
    "model": [
        "kind",
        *_without_twice(
            name for kind in LIGHT for name in _model_keys(MODELS[kind]) if name not in _TREE_KEYS
        ),
        "keep_texts",
    ],
    "sets": _names(SetRules),
}


@dataclass(frozen=True)
class Recipe:
    """Settings by section; what is not named keeps its default."""

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section, values in self.sections.items():
            _known(section, KEYS, "section", "recipe")
            if not isinstance(values, Mapping):
                raise InputError(f"[{section}] of a recipe must be a section", given=repr(values)[:60])
            if section == "model" and values.get("kind") in MODELS.keys() - LIGHT:
                continue  # `tagger` checks these: their names are not known before torch is imported
            for key in values:
                _known(key, KEYS[section], "key", f"[{section}]")

    def override(self, settings: Iterable[str]) -> Recipe:
        """Return the recipe with changes such as ``"tree.lam=0.5"``; values are TOML, or plain text."""
        sections = {section: dict(values) for section, values in self.sections.items()}
        for setting in settings:
            name, equals, value = setting.partition("=")
            section, dot, key = name.strip().partition(".")
            if not equals or not dot:
                raise InputError(
                    "a setting must be section.key=value",
                    given=repr(setting),
                    hint="For example: tree.lam=0.5",
                )
            table = sections.setdefault(section, {})
            part, inner, name = key.partition(".")
            if inner:  # such as model.training.clip
                table[part] = {**_table(table.get(part, {}), setting), name: _value(value.strip())}
            else:
                table[key] = _value(value.strip())
        return replace(self, sections=sections)

    def tagger(self) -> Tagger:
        """Return an unfitted Tagger with these settings."""
        part = {name: dict(self.sections.get(name, {})) for name in KEYS}
        common = {name: part["model"][name] for name in _ALL if name in part["model"]}
        extra = {key: part["model"][key] for key in ("keep_texts", "seed") if key in part["model"]}
        model = _model(part["tree"], part["model"])
        tagger = Tagger(
            make_encoder(part["features"], model, common),
            model,
            groups=GroupRule(**part["groups"]),
            sets=SetRules(**part["sets"]),
            **extra,
        )
        tagger.check_settings()
        return tagger

    def to_toml(self) -> str:
        """Return the recipe as TOML."""
        blocks = []
        for section, values in self.sections.items():
            lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
            if lines:
                blocks.append("\n".join([f"[{section}]", *lines]))
        return "\n\n".join(blocks) + "\n"


def parse_recipe(text: str) -> Recipe:
    """Return the recipe of a TOML text."""
    try:
        return Recipe(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError("a recipe must be valid TOML", given=str(error)) from error


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe from a TOML file."""
    try:
        return parse_recipe(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text", given=str(error.reason)) from error
    except InputError as error:
        raise InputError(f"{path}: {error.expected}", given=error.given, hint=error.hint) from error


def recipe_of(tagger: Tagger) -> Recipe:
    """Return the full recipe of a Tagger with features and a model that recipes know: every setting, defaults too."""
    model = tagger.model or LinearTree()
    encoder = tagger.encoder or default_encoder(model)
    copies: dict[str, Any] = {}
    if isinstance(model, Disentangled):
        copies = {name: getattr(model, name) for name in _COPY_KEYS}
        copies |= {f"{_PREFIX}{name}": v for name, v in dataclasses.asdict(model.copy_settings).items()}
        model = model.base_tree()
    kind = next((kind for kind, known in MODELS.items() if known.describes(model)), None)
    features = describe_encoder(encoder)
    if features is None or kind is None:
        raise InputError(
            f"a recipe describes TF-IDF features or a TextEncoder or both, and one of {', '.join(MODELS)}",
            given=f"{type(encoder).__name__} and {type(model).__name__}",
        )
    own = {
        key: v
        for key, v in plain_parts(model.get_params(deep=False)).items()
        if key not in MODELS[kind].fixed
    }
    values = {**own, "kind": kind, "keep_texts": tagger.keep_texts}
    if isinstance(model, LinearTree):
        values |= dataclasses.asdict(model.solver)
    settings = {
        "features": features,
        "groups": dataclasses.asdict(tagger.groups),
        "tree": values | copies,
        "model": values,
        "sets": dataclasses.asdict(tagger.sets),
    }
    keys = KEYS if kind in LIGHT else {**KEYS, "tree": [], "model": ["kind", *own, "keep_texts"]}
    return Recipe(
        {name: {key: settings[name][key] for key in keys[name] if key in settings[name]} for name in keys}
    )


def _model(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> LabelModel:
    """Return the unfitted model that [tree] and [model] describe."""
    kind = check_choice(settings.get("kind", next(iter(MODELS))), "kind", MODELS)
    copies = {key: value for key, value in tree.items() if key in _COPY_KEYS or key.startswith(_PREFIX)}
    given = {**tree, **settings}
    if kind == "linear-tree":
        given = {key: value for key, value in given.items() if key not in copies}
    known = _model_keys(MODELS[kind])
    for key in given.keys() - {"kind", "keep_texts"} - set(known):
        raise InputError(
            f"the model {kind!r} must be given only its own settings",
            given=repr(key),
            hint=name_hint(key, known),
        )
    names = MODELS[kind].parameters()
    own = {key: value for key, value in given.items() if key in names}
    if "solver" in names:
        own["solver"] = Solver(**{key: value for key, value in given.items() if key in _names(Solver)})
    model: LabelModel = with_parts(MODELS[kind], own)
    return model if not copies or not isinstance(model, LinearTree) else _with_copies(model, copies)


def _with_copies(base: LinearTree, settings: Mapping[str, Any]) -> Disentangled:
    own = {key: value for key, value in settings.items() if key in _COPY_KEYS}
    where = {key.removeprefix(_PREFIX): value for key, value in settings.items() if key not in own}
    return Disentangled(
        base, **own, copy_settings=CopySettings(**where), seed=base.seed, threads=base.threads
    )


def _known(name: str, known: Iterable[str], what: str, where: str) -> None:
    names = list(known)
    if name in names:
        return
    homes = [section for section, keys in KEYS.items() if what == "key" and name in keys]
    hint = f"It belongs to [{homes[0]}]." if homes else name_hint(name, names)
    raise InputError(f"{where} must have only known {what}s", given=repr(name), hint=hint)


def _value(text: str) -> Any:
    """Return a TOML value; what is no TOML is taken as text, so that ``sets.rule=f1`` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _table(value: Any, setting: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError("a setting inside another must be inside a table", given=repr(setting))
    return value


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = (f"{key} = {_toml(one)}" for key, one in value.items() if one is not None)
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # JSON strings, numbers and booleans are TOML too.
    return json.dumps(value, ensure_ascii=False)
