r"""Recipes: a TOML text <-> the settings of a Tagger, so that a training run is a file that can be read and repeated.

In: ``[features] [groups] [tree] [model] [sets] [budget]``. Out: a Tagger. The defaults are those of the classes.

``kind`` in [features] is ``tfidf`` (default), ``text-encoder`` (vectors of a network), ``both`` side by side, or the
name of an encoder of another package. ``kind`` in [model] is a key of `MODELS`, or a model of another package.

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
from tagwood.models.ensemble import Budget
from tagwood.models.linear_tree import LinearTree, Solver
from tagwood.plugins import load_plugin, plugin_name, plugin_names
from tagwood.tagger.fitting import SetRules, default_encoder
from tagwood.tagger.group_learning import GroupRule
from tagwood.tagger.tagger import Tagger


def _names(target: Any) -> list[str]:
    return list(inspect.signature(target).parameters)


@dataclass(frozen=True)
class Kind:
    """A kind of model: its class as ``"module:class"``, and the arguments that the kind fixes."""

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
        given = {name: getattr(model, name, None) for name in self.fixed}
        # Settings that a model chose by trials tell which preset they started from.
        return {name: getattr(value, "based_on", value) for name, value in given.items()} == dict(self.fixed)

    def parameters(self) -> list[str]:
        """Return the names of the arguments that are free."""
        return [name for name in _names(self.load()) if name not in self.fixed]

    def settings(self) -> list[str]:
        """Return the keys that a recipe may hold for this kind, in [tree] or [model]."""
        own = self.parameters()
        return [name for name in own if name != "solver"] + (_names(Solver) if "solver" in own else [])


_PROTOTYPE = "tagwood.neural.prime.model:PrototypeModel"
_SETS = "tagwood.neural.otseq2set.model:SetGenerator"

# Value of ``kind`` in [model] -> the class and arguments it stands for; the first one is the default.
MODELS: dict[str, Kind] = {
    "linear-tree": Kind("tagwood.models.linear_tree.model:LinearTree"),
    "softmax-tree": Kind("tagwood.models.softmax_tree:SoftmaxTree"),
    "neighbours": Kind("tagwood.models.neighbours:Neighbours"),
    "centroids": Kind("tagwood.models.centroids:Centroids"),
    "name-matcher": Kind("tagwood.models.name_matcher:NameMatcher"),
    "prime": Kind(_PROTOTYPE, {"preset": "prime"}),
    "prime-lite": Kind(_PROTOTYPE, {"preset": "prime-lite"}),
    "dual-encoder": Kind(_PROTOTYPE, {"preset": "dual-encoder"}),
    "ngame": Kind(_PROTOTYPE, {"preset": "ngame"}),
    "otseq2set": Kind(_SETS, {"kind": "otseq2set"}),
    "seq2seq": Kind(_SETS, {"kind": "seq2seq"}),
    "mlc2seq": Kind(_SETS, {"kind": "mlc2seq"}),
    "sgm": Kind(_SETS, {"kind": "sgm"}),
}
LIGHT = ("linear-tree", "softmax-tree")  # kinds whose settings are known without importing torch
FEATURES = ("tfidf", "text-encoder", "both")
_COMMON = ("seed", "threads")  # settings of the whole run, in [model]
_TFIDF = [name for name in _names(TfidfEncoder) if name not in _COMMON]
# Repeated here because importing the class imports torch; a test compares them.
_NETWORK = ["encoder", "dimension", "layers", "max_length", "vocabulary", "trained", "precision", "device"]
FEATURE_KEYS = ["kind", *_TFIDF, *_NETWORK, "weights"]
_TREE_KEYS = ("arity", "max_leaf_size", "n_trees", "tree", "lam")  # parameters that shape the tree of a model
# Any of these in [tree] makes the linear tree a `Disentangled` one; fields of `CopySettings` have a prefix.
_COPY_KEYS = ("copies", "rounds", "retrain_matcher", "merge")
_PREFIX = "copies_"
_MODEL_KEYS = [key for kind in LIGHT for key in MODELS[kind].settings() if key not in _TREE_KEYS]

# Section -> the keys it may hold.
KEYS: dict[str, list[str]] = {
    "features": FEATURE_KEYS,
    "groups": _names(GroupRule),
    "tree": [*_TREE_KEYS, *_COPY_KEYS, *(f"{_PREFIX}{name}" for name in _names(CopySettings))],
    "model": ["kind", "quality", *dict.fromkeys(_MODEL_KEYS), "keep_texts"],
    "sets": _names(SetRules),
    "budget": _names(Budget),
}


@dataclass(frozen=True)
class Recipe:
    """Settings by section; settings that are not named keep their defaults."""

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section, values in self.sections.items():
            _check_key(section, KEYS, "section", "recipe")
            if not isinstance(values, Mapping):
                raise InputError(f"[{section}] of a recipe must be a section", given=repr(values)[:60])
            usual = {"model": LIGHT, "features": FEATURES}.get(section)
            if usual is not None and values.get("kind", usual[0]) not in usual:
                continue  # `tagger` checks these: the keys are not known before the class is imported
            for key in values:
                _check_key(key, KEYS[section], "key", f"[{section}]")

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
        common = {name: part["model"][name] for name in _COMMON if name in part["model"]}
        extra: dict[str, Any] = {key: part["model"][key] for key in ("keep_texts", "seed") if key in part["model"]}
        # Who sets up a model gets that model; without settings of one, the default quality adds others to it.
        own = part["tree"].keys() | part["model"].keys() - {*_COMMON, "keep_texts"}
        extra["quality"] = part["model"].pop("quality", "fast" if own else "balanced")
        model = _make_model(part["tree"], part["model"])
        tagger = Tagger(
            _make_encoder(part["features"], model, common),
            model,
            groups=GroupRule(**part["groups"]),
            sets=SetRules(**part["sets"]),
            budget=Budget(**part["budget"]),
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
    except (tomllib.TOMLDecodeError, RecursionError) as error:
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
    """Return the full recipe of a Tagger, defaults included; `InputError` for parts that no recipe can describe."""
    model = tagger.model or LinearTree()
    encoder = tagger.encoder or default_encoder(model)
    copies: dict[str, Any] = {}
    if isinstance(model, Disentangled):
        copies = {name: getattr(model, name) for name in _COPY_KEYS}
        copies |= {f"{_PREFIX}{name}": v for name, v in dataclasses.asdict(model.copy_settings).items()}
        model = model.base_tree()
    kind = next((name for name, one in MODELS.items() if one.describes(model)), None)
    fixed = {} if kind is None else MODELS[kind].fixed
    kind = kind or plugin_name("models", type(model))
    features = _describe_encoder(encoder)
    if features is None or kind is None:
        raise InputError(
            f"a recipe describes TF-IDF features or a TextEncoder or both, and one of {', '.join(MODELS)}",
            given=f"{type(encoder).__name__} and {type(model).__name__}",
        )
    own = {key: v for key, v in _as_tables(model.get_params(deep=False)).items() if key not in fixed}
    own.setdefault("seed", tagger.seed)
    values = {**own, "kind": kind, "quality": tagger.effective_quality, "keep_texts": tagger.keep_texts}
    if isinstance(model, LinearTree):
        values |= dataclasses.asdict(model.solver)
    settings = {
        "features": features,
        "groups": dataclasses.asdict(tagger.groups),
        "tree": values | copies,
        "model": values,
        "sets": dataclasses.asdict(tagger.sets),
        "budget": {name: value for name, value in dataclasses.asdict(tagger.budget).items() if value is not None},
    }
    keys = KEYS if kind in LIGHT else {**KEYS, "tree": [], "model": ["kind", "quality", *own, "keep_texts"]}
    if features.get("kind", "tfidf") not in FEATURES:
        keys = {**keys, "features": list(features)}
    return Recipe({name: {key: settings[name][key] for key in keys[name] if key in settings[name]} for name in keys})


def _make_encoder(settings: Mapping[str, Any], model: LabelModel, common: Mapping[str, Any]) -> Encoder:
    """Return the unfitted encoder that [features] describes; `common` holds seed and threads, where given."""
    given: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in settings.items() if key != "kind"
    }
    kind = settings.get("kind", "tfidf")
    if kind not in FEATURES:
        check_choice(kind, "kind of features", [*FEATURES, *plugin_names("encoders")])
        cls = load_plugin("encoders", kind)
        _check_settings(f"the features {kind!r}", given, _names(cls))
        encoder: Encoder = cls(**{name: v for name, v in common.items() if name in _names(cls)} | given)
        return encoder
    own = {"tfidf": _TFIDF, "text-encoder": _NETWORK, "both": [*_TFIDF, *_NETWORK, "weights"]}[kind]
    _check_settings(f"the features {kind!r}", given, own)
    words = {key: v for key, v in given.items() if key in _TFIDF}
    if "threads" in common:
        words["threads"] = common["threads"]
    if kind == "tfidf":
        return default_encoder(model, **words)
    from tagwood.neural.encoders.text_encoder import TextEncoder

    network = TextEncoder(**{key: v for key, v in given.items() if key in _NETWORK}, **common)
    if network.encoder not in ("small", "bag"):
        network.folder()  # raises for a wrong path before data are read
    return (
        network if kind == "text-encoder" else ConcatEncoder([TfidfEncoder(**words), network], settings.get("weights"))
    )


def _describe_encoder(encoder: Encoder) -> dict[str, Any] | None:
    """Return the settings of an encoder as [features] has them; None if no recipe describes it."""
    if isinstance(encoder, TfidfEncoder):
        return encoder.get_params(deep=False)
    if type(encoder).__name__ == "TextEncoder":
        return {"kind": "text-encoder", **_own_params(encoder)}
    if isinstance(encoder, ConcatEncoder):
        if [type(one).__name__ for one in encoder.encoders] != ["TfidfEncoder", "TextEncoder"]:
            return None
        words, network = (_own_params(one) for one in encoder.encoders)
        weights = None if encoder.weights is None else list(encoder.weights)
        return {"kind": "both", **words, **network, "weights": weights}
    name = plugin_name("encoders", type(encoder))
    return None if name is None else {"kind": name, **_own_params(encoder)}


def _own_params(encoder: Any) -> dict[str, Any]:
    return {name: v for name, v in encoder.get_params(deep=False).items() if name not in _COMMON}


def _make_model(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> LabelModel:
    """Return the unfitted model that [tree] and [model] describe."""
    name = settings.get("kind", next(iter(MODELS)))
    if name in MODELS:
        kind = MODELS[name]
    else:
        check_choice(name, "kind", [*MODELS, *plugin_names("models")])
        cls = load_plugin("models", name)
        kind = Kind(f"{cls.__module__}:{cls.__qualname__}")
    copies = {key: value for key, value in tree.items() if key in _COPY_KEYS or key.startswith(_PREFIX)}
    given = {key: value for key, value in {**tree, **settings}.items() if key not in ("kind", "keep_texts")}
    if name == "linear-tree":
        given = {key: value for key, value in given.items() if key not in copies}
    # Seed and threads belong to the whole run; a model need not have them.
    _check_settings(f"the model {name!r}", given, list(dict.fromkeys([*kind.settings(), *_COMMON])))
    names = kind.parameters()
    own = {key: value for key, value in given.items() if key in names}
    if "solver" in names and name in MODELS:
        own["solver"] = Solver(**{key: value for key, value in given.items() if key in _names(Solver)})
    model: LabelModel = _with_parts(kind, own)
    return model if not copies or not isinstance(model, LinearTree) else _with_copies(model, copies)


def _with_parts(kind: Kind, values: Mapping[str, Any]) -> Any:
    """Return a model of a kind; tables among the arguments are settings of its parts, such as its `Training`.

    A table changes fields of a settings object, or holds the arguments of an encoder.
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
            _check_settings(name, table, [one.name for one in dataclasses.fields(part)])
            setattr(model, name, dataclasses.replace(part, **table))
            continue
        encoder = next(
            (one for one in typing.get_args(hints.get(name)) if isinstance(one, type) and issubclass(one, Params)),
            None,
        )
        if encoder is None:
            raise InputError(f"{name} must be a single value", given="a table of settings")
        _check_settings(name, table, _names(encoder))
        setattr(model, name, encoder(**table))
    return model


