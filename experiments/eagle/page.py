"""Tables and charts of the EAGLE experiments. In: results by key. Out: blocks of Markdown, pictures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imsave

from benchmarks.report import Page, table
from experiments.eagle import miml, xmc
from experiments.statistics import T_95, in_words
from tagwood.plots import Chart, Mark, chart_svg

Store = dict[str, dict[str, Any]]
PAGE = Page("experiments", "eagle")
RULES = ["oracle", "R-4", "R-10", f"C-{xmc.DEPTH}"]


def page_blocks(store: Store, out: Path) -> Iterator[str]:
    """Yield all sections; parts without results are left out, and charts are written to `out`."""
    for section in (_table2, _background, _figure3, _figure4, _corpus, _table3, _figure5):
        yield from section(store, out)


def select(store: Store, *beginning: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the rows whose keys begin so, by the rest of their key."""
    prefix = "|".join(beginning) + "|"
    return {tuple(k[len(prefix) :].split("|")): v for k, v in store.items() if k.startswith(prefix)}


def interval(values: list[float], n_rows: int) -> tuple[float, float]:
    """Return the mean and half of its 95 % interval, both in percent, over test rows and seeds."""
    mean = float(np.mean(values))
    rows = mean / 100 * (1 - mean / 100) / max(1, n_rows)
    seeds = float(np.var(values, ddof=1)) / 1e4 / len(values) if len(values) > 1 else 0.0
    return mean, 100 * float(np.sqrt(1.96**2 * rows + T_95.get(len(values), 1.96) ** 2 * seeds))


def _measured(found: dict[tuple[str, ...], dict[str, Any]], rule: str, method: str) -> list[str]:
    seeds = [v for k, v in found.items() if k[0] == rule and k[2] == method]
    if not seeds:
        return []
    first, half = interval([v["P@1"] for v in seeds], seeds[0]["test_rows"])
    rest = [f"{np.mean([v[m] for v in seeds]):.1f}" for m in ("P@3", "P@5", "right")]
    return [f"{first:.1f} ± {half:.1f}", *rest, str(len(seeds))]


def _table2(store: Store, out: Path) -> Iterator[str]:
    yield "## Table 2: baseline, EAGLE-0, EAGLE"
    parts = [(xmc.part_name(name, one), one.n_rows) for name, of in xmc.SETS.items() for one in of]
    for name, n_rows in parts:
        found = select(store, "table2", name)
        if not found:
            continue
        rules = list(dict.fromkeys(k[0] for k in sorted(found, key=lambda k: RULES.index(k[0]))))
        rows = [
            [f"{rule}: {method}", *cells]
            for rule in rules
            for method in ("Oracle", *xmc.METHODS)
            if (cells := _measured(found, rule, method))
        ]
        yield f"### {name}, {n_rows:,} training rows"
        yield table(["", "P@1", "P@3", "P@5", "right", "seeds"], rows)


def _background(store: Store, out: Path) -> Iterator[str]:
    found = select(store, "background", "eurlex57k", "R-10")
    if not found:
        return
    yield "## Common terms: EURLEX57K, random groups of 10"
    yield "Terms that occur in more than a share of the rows are left out; *mean cosine* is that of two random rows."
    rows = []
    for share in dict.fromkeys(k[0] for k in sorted(found, key=lambda k: -float(k[0]))):
        methods = {m: found.get((share, m), {}) for m in xmc.MAIN}
        cosine = next((v["mean_cosine"] for v in methods.values() if v), None)
        cells = [_number(v.get("P@1")) for v in methods.values()]
        right = [_number(methods[m].get("right")) for m in ("EAGLE-0", "EAGLE", "EAGLE, contrast")]
        rows.append([f"{100 * float(share):g} %", "" if cosine is None else f"{cosine:.3f}", *cells, *right])
    header = ["terms on at most", "mean cosine", *(f"{m}: P@1" for m in xmc.MAIN)]
    yield table([*header, "EAGLE-0: right", "EAGLE: right", "contrast: right"], rows)


def _figure3(store: Store, out: Path) -> Iterator[str]:
    found = select(store, "figure3", "regression", "-")
    if not found:
        return
    curves = {
        name: [Mark(float(k[0]), v[name]) for k, v in sorted(found.items(), key=lambda kv: float(kv[0][0]))]
        for name in ("NoAS", "AS")
    }
    chart = Chart("Theorem 1", "deviation within groups σ2", "error over that with known pairs", curves)
    (out / "eagle_figure3.svg").write_text(chart_svg(chart), encoding="utf-8")
    yield "## Figure 3: Theorem 1"
    yield (
        "Regression on groups of 5 (500 groups, 20 features, σ1 = σe = 1, 20 repetitions). NoAS learns from sums over "
        "groups, AS assigns each output to a row first."
    )
    yield "![Errors of both estimators](eagle_figure3.svg)"
    rows = [[f"{m.x:g}", f"{m.y:.2f}", f"{a.y:.2f}"] for m, a in zip(curves["NoAS"], curves["AS"], strict=True)]
    yield table(["σ2", "NoAS", "AS"], rows)


