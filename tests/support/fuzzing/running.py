"""Run a case in this process and judge it. In: a `Case`. Out: what is wrong, or None."""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood import load
from tagwood.cli.app import run

from .cases import Case, make_case
from .stage import N_ROWS, Stage

LONGEST = 10.0  # seconds; the slowest good case takes well under one
_CODES = (0, 2)


class TooLongError(BaseException):
    """A case did not end; no command catches this."""


def judge(stage: Stage, number: int) -> tuple[Case, int | None, str | None]:
    """Make and run a case; return it, its exit code and what is wrong with how it ended."""
    shutil.rmtree(stage.out, ignore_errors=True)
    stage.out.mkdir(parents=True)
    case = make_case(stage, number)
    try:
        with contextlib.chdir(stage.out):
            code, out, err = run_case(case)
    except TooLongError:
        return case, None, f"did not end in {3 * LONGEST:g} s"
    except BaseException:
        return case, None, traceback.format_exc()
    return case, code, _wrong(stage, case, code, out + err)


def run_case(case: Case) -> tuple[int, str, str]:
    """Run the command line with its own stdin, stdout and stderr; return the exit code and what it wrote."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
    saved = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin), "utf-8", errors="surrogateescape")
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _clock(case.interrupt),
        ):
            warnings.simplefilter("default")  # as users have it; in tests warnings are errors
            code = _run(case)
    finally:
        sys.stdin = saved
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return code, texts[0], texts[1]


def _run(case: Case) -> int:
    try:
        return run(case.arguments)
    except KeyboardInterrupt:  # as `main` does
        return 130
    except SystemExit as error:
        raise AssertionError(f"the command ended the process with {error.code!r}") from error


def _wrong(stage: Stage, case: Case, code: int, said: str) -> str | None:
    allowed = (*_CODES, 130) if case.interrupt is not None else _CODES
    if code not in allowed:
        return f"exit code {code}: {said[-500:]}"
    for words in ("internal error", "Traceback", "out of memory"):
        if words in said:
            return f"said {words!r}: {said[-500:]}"
    if code == 2 and not said.strip():
        return "exit code 2 without a word"
    # Ctrl-C between the making and the guarding of a staging folder leaves it: hidden, and known to the next save.
    left = [path for path in stage.out.iterdir() if not path.name.startswith(".tagwood-")]
    if code == 2 and left:
        return f"exit code {code}, but left {[path.name for path in left]}"
    if code == 130 or case.arguments[0] == "train":
        return next(filter(None, map(_unfinished, left)), None)
    return None


def _unfinished(path: Path) -> str | None:
    """Say what is wrong with a model folder, or with a file that should hold all rows of the stage."""
    try:
        if path.is_dir():
            load(path, verify=True)
        elif path.name.endswith(".labels.tsv"):
            return None  # the label table beside a dataset comes first, the dataset last
        elif len(path.read_text(encoding="utf-8").splitlines()) < N_ROWS:
            return f"{path.name} is not complete"
    except Exception as error:
        return f"{path.name} cannot be read: {error!r}"
    return None


@contextlib.contextmanager
def _clock(interrupt: float | None) -> Iterator[None]:
    """Stop what takes too long; press Ctrl-C after `interrupt` seconds.

    The clock may ring three times before a case is stopped, because this process may be suspended for a while.
    """
    rings = -1 if interrupt is not None else 0

    def ring(*_: Any) -> None:
        nonlocal rings
        rings += 1
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        if rings == 0:
            raise KeyboardInterrupt
        if rings == 3:
            raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST if interrupt is None else interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
