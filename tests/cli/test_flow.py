"""Commands pass through few files: a trace counts the modules of the package whose functions are entered."""

import subprocess
import sys
from pathlib import Path

import pytest

import tagwood
from tagwood.cli.app import run

PACKAGE = str(Path(tagwood.__file__).parent)
LIBRARY = Path(__file__).parents[2] / "docs/examples/library.csv"


def entered_files(arguments):
    """Return the files of the package with a function (not only a module body or class body) that ran.

    `_lazy` is no step of a command: it stands for import statements.
    """
    found = set()

    def trace(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_flags & 0x2:  # CO_NEWLOCALS
            found.add(code.co_filename[len(PACKAGE) + 1 :])

    sys.setprofile(trace)
    try:
        assert run(arguments) == 0
    finally:
        sys.setprofile(None)
    return found - {"_lazy.py"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flow") / "model"
    assert run(["train", str(LIBRARY), "-O", str(folder), "-j", "1"]) == 0
    return folder


def test_train_enters_at_most_49_files(model, tmp_path, capsys):
    files = entered_files(["train", str(LIBRARY), "-O", str(tmp_path / "model"), "-j", "1"])
    assert len(files) <= 49, sorted(files)


def test_predict_enters_at_most_25_files(model, capsys):
    files = entered_files(["predict", str(model), "bees in the forest"])
    assert len(files) <= 25, sorted(files)


NOT_FOR_AN_ANSWER = (
    *("sklearn", "scipy", "numpy.ma", "numpy.testing", "pandas", "torch", "fastapi", "pydantic", "rich"),
    *(f"tagwood.data.{name}" for name in ("feedback", "formats", "reading", "records", "report", "vocab_files")),
    *(f"tagwood.metrics.{name}" for name in ("evaluation", "measures", "propensity", "report", "resampling")),
    *(f"tagwood.models.linear_tree.{name}" for name in ("explanation", "trials", "updating")),
    *(f"tagwood.tagger.{name}" for name in ("browsing", "explanation", "overview", "quality", "reasons", "senses")),
    *(f"tagwood.{name}" for name in ("models.disentangled", "trees.copies", "recipe", "planning", "tuning", "service")),
)


@pytest.mark.parametrize("quality", ["balanced", "fast"])
def test_predict_imports_nothing_that_an_answer_does_not_need(quality, tmp_path):
    """Imports take most of the time of a text from the shell."""
    model = tmp_path / "model"
    assert run(["train", str(LIBRARY), "-O", str(model), "-j", "1", "--quality", quality]) == 0
    assert imported("from tagwood.cli.app import run; run(sys.argv[1:])", "predict", model, "bees") == []


def test_import_tagwood_imports_none_of_its_modules():
    assert (
        imported("import tagwood; dir(tagwood)", forbidden=("numpy", "typer", "tagwood.errors", "tagwood._check")) == []
    )


def imported(code, *arguments, forbidden=NOT_FOR_AN_ANSWER):
    """Return which of the forbidden modules a new process imports when it runs the code."""
    code = f"import sys; {code}; sys.stderr.write(' '.join(one for one in {forbidden!r} if one in sys.modules))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.split()
