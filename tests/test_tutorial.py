"""The sessions in docs/tutorial.md, run command by command; the output must be what the page shows.

``python tests/test_tutorial.py`` writes the present output into the page.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from tagwood.cli.app import run

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "tutorial.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
VARYING = [(re.compile(r"\d+\.\d+ s, \d+\.\d+ kB"), "... s, ... kB")]  # time and size differ between machines


def plain(text):
    for pattern, words in VARYING:
        text = pattern.sub(words, text)
    return [line.rstrip() for line in text.splitlines()]


def run_session(session):
    """Run the commands of a block and return it with their output."""
    shown = []
    for command in (line[2:] for line in session.splitlines() if line.startswith("$ ")):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = run(shlex.split(command)[1:])
        assert code == 0, f"{command}: {output.getvalue()}"
        shown += [f"$ {command}", *plain(output.getvalue())]
    return shown


def in_empty_folder(folder):
    shutil.copy(DOCS / "examples" / "library.csv", folder)
    os.chdir(folder)


def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    in_empty_folder(tmp_path)
    sessions = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(sessions) == 4
    for session in sessions:
        assert run_session(session) == plain(session)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        in_empty_folder(folder)
        text = BLOCK.sub(lambda block: "```console\n" + "\n".join(run_session(block[1])) + "\n```", text)
    PAGE.write_text(text, encoding="utf-8")
