"""The command line: its commands, how they are loaded, and how errors become messages and exit codes.

In: the arguments of the process. Out: its exit code. The module of a command is imported only when the command runs,
so that ``tagwood --help`` is fast; `COMMANDS` holds what the overview shows.
"""

from __future__ import annotations

import _thread
import errno
import gc
import inspect
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from tagwood.errors import InputError, TagwoodError, disk_hint

USER_ERROR, OUR_ERROR, INTERRUPTED = 2, 1, 130
_COLLECT_AFTER = 200_000  # new objects; the answer to one text makes half as many
# Commands for which NumPy multiplies no large matrices: to start the threads of its BLAS takes a sixth of one answer.
_WITHOUT_BLAS_THREADS = ("explain", "info", "predict", "senses", "show", "suggest")
# Types whose values are converted here, and what an option may ask for beyond its type.
_PLAIN = (str, bool, int, float, Path)
_RULES = (
    *("parser", "clamp", "exists", "file_okay", "dir_okay", "readable", "writable"),
    *("resolve_path", "allow_dash", "path_type"),
)
_NO_RULES = OptionInfo()
# How the loader, NumPy, OpenBLAS, torch and Python's threads say it.
_MEMORY_SIGNS = (
    *("cannot allocate memory", "failed to map segment", "out of memory", "not enough memory", "bad_alloc"),
    *("can't start new thread", "a thread could not be created", "resource temporarily unavailable"),
)


class Command(NamedTuple):
    """Module and function of a command, and its line in the overview."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "check": Command("tagwood.cli.check", "check", "Check data before training: statistics and warnings."),
    "convert": Command("tagwood.cli.convert", "convert", "Convert a dataset to another format."),
    "demo": Command("tagwood.cli.demo", "demo", "Train and try a model on the docstrings of your Python."),
    "eval": Command("tagwood.cli.eval", "eval_command", "Measure a model, or saved predictions."),
    "explain": Command("tagwood.cli.explain", "explain", "Explain why a label was suggested, or why not."),
    "impute": Command("tagwood.cli.impute", "impute", "Assign the labels of groups to rows, for review."),
    "import-annif": Command("tagwood.cli.import_annif", "import_annif", "Write recipes for the projects of Annif."),
    "info": Command("tagwood.cli.info", "info", "Show versions, hardware and extras, or the passport of a model."),
    "learn": Command("tagwood.cli.learn", "learn", "Take corrections into a model at once, without training."),
    "plan": Command("tagwood.cli.plan", "plan", "Forecast memory, time and size before training."),
    "predict": Command("tagwood.cli.predict", "predict", "Suggest labels for texts."),
    "senses": Command("tagwood.cli.senses", "senses", "List the labels whose meanings differ most."),
    "serve": Command("tagwood.cli.serve", "serve", "Serve models: REST API and web page."),
    "show": Command("tagwood.cli.show", "show", "Show a model: passport, recipe, tree, labels."),
    "suggest": Command("tagwood.cli.predict", "predict", "Same as predict."),
    "train": Command("tagwood.cli.train", "train", "Train a model on texts and their labels."),
    "update": Command("tagwood.cli.update", "update", "Learn from new rows without a full training."),
    "tune": Command("tagwood.cli.tune", "tune", "Search for better settings, or for the fastest label tree."),
    "tune-threshold": Command(
        "tagwood.cli.tune_threshold", "tune_threshold", "Find the best threshold for label sets."
    ),
    "vocab": Command("tagwood.cli.vocab", "app", "List, compare and update label vocabularies."),
}


class _PlainValues:
    """Converts the values of one parameter: numbers, paths and texts.

    typer converts with pydantic, and importing that takes a fifth of the time of ``tagwood predict MODEL TEXT``. Its
    way is still taken for what is no valid value: it says what is wrong.
    """

    def __init__(self, kind: Any, low: float | None, high: float | None, typers: Callable[[], Any]) -> None:
        self._kind, self._typers = kind, typers
        self._low, self._high = (-math.inf if low is None else low), (math.inf if high is None else high)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a value, or a list of them, from what was on the command line or is the default."""
        try:
            if param.multiple or param.nargs == -1:
                return [self._convert(item) for item in value or ()]
            return None if value is None else self._convert(value)
        except (TypeError, ValueError):
            return self._typers().coerce(value, param=param, ctx=ctx)

    def _convert(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            if not isinstance(value, str) or self._kind is bool:
                raise TypeError
            if self._kind is Path and Path(value).exists() and not os.access(value, os.R_OK):
                raise ValueError
            value = self._kind(value)
        if isinstance(value, int | float) and not self._low <= value <= self._high:
            raise ValueError
        return value


def _with_plain_values(param: Any) -> Any:
    """Let a parameter of typer convert its values by `_PlainValues` if its type, or that of its items, is plain."""
    kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    if param.type_descriptor.is_list:
        (kind,) = get_args(kind)
    if kind in _PLAIN and all(getattr(info, rule) == getattr(_NO_RULES, rule) for rule in _RULES):
        values = _PlainValues(kind, info.min, info.max, lambda: type(param).get_runtime_param(param))
        param.get_runtime_param = lambda: values
    return param


class _Command(TyperCommand):
    """A command that converts plain values without pydantic."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(map(_with_plain_values, super().get_params(ctx)))


class _LazyGroup(TyperGroup):
    """Lists commands by their summaries and loads the one that is called."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(map(_with_plain_values, super().get_params(ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else load_command(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was called; Ctrl+C prints one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


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
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may follow any command.")] = False,
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
    if name in _WITHOUT_BLAS_THREADS and "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    function: Callable[..., None] | typer.Typer = getattr(import_module(place.module), place.function)
    if isinstance(function, typer.Typer):
        group = typer.main.get_command(function)
        for command in getattr(group, "commands", {}).values():
            _tidy_help(command)
        return group
    single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.command(name, cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})(function)
    return _tidy_help(typer.main.get_command(single))


