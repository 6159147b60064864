"""What commands write with: tables and JSON on stdout, messages and progress bars on stderr.

In: plain values. Out: text. Importing this module is cheap; rich is loaded when something is shown.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from tagwood.tagger import Tagger


# SECTION cli.saving
# Save a model that a command has changed. In: a Tagger and where it came from. Out: its next state, in one step.


def save_changed(tagger: Tagger, model: Path, target: Path) -> None:
    """Save with the notes of the passport in `model`; a model at `target` is replaced when the new one is complete."""
    from tagwood.storage import read_manifest

    tagger.save(target, notes=read_manifest(model).notes, overwrite=True)


JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]
"""The ``--json`` option that every command has."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def print_json(value: Any) -> None:
    """Write `value` as indented JSON to stdout; dataclasses, paths and NumPy values are understood."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=_plain, allow_nan=False) + "\n")


def print_data(value: RenderableType) -> None:
    """Write a table or a text to stdout."""
    _console(stderr=False).print(value)


def say(message: str) -> None:
    """Write a message to stderr. Square brackets are text, not markup."""
    _console(stderr=True).print(message, markup=False, highlight=False)


def facts_table(facts: Mapping[str, object]) -> RenderableType:
    """Return a two-column table of names and values; values are shown as they are."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(show(value)))
    return table


def show(value: object) -> str:
    """Return a value as people read it.

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
    r"""Return a text of the shell with a mark for each byte that is no text.

    Examples
    --------
    >>> readable("oak \udcff") == "oak \ufffd"
    True
    """
    return _SURROGATES.sub("\ufffd", text)


def show_bytes(size: int) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> show_bytes(9088), show_bytes(2_500_000)
    ('9.1 kB', '2.5 MB')
    """
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


@contextmanager
def progress(description: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, if that is a terminal; the value is called with (done, total)."""
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
    """Show a progress bar on stderr for work in stages; the value is called with (stage, share done)."""
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
