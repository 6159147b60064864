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
    """Return the files of the package with a function (not only a module body or class body) that ran."""
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
    return found


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


@pytest.mark.parametrize("quality", ["balanced", "fast"])
def test_predict_imports_nothing_that_only_training_needs(quality, tmp_path):
    """Imports take most of the time of a text from the shell."""
    model = tmp_path / "model"
    assert run(["train", str(LIBRARY), "-O", str(model), "-j", "1", "--quality", quality]) == 0
    code = (
        "import sys; from tagwood.cli.app import run; run(sys.argv[1:]); "
        "heavy = ('sklearn', 'scipy', 'numpy.ma', 'numpy.testing', 'pandas', 'torch', 'fastapi', 'pydantic', 'rich');"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", model, "bees"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