def _figure4(store: Store, out: Path) -> Iterator[str]:
    best = store.get("figure4|oracle|oracle|0|Oracle")
    if best is None:
        return
    yield "## Figure 4: group size, depth, heterogeneity"
    yield (
        f"EURLEX57K, {xmc.FIGURE4_ROWS:,} training rows; loss of P@1 against clean labels ({best['P@1']:.1f}), in "
        "percent of it; one seed."
    )
    axes = {
        "size": "rows in a random group",
        "depth": "depth of the clustering",
        "noise": "noise in clusters",
    }
    for axis, words in axes.items():
        found = select(store, "figure4", axis)
        loss = {(k[2], float(k[1])): 100 * (1 - v["P@1"] / best["P@1"]) for k, v in found.items()}
        curves = {m: [Mark(x, loss[m, x]) for x in sorted({k[1] for k in loss}) if (m, x) in loss] for m in xmc.MAIN}
        curves = {m: marks for m, marks in curves.items() if marks}
        if not curves:
            continue
        chart = Chart("Figure 4", words, "loss of P@1, %", curves)
        (out / f"eagle_figure4_{axis}.svg").write_text(chart_svg(chart), encoding="utf-8")
        yield f"![Loss over {words}](eagle_figure4_{axis}.svg)"
        values = sorted({k[1] for k in loss})
        rows = [[m, *(_number(loss.get((m, x))) for x in values)] for m in xmc.MAIN]
        yield table([words, *(f"{x:g}" for x in values)], rows)


def _corpus(store: Store, out: Path) -> Iterator[str]:
    rows = [
        [f"{words}: {method}", *cells]
        for words, labels, rule in (
            ("objects named, true labels", "mentions", "oracle"),
            ("objects named, by docstring", "mentions", "docstring"),
            ("objects described, true labels", "docstrings", "oracle"),
            ("objects described, by docstring", "docstrings", "docstring"),
            ("objects described, by page", "docstrings", "page"),
        )
        for method in ("Oracle", *xmc.METHODS)
        if (cells := _measured(select(store, "corpus", labels), rule, method))
    ]
    if rows:
        yield "## Passages of docstrings"
        yield "Docstrings of Python, NumPy and SciPy, labelled through their docstring; P@k on single test passages."
        yield table(["", "P@1", "P@3", "P@5", "right", "seeds"], rows)


def _table3(store: Store, out: Path) -> Iterator[str]:
    rows = []
    for name, size in product((*miml.IMAGES, "docstrings"), miml.GROUPS):
        deep = miml.chosen(store, name, size, "Deep-MIML")
        for method in miml.METHODS:
            seeds = miml.chosen(store, name, size, method)
            if not seeds:
                continue
            mean, half = interval([v["accuracy"] for v in seeds], seeds[0]["test_rows"])
            values = ", ".join(f"{v['accuracy']:.1f}" for v in seeds)
            held = f"{np.mean([v['held_out'] for v in seeds]):.1f}"
            leads = [ours["accuracy"] - plain["accuracy"] for ours, plain in zip(seeds, deep, strict=False)]
            lead = in_words(leads, "+.1f") if leads and method != "Deep-MIML" else ""
            epochs = ", ".join(str(v["epochs"]) for v in seeds)
            cells = [f"{mean:.1f} ± {half:.1f}", values, lead, held, f"{seeds[0]['rate']:g}"]
            rows.append([f"{name}, groups of {size}: {method}", *cells, f"{seeds[0]['sharpness']:g}", epochs])
    if rows:
        yield "## Table 3: the network for few labels"
        yield (
            "Accuracy on single test rows after training on random groups (4,000 of 4 rows, 1,500 of 50 rows), at most "
            f"{miml.EPOCHS[4]} and {miml.EPOCHS[50]} epochs. Learning rate and τ are chosen on held-out rows with two "
            "seeds, the epoch for each run. The lead is the mean difference of the same groups, ± half its 95 % "
            "interval over the seeds."
        )
        yield table(["", "accuracy", "each seed", "lead over Deep-MIML", "held out", "rate", "τ", "epoch"], rows)


def _figure5(store: Store, out: Path) -> Iterator[str]:
    if not any(k.startswith("table3|fashion-mnist") for k in store):
        return
    yield "## Figure 5: label embeddings as pictures"
    for name in miml.IMAGES:
        for method, pictures in miml.figure5(name).items():
            file = f"eagle_figure5_{name}_{method.lower()}.png"
            strip = np.concatenate([np.reshape(p, (28, 28)) for p in pictures], axis=1)
            imsave(out / file, np.kron(strip, np.ones((3, 3))), cmap="gray", vmin=0, vmax=1)
            yield f"{name}, groups of 4, {method}:"
            yield f"![The ten label embeddings]({file})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
