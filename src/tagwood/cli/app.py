"""The frame of the command line: which commands there are, how they are loaded, what errors become.

In: the arguments of the process. Out: its exit code. A command's module is imported only when that command is
called, so that ``tagwood --help`` stays quick; what the overview needs stands in `COMMANDS`.
"""

from __future__ import annotations

import _thread
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from tagwood.errors import InputError, TagwoodError

USER_ERROR, OUR_ERROR, INTERRUPTED = 2, 1, 130


class Command(NamedTuple):
    """Where a command lives, and its line in the overview."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "check": Command("tagwood.cli.check", "check", "Look at data before training: figures and warnings."),
    "convert": Command("tagwood.cli.convert", "convert", "Turn data of one format into another."),
    "demo": Command("tagwood.cli.demo", "demo", "Tag real text: the docstrings of this machine's Python."),
    "eval": Command("tagwood.cli.eval", "eval_command", "Measure a model, or saved predictions."),
    "explain": Command("tagwood.cli.explain", "explain", "Say why a label was suggested, or why not."),
    "impute": Command(
        "tagwood.cli.impute", "impute", "Work out labels of rows from labels of groups, for review."
    ),
    "info": Command("tagwood.cli.info", "info", "Show versions, hardware and extras, or a model's passport."),
    "plan": Command("tagwood.cli.plan", "plan", "Forecast memory, time and size before training."),
    "predict": Command("tagwood.cli.predict", "predict", "Suggest labels for texts (also: suggest)."),
    "senses": Command("tagwood.cli.senses", "senses", "List the labels with the most different meanings."),
    "serve": Command("tagwood.cli.serve", "serve", "Serve a model: REST interface and web page."),
    "show": Command("tagwood.cli.show", "show", "Show what a model is: passport, recipe, tree, labels."),
    "suggest": Command("tagwood.cli.predict", "predict", "The same as predict."),
    "train": Command("tagwood.cli.train", "train", "Train a model on texts and their labels."),
    "tune": Command("tagwood.cli.tune", "tune", "Search for better settings with a time limit."),
    "tune-threshold": Command(
        "tagwood.cli.tune_threshold", "tune_threshold", "Find where to cut suggestions into sets."
    ),
    "tune-tree": Command(
        "tagwood.cli.tune_tree", "tune_tree", "Find the fastest label tree that loses nothing."
    ),
    "vocab": Command("tagwood.cli.vocab", "app", "List, compare and load label tables."),
}


class _LazyGroup(TyperGroup):
    """Lists commands by their summaries and loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else load_command(name), rest


app = typer.Typer(
    name="tagwood",
    cls=_LazyGroup,
    help="Tag texts, queries and products with the few right labels out of thousands to millions.",
    epilog="Results go to stdout, messages to stderr. Every command has --help and --json.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; works after any command.")] = False,
) -> None:
    if version:
        from importlib import metadata

        typer.echo(f"tagwood {metadata.version('tagwood')}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


def _add_stub(name: str, summary: str) -> None:
    @app.command(name, help=summary)
    def stub() -> None:
        raise AssertionError(f"{name} is loaded before it is called")


for _name, _command in COMMANDS.items():
    _add_stub(_name, _command.summary)


def load_command(name: str) -> Any:
    """Import a command, or a group of them, and return it in the form that typer runs."""
    place = COMMANDS[name]
    function: Callable[..., None] | typer.Typer = getattr(import_module(place.module), place.function)
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.command(name, context_settings={"help_option_names": ["-h", "--help"]})(function)
    return typer.main.get_command(single)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; errors escape only with ``--debug`` in the arguments."""
    debug, rest = _take_debug(arguments)
    warnings.showwarning = _show_warning
    unraisable, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        result = typer.main.get_command(app).main(rest, prog_name="tagwood", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except Exception as error:
        if debug and not isinstance(error, typer.TyperException):
            raise
        return _report(error)
    finally:
        sys.unraisablehook = unraisable


def main() -> None:
    """Run the command line on the arguments of this process and exit."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _report(error: Exception) -> int:
    """Say in one line what went wrong and return the exit code."""
    match error:
        case TagwoodError():
            _say(f"error: {error}")
            return USER_ERROR if isinstance(error, InputError) else OUR_ERROR
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else "tagwood"
            _say(f"error: {error.format_message()}\nTry '{path} --help'.")
            return error.exit_code
        case typer.Abort():
            return INTERRUPTED
        case BrokenPipeError():
            return OUR_ERROR
        case OSError(filename=str(filename), strerror=str(reason)):
            _say(f"error: {filename}: {reason}.")
            return USER_ERROR
        case MemoryError():
            _say("error: out of memory. Close other programs, or work on fewer rows or labels at a time.")
            return OUR_ERROR
    words = " ".join(str(error).split())
    _say(f"internal error: {type(error).__name__}: {words}; rerun with --debug for the traceback")
    return OUR_ERROR


def _interrupt_again(lost: Any) -> None:
    """Press Ctrl-C once more where Python lost it in a finaliser, and would have shown a traceback and gone on."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())  # what is raised here would be lost as well
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    time.sleep(0.01)
    _thread.interrupt_main()


def _take_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Take ``--debug`` out of the arguments, wherever it stands before a ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(head) < end, [*head, *arguments[end:]]


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
