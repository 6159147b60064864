"""Generated parts of the site: every public Python name, and every command with its options.

mkdocs calls `on_page_markdown` for each page. A page that holds a marker gets the generated text in its place:
``<!-- public names -->`` the directives of mkdocstrings, ``<!-- commands -->`` the help of the command line.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

MODULES = {
    "tagger": "Texts in, label names out",
    "recipe": "Recipes in TOML",
    "data": "Datasets, vocabularies, formats",
    "features": "Text features",
    "trees": "Label trees",
    "groups": "Labels of groups",
    "models.base": "The interface of models",
    "probabilities.calibration": "From scores to probabilities",
    "probabilities.sets": "Rules for label sets",
    "neural.training": "Training of networks",
    "neural.prime.settings": "Settings of PRIME",
    "neural.otseq2set": "Settings of set generators",
    "metrics": "Metrics",
    "storage": "Model files",
    "planning": "Forecasts",
    "tuning": "Search for settings",
    "plots": "Charts",
    "errors": "Errors",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of a page."""
    for marker, make in (("<!-- public names -->", public_names), ("<!-- commands -->", commands)):
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    return markdown


def public_names() -> str:
    """Return a section per module, each public name once: under tagwood if it is exported there."""
    top = import_module("tagwood")
    exported = [name for name in top.__all__ if not name.startswith("__")]
    blocks = ["## tagwood", *(f"::: {home(top, name)}" for name in exported)]
    for place, title in MODULES.items():
        module = import_module(f"tagwood.{place}")
        own = [name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__]
        names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        names = [name for name in names if name not in exported]
        blocks += [f"## tagwood.{place}", f"{title}.", *(f"::: {home(module, name)}" for name in names)]
    return "\n\n".join(blocks)


def home(module: Any, name: str) -> str:
    """Return the path where an object is defined, which mkdocstrings reads."""
    found = getattr(module, name)
    defined = getattr(found, "__module__", None)
    if isinstance(defined, str) and defined.startswith("tagwood") and hasattr(import_module(defined), name):
        return f"{defined}.{name}"
    return f"{module.__name__}.{name}"


def commands() -> str:
    """Return a section per command with its arguments and options."""
    from tagwood.cli import app as cli

    blocks, seen = [], set()
    for name, place in cli.COMMANDS.items():
        if (place.module, place.function) not in seen:  # an alias has no section of its own
            blocks += describe(cli.load_command(name), f"tagwood {name}", 2)
        seen.add((place.module, place.function))
    return "\n\n".join(blocks)


def describe(command: Any, title: str, level: int) -> list[str]:
    """Return the Markdown of a command and its subcommands."""
    import click

    blocks = [f"{'#' * level} {title}", (command.help or "").replace("\b", "").replace("\f", "").strip()]
    context = click.Context(command, info_name=title)
    usage = " ".join(command.collect_usage_pieces(context))
    blocks.append(f"```console\n{title} {usage}\n```")
    rows = []
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        shown = parameter.get_help_record(context)
        if shown is None:
            shown = (parameter.make_metavar(context), getattr(parameter, "help", None) or "")
        left, right = (" ".join(str(part).split()) for part in shown)
        rows.append("| `" + left.replace("|", r"\|") + "` | " + right.replace("|", r"\|") + " |")
    if rows:
        blocks.append("\n".join(["| argument or option | |", "|---|---|", *rows]))
    for name, sub in getattr(command, "commands", {}).items():
        blocks += describe(sub, f"{title} {name}", level + 1)
    return blocks
