"""What commands share: options, reading of models, tables and JSON on stdout, messages on stderr.

Importing this module is cheap: rich and the rest of the package are loaded when they are used.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from tagwood.recipe import Recipe
    from tagwood.storage import Manifest
    from tagwood.tagger import Tagger

# Options that several commands have; a command adds its default.
ModelArgument = Annotated[Path, typer.Argument(help="Model folder.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", "-j", help="Number of threads; all cores by default.")]
LanguageOption = Annotated[str | None, typer.Option("--language", "-L", help="Language of the label names.")]
LimitOption = Annotated[int, typer.Option("--limit", "-l", help="Largest number of labels per text.")]
ThresholdOption = Annotated[
    float | None, typer.Option("--threshold", "-t", help="Leave out labels with a lower score.")
]
RestrictOption = Annotated[
    list[str] | None, typer.Option(help="Suggest only this label, given by name, URI or id (repeatable).")
]
RestrictFileOption = Annotated[
    Path | None, typer.Option(help="Suggest only the labels in this file: one name, URI or notation per line.")
]
RestrictBranchOption = Annotated[
    list[str] | None,
    typer.Option(help="Suggest only this label and all that are narrower in the vocabulary (repeatable)."),
]
ExcludeOption = Annotated[list[str] | None, typer.Option(help="Exclude this label (repeatable).")]
FormatOption = Annotated[str | None, typer.Option("--format", help="Format of the data; detected by default.")]
VocabOption = Annotated[Path | None, typer.Option(help="Label vocabulary (TSV, CSV or SKOS).")]
UnknownOption = Annotated[str, typer.Option(help="What to do with labels that are not in --vocab: error, add or skip.")]
ForceFlag = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]
DocsLimitOption = Annotated[int | None, typer.Option("--docs-limit", "-d", min=1, help="Use only the first rows.")]
RecipeOption = Annotated[Path | None, typer.Option(help="TOML file with settings.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change one setting, such as tree.arity=16 (repeatable).")
]
GroupsOption = Annotated[
    str | None, typer.Option("--groups", help="Column with the group of each row; 'group' by default.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Compute on Ray (tagwood[scale]): local, or HOST:PORT of a cluster that this machine is part of."
    ),
]
GroupLabelsOption = Annotated[
    Path | None,
    typer.Option("--group-labels", help="File with the labels of each group: group<TAB>label<TAB>..., or JSON lines."),
]

# Columns of `make_table`: numbers, and texts that may take several lines.
NUMBER: Mapping[str, Any] = {"justify": "right", "no_wrap": True}
TEXT: Mapping[str, Any] = {"overflow": "fold"}

_SURROGATES = re.compile("[\ud800-\udfff]")


def load_tagger(folder: Path, jobs: int | None = None) -> Tagger:
    """Load a model folder that holds a Tagger, to run with a number of threads."""
    return open_tagger(folder, jobs)[0]


def open_tagger(folder: Path, jobs: int | None = None) -> tuple[Tagger, Manifest]:
    """Load a Tagger that is to be changed, with the manifest that `save_changed` needs; see `load_tagger`."""
    from tagwood._check import check_threads, use_threads
    from tagwood.tagger import Tagger

    tagger, manifest = Tagger.load_with_manifest(folder)
    if jobs is not None:
        use_threads(tagger, check_threads(jobs))
    return tagger, manifest


def filters(
    tagger: Tagger,
    restrict: list[str] | None,
    exclude: list[str] | None,
    file: Path | None = None,
    branches: list[str] | None = None,
) -> dict[str, Any]:
    """Return the labels of --restrict (with its file and branches) and --exclude as filters, prepared once."""
    wanted = None if restrict is None and file is None and branches is None else list(restrict or ())
    if wanted is not None and file is not None:
        from tagwood.data.files import BadLines, decoded_lines

        wanted += [line.strip() for _, line in decoded_lines(file, BadLines(skip=False)) if line.strip()]
    only = None if wanted is None else tagger.label_filter(wanted)
    if only is not None and branches:
        below = tagger.vocab_.below(tagger.find(branch) for branch in branches)
        mask = only.mask.copy()
        mask[below] = True
        only = tagger.label_filter(mask)
    return {"restrict": only, "exclude": None if exclude is None else tagger.label_filter(exclude)}


def service_is_installed() -> bool:
    """Whether the packages of ``tagwood[serve]`` can be imported."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("fastapi", "httptools", "orjson", "prometheus_client", "uvicorn"))


