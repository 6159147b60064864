"""The page of the PRIME experiment. In: its records. Out: docs/experiments/prime.md, below its marker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.prime_first import FIRST, NAME, ROWS

MARKER = "<!-- results -->"
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@100")
DISTINCT = "P@5, near-duplicates once"
SETS = ("tibkat-gnd-en", "debian-depends", "yso-titles")
T_95 = 4.30  # Student's t of a 95 % interval of three seeds
FAMILY = (
    "PRIME",
    "linear tree",
    "tree on TF-IDF + encoder",
    "PRIME (W)",
    "PRIME + PRIME (W)",
    "tree + PRIME, equal and not calibrated",
    "tree + PRIME, without the held-out rows",
    "tree + PRIME",
)
DUAL = ("dual encoder, margin 0.1", "dual encoder, margin 0.3", "dual encoder, shuffled batches")
MAIN = (*DUAL, "PRIME", "momentum", "leave-one-out")
MINILM = tuple(f"minilm: {row}" for row in ("not trained", *DUAL[:2], "PRIME", "momentum", *FAMILY[-2:]))
ZERO_SHOT = {"zero-shot": "bag", "minilm: zero-shot": "minilm"}
Store = dict[str, dict[str, Any]]


def write_page(store: Store, out: Path) -> None:
    """Write the tables below the marker of the page."""
    page = out / "prime.md"
    head = page.read_text(encoding="utf-8").partition(MARKER)[0] if page.exists() else "# PRIME\n\n"
    parts = [part for name in SETS if (part := _section(store, name))]
    parts += [part for part in [_first(store)] if part]
    page.write_text(f"{head}{MARKER}\n\n" + "\n\n".join(parts) + "\n", encoding="utf-8")


def _first(store: Store) -> str:
    """Return the table of a first try with few texts."""
    lines = [f"### {NAME}, {ROWS:,} titles", "", "| | P@1 | P@3 | P@5 |", "|---|---:|---:|---:|"]
    for row in FIRST:
        for record in records(store, NAME, row):
            lines.append(
                f"| {row} | " + " | ".join(f"{record[measure]:.1f}" for measure in MEASURES[:3]) + " |"
            )
    return "\n".join(lines) if len(lines) > 4 else ""


def _section(store: Store, name: str) -> str:
    rows = list(dict.fromkeys(key.split("|")[1] for key in store if key.startswith(f"{name}|")))
    known = (*FAMILY, *MAIN, *MINILM, *ZERO_SHOT)
    others = sorted(row for row in rows if row not in known and not row.startswith("minilm"))
    parts = [f"### {name}", _choice(store, name, "PRIME"), _table(store, name, MAIN)]
    if others:
        parts += ["Parts left out or changed, with momentum centroids:"]
        parts += [_table(store, name, ["momentum", *others])]
    if "linear tree" in rows:
        parts += ["Trees and ensembles:", _table(store, name, FAMILY), _shares(store, name)]
    if MINILM[0] in rows:
        parts += [
            "With the encoder minilm, of which a head is trained:",
            _choice(store, name, "minilm: PRIME"),
        ]
        parts += [_table(store, name, (*MINILM, "linear tree"), "minilm: ")]
    parts += [_differences(store, name), _zero_shot(store, name)]
    return "\n\n".join(part for part in parts if part) if len(rows) else ""


def _shares(store: Store, name: str) -> str:
    shares = [
        " and ".join(f"{100 * share:.0f} %" for share in record["shares"])
        for row in ("tree + PRIME", MINILM[-1])
        for record in records(store, name, row)
        if "shares" in record
    ]
    return f"Shares of tree and PRIME, learned on held-out rows: {'; '.join(shares)}." if shares else ""


def records(store: Store, name: str, row: str) -> list[dict[str, Any]]:
    """Return the records of a row, one per seed."""
    return [store[key] for seed in range(3) if (key := f"{name}|{row}|{seed}") in store]


def interval(values: list[float]) -> tuple[float, float | None]:
    """Return the mean and half the width of its 95 % interval over three seeds; None for fewer.

    Examples
    --------
    >>> interval([1.0, 1.0, 4.0])[0]
    2.0
    """
    if len(values) < 3:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(T_95 * np.std(values, ddof=1) / np.sqrt(len(values)))


def _cell(values: list[float]) -> str:
    mean, half = interval(values)
    return f"{mean:.1f}" if half is None else f"{mean:.1f} ± {half:.1f}"


def _table(store: Store, name: str, rows: Sequence[str], kind: str = "") -> str:
    """Return the table of those rows that were measured; `kind` begins the names of the dual encoders to reach."""
    head = [*MEASURES, DISTINCT, "epochs to the dual encoder", "seeds"]
    lines = [f"| | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
    goal = _goal(store, name, kind)
    for row in rows:
        found = records(store, name, row)
        if not found:
            continue
        cells = [_cell([one[measure] for one in found]) for measure in MEASURES]
        cells.append(_cell([one[DISTINCT] for one in found]) if all(DISTINCT in one for one in found) else "")
        lines.append(f"| {row} | {' | '.join(cells)} | {_epochs(found, goal)} | {len(found)} |")
    return "\n".join(lines)


def _goal(store: Store, name: str, kind: str) -> list[float]:
    """Return the last P@1 of the better dual encoder, by seed."""
    best: list[float] = []
    for row in DUAL[:2]:
        last = [one["curve"][-1] for one in records(store, name, kind + row) if one.get("curve")]
        if last and (not best or np.mean(last) > np.mean(best)):
            best = last
    return best


def _epochs(found: list[dict[str, Any]], goal: list[float]) -> str:
    """Return after how many epochs each seed reaches the goal."""
    counts = []
    for one, wanted in zip(found, goal, strict=False):
        if not one.get("curve"):
            return ""
        reached = np.flatnonzero(np.asarray(one["curve"]) >= wanted)
        counts.append(f"{reached[0] + 1}" if reached.size else "–")
    total = f" of {len(found[0]['curve'])}" if counts else ""
    return ", ".join(counts) + total


def _choice(store: Store, name: str, row: str) -> str:
    found = records(store, name, row)
    lines = [
        f"seed {seed}: {one['chosen']} ("
        + ", ".join(f"{kind} {100 * value:.1f}" for kind, value in one["trials"].items())
        + ")"
        for seed, one in enumerate(found)
        if one.get("trials")
    ]
    return (
        "What PRIME chose, with nDCG@5 of its trials on held-out rows: " + "; ".join(lines) + "."
        if lines
        else ""
    )


def _differences(store: Store, name: str) -> str:
    lines = ["| paired difference | P@1 | P@5 | PSP@5 | rows | seeds |", "|---|---:|---:|---:|---:|---:|"]
    for key, record in store.items():
        if not key.startswith(f"{name}|") or "|minus " not in key:
            continue
        _, row, other = key.split("|")
        cells = [
            f"{d:+.1f} ({low:+.1f} to {high:+.1f})"
            for d, low, high in (record[m] for m in ("P@1", "P@5", "PSP@5"))
        ]
        cells += [f"{record['rows']:,}", str(record["seeds"])]
        lines.append(f"| {row} {other} | {' | '.join(cells)} |")
    return "" if len(lines) == 2 else "\n".join(lines)


def _zero_shot(store: Store, name: str) -> str:
    found = {kind: records(store, name, row) for row, kind in ZERO_SHOT.items()}
    found = {kind: listed for kind, listed in found.items() if listed}
    if not found:
        return ""
    one = next(iter(found.values()))[0]
    lines = [
        f"New labels: {one['new labels']:,} labels without training rows; {one['test rows']:,} test rows have one.",
        "",
        "| | " + " | ".join(f"{kind}, {len(listed)} seed(s)" for kind, listed in found.items()) + " |",
        "|---|" + "---:|" * len(found),
    ]
    for key in one:
        if key not in ("new labels", "test rows"):
            cells = [_cell([record[key] for record in listed]) for listed in found.values()]
            lines.append(f"| {key} | {' | '.join(cells)} |")
    return "\n".join(lines)
