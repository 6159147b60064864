r"""Recipes: a TOML text <-> the settings of a Tagger, so that a training run is a file that can be read and repeated.

In: ``[features] [groups] [tree] [model] [sets]``. Out: a Tagger. Defaults are those of the classes and are written
nowhere else.

Examples
--------
>>> recipe = parse_recipe("[features]\nngrams = [1, 1]").override(["tree.arity=8", "model.cost=2"])
>>> tagger = recipe.tagger()
>>> tagger.encoder.ngrams, tagger.model.arity, tagger.model.cost
((1, 1), 8, 2)
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tagwood._check import check_choice, name_hint
from tagwood.errors import InputError
from tagwood.models.base import LabelModel
from tagwood.models.disentangled import Assignment, Disentangled
from tagwood.models.linear_tree import LinearTree
from tagwood.models.tree_training import Solver
from tagwood.tagger.feature_kinds import FEATURE_KEYS, describe_encoder, make_encoder
from tagwood.tagger.fitting import default_encoder
from tagwood.tagger.model_kinds import LIGHT, MODELS, Kind, plain_parts, with_parts
from tagwood.tagger.settings import GroupRule, SetRules
from tagwood.tagger.tagger import Tagger

_TREE_KEYS = (
    "arity",
    "max_leaf_size",
    "n_trees",
    "tree",
    "lam",
)  # parameters of the model that shape its tree
# Any of these in [tree] makes a linear tree one whose labels have copies; settings of the assignment have a prefix.
_COPY_KEYS = ("copies", "rounds", "alternative_update", "merge")
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
    "tree": [*_TREE_KEYS, *_COPY_KEYS, *(f"{_PREFIX}{name}" for name in _names(Assignment))],
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
        copies |= {f"{_PREFIX}{name}": v for name, v in dataclasses.asdict(model.assignment).items()}
        model = model._plain()
    kind = next((kind for kind, known in MODELS.items() if known.describes(model)), None)
    features = describe_encoder(encoder)
    if features is None or kind is None:
        raise InputError(
            f"a recipe describes TF-IDF features or a TextEncoder or both, and one of {', '.join(MODELS)}",
            given=f"{type(encoder).__name__} and {type(model).__name__}",
        )
    own = {key: v for key, v in plain_parts(model.get_params()).items() if key not in MODELS[kind].fixed}
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
    return Disentangled(base, **own, assignment=Assignment(**where), seed=base.seed, threads=base.threads)


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
