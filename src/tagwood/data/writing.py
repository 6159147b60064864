"""Write whole or not at all: into a temporary place beside the target, then rename.

In: a target path. Out: a place to write to; it becomes the target when the block ends well, and vanishes
otherwise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tagwood.errors import InputError


@contextmanager
def replace_path(path: Path, *, overwrite: bool, folder: bool) -> Iterator[Path]:
    """Yield a place to write a file or folder that then becomes `path`.

    With `overwrite`, an existing file is replaced; in an existing folder files of the same names are replaced
    and others stay.
    """
    _check_target(path, overwrite=overwrite, folder=folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tagwood-", dir=path.parent) as temporary:
        target = Path(temporary) / path.name
        yield target
        if folder and path.is_dir():
            for file in target.iterdir():
                file.replace(path / file.name)
        else:
            target.replace(path)


def _check_target(path: Path, *, overwrite: bool, folder: bool) -> None:
    if not path.exists() or (folder and path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{path} exists already", hint="Allow to replace it with overwrite=True (--force).")
    if folder != path.is_dir():
        kinds = ("a folder", "a file") if folder else ("a file", "a folder")
        raise InputError(f"this format is written as {kinds[0]}, but {path} is {kinds[1]}")
