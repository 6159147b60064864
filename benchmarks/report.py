"""Pages of benchmarks and experiments: results as JSON, tables as Markdown below an introduction written by hand.

In: results and blocks of Markdown. Out: NAME.json and NAME.md in ``build/benchmarks`` or ``build/experiments``, or with
``--publish`` in ``docs``. What stands above the marker of a published page is kept; the code writes what is below it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import ROOT

MARKER = "<!-- results -->"


@dataclass(eq=False)
class Page:
    """A page of the site and the results it shows.

    Parameters
    ----------
    kind
        Folder: ``"benchmarks"`` or ``"experiments"``.
    name
        Name of the files without their suffix.
    fresh
        Whether stored results are measured again: ``--fresh``.
    """

    kind: str
    name: str
    fresh: bool = False
    _measured: set[tuple[str, ...]] = field(default_factory=set, repr=False)

    @property
    def published(self) -> Path:
        """The folder of the site."""
        return ROOT / "docs" / self.kind

    def parser(self, doc: str | None, *, quick: bool = False, keeps: bool = False) -> argparse.ArgumentParser:
        """Return an argument parser with ``--out`` and ``--publish``, which set ``out``.

        With `quick` it also has ``--quick``: little data, in a few minutes, into a folder of its own. With `keeps`, for
        pages whose stored results are not measured again, it has ``--fresh``, which sets `fresh`.
        """
        parser = _Parser(
            self, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
        folder = ROOT / "build" / self.kind
        parser.add_argument("--out", type=Path, default=folder, metavar="FOLDER", help=f"default: {folder}")
        parser.add_argument(
            "--publish",
            dest="out",
            action="store_const",
            const=self.published,
            help=f"write to {self.published.relative_to(ROOT)}",
        )
        if quick:
            parser.add_argument(
                "--quick",
                action="store_true",
                help=f"few rows, to see that it runs; results go to {(folder / 'quick').relative_to(ROOT)}",
            )
        if keeps:
            parser.add_argument("--fresh", action="store_true", help="measure again what is stored already")
        return parser

    def missing(self, store: Mapping[str, Any], *keys: str) -> bool:
        """Tell whether the result under `keys`, one for each level of `store`, is to be measured in this run.

        With ``--fresh`` everything is missing the first time that it is asked for.

        Examples
        --------
        >>> store = {"set": {"rows": [1, 2]}}
        >>> Page("benchmarks", "x").missing(store, "set", "rows"), Page("benchmarks", "x").missing(store, "set", "time")
        (False, True)
        >>> page = Page("benchmarks", "x", fresh=True)
        >>> page.missing(store, "set", "rows"), page.missing(store, "set", "rows")
        (True, False)
        """
        again = self.fresh and keys not in self._measured
        if self.fresh:
            self._measured.add(keys)
        here: Any = store
        for key in keys:
            if again or key not in here:
                return True
            here = here[key]
        return False

    def load(self, out: Path, default: Any = None) -> Any:
        """Return the results in a folder, or the default."""
        file = out / f"{self.name}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else default

    def save(self, out: Path, result: Any) -> None:
        """Write the results, replacing the file in one step."""
        out.mkdir(parents=True, exist_ok=True)
        part = out / f"{self.name}.json.part"
        part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(out / f"{self.name}.json")

    def write(self, out: Path, blocks: Iterable[str]) -> None:
        """Write the page: the published introduction, then the blocks."""
        source = self.published / f"{self.name}.md"
        head = source.read_text(encoding="utf-8").partition(MARKER)[0] if source.exists() else f"# {self.name}\n\n"
        out.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join(block for block in blocks if block)
        (out / f"{self.name}.md").write_text(f"{head}{MARKER}\n\n{text}\n", encoding="utf-8")
        print(f"{text}\n\nWritten: {out / self.name}.md", flush=True)


class _Parser(argparse.ArgumentParser):
    """A parser whose ``--quick`` keeps results of few rows apart from those of whole runs."""

    def __init__(self, page: Page, **options: Any) -> None:
        super().__init__(**options)
        self._page = page

    def parse_args(self, *args: Any, **options: Any) -> Any:
        """Return the arguments; a quick run has a folder of its own unless ``--out`` names one."""
        found = super().parse_args(*args, **options)
        self._page.fresh = getattr(found, "fresh", False)
        if getattr(found, "quick", False):
            if found.out.resolve().is_relative_to(ROOT.resolve() / "docs"):
                self.error("--quick results are not published: leave out --publish, or name another folder with --out")
            if found.out == self.get_default("out"):
                found.out = found.out / "quick"
        return found


def replace_row(rows: list[dict[str, Any]], row: dict[str, Any], key: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows with `row` in the place of an earlier one that has the same values under `key`.

    Examples
    --------
    >>> replace_row([{"set": "a", "P@1": 1}, {"set": "b", "P@1": 2}], {"set": "a", "P@1": 3}, ["set"])
    [{'set': 'a', 'P@1': 3}, {'set': 'b', 'P@1': 2}]
    """
    same = [[one.get(name) for name in key] == [row.get(name) for name in key] for one in rows]
    return [row if match else one for match, one in zip(same, rows, strict=True)] + ([] if any(same) else [row])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, the first column to the left and the others to the right.

    Examples
    --------
    >>> table(["tool", "s"], [["a", "1"]]).splitlines()
    ['| tool | s |', '|---|---:|', '| a | 1 |']
    """
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def columns_table(rows: Sequence[dict[str, Any]], columns: dict[str, str], form: str = ".2f") -> str:
    """Return a table of some columns, given as title and key; columns without any value are left out."""
    used = {title: key for title, key in columns.items() if any(key in row for row in rows)}

    def cell(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:{form}}" if isinstance(value, float) else str(value)

    return table(list(used), [[cell(row.get(key, "")) for key in used.values()] for row in rows])


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with about `digits` significant figures and thousands separators; nothing for None.

    Examples
    --------
    >>> number(12345.6), number(12.345), number(0.01234), number(None)
    ('12,346', '12.3', '0.0123', '')
    """
    if value is None:
        return ""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    if whole >= digits:
        return f"{value:,.0f}"
    return f"{value:.{digits - whole}f}" if whole else f"{value:.{digits}g}"


def machine() -> dict[str, Any]:
    """Return the facts about this machine that a reader needs."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    flags = f" {info.replace(chr(10), ' ')} "
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "vector_units": [name for name in ("avx2", "fma", "avx512f") if f" {name} " in flags],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def machine_line(facts: dict[str, Any] | str) -> str:
    """Return the facts as a sentence; older results have a string."""
    if isinstance(facts, str):
        return f"Machine: {facts}."
    vector = ", ".join(facts.get("vector_units", ())) or "vector units unknown"
    rest = [f"{facts['cores']} cores"]
    rest += [f"{facts['memory_gb']} GB", facts["system"]] if "memory_gb" in facts else []
    date = f"; {facts['date']}" if "date" in facts else ""
    return f"Machine: {facts['processor']} ({vector}), {', '.join(rest)}, Python {facts['python']}{date}."
