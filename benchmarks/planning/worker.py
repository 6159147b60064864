"""The process in which one training run is forecast and measured, for `benchmarks.planning`.

In: a job as JSON: a file of texts and labels, number of rows, settings. Out: the terms of the forecast and the
measurements, as JSON. It repeats ``tagwood train`` with a clock at each stage.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import cpu_seconds, folder_mb, give_back_memory, latencies_ms, resident_mb

LATENCY_TEXTS, BATCH_TEXTS = 500, 5_000
STAGES = {
    "features": "features",
    "label features": "label_features",
    "label tree": "tree",
    "training": "tree",
}


class Stages:
    """CPU seconds by stage and the highest resident memory, from progress reports."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(("features", "label_features", "tree", "rest"), 0.0)
        self._stage, self._at = "rest", cpu_seconds()
        Path("/proc/self/clear_refs").write_text("5")  # the highest resident set starts anew

    def report(self, stage: str, _share: float) -> None:
        """Receive a progress report; the stages of both fits are summed."""
        self._enter(STAGES.get(stage.removesuffix(", all rows"), "rest"))

    def end(self) -> float:
        """Close the last stage; return the highest resident memory in bytes."""
        self._enter("rest")
        return 1e6 * resident_mb("VmHWM")

    def _enter(self, stage: str) -> None:
        now = cpu_seconds()
        self.seconds[self._stage] += now - self._at
        self._stage, self._at = stage, now


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Forecast, train and predict."""
    from tagwood.cli.common import choose_recipe
    from tagwood.data import read_dataset
    from tagwood.planning.forecast import (
        TOGETHER,
        figures_for,
        memory_terms,
        n_fits,
        parts_of,
        size_terms,
        tree_shape,
        work_terms,
    )

    rows = read_dataset(Path(job["data"]))
    if job["rows"] and job["rows"] < rows.n_rows:
        chosen = np.random.default_rng(0).permutation(rows.n_rows)[: job["rows"]]
        rows = rows.rows(np.sort(chosen))
    tagger = choose_recipe(None, ["model.quality=fast", *job["settings"]], job["threads"]).tagger()
    began = cpu_seconds()
    figures = figures_for(rows, tagger)
    plan_cpu = cpu_seconds() - began
    measured = measure(rows, tagger)
    model = parts_of(tagger)[1]
    shape = tree_shape(figures.labels, model, TOGETHER)
    terms = work_terms(figures, tagger, shape)
    weights = measured["entries"] * model.n_trees
    return {
        "rows": figures.rows,
        "labels": figures.labels.n_labels,
        "fits": n_fits(figures, tagger),
        "terms": {
            **terms._asdict(),
            "memory": memory_terms(figures, weights),
            "size": size_terms(weights, model, terms.encoder_bytes),
        },
        "figures": {
            "features": figures.texts.n_features,
            "per_row": figures.texts.per_row,
            "depth": shape.depth,
        },
        "measured": {**measured, "plan_cpu": plan_cpu},
    }


def measure(rows: Any, tagger: Any) -> dict[str, Any]:
    """Train as ``tagwood train`` does, predict, and return the measurements."""
    from tagwood.metrics import evaluate

    give_back_memory()
    used = 1e6 * resident_mb("VmRSS")
    stages = Stages()
    fitted, kept = rows.split(0.1, seed=tagger.seed)
    tagger.fit(fitted.texts, fitted.labels, fitted.groups, vocab=rows.vocab, progress=stages.report)
    stages.report("rest", 0.0)
    report = evaluate(kept.labels, tagger.rank(kept.texts, k=10), metrics=["P@1", "P@5"])
    with tempfile.TemporaryDirectory() as folder:
        size = 1e6 * folder_mb(tagger.save(Path(folder) / "model"))
    peak = stages.end()
    tree = tagger.model_.trees_[0]
    return {
        "cpu": stages.seconds,
        "cpu_total": sum(stages.seconds.values()),
        "used": used,
        "peak": peak,
        "size": size,
        "entries": int(tree.arrays.columns.size),
        "features": tagger.encoder_.n_features,
        "depth": int(tree.tree.depth.max()),
        **ask(tagger, list(kept.texts)),
        "P@1": 100 * report["P@1"],
        "P@5": 100 * report["P@5"],
    }


def ask(tagger: Any, texts: list[str]) -> dict[str, float]:
    """Return the time of one text alone and the CPU time of one of many, in seconds."""
    for part in (tagger.encoder_, tagger.model_):
        part.set_params(threads=1)
    found = latencies_ms(tagger.tag_one, texts[:LATENCY_TEXTS])
    many = texts[:BATCH_TEXTS]
    tagger.tag(many[:100])
    began = time.process_time()
    tagger.tag(many)
    return {"latency": found["p50_ms"] / 1e3, "batch": (time.process_time() - began) / len(many)}


def main() -> None:
    job = json.loads(sys.argv[1])
    Path(job["answer"]).write_text(json.dumps(run(job)))


if __name__ == "__main__":
    main()
