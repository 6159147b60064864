"""Keep the rows of the corpus on disk.

In and out: `Row`s. A file that cannot be trusted counts as missing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tagwood.data.pydocs.corpus import Row

FORMAT = 1  # raise it whenever the same sources would give other rows


def default_folder() -> Path:
    """Return tagwood's folder in the place where this system keeps what can be made again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tagwood"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tagwood"


def file_for(folder: Path, versions: Mapping[str, str]) -> Path:
    """Return the cache file of these package versions."""
    key = json.dumps([FORMAT, sorted(versions.items())])
    return folder / f"pydocs-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json.gz"


def load(file: Path) -> list[Row] | None:
    """Return the stored rows, or None if there is no file or it is damaged."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            content = json.load(stream)
        rows = [Row(text, group, labels) for text, group, labels in content["rows"]]
        return rows if content["sha256"] == _digest(rows) else None
    except (OSError, EOFError, ValueError, TypeError, KeyError, LookupError):
        return None


def store(file: Path, rows: Sequence[Row]) -> None:
    """Write the rows to a temporary file and rename it; a folder that cannot be written is no error."""
    content = {"sha256": _digest(rows), "rows": [(row.text, row.group, row.labels) for row in rows]}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(gzip.compress(json.dumps(content).encode(), compresslevel=3, mtime=0))
            Path(temporary).replace(file)
        finally:
            Path(temporary).unlink(missing_ok=True)


def _digest(rows: Sequence[Row]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update("\x1f".join([row.text, row.group, *row.labels, ""]).encode(errors="surrogatepass"))
    return digest.hexdigest()
