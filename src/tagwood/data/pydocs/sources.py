"""Find the source files of the standard library and of installed packages, without importing any of them.

In: package names. Out: (module name, file) pairs in a fixed order, and the versions that key the cache.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import NamedTuple

from tagwood.errors import InputError

STDLIB = "stdlib"
CORE_PACKAGES = (STDLIB, "numpy", "scipy", "sklearn")
"""What every installation of tagwood has; the demo uses these so that it shows the same everywhere."""

KNOWN_PACKAGES = (
    *CORE_PACKAGES,
    *("joblib", "pandas", "networkx", "matplotlib", "statsmodels", "skimage", "xarray", "polars", "sympy"),
)
"""What `build` takes by default where it is installed."""

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "skimage": "scikit-image"}
_SKIPPED_FOLDERS = {
    *("test", "tests", "testing", "conftest", "__pycache__", "site-packages", "dist-packages", "externals"),
    *(
        "idlelib",
        "lib2to3",
        "turtledemo",
        "ensurepip",
        "distutils",
        "encodings",
        "pydoc_data",
        "array_api_compat",
    ),
    *("array_api_extra", "_examples", "f2py", "_pyinstaller", "_vendored", "msilib", "benchmarks"),
}
_SKIPPED_MODULES = {"this", "antigravity", "setup", "conftest", "ntpath", "nturl2path", "numpy.matlib"}
# Python twins of compiled modules, and modules that users know by another name.
_RENAMED = {
    "posixpath": "os.path",
    "_collections_abc": "collections.abc",
    "_pydecimal": "decimal",
    "_pydatetime": "datetime",
    "_pyio": "io",
}


class Source(NamedTuple):
    """One module's file."""

    module: str
    path: Path
    is_package: bool


def installed(packages: Sequence[str] | None) -> list[str]:
    """Return the packages to read: those asked for, or every known one that is installed."""
    if packages is None:
        return [name for name in KNOWN_PACKAGES if _root(name) is not None]
    if isinstance(packages, str) or not packages:
        raise InputError("packages must be a list with at least one package name", given=repr(packages))
    for name in packages:
        if _root(name) is None:
            raise InputError(
                f"package {name!r} must be installed as Python source",
                hint=f"Install it, or choose among {', '.join(installed(None))}.",
            )
    return sorted(set(packages), key=lambda name: (name not in KNOWN_PACKAGES, name))


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the version of each package; the texts depend on nothing else."""
    found = {}
    for name in packages:
        try:
            found[name] = sys.version if name == STDLIB else metadata.version(_DISTRIBUTIONS.get(name, name))
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def find_sources(packages: Sequence[str]) -> list[Source]:
    """Return the modules of all packages, sorted by name; tests and vendored copies are left out."""
    found: dict[str, Source] = {}
    for name in packages:
        root = _root(name)
        assert root is not None
        for source in _walk(root, "" if name == STDLIB else name):
            if source.module in _RENAMED:
                source = source._replace(module=_RENAMED[source.module], is_package=False)
                found[source.module] = source
            else:
                found.setdefault(source.module, source)
    return [found[module] for module in sorted(found)]


def _root(name: str) -> Path | None:
    if name == STDLIB:
        return Path(sysconfig.get_path("stdlib"))
    try:
        spec = util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _walk(root: Path, prefix: str) -> Iterator[Source]:
    if root.is_file():
        yield Source(prefix, root, is_package=False)
        return
    own = root / "__init__.py"
    if prefix and own.is_file():
        yield Source(prefix, own, is_package=True)
    for entry in sorted(root.iterdir()):
        name = f"{prefix}.{entry.stem}" if prefix else entry.stem
        if entry.is_dir():
            if entry.name not in _SKIPPED_FOLDERS and (entry / "__init__.py").is_file():
                yield from _walk(entry, name)
        elif entry.suffix == ".py" and entry.stem.isidentifier() and not _is_skipped(name, entry.stem):
            yield Source(name, entry, is_package=False)


def _is_skipped(module: str, stem: str) -> bool:
    return stem == "__init__" or module in _SKIPPED_MODULES or stem in _SKIPPED_FOLDERS
