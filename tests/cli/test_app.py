import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
import typer

from tagwood.cli import app as frame
from tagwood.errors import DataError, InputError, MissingExtraError, TagwoodError


@pytest.fixture(autouse=True)
def _restore_warnings(monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


@pytest.fixture
def command(monkeypatch):
    """Return a function that makes `tagwood info` do something else, and runs it."""

    def run(action, *arguments: str) -> int:
        def info() -> None:
            action()

        monkeypatch.setattr("tagwood.cli.info.info", info)
        return frame.run(["info", *arguments])

    return run


def raiser(error: BaseException):
    def action():
        raise error

    return action


def tagwood(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", "from tagwood.cli import main; main()", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, **options)


def test_version_is_one_line_on_stdout(capsys):
    assert frame.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tagwood ")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_overview_lists_every_command(arguments, capsys):
    assert frame.run(arguments) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in frame.COMMANDS)


@pytest.mark.parametrize("name", frame.COMMANDS)
def test_every_command_loads_has_help_and_json(name, capsys):
    assert frame.run([name, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_help_prints_brackets_and_whole_paragraphs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert frame.run(["train", "--help"]) == 0
    out = capsys.readouterr().out
    assert "tagwood[neural]" in out
    assert "according to the forecast (see tagwood plan) is refused before it starts; with --max-ram" in out
    assert "Usage: tagwood train [OPTIONS] {DATA}..." in out


def test_overview_loads_no_command_and_nothing_heavy():
    code = (
        "import sys; from tagwood.cli.app import run; run(['--help']);"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'sklearn', 'pyarrow', 'ray')"
        " or m in ('tagwood.cli.demo', 'tagwood.cli.info', 'tagwood.cli.eval')], file=sys.stderr)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == "[]\n"


@pytest.mark.parametrize(
    "arguments, near",
    [(["inof"], "Did you mean 'info'?"), (["info", "--jsn"], "--json"), (["--versoin"], "--version")],
)
def test_misspelt_commands_and_options_get_a_suggestion(arguments, near, capsys):
    assert frame.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert near in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "error, code, line",
    [
        (InputError("k must be at least 1", given="0"), 2, "error: k must be at least 1; got 0."),
        (DataError("no labels", path="a.txt", line=3), 2, "error: a.txt, line 3: no labels."),
        (TagwoodError("the kernels disagree"), 1, "error: the kernels disagree."),
        (MissingExtraError("Reading Parquet", extra="parquet"), 1, "pip install 'tagwood[parquet]'"),
        (
            FileNotFoundError(2, "No such file or directory", "a.txt"),
            2,
            "error: a.txt: No such file or directory.",
        ),
        (MemoryError(), 1, "error: out of memory or threads."),
        (KeyError("x\ny"), 1, "internal error: KeyError: 'x\\ny'; rerun with --debug for the traceback"),
    ],
)
def test_errors_are_one_line_on_stderr_with_an_exit_code(command, capsys, error, code, line):
    assert command(raiser(error)) == code
    captured = capsys.readouterr()
    assert line in captured.err
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("place", [["--debug", "info"], ["info", "--debug"]])
def test_debug_lets_the_traceback_through_wherever_it_stands(monkeypatch, place):
    def info() -> None:
        raise KeyError("x")

    monkeypatch.setattr("tagwood.cli.info.info", info)
    with pytest.raises(KeyError):
        frame.run(place)


def test_debug_behind_two_dashes_is_an_ordinary_argument():
    assert frame._take_debug(["info", "--", "--debug"]) == (False, ["info", "--", "--debug"])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_interruption_gives_130_and_one_word(command, capsys, error):
    assert command(raiser(error)) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_command_can_choose_its_exit_code(command):
    assert command(raiser(typer.Exit(7))) == 7


def test_warnings_are_one_line_on_stderr(command, capsys):
    def warn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("three rows are empty", stacklevel=1)

    command(warn)
    assert capsys.readouterr().err == "warning: three rows are empty\n"


def test_a_closed_pipe_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-c", "from tagwood.cli import main; main()", "info", "--json"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


def test_the_process_exits_with_the_code_of_the_command(tmp_path):
    assert tagwood("info", str(tmp_path / "none")).returncode == 2
    good = tagwood("info", "--json")
    assert good.returncode == 0
    assert json.loads(good.stdout)["tagwood"]


def test_shell_completion_offers_the_commands():
    env = {**os.environ, "_TAGWOOD_COMPLETE": "complete_bash", "COMP_WORDS": "tagwood in", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['tagwood']; from tagwood.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == ["info"]


def test_an_interrupt_that_python_loses_in_a_finaliser_is_heard(command, capsys):
    class Clumsy:
        def __del__(self):
            raise KeyboardInterrupt

    def action():
        Clumsy()
        time.sleep(5)

    assert command(action) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        SystemError("a thread could not be created: Resource temporarily unavailable"),
    ],
)
def test_a_lack_of_memory_or_threads_is_one_sentence(command, capsys, error):
    assert command(raiser(error)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: out of memory or threads. Close other programs")
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(28, "No space left", "/x/y")])
def test_a_full_disk_is_one_sentence_with_the_place_and_a_remedy(command, capsys, error):
    assert command(raiser(error)) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert (error.filename or tempfile.gettempdir()) in said
    assert "Free some space there, or write to another disk." in said


def test_numbers_paths_and_texts_are_converted_without_pydantic(tmp_path):
    code = (
        "import sys; from tagwood.cli.app import load_command as load; found = []\n"
        "command = load('predict'); command.callback = lambda **given: found.append(given)\n"
        "command(['model', 'a', 'b', '-l', '7', '-t', '.5', '--exclude', 'x'], standalone_mode=False)\n"
        "names = 'model', 'sources', 'limit', 'threshold', 'restrict', 'exclude', 'sets'\n"
        "print([found[0][name] for name in names])\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[PosixPath('model'), ['a', 'b'], 7, 0.5, [], ['x'], False]\nFalse\n"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_commands_that_answer_texts_start_no_threads_of_blas():
    code = (
        "import os; from pathlib import Path; from tagwood.cli.app import load_command as load\n"
        "load('predict'); import numpy as np; np.ones((500, 500)) @ np.ones((500, 500))\n"
        "print(len(list(Path('/proc/self/task').iterdir())))"
    )
    bare = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=bare)
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    "words, message",
    [
        (["predict", "model", "text", "-l", "many"], "'--limit' / '-l'"),
        (["serve", "model", "--port", "65536"], "less than or equal to 65535"),
    ],
)
def test_values_that_are_not_valid_are_explained_by_typer(words, message, capsys):
    assert frame.run(words) == 2
    assert message in capsys.readouterr().err
