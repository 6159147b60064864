"""Tables of the PRIME experiment. In: its records by key. Out: blocks of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.report import Page, table
from experiments.statistics import in_words

PAGE = Page("experiments", "prime")
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@100")
DISTINCT = "P@5, near-duplicates once"
SETS = ("tibkat-gnd-en", "debian-depends", "yso-titles")
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


def page_blocks(store: Store) -> Iterator[str]:
    """Yield a section per set."""
    for name in SETS:
        yield from _section(store, name)


def _section(store: Store, name: str) -> list[str]:
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
    parts += [_differences(store, name), *_zero_shot(store, name)]
    return parts if rows else []


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


def _table(store: Store, name: str, rows: Sequence[str], kind: str = "") -> str:
    """Return the table of the measured rows; `kind` is the prefix of the dual encoders to reach."""
    goal = _goal(store, name, kind)
    lines = []
    for row in rows:
        found = records(store, name, row)
        if found:
            cells = [in_words([one[measure] for one in found]) for measure in MEASURES]
            distinct = [one[DISTINCT] for one in found if DISTINCT in one]
            cells.append(in_words(distinct) if len(distinct) == len(found) else "")
            lines.append([row, *cells, _epochs(found, goal), str(len(found))])
    return table(["", *MEASURES, DISTINCT, "epochs to the dual encoder", "seeds"], lines)


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
    return "What PRIME chose, with nDCG@5 of its trials on held-out rows: " + "; ".join(lines) + "." if lines else ""


def _differences(store: Store, name: str) -> str:
    lines = []
    for key, record in store.items():
        if key.startswith(f"{name}|") and "|minus " in key:
            _, row, other = key.split("|")
            found = (record[m] for m in ("P@1", "P@5", "PSP@5"))
            cells = [f"{d:+.1f} ({low:+.1f} to {high:+.1f})" for d, low, high in found]
            lines.append([f"{row} {other}", *cells, f"{record['rows']:,}", str(record["seeds"])])
    header = ["paired difference", "P@1", "P@5", "PSP@5", "rows", "seeds"]
    return table(header, lines) if lines else ""


def _zero_shot(store: Store, name: str) -> list[str]:
    found = {kind: records(store, name, row) for row, kind in ZERO_SHOT.items()}
    found = {kind: listed for kind, listed in found.items() if listed}
    if not found:
        return []
    one = next(iter(found.values()))[0]
    lines = [
        [key, *(in_words([record[key] for record in listed]) for listed in found.values())]
        for key in one
        if key not in ("new labels", "test rows")
    ]
    return [
        f"New labels: {one['new labels']:,} labels without training rows; {one['test rows']:,} test rows have one.",
        table(["", *(f"{kind}, {len(listed)} seed(s)" for kind, listed in found.items())], lines),
    ]
