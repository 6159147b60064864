"""Folders that hold a training and a test split under fixed names.

In: the folder or one of its files, and the split that is wanted. Out: the folder and the split.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tagwood.errors import DataError


def split_folder(path: Path, split: str | None, marks: Mapping[str, str]) -> tuple[Path, str]:
    """Return folder and split (``"train"`` or ``"test"``).

    `marks` says which split a piece of a file name means. A file decides the split by its name; a folder
    gives the wanted split, or else the training split if it has one.
    """
    if not path.is_dir():
        named = next((split for mark, split in marks.items() if mark in path.name), split or "train")
        return path.parent, named
    if split is not None:
        return path, split
    names = [file.name for file in path.iterdir()]
    found = [split for mark, split in marks.items() if any(mark in name for name in names)]
    return path, "train" if "train" in found or not found else found[0]


def existing(path: Path, what: str) -> Path:
    """Return `path`, or the same with ``.gz``, whichever exists; otherwise raise `DataError`."""
    packed = path.with_name(path.name + ".gz")
    if path.exists():
        return path
    if packed.exists():
        return packed
    raise DataError(f"the file with {what} is missing", path=path)
