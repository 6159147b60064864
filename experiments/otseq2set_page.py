"""The page of the OTSeq2Set experiment. In: stored runs. Out: docs/experiments/otseq2set.{json,md} and curves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.otseq2set_data import CUTS
from experiments.otseq2set_words import WORDS
from tagwood.plots import Chart, Mark, chart_svg

OUT = Path(__file__).parent.parent / "docs" / "experiments"
PAGE, RESULTS = OUT / "otseq2set.md", OUT / "otseq2set.json"
ROWS = ("Seq2Seq", "MLC2Seq", "SGM", "Seq2Seq + LC", "BM", "BM + LC", "BM + OT", "BM + OT + LC")
CURVES = ("Seq2Seq", "BM", "BM + OT", "BM + OT + LC")
TREE = {
    "f1": 'linear tree, sets by "f1"',
    "threshold for F1": "linear tree, threshold for F1",
    "size for F1": "linear tree, size for F1",
    "threshold for size_error": "linear tree, threshold for the size",
    "size for size_error": "linear tree, size for the size",
}
Run = dict[str, Any]


def load() -> dict[str, Any]:
    """Return what was measured so far."""
    found: dict[str, Any] = {"runs": {}, "tree": {}, "time": {}}
    return {**found, **json.loads(RESULTS.read_text())} if RESULTS.exists() else found


def write(result: dict[str, Any]) -> None:
    """Store the results, but for times, which only ``time`` measures on a quiet machine, and write the page."""
    for found in [*result["runs"].values(), *result["tree"].values()]:
        found.pop("train_seconds", None)
        found.pop("predict_ms", None)
    RESULTS.write_text(json.dumps(result, ensure_ascii=False).replace('}, "', '},\n"') + "\n")
    PAGE.write_text("\n\n".join(_page(result)) + "\n")


def runs_of(result: dict[str, Any], data: str, model: str, variation: str = "") -> list[Run]:
    """Return the runs of a model on a set, one per seed."""
    start = f"{data} | {model} | {variation} | "
    return [run for key, run in result["runs"].items() if key.startswith(start)]


def mean_of(runs: list[Run], measure: str, part: str = "test") -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([run[part][measure] for run in runs]))


def interval(runs: list[Run], measure: str = "F1", part: str = "test") -> str:
    """Return the mean with half the width of its 95 % interval (t distribution), where there are seeds for one.

    Examples
    --------
    >>> interval([{"test": {"F1": value}} for value in (50.0, 51.0, 52.0)])
    '51.0 ± 2.5'
    """
    values = [run[part][measure] for run in runs]
    if len(values) < 2:
        return f"{values[0]:.1f}"
    factor = {2: 12.71, 3: 4.30, 4: 3.18}[len(values)] / len(values) ** 0.5
    return f"{np.mean(values):.1f} ± {factor * np.std(values, ddof=1):.1f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def _page(result: dict[str, Any]) -> Iterator[str]:
    words = WORDS
    yield "# OTSeq2Set: generated label sets"
    yield (
        "`SetGenerator` at CPU scale against its baselines and a linear tree on the same rows, made by "
        "`python -m experiments.otseq2set`. BM: bipartite matching, OT: transport with λ = 8, LC: light convolutions. "
        "Each set is cut (table below); one GRU layer of 96, GloVe vectors of 100 numbers, batches of 64, learning "
        "rate 0.004 with cosine decay, 15 epochs. After each epoch micro-F1 "
        "on held-out training rows decides which weights are kept, for all models alike; the test rows decide nothing."
    )
    yield from words.get("summary", [])
    yield _sets_table(result)
    for name in CUTS:
        if any(runs_of(result, name, model) for model in ROWS):
            yield f"## {name}"
            yield from _set(result, name)
            yield from words.get(name, [])
    yield from _schemes(result)
    yield from _weights(result)
    yield from _settings(result, words)
    yield from _times(result)
    yield from words.get("end", [])


def _sets_table(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{cut.rows:,}",
            str(cut.held),
            f"{cut.test:,}",
            str(cut.labels),
            str(cut.words),
            str(cut.steps),
        ]
        for name, cut in CUTS.items()
    ]
    return table(["set", "training rows", "held out", "test rows", "labels", "words read", "steps"], rows)


def _set(result: dict[str, Any], name: str) -> Iterator[str]:
    """Yield Tables 3 and 6 with the error of the set size, and the curves."""
    yield "Tables 3 and 6, test rows, means over seeds (± half the 95 % interval over seeds)."
    rows = []
    for model in ROWS:
        runs = runs_of(result, name, model)
        if runs:
            values = [f"{mean_of(runs, m):.1f}" for m in ("P", "R")]
            others = [f"{mean_of(runs, m):.1f}" for m in ("macro", "weighted", "example")]
            size = f"{mean_of(runs, 'size_error'):.2f}"
            rows.append(
                [model, *values, interval(runs), *others, size, interval(runs, part="held"), str(len(runs))]
            )
    for key, title in TREE.items():
        if name in result["tree"]:
            found = result["tree"][name][key]
            cells = [f"{found[m]:.1f}" for m in ("P", "R", "F1", "macro", "weighted", "example")]
            rows.append([title, *cells, f"{found['size_error']:.2f}", "", ""])
    header = [
        "model",
        "P",
        "R",
        "micro-F1",
        "macro-F1",
        "weighted-F1",
        "example-F1",
        "size error",
        "held-out F1",
        "seeds",
    ]
    yield table(header, rows)
    curves = {}
    for model in CURVES:
        runs = runs_of(result, name, model)
        if runs:
            means = np.mean([run["curve"] for run in runs], axis=0)
            curves[model] = [Mark(float(i + 1), float(value)) for i, value in enumerate(means)]
    if len(curves) > 1:
        file = f"otseq2set_{name}.svg"
        (OUT / file).write_text(chart_svg(Chart("", "epoch", "held-out micro-F1", curves)), encoding="utf-8")
        yield f"![Held-out micro-F1 over the epochs on {name}]({file})"


def _schemes(result: dict[str, Any]) -> Iterator[str]:
    """Yield Table 5."""
    rows = []
    for name in CUTS:
        pair = [runs_of(result, name, "BM", f"scheme {scheme}") for scheme in ("all", "first-n")]
        if all(pair):
            cells = [interval(runs, part=part) for part in ("held", "test") for runs in pair]
            share = result["share"].get(name, 0.0) if "share" in result else 0.0
            rows.append([name, f"{100 * share:.0f} %", *cells, str(len(pair[0]))])
    if rows:
        yield "## Which steps may learn a label (Table 5)"
        header = [
            "set",
            "rows with at most the mean size",
            "held out: all",
            "first-n",
            "test: all",
            "first-n",
            "seeds",
        ]
        yield table(header, rows)


def _weights(result: dict[str, Any]) -> Iterator[str]:
    """Yield Figure 5 as a table."""
    from experiments.otseq2set import LAMBDAS

    for name in CUTS:
        known = {0.0: runs_of(result, name, "BM")[:1], 8.0: runs_of(result, name, "BM + OT")[:1]}
        known |= {lam: runs_of(result, name, "BM + OT", f"λ = {lam:g}") for lam in LAMBDAS}
        known = {lam: runs for lam, runs in sorted(known.items()) if runs}
        if len(known) > 3:
            yield f"## Weight of the transport (Figure 5), {name}, one seed"
            rows = [
                [
                    f"{lam:g}",
                    *(f"{mean_of(runs, m, p):.1f}" for p in ("held", "test") for m in ("P", "R", "F1")),
                ]
                for lam, runs in known.items()
            ]
            yield table(["λ", "held out: P", "R", "F1", "test: P", "R", "F1"], rows)


def _settings(result: dict[str, Any], words: dict[str, Any]) -> Iterator[str]:
    """Yield measures on held-out rows where one setting is changed."""
    from experiments.otseq2set import VARIATIONS

    for name in CUTS:
        rows = []
        for title in ["", *VARIATIONS]:
            for model in ("Seq2Seq", "BM", "BM + OT"):
                runs = runs_of(result, name, model, title)[:1]
                if runs:
                    held = [f"{mean_of(runs, m, 'held'):.1f}" for m in ("P", "R", "F1")]
                    size, test = mean_of(runs, "size_error", "held"), mean_of(runs, "F1")
                    rows.append([title or "as above", model, *held, f"{size:.2f}", f"{test:.1f}"])
        if any(row[0] != "as above" for row in rows):
            yield f"## What it takes, {name}"
            yield "One seed; each line changes one setting. The test column decided nothing."
            yield table(["setting", "model", "held out: P", "R", "F1", "size error", "test F1"], rows)
    yield from words.get("settings", [])


def _times(result: dict[str, Any]) -> Iterator[str]:
    """Yield Table 7."""
    if result["time"]:
        yield "## Training time and size (Table 7)"
        rows = [
            [name, model, f"{found['seconds']:.2f}", f"{found['parameters'] / 1e6:.2f}"]
            for name, models in result["time"].items()
            for model, found in models.items()
        ]
        yield "CPU seconds of an epoch on one thread, the fastest of three."
        yield table(["set", "model", "seconds per epoch", "million parameters"], rows)
