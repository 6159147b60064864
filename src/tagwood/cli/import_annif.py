"""`tagwood import-annif`: recipes for the projects of an Annif configuration. In: projects.cfg. Out: TOML files.

`BACKENDS` says what matches each backend here. Settings that have a counterpart are taken over; all others, and
backends without a match, are listed with what to do instead.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.errors import InputError

Options = dict[str, str]
Sections = dict[str, dict[str, Any]]
_CALL = re.compile(r"(?P<name>\w+)(?:\((?P<argument>[^)]*)\))?")
# Settings that say nothing about the model: they are arguments of commands here, or part of the report.
_KNOWN = {"name", "language", "backend", "vocab", "analyzer", "transform", "access", "sources", "limit"}


class ImportedProject(NamedTuple):
    """An Annif project: its recipe (None where there is no match), how to train it, and what was not taken over."""

    project: str
    backend: str
    recipe: str | None
    train: str | None
    notes: list[str]


class Match(NamedTuple):
    """What a backend becomes: sections of a recipe, or None, the settings that were used, and a remark."""

    sections: Sections | None
    used: set[str] = set()  # noqa: RUF012  (never changed)
    remark: str = ""


def import_annif(
    projects: Annotated[Path, typer.Argument(help="projects.cfg, projects.toml, or a folder projects.d.")],
    output: Annotated[Path, typer.Option("--output", "-O", help="Folder for the recipes.")] = Path("recipes"),
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
) -> None:
    """Write a recipe for each project of an Annif configuration, and say what has no match.

    Train a project with the command at the top of its recipe; models are then served together.
    """
    from tagwood.storage.publish import write_file

    found = [convert(name, options) for name, options in read_projects(projects).items()]
    recipes = {output / f"{one.project}.toml": one for one in found if one.recipe is not None}
    taken = [str(path) for path in recipes if path.exists()]
    if taken and not force:
        raise InputError("recipes must not exist yet", given=", ".join(taken), hint="Replace them with --force.")
    output.mkdir(parents=True, exist_ok=True)
    for path, one in recipes.items():
        lines = [f"# {one.project}: {one.backend} in Annif", f"# {one.train}", *(f"# {note}" for note in one.notes)]
        write_file(path, "\n".join([*lines, "", one.recipe or ""]))
    if json:
        common.print_json([one._asdict() for one in found])
        return
    rows = [
        (one.project, one.backend, f"{one.project}.toml" if one.recipe is not None else "none", "\n".join(one.notes))
        for one in found
    ]
    columns = {"project": {"no_wrap": True}, "backend": {}, "recipe": {}, "notes": common.TEXT}
    common.print_data(common.make_table(columns, rows))
    common.say(f"{len(recipes)} of {len(found)} projects have a recipe in {output}")


def read_projects(path: Path) -> dict[str, Options]:
    """Return the settings of each project of an Annif configuration."""
    if path.is_dir():
        files = sorted([*path.glob("*.cfg"), *path.glob("*.toml")])
        if not files:
            raise InputError(f"{path} must hold .cfg or .toml files", given="none")
        return {name: options for file in files for name, options in read_projects(file).items()}
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".toml":
            tables = tomllib.loads(text)
        else:
            parser = configparser.ConfigParser(interpolation=None)
            parser.optionxform = str  # type: ignore[assignment,method-assign]
            parser.read_string(text)
            tables = {name: dict(parser[name]) for name in parser.sections()}
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, configparser.Error) as error:
        words = " ".join(str(error).split())
        raise InputError(f"{path} must be a configuration of Annif", given=words[:200]) from error
    wrong = next((name for name, table in tables.items() if not isinstance(table, Mapping)), None)
    if wrong is not None or not tables:
        hint = "A project begins with [its-id]."
        raise InputError(f"{path} must have sections, one per project", given=repr(wrong or "none"), hint=hint)
    return {name: {key: str(value) for key, value in table.items()} for name, table in tables.items()}


def convert(project: str, options: Options) -> ImportedProject:
    """Return the recipe of a project, or why it has none.

    Examples
    --------
    >>> found = convert("yso-en", {"backend": "tfidf", "language": "en", "vocab": "yso", "limit": "100"})
    >>> found.train
    'tagwood train DATA --vocab yso --recipe yso-en.toml -O yso-en'
    >>> print(found.recipe)
    [model]
    kind = "centroids"
    <BLANKLINE>
    """
    from tagwood.recipe import Recipe

    backend = options.get("backend", "")
    kind = re.sub(r"[-(].*", "", backend)
    if kind not in BACKENDS:
        notes = [f"Annif's backend {backend!r} is not known here."]
        return ImportedProject(project, backend, None, None, notes)
    match = BACKENDS[kind](options)
    notes = [match.remark] if match.remark else []
    if match.sections is None:
        return ImportedProject(project, backend, None, None, notes)
    recipe = Recipe(match.sections)
    recipe.tagger()  # raises if a value is not valid here
    notes += [*_reading(options), *_left_over(options, match.used)]
    vocab = _CALL.match(options.get("vocab", ""))
    name = vocab["name"] if vocab else "VOCAB"
    train = f"tagwood train DATA --vocab {name} --recipe {project}.toml -O {project}"
    return ImportedProject(project, backend, recipe.to_toml(), train, notes)


def _reading(options: Options) -> list[str]:
    """Return what becomes of the analyzer and the transform."""
    notes = []
    analyzer = options.get("analyzer", "simple")
    if not re.match(r"simple\b", analyzer):
        notes.append(f"analyzer={analyzer}: words are not stemmed here; word pairs and names serve instead.")
    transform = options.get("transform", "pass")
    if transform != "pass":
        notes.append(f"transform={transform}: texts are read whole, up to the limit text_chars of the service.")
    return notes


def _left_over(options: Options, used: set[str]) -> list[str]:
    others = sorted(options.keys() - used - _KNOWN)
    notes = [f"Not taken over: {', '.join(f'{key}={options[key]}' for key in others)}."] if others else []
    if "limit" in options:
        notes.append(f"limit={options['limit']}: the number of labels is an argument of each request.")
    return notes


def _number(options: Options, key: str, kind: Callable[[str], Any] = int) -> Any:
    try:
        return kind(options[key])
    except ValueError:
        raise InputError(f"{key} must be a number", given=repr(options[key])) from None


def _tfidf(options: Options) -> Match:
    return Match({"model": {"kind": "centroids"}})


def _svc(options: Options) -> Match:
    features = {"min_df": _number(options, "min_df")} if "min_df" in options else {}
    if "ngram" in options:
        features["ngrams"] = [1, _number(options, "ngram")]
    sections = {"model": {"kind": "linear-tree"}, "features": features}
    remark = "One classifier per subject, in a tree instead of a list: the same kind of classifier, found faster."
    return Match(sections, {"min_df", "ngram"}, remark)


def _omikuji(options: Options) -> Match:
    tree: dict[str, Any] = {}
    if "cluster_k" in options:
        tree["arity"] = max(2, _number(options, "cluster_k"))
    if "collapse_every_n_layers" in options:
        tree["arity"] = max(tree.get("arity", 2), 2 ** (_number(options, "collapse_every_n_layers") + 1))
    if "min_branch_size" in options:
        tree["max_leaf_size"] = max(1, _number(options, "min_branch_size"))
    features = {"min_df": _number(options, "min_df")} if "min_df" in options else {}
    if "ngram" in options:
        features["ngrams"] = [1, _number(options, "ngram")]
    remark = "Omikuji trains three trees; here one and three other sources are fused. --quality best has more trees."
    if not tree:
        return Match({"model": {"quality": "balanced"}, "features": features}, {"min_df", "ngram"}, remark)
    used = {"cluster_k", "collapse_every_n_layers", "min_branch_size", "min_df", "ngram", "cluster_balanced"}
    return Match({"tree": tree, "model": {"quality": "balanced"}, "features": features}, used, remark)


def _fasttext(options: Options) -> Match:
    names = {"dim": ("dimension", int), "epoch": ("epochs", int), "lr": ("learning_rate", float)}
    names |= {"minCount": ("min_count", int), "wordNgrams": ("ngrams", int)}
    model = {ours: _number(options, key, kind) for key, (ours, kind) in names.items() if key in options}
    if "dimension" in model:
        model["dimension"] += -model["dimension"] % 8  # a multiple of 8 here
    return Match({"model": {"kind": "softmax-tree", **model}}, {*names, "loss"})


def _lexical(options: Options) -> Match:
    remark = "Labels whose names are in the text; quality balanced (the default of train) fuses them with learned ones."
    return Match({"model": {"kind": "name-matcher"}}, set(), remark)


def _ensemble(options: Options) -> Match:
    sources = options.get("sources", "")
    remark = f"The fusion of {sources or 'other projects'} is part of one model here, learned on held-out rows."
    return Match({"model": {"quality": "balanced"}}, {"min_docs", "nodes", "epochs", "learn-epochs"}, remark)


def _none(remark: str) -> Callable[[Options], Match]:
    return lambda options: Match(None, set(), remark)


BACKENDS: dict[str, Callable[[Options], Match]] = {
    "tfidf": _tfidf,
    "svc": _svc,
    "omikuji": _omikuji,
    "fasttext": _fasttext,
    "mllm": _lexical,
    "stwfsa": _lexical,
    "yake": _lexical,
    "ensemble": _ensemble,
    "nn_ensemble": _ensemble,
    "pav": _none("No match: scores of every model are calibrated already; use the recipe of its source."),
    "xtransformer": _none("No match: the nearest is --model prime (needs tagwood[neural])."),
    "ebm": _none("No match: the nearest is --model dual-encoder (needs tagwood[neural])."),
    "maui": _none("No match: a server of its own; the nearest is --model name-matcher."),
    "http": _none("No match: a server of its own; ask it directly."),
    "dummy": _none("No match: it is for tests."),
}
