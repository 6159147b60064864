"""Tables and charts of the OTSeq2Set experiment. In: stored runs. Out: blocks of Markdown, SVG files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Page, table
from experiments.otseq2set.data import CUTS
from experiments.otseq2set.plan import (
    FREE,
    LARGE,
    LONGER,
    MODELS,
    Settings,
    chosen,
    difference,
    interval,
    mean_of,
    runs_of,
    scheme_change,
    title_of,
)
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("experiments", "otseq2set")
STABILITY = Page("experiments", "set_generator_steps")
TREE = {
    "f1": 'linear tree, sets by "f1"',
    "threshold for F1": "linear tree, threshold for F1",
    "size for F1": "linear tree, size for F1",
    "threshold for size_error": "linear tree, threshold for the size",
    "size for size_error": "linear tree, size for the size",
    "learned sizes": "linear tree, learned sizes",
}
SCORES = ("P", "R", "F1", "macro", "weighted", "example")
CLAIMS = (("BM", "Seq2Seq"), ("BM + OT", "BM"), ("BM + OT + LC", "BM + OT"), ("BM + OT + LC", "BM"))
WAYS = ("printed", "free", "chosen")
SETS_OF_CHOICE = ("BM", "BM + LC", "BM + OT", "BM + OT + LC")


def page_blocks(result: dict[str, Any], out: Path) -> Iterator[str]:
    """Yield all sections; charts are written to `out`."""
    yield _sets_table(result)
    yield from _rows(result)
    yield from _claims(result)
    for name in CUTS:
        if any(runs_of(result, name, model) for model in MODELS):
            yield f"## {name}"
            yield from _set(result, name, out)
    yield from _schemes(result)
    yield from _times(result)
    yield from _extremes(out)


def _sets_table(result: dict[str, Any]) -> str:
    rows = []
    for name, cut in CUTS.items():
        if not any(runs_of(result, name, model) for model in MODELS):
            continue
        counts = np.array(result["sizes"].get(name, [0, 1]))
        mean = float((counts * np.arange(counts.size)).sum() / counts.sum())
        cells = [f"{cut.rows:,}", f"{cut.held:,}", f"{cut.test:,}", str(cut.labels), f"{mean:.1f}"]
        rows.append([name, *cells, str(cut.words), str(cut.steps)])
    header = ["set", "training rows", "held out", "test rows", "labels", "of a row", "words read", "steps"]
    return table(header, rows)


def _rows(result: dict[str, Any]) -> Iterator[str]:
    """Yield the differences of large runs with intervals over test rows."""
    rows = [
        [name, pair, f"{value:+.1f}", f"{low:+.1f} to {high:+.1f}"]
        for name, pairs in result["rows"].items()
        for pair, (value, low, high) in pairs.items()
    ]
    if rows:
        yield "## All labels of EURLEX57K"
        yield "Differences in micro-F1 on test rows, one seed, 10 epochs or as said; 95 % interval over test rows."
        yield table(["set", "difference", "micro-F1", "interval"], rows)


def _claims(result: dict[str, Any]) -> Iterator[str]:
    """Yield the differences that Table 3 claims."""
    rows = []
    for name in CUTS:
        for ours, theirs in CLAIMS:
            cells = [cell for way in WAYS for cell in _claim(result, name, (ours, theirs), way)]
            if any(cells):
                rows.append([name, f"{ours} - {theirs}", *cells])
    if rows:
        yield "## The claims of Table 3"
        yield (
            "Differences in micro-F1 on test rows of runs with the same seed (mean ± half the 95 % interval over the "
            "seeds): with the printed weights; with the same and ∅ left out of the transport "
            '(`transport_empty="free"`); and '
            "with the best weights on held-out rows for each model. Shifted: the output bias of ∅ or the end is moved "
            "by the best amount on held-out rows, so that every model has its best balance of precision and recall."
        )
        header = ["set", "difference", "printed", "shifted", "∅ free", "shifted", "chosen", "shifted"]
        yield table(header, rows)


def _claim(result: dict[str, Any], name: str, models: tuple[str, str], way: str) -> list[str]:
    """Return the difference of two models, as generated and shifted, with the settings of a way."""
    changes: list[Settings] = [{}, {}]
    if way == "free":
        changes = [FREE if "OT" in model else {} for model in models]
    elif way == "chosen":
        changes = [chosen(result["runs"], name, model) or {} for model in models]
    if way != "printed" and not any(changes):
        return ["", ""]
    both = [runs_of(result, name, model, change) for model, change in zip(models, changes, strict=True)]
    n = min(map(len, both))
    return [difference(both[0][:n], both[1][:n], part=part) if n else "" for part in ("test", "shifted")]


def _set(result: dict[str, Any], name: str, out: Path) -> Iterator[str]:
    """Yield Tables 3 and 6 with the error of the set size, and the curves."""
    yield (
        "Tables 3 and 6, test rows, means over seeds (± half the 95 % interval over seeds). Size error: mean absolute "
        "error of the number of labels, as generated and with `learn_sizes` on the held-out rows."
    )
    yield table(
        ["model", "P", "R", "micro-F1", "shifted", "macro-F1", "weighted-F1", "example-F1", "size error",
         "learned", "held-out F1", "seeds"],
        [*_model_rows(result, name), *_tree_rows(result, name)],
    )  # fmt: skip
    yield from _curves(result, name, out)


def _model_rows(result: dict[str, Any], name: str) -> Iterator[list[str]]:
    changes: list[tuple[str, Settings]] = [(model, {}) for model in MODELS]
    changes += [(model, FREE) for model in MODELS if "OT" in model]
    changes += [(model, LONGER) for model in LARGE]
    for model in SETS_OF_CHOICE:
        best = chosen(result["runs"], name, model)
        if best is not None and title_of(best) not in ("", title_of(FREE)):
            changes.append((model, best))
    for model, change in changes:
        runs = runs_of(result, name, model, change)
        if runs:
            title = ", ".join([model, *filter(None, [title_of(change)])])
            values = [f"{mean_of(runs, m):.1f}" for m in ("P", "R")]
            others = [f"{mean_of(runs, m):.1f}" for m in ("macro", "weighted", "example")]
            sizes = [f"{mean_of(runs, 'size_error', part):.3f}" for part in ("test", "sized")]
            scores = [interval(runs), interval(runs, part="shifted")]
            yield [title, *values, *scores, *others, *sizes, interval(runs, part="held"), str(len(runs))]


def _tree_rows(result: dict[str, Any], name: str) -> Iterator[list[str]]:
    for key, title in TREE.items():
        if name in result["tree"]:
            found = result["tree"][name][key]
            cells = [f"{found[m]:.1f}" for m in SCORES]
            size = f"{found['size_error']:.3f}"
            sizes = ["", size] if key == "learned sizes" else [size, ""]
            yield [title, *cells[:3], "", *cells[3:], *sizes, "", ""]


def _curves(result: dict[str, Any], name: str, out: Path) -> Iterator[str]:
    curves = {}
    for model, change in [*((model, {}) for model in MODELS), *((model, LONGER) for model in LARGE)]:
        runs = runs_of(result, name, model, change)
        if runs:
            means = np.mean([run["curve"] for run in runs], axis=0)
            title = ", ".join([model, *filter(None, [title_of(change)])])
            curves[title] = [Mark(float(i + 1), float(value)) for i, value in enumerate(means)]
    if len(curves) > 1:
        file = f"otseq2set_{name}.svg"
        (out / file).write_text(chart_svg(Chart("", "epoch", "held-out micro-F1", curves)), encoding="utf-8")
        yield f"![Held-out micro-F1 over the epochs on {name}]({file})"


def _schemes(result: dict[str, Any]) -> Iterator[str]:
    """Yield Table 5."""
    rows = []
    for name in CUTS:
        if name not in result["sizes"]:
            continue
        counts = np.array(result["sizes"][name])
        sizes = np.repeat(np.arange(counts.size), counts)
        pair = [runs_of(result, name, "BM", scheme_change(scheme, sizes)) for scheme in ("all", "first-n")]
        if all(pair):
            cells = [interval(runs, part=part) for part in ("held", "test") for runs in pair]
            share = float(np.mean(sizes <= sizes.mean()))
            rows.append([name, f"{100 * share:.0f} %", *cells, " and ".join(str(len(runs)) for runs in pair)])
    if rows:
        yield "## Which steps may learn a label (Table 5)"
        yield "BM, micro-F1. The rule takes first-n where more than half of the rows have at most the mean size."
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


def _times(result: dict[str, Any]) -> Iterator[str]:
    """Yield Table 7."""
    if result["time"]:
        yield "## Training time and size (Table 7)"
        rows = [
            [name, model, f"{found['seconds']:.2f}", f"{found['parameters'] / 1e6:.2f}"]
            for name, models in result["time"].items()
            for model, found in models.items()
        ]
        yield "Seconds of an epoch on one thread, the fastest of three."
        yield table(["set", "model", "seconds per epoch", "million parameters"], rows)


def _extremes(out: Path) -> Iterator[str]:
    """Yield the results of long training on extreme rows."""
    found = STABILITY.load(out)
    if found:
        yield "## Extreme rows"
        yield (
            "Long training on random extreme rows (`python -m experiments.otseq2set.stability`): empty texts, one "
            "word, 400 words, words never seen again, one label, as many labels as steps; batches of 4."
        )
        rows = [
            [one["kind"], f"{one['steps']:,}", f"{one['rate']:g}", " → ".join(f"{loss:g}" for loss in one["losses"]),
             "yes" if one["finite"] else "no"]
            for one in found
        ]  # fmt: skip
        yield table(["kind", "steps", "learning rate", "mean loss of the first and last epoch", "all finite"], rows)
