"""Tables of the disentanglement experiment. In: result rows. Out: blocks of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.report import Page, table
from experiments.statistics import in_words

PAGE = Page("experiments", "disentanglement")
KEY = ("part", "set", "mode", "k", "model", "features")
PRECISION = ("P@1", "P@3", "P@5")
HEADS = {
    "real": "Real sets (Table 4, A.8)",
    "seeds": "Several seeds, all test rows and one per label set",
    "fused": "Fused labels (Figure 2)",
    "difficulty": "Fused labels over several fusions",
    "copies": "Number of copies (Figure 3)",
    "dense": "Dense beside sparse features (Table 3)",
    "time": "Cost (Table 5)",
}


def page_blocks(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield headings and tables."""
    for part, head in HEADS.items():
        mine = [row for row in rows if row["part"] == part]
        if not mine:
            continue
        yield f"### {head}"
        if part == "time":
            yield table(
                ["set", "model", "training, s", "× base", "ms per row", "× base"],
                [
                    [row["set"], row["model"], f"{row['fit_seconds']:.1f}", f"{row['fit_ratio']:.2f}",
                     f"{row['rank_ms']:.3f}", f"{row['rank_ratio']:.2f}"]
                    for row in mine
                ],
            )  # fmt: skip
        elif part == "fused":
            yield from fused_tables(mine)
        elif part == "difficulty":
            yield difficulty_table(mine)
        elif part == "seeds":
            yield table(
                ["set", "test rows", "", "seeds", "model", *(f"{m}: gain (95 %)" for m in PRECISION)],
                [
                    [row["set"], row["features"], f"{row['test_rows']:,}", str(row["seeds"]), row["model"],
                     *(interval(row[m]) for m in PRECISION)]
                    for row in mine
                ],
            )  # fmt: skip
        else:
            yield gains(mine, part)


def gains(rows: list[dict[str, Any]], part: str) -> str:
    """Return a table of values, gains over the base with intervals, and the size of models."""
    head = ["set", "features"] if part == "dense" else ["set"]
    columns = [
        *head,
        "model",
        *PRECISION,
        *(f"{m}: gain (95 %)" for m in PRECISION),
        "p of P@1, P@5",
        "PSP@5",
    ]
    columns += ["copies", "in reach, %", "nodes"]
    lines = []
    for row in sorted(rows, key=lambda row: row["set"]):
        base = row["model"] == "base"
        cells = [row[name] for name in head] + [row["model"]]
        cells += [f"{row[m][0]:.2f}" for m in PRECISION]
        cells += ["" if base else interval(row[m]) for m in PRECISION]
        cells += ["" if base else f"{row['P@1'][4]:.3f}, {row['P@5'][4]:.3f}", f"{row['PSP@5'][0]:.2f}"]
        cells += [f"{row['copies']:.2f}", f"{row['in_reach']:.1f}", f"{row['nodes']:.1f}"]
        lines.append(cells)
    return table(columns, lines)


def fused_tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield per set the relative gains in P@5 by difficulty, and the share of labels whose parts were told apart."""
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        lines = []
        for row in sorted(mine, key=lambda row: (row["model"], row["mode"], row["k"])):
            value, gain, low, high, p = row["P@5"]
            base = value - gain
            relative = f"{100 * gain / base:+.2f} % ({100 * low / base:+.2f} to {100 * high / base:+.2f})"
            lines.append(
                [row["model"], row["mode"], str(row["k"]), f"{base:.2f}", f"{value:.2f}", relative, f"{p:.3f}",
                 f"{100 * row['separated']:.0f} %"]
            )  # fmt: skip
        head = ["model", "mode", "k", "base P@5", "P@5", "relative gain (95 %)", "p", "parts told apart"]
        yield f"{name}\n\n{table(head, lines)}"


def difficulty_table(rows: list[dict[str, Any]]) -> str:
    """Return the relative gains in P@5 of several fusions, and their mean with its 95 % interval."""
    lines = []
    for name, k in sorted({(row["set"], row["k"]) for row in rows}):
        found = {row["mode"]: row["relative"] for row in rows if (row["set"], row["k"]) == (name, k)}
        found = {mode: found[mode] for mode in ("easy", "medium", "hard") if mode in found}
        if {"easy", "hard"} <= found.keys():
            found["hard less easy"] = [hard - easy for hard, easy in zip(found["hard"], found["easy"], strict=True)]
        for mode, values in found.items():
            each = ", ".join(f"{value:+.2f}" for value in values)
            lines.append([name, str(k), mode, f"{in_words(values, '+.2f')} %", each])
    return table(["set", "k", "mode", "relative gain in P@5 (95 %)", "each fusion"], lines)


def interval(found: list[float]) -> str:
    """Return a gain with its interval."""
    return f"{found[1]:+.2f} ({found[2]:+.2f} to {found[3]:+.2f})"