def _tidy_help(command: Any) -> Any:
    """Make help texts print as written: brackets are not markup, paragraphs are not broken, arguments in capitals."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split()).replace("[", "\\[") for one in paragraphs)
    for param in command.params:
        if getattr(param, "help", None):
            param.help = param.help.replace("[", "\\[")
        if param.param_type_name == "argument" and param.metavar is None:
            param.metavar = param.name.upper()
    return command


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; errors are raised only with ``--debug`` in the arguments."""
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
    """Run the command line on the arguments of this process and exit.

    Imported modules are objects that stay: with the usual threshold the garbage collector scans them a hundred times
    while they are imported, and once more at the exit.
    """
    gc.set_threshold(_COLLECT_AFTER)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        _say("interrupted")
        code = INTERRUPTED
    gc.freeze()
    sys.exit(code)


def _report(error: Exception) -> int:
    """Write what went wrong in one line and return the exit code."""
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
            _say("interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            return OUR_ERROR
        case OSError(filename=str(filename), strerror=str(reason)):
            _say(f"error: {filename}: {reason}. {disk_hint(error)}")
            return USER_ERROR
        case OSError(errno=int(code), strerror=str(reason)) if code in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            _say(f"error: {reason}, probably in {tempfile.gettempdir()}. {disk_hint(error)}")
            return USER_ERROR
    if _is_short_of_memory(error):
        _say("error: out of memory or threads. Close other programs, use fewer threads (-j), or fewer rows or labels.")
        return OUR_ERROR
    words = " ".join(str(error).split())
    _say(f"internal error: {type(error).__name__}: {words}; rerun with --debug for the traceback")
    return OUR_ERROR


def _is_short_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is a lack of memory or threads: libraries report it in many ways."""
    while error is not None:
        words = str(error).lower()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in (errno.ENOMEM, errno.EAGAIN):
            return True
        if isinstance(error, ImportError | OSError | RuntimeError | SystemError) and any(
            sign in words for sign in _MEMORY_SIGNS
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _interrupt_again(lost: Any) -> None:
    """Repeat a Ctrl-C that Python lost in a finaliser, where it would only show a traceback and continue."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())  # an exception raised here would be lost too
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    time.sleep(0.01)
    _thread.interrupt_main()


def _take_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Remove ``--debug`` from the arguments before a ``--``; return whether it was there, and the rest."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(head) < end, [*head, *arguments[end:]]


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