def save_changed(tagger: Tagger, opened: Manifest, model: Path, target: Path, notes: str | None = None) -> None:
    """Save a changed model, with the notes of the original by default; a model at `target` is replaced in one step.

    The model that was opened is replaced only if no other process has changed it meanwhile.
    """
    from tagwood.storage import save

    replaces = opened if target.resolve() == model.resolve() else None
    kept = opened.notes if notes is None else notes
    save(tagger, target, notes=kept, fingerprint=tagger.fingerprint_, overwrite=True, replaces=replaces)


def choose_recipe(path: Path | None, settings: list[str] | None, jobs: int | None) -> Recipe:
    """Return the recipe of a file, or the default one, with changes."""
    from tagwood.recipe import Recipe, read_recipe

    recipe = Recipe() if path is None else read_recipe(path)
    return recipe.override([*(settings or []), *([] if jobs is None else [f"model.threads={jobs}"])])


def column_names(text: str | None) -> list[str]:
    """Return the names of an option with commas between them."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def print_json(value: Any) -> None:
    """Write a value as indented JSON to stdout; dataclasses, paths and NumPy values are converted."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=_plain, allow_nan=False) + "\n")


def print_data(value: RenderableType) -> None:
    """Write a table or a text to stdout."""
    _console(stderr=False).print(value)


def say(message: str) -> None:
    """Write a message to stderr. Square brackets are text, not markup."""
    _console(stderr=True).print(message, markup=False, highlight=False)


def member_lines(tagger: Tagger) -> list[str]:
    """Return a small table of what each member of the model brings; nothing for a single model."""
    members = tagger.members()
    if not members:
        return []
    head = f"{'member':<18}{'nDCG@5 alone':>13}{'lost without':>15}{'CPU s':>8}"
    lines = [head]
    for one in members:
        lost = f"{100 * one.lost:.1f} ± {100 * one.error:.1f}"
        line = f"{one.name:<18}{100 * one.alone:>13.1f}{lost:>15}{one.seconds:>8.1f}"
        why = f"{one.reason} limit" if one.reason else "no help"
        lines.append(line if one.used else f"{line}  left out: {why}")
    return lines


def facts_table(facts: Mapping[str, object]) -> RenderableType:
    """Return a two-column table of names and values."""
    columns = {"name": {"style": "bold", "no_wrap": True}, "value": TEXT}
    return make_table(columns, ((name, show(value)) for name, value in facts.items()), header=False)


def make_table(
    columns: Mapping[str, Mapping[str, Any]], rows: Iterable[Iterable[str]], *, header: bool = True
) -> RenderableType:
    """Return a table of texts without lines; `columns` maps headings to options of rich's `Table.add_column`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=header, pad_edge=False)
    for heading, options in columns.items():
        table.add_column(heading, **options)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def show(value: object) -> str:
    """Return a value as text for people.

    Examples
    --------
    >>> show(1234567), show(0.25), show(None), show(["a", "b"])
    ('1,234,567', '0.25', '-', 'a, b')
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}"
        case list() | tuple():
            return ", ".join(map(show, value)) or "-"
    return str(value)


def readable(text: str) -> str:
    r"""Return a command-line argument with U+FFFD for each byte that is not text.

    Examples
    --------
    >>> readable("oak \udcff") == "oak \ufffd"
    True
    """
    return _SURROGATES.sub("\ufffd", text)


def show_bytes(size: int) -> str:
    """Return a size in kB or MB.

    Examples
    --------
    >>> show_bytes(9088), show_bytes(2_500_000)
    ('9.1 kB', '2.5 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


@contextmanager
def progress(description: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, if that is a terminal; call the value with (done, total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = _console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=None)

        def advance(done: int, total: int, words: str = description) -> None:
            bar.update(task, completed=done, total=total, description=words)

        yield advance


@contextmanager
def stages(description: str) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on stderr for work in stages; call the value with (stage, share done)."""
    with progress(description) as advance:
        yield lambda stage, share: advance(round(100 * share), 100, f"{description}: {stage}")


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
