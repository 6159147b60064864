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
from typing import Any

from tagwood import Tagger
from tagwood.cli.app import run

from .cases import Case, make_case
from .stage import Stage

LONGEST = 20.0  # seconds; the slowest good case takes well under one
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
        return case, None, f"did not end in {LONGEST:g} s"
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
    left = sorted(path.name for path in stage.out.iterdir() if not path.name.startswith(".tagwood-"))
    if code != 0 and left:
        return f"exit code {code}, but left {left}"
    if code == 0 and case.arguments[0] == "train" and left:
        return _bad_model(stage)
    return None


def _bad_model(stage: Stage) -> str | None:
    for folder in stage.out.iterdir():
        try:
            Tagger.load(folder, verify=True)
        except Exception as error:
            return f"the model does not load: {error!r}"
    return None


@contextlib.contextmanager
def _clock(interrupt: float | None) -> Iterator[None]:
    """Stop what takes too long; press Ctrl-C after `interrupt` seconds."""
    began_interrupted = interrupt is not None

    def ring(*_: Any) -> None:
        nonlocal began_interrupted
        if began_interrupted:
            began_interrupted = False
            signal.setitimer(signal.ITIMER_REAL, LONGEST)
            raise KeyboardInterrupt
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST if interrupt is None else interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
