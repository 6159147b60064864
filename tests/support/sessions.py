"""Sessions in documentation pages: run the commands of each console block and compare, or write, what they print."""

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from tagwood.cli.app import run

DOCS = Path(__file__).parent.parent.parent / "docs"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
VARYING = [  # time and size differ between machines
    (re.compile(r"\d+\.\d+ s, \d+\.\d+ kB"), "... s, ... kB"),
    (re.compile(r"^( +\d+  [01]\.\d{4}) +\d+\.\d  ", re.MULTILINE), r"\1      ...  "),
]


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


def in_examples(folder):
    """Go to an empty folder with the example files in it."""
    for path in (DOCS / "examples").iterdir():
        shutil.copy(path, folder)
    os.chdir(folder)


def sessions_of(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def write_sessions(page):
    """Write the present output into a page."""
    os.environ["COLUMNS"] = "100"
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        in_examples(folder)
        text = BLOCK.sub(lambda block: "```console\n" + "\n".join(run_session(block[1])) + "\n```", text)
    page.write_text(text, encoding="utf-8")
