"""Write whole or not at all: into a temporary place beside the target, then rename.

In: a target path. Out: a place to write to; it becomes the target if all goes well, and vanishes otherwise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tagwood.errors import InputError


@contextmanager
def replace_path(path: Path, *, overwrite: bool, folder: bool, companions: Iterable[str]) -> Iterator[Path]:
    """Yield a place to write a file or folder that then becomes `path`.

    `companions` are names of files that may be written beside the file or inside the folder. Old ones that
    are not written again are removed, so that they cannot be taken for part of the new data; other files
    stay.
    """
    check_target(path, overwrite=overwrite, folder=folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tagwood-", dir=path.parent) as temporary:
        target = Path(temporary) / path.name
        yield target
        if folder and not path.exists():
            target.replace(path)
            return
        source, goal = (target, path) if folder else (target.parent, path.parent)
        written = {file.name for file in source.iterdir()}
        for name in set(companions) - written:
            (goal / name).unlink(missing_ok=True)
        for name in sorted(written, key=lambda name: name == path.name):  # the data file last
            (source / name).replace(goal / name)


def check_target(path: Path, *, overwrite: bool, folder: bool) -> None:
    """Raise `InputError` if `path` must not be written."""
    if not path.exists() or (folder and path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{path} exists already", hint="Allow to replace it with overwrite=True (--force).")
    if folder != path.is_dir():
        kinds = ("a folder", "a file") if folder else ("a file", "a folder")
        raise InputError(f"this format is written as {kinds[0]}, but {path} is {kinds[1]}")
