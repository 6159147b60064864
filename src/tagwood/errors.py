"""The errors that tagwood raises; each message has what was expected, what was given, and what to do.

The command line maps them to exit codes and the service to HTTP problems: `InputError` and its subclasses are caused by
user input (exit code 2), all others are internal errors (exit code 1).
"""

from __future__ import annotations

import errno
from pathlib import Path


class TagwoodError(Exception):
    """Base class of all errors.

    Parameters
    ----------
    expected
        What was expected, as a clause: ``"k must be at least 1"``.
    given
        What was given, as a noun phrase: ``"0"``.
    hint
        What to do next, as a sentence.

    Examples
    --------
    >>> str(InputError("k must be at least 1", given="0", hint="Use 1 or more."))
    'k must be at least 1; got 0. Use 1 or more.'
    """

    def __init__(self, expected: str, *, given: str | None = None, hint: str | None = None) -> None:
        self.expected = expected
        self.given = given
        self.hint = hint
        text = expected if given is None else f"{expected}; got {given}"
        if not text.endswith((".", "?", "!")):
            text += "."
        super().__init__(text if hint is None else f"{text} {hint}")


class InputError(TagwoodError, ValueError):
    """An argument, option or array is not valid."""


class DataError(InputError):
    """A data file cannot be read; the message has the file, the line if there is one, and the reason."""

    def __init__(
        self, reason: str, *, path: str | Path | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(f"{where}{reason}", hint=hint)
        self.reason = reason
        self.path = None if path is None else str(path)
        self.line = line


class NotFittedError(InputError):
    """A model was used before it was fitted."""


class StorageError(InputError):
    """A model folder is damaged, altered, of a newer format or not one at all, or an output cannot be written."""

    def __init__(self, reason: str, *, path: str | Path, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.reason = reason
        self.path = str(path)


class MissingExtraError(TagwoodError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(
            f"{what} needs the optional dependencies '{extra}'",
            hint=f"Install them with: pip install 'tagwood[{extra}]'",
        )
        self.extra = extra


def disk_hint(error: OSError) -> str:
    """Return what to do about a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Free some space there, or write to another disk."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Check the permissions, or write to another folder."
    if error.errno == errno.EIO:
        return "The disk reports an error: check it, or write to another one."
    return "Check the path, its permissions and the free space."
