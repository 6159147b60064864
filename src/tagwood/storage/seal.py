"""The seal of manifest.json: its own SHA-256 in its second line, so that an edited manifest is refused.

The checksum covers every byte after itself, and the bytes before it are fixed, so no byte of the file can
change unnoticed, not even a space.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from tagwood.errors import StorageError
from tagwood.storage.manifest import FORMAT_VERSION, MANIFEST, Manifest
from tagwood.storage.strict_json import parse_json, render_json

FORMAT = "tagwood model"
OPENING = f'{{\n  "format": "{FORMAT}",\n  "checksum": "'.encode()
ASIDE = ".tagwood-old-"
MAX_BYTES = 64 << 20
RESTORE = "Copy the folder again from its source, or save the model again."


def seal_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of manifest.json."""
    raw = render_json({"format": FORMAT, "checksum": "", **manifest.to_json()})
    rest = raw[len(OPENING) :]
    return OPENING + hashlib.sha256(rest).hexdigest().encode() + rest


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Return what a model folder says about itself, without opening its arrays.

    Raises `StorageError` if there is no such folder, or its manifest is missing, damaged, edited or of a
    newer format.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    raw = _read(folder, path)
    try:
        value = parse_json(raw)
    except ValueError as error:
        raise StorageError(f"the manifest is damaged: {error}.", path=path, hint=RESTORE) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise StorageError(
            "this is not the manifest of a tagwood model",
            path=path,
            hint="Give the folder that `save` wrote.",
        )
    _check_version(value.get("format_version"), value.get("versions"), path)
    rest = raw[len(OPENING) + 64 :]
    if raw[: -len(rest)] != OPENING + hashlib.sha256(rest).hexdigest().encode():
        raise StorageError(
            "the manifest was edited or damaged after it was saved: its checksum does not match.",
            path=path,
            hint=f"{RESTORE} Notes are changed by saving with other notes.",
        )
    del value["format"], value["checksum"]
    try:
        return Manifest.from_json(value)
    except ValueError as error:
        raise StorageError(f"the manifest does not make sense: {error}.", path=path, hint=RESTORE) from None


def find_aside(folder: Path) -> list[Path]:
    """Return the old models that interrupted saves left beside `folder`."""
    name = re.escape(f"{ASIDE}{folder.name}-") + "[0-9a-f]{12}"  # exact: 'm' must not find those of 'm-2'
    if not folder.parent.is_dir():
        return []
    return sorted(path for path in folder.parent.iterdir() if re.fullmatch(name, path.name))


def _read(folder: Path, path: Path) -> bytes:
    try:
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode):
            raise StorageError("this must be a regular file, not a link or folder", path=path, hint=RESTORE)
        if info.st_size > MAX_BYTES:
            raise StorageError(
                f"the manifest has {info.st_size:,} bytes, more than the {MAX_BYTES:,} allowed",
                path=path,
                hint=RESTORE,
            )
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _explain(folder, path, error) from error


def _explain(folder: Path, path: Path, error: OSError) -> StorageError:
    if not os.path.lexists(folder):
        rescued = find_aside(folder)
        hint = (
            f"A save was interrupted; the model is safe in {rescued[-1]}: rename that folder back."
            if rescued
            else "Check the path; a model folder is what `save` wrote."
        )
        return StorageError("there is no such model folder", path=folder, hint=hint)
    if not folder.is_dir():
        return StorageError("a model is a folder, and this is a file", path=folder, hint="Give its folder.")
    if isinstance(error, FileNotFoundError):
        return StorageError(
            "the file is missing, so this is no complete model folder", path=path, hint=RESTORE
        )
    return StorageError(
        f"the file cannot be read ({error.strerror})", path=path, hint="Check its permissions and the disk."
    )


def _check_version(version: object, versions: object, path: Path) -> None:
    if type(version) is not int or version < 1:
        raise StorageError(
            f"the manifest has the impossible format version {version!r}", path=path, hint=RESTORE
        )
    if version > FORMAT_VERSION:
        writer = versions.get("tagwood") if isinstance(versions, dict) else None
        by = f" by tagwood {writer}" if isinstance(writer, str) else ""
        raise StorageError(
            f"the model was saved{by} in format {version}, "
            f"and this tagwood reads formats up to {FORMAT_VERSION}",
            path=path,
            hint="Upgrade with: pip install --upgrade tagwood",
        )
