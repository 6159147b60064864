"""`tagwood info`: versions and hardware, or the passport of a model. In: nothing or a model folder. Out: facts."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from tagwood.cli.common import JsonFlag, facts_table, print_data, print_json

_REQUIREMENT = re.compile(r"^([\w.-]+).*?(?:extra == ['\"](\w+)['\"])?$")
_HIDDEN_EXTRAS = {"dev"}
_CPUINFO = Path("/proc/cpuinfo")


def info(
    model: Annotated[
        Path | None, typer.Argument(help="Model folder; without it, this installation is described.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show versions, hardware and extras of this installation, or the passport of a model."""
    facts = describe_installation() if model is None else describe_model(model)
    if json:
        print_json(facts)
    else:
        print_data(facts_table(_lines(facts)))


def describe_installation() -> dict[str, Any]:
    """Return versions, kernels, hardware and extras of this installation."""
    return {
        "tagwood": metadata.version("tagwood"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "kernels": {"module": _kernel_file(), "instruction_set": instruction_set()},
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory(),
        "dependencies": _versions(None),
        "extras": {extra: _versions(extra) for extra in _extras()},
    }


def describe_model(folder: Path) -> dict[str, Any]:
    """Return the passport of a model folder, with its size; the arrays are not read."""
    from tagwood.storage import read_manifest

    manifest = read_manifest(folder)
    return {"folder": str(folder), "bytes": manifest.folder_bytes, **manifest.to_json()}


def instruction_set() -> str:
    """Return the instruction set that the kernels choose on this processor.

    The hot loops are compiled for x86-64, x86-64-v3 (AVX2) and x86-64-v4 (AVX-512); the loader chooses.
    """
    if platform.machine() not in ("x86_64", "AMD64") or sys.platform != "linux":
        return platform.machine()
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.is_file() else []
    flags = set(next((line for line in lines if line.startswith("flags")), "").split())
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
        return "x86-64-v4 (AVX-512)"
    return "x86-64-v3 (AVX2)" if {"avx2", "fma", "bmi2"} <= flags else "x86-64"


def _kernel_file() -> str:
    from tagwood._kernels import _native

    return Path(_native.__file__ or "").name


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _extras() -> list[str]:
    offered = metadata.metadata("tagwood").get_all("Provides-Extra") or []
    return [extra for extra in offered if extra not in _HIDDEN_EXTRAS]


def _versions(wanted: str | None) -> dict[str, str | None]:
    """Return package -> installed version (None: missing) of the base dependencies or of an extra."""
    found: dict[str, str | None] = {}
    for requirement in metadata.requires("tagwood") or []:
        match = _REQUIREMENT.match(requirement)
        if match and match[2] == wanted:
            try:
                found[match[1]] = metadata.version(match[1])
            except metadata.PackageNotFoundError:
                found[match[1]] = None
    return found


def _lines(facts: dict[str, Any]) -> dict[str, object]:
    """Return the facts as names and values for a table: nested ones in one line, sizes in MB."""
    lines: dict[str, object] = {}
    for name, value in facts.items():
        if name == "extras":
            lines |= {f"extra {extra}": _join(versions, "not installed") for extra, versions in value.items()}
        elif name in ("bytes", "memory_bytes") and value is not None:
            lines[name.replace("_bytes", "").replace("bytes", "size")] = f"{value / 1e6:,.1f} MB"
        elif name == "files":
            lines[name] = [f"{file} ({content['bytes']:,} bytes)" for file, content in value.items()]
        elif name == "model":
            lines |= _node_lines(value)
        elif name == "golden":
            lines[name] = "stored, checked by load(verify=True)" if value else None
        else:
            lines[name.replace("_", " ")] = _join(value, None) if isinstance(value, dict) else value
    return lines


def _node_lines(node: dict[str, Any], name: str = "model") -> dict[str, object]:
    """Return kind, parameters and arrays of a model and, under their paths, of its parts."""
    lines: dict[str, object] = {name: node["kind"]}
    if node["params"]:
        lines[f"{name} parameters"] = _join(node["params"], "-")
    if node["arrays"]:
        shapes = {key: f"{array['dtype']} {tuple(array['shape'])}" for key, array in node["arrays"].items()}
        lines[f"{name} arrays"] = _join(shapes, None)
    for key, part in node["parts"].items():
        lines |= _node_lines(part, f"{name}/{key}")
    return lines


def _join(values: dict[str, Any], missing: str | None) -> str:
    return ", ".join(f"{name} {missing if value is None else value}" for name, value in values.items()) or "-"