def _as_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with parts as tables: the inverse of `_with_parts`."""
    found = dict(values)
    for name, value in values.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found[name] = dataclasses.asdict(value)
        elif isinstance(value, Params):
            found[name] = value.get_params(deep=False)
    return found


def _with_copies(base: LinearTree, settings: Mapping[str, Any]) -> Disentangled:
    own = {key: value for key, value in settings.items() if key in _COPY_KEYS}
    where = {key.removeprefix(_PREFIX): value for key, value in settings.items() if key not in own}
    return Disentangled(base, **own, copy_settings=CopySettings(**where), seed=base.seed, threads=base.threads)


def _check_key(name: str, known: Iterable[str], what: str, where: str) -> None:
    names = list(known)
    if name in names:
        return
    homes = [section for section, keys in KEYS.items() if what == "key" and name in keys]
    hint = f"It belongs to [{homes[0]}]." if homes else name_hint(name, names)
    raise InputError(f"{where} must have only known {what}s", given=repr(name), hint=hint)


def _check_settings(owner: str, given: Iterable[str], known: list[str]) -> None:
    for key in given:
        if key not in known:
            raise InputError(f"unknown setting for {owner}", given=repr(key), hint=name_hint(key, known))


def _value(text: str) -> Any:
    """Return a TOML value; anything else is text, so that ``sets.rule=f1`` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
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
