"""The cost of a PRIME training: steps against the encoder alone, shares of an epoch, memory; to docs/benchmarks.

Run with ``python -m benchmarks.prime`` (about fifteen minutes, one thread). Texts and label names are made up (see
`prime_problem`): about 14 words a text, three labels each. Runs that are compared take turns on the same batches, and
the fastest of each counts. Each memory figure is of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import ROOT, fastest, run_job
from benchmarks.prime_problem import Bench, make_texts, start_training
from benchmarks.tables import machine, machine_line, markdown_table, number
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.training import make_optimizer

OUT = ROOT / "docs" / "benchmarks"
ENCODERS = ("bag", "small", "minilm")
LIMITS = {"step": 1.25, "share": 0.10}
ROWS = {"bag": 20_000, "small": 20_000, "minilm": 4_000}  # and as many labels
EMBEDDED = {"bag": 20_000, "small": 2_000, "minilm": 300}
REPEATS = {"bag": 20, "small": 5, "minilm": 3}
CASES = [(16_000, 512), (32_000, 512), (65_000, 512), (130_000, 128), (130_000, 512)]  # labels, batch
MEMORY_ROWS = 65_536
DIMENSION = 256


def measure_steps(encoder: str, centroids: str, n_rows: int, n_labels: int, repeats: int) -> dict[str, Any]:
    """Return the time of a step and of its parts: the encoder alone, drawing, the optimizer."""
    bench = start_training(make_texts(n_rows, n_labels), encoder, 1, centroids=centroids)
    moments = bench.batches(0, np.random.default_rng(0))[0]
    drawn = bench.positives.draw(moments)
    queries, labels = bench.data.queries.take(drawn.rows), bench.data.labels.take(drawn.labels)
    module = bench.module.train()
    optimizer = make_optimizer(module, 1e-9, 0.0)

    def encoder_alone() -> None:
        module.zero_grad(set_to_none=True)
        (module.encoder(queries).mean() + module.encoder(labels).mean()).backward()

    def step() -> None:
        module.zero_grad(set_to_none=True)
        bench.step(module, moments).backward()

    jobs: dict[str, Callable[[], object]] = {"encoder": encoder_alone, "step": step}
    jobs |= {"draw": lambda: bench.positives.draw(moments), "optimizer": optimizer.step}
    for job in jobs.values():
        job()
    times = fastest(jobs, (repeats, repeats))
    return {
        "encoder": encoder,
        "centroids": centroids,
        "queries": len(queries),
        "labels": len(labels),
        "tokens": int(queries.ids.size + labels.ids.size),
        "ms": times,
        "ratio": times["step"] / times["encoder"],
        "ratio_with_optimizer": (times["step"] + times["optimizer"])
        / (times["encoder"] + times["optimizer"]),
    }


def measure_epoch(encoder: str, n_rows: int, n_labels: int) -> dict[str, Any]:
    """Return the seconds of an epoch that begins with a clustering, and of what is not the steps' own work."""
    bench = start_training(make_texts(n_rows, n_labels), encoder, 1)
    start = time.perf_counter()
    plan = bench.batches(0, np.random.default_rng(0))
    clustering = time.perf_counter() - start
    start = time.perf_counter()
    for moments in plan:
        bench.positives.draw(moments)
    drawing = time.perf_counter() - start
    steps = _run_steps(bench, plan)
    refresh = bench.settings.batches.refresh
    total = clustering + steps
    return {
        "encoder": encoder,
        "rows": n_rows,
        "clustering": clustering,
        "drawing": drawing,
        "epoch": total,
        "refresh": refresh,
        "share_first": (clustering + drawing) / total,
        "share": (clustering / refresh + drawing) / (clustering / refresh + steps),
    }


def measure_encoder(encoder: str, n_rows: int, repeats: int) -> dict[str, Any]:
    """Return texts per second of an encoder, in both precisions; the tokenizer's time is apart."""
    texts = make_texts(n_rows, n_rows).texts
    network = TextEncoder(encoder, threads=1).fit(texts)
    half = TextEncoder.from_state(network.state()).set_params(precision="bfloat16")
    tokens = network.tokens(texts)
    jobs: dict[str, Callable[[], object]] = {"tokens": lambda: network.tokens(texts)}
    jobs |= {"float32": lambda: network.embed(tokens), "bfloat16": lambda: half.embed(tokens)}
    times = fastest(jobs, (repeats, repeats))
    rates = {name: 1e3 * n_rows / ms for name, ms in times.items()}
    return {"encoder": encoder, "rows": n_rows, "mean_tokens": float(tokens.lengths.mean()), **rates}


def _run_steps(bench: Bench, plan: list[Any]) -> float:
    """Return the seconds of all steps; with slow encoders from the first ones, after two that warm up."""
    module = bench.module.train()
    optimizer = make_optimizer(module, 1e-9, 0.0)
    begin = 0.0
    for number_, moments in enumerate(plan):
        if number_ == 2:
            begin = time.perf_counter()
        module.zero_grad(set_to_none=True)
        bench.step(module, moments).backward()
        optimizer.step()
        if number_ >= 2 and time.perf_counter() - begin > 60.0:
            break
    return (time.perf_counter() - begin) / (number_ - 1) * len(plan)


def measure_memory(n_labels: int, batch: int, rows: int, out: Path) -> dict[str, Any]:
    """Return the memory of a training in a process of its own."""
    job = {"n_labels": n_labels, "batch": batch, "rows": rows, "dimension": DIMENSION}
    log = out / f"prime_{n_labels}_{batch}.log"
    return {
        **job,
        **run_job(Path(sys.executable), "benchmarks.prime_worker", job, log, threads=1, minutes=60),
    }


def measure_times(encoders: list[str], quick: bool) -> dict[str, Any]:
    """Return what wants a quiet machine: encoders, steps and epochs."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": machine(), "torch": torch.__version__, "limits": LIMITS}
    found |= {"encoders": [], "steps": [], "epochs": []}
    for encoder in encoders:
        n_rows, n_labels = (2_000, 1_000) if quick else (ROWS[encoder], ROWS[encoder])
        repeats = 2 if quick else REPEATS[encoder]
        found["encoders"].append(measure_encoder(encoder, 200 if quick else EMBEDDED[encoder], 2))
        for centroids in ("momentum", "leave-one-out"):
            found["steps"].append(measure_steps(encoder, centroids, n_rows, n_labels, repeats))
        found["epochs"].append(measure_epoch(encoder, n_rows, n_labels))
        print(f"{encoder}: done", flush=True)
    return found


def page(found: dict[str, Any]) -> str:
    parts = [_head(found), _encoder_part(found["encoders"]), _step_part(found), _epoch_part(found)]
    if "memory" in found:
        parts.append(_memory_part(found["memory"]))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(found: dict[str, Any]) -> list[str]:
    worst = {
        kind: max(one["ratio"] for one in found["steps"] if (one["encoder"] == "bag") is (kind == "bag"))
        for kind in ("bag", "transformers")
    }
    share = max(one["share"] for one in found["epochs"])
    words = (
        f"Highest ratio of step and encoder: {worst['transformers']:.2f} with transformers, {worst['bag']:.2f} with "
        "the bag of tokens, whose encoder is cheaper than the prototype network. Highest share of clustering and "
        f"drawing of an epoch: {share:.1%}."
    )
    return [
        "# PRIME: what a training costs",
        "",
        machine_line(found["machine"])
        + f" torch {found['torch']}, one thread. Made by `python -m benchmarks.prime`.",
        "",
        words,
    ]


def _encoder_part(encoders: list[dict[str, Any]]) -> list[str]:
    header = ["encoder", "tokens per text", "tokenizer, texts/s", "float32, texts/s", "bfloat16, texts/s"]
    names = ("mean_tokens", "tokens", "float32", "bfloat16")
    rows = [[one["encoder"], *(number(one[name]) for name in names)] for one in encoders]
    return ["## Encoders alone", "", *markdown_table(header, rows)]


def _step_part(found: dict[str, Any]) -> list[str]:
    header = ["encoder", "centroids", "queries", "labels", "tokens", "encoder alone, ms", "step, ms", "ratio"]
    rows = [
        [
            *(one["encoder"], one["centroids"]),
            *(f"{one[name]:,}" for name in ("queries", "labels", "tokens")),
            *(number(one["ms"][name]) for name in ("encoder", "step")),
            f"{one['ratio']:.2f}",
            *(number(one["ms"][name]) for name in ("draw", "optimizer")),
            f"{one['ratio_with_optimizer']:.2f}",
        ]
        for one in found["steps"]
    ]
    words = (
        "*Encoder alone*: forward and backward over the same queries and label texts. *Step*: drawing of positives, "
        "encoder, prototypes, losses with masks, backward, and the memory of embeddings. AdamW is the same work for "
        f"both. Wanted: a ratio of at most {found['limits']['step']}."
    )
    table = markdown_table([*header, "drawing, ms", "AdamW, ms", "ratio with AdamW"], rows)
    return ["## A step", "", *table, "", words]


def _epoch_part(found: dict[str, Any]) -> list[str]:
    header = [
        "encoder",
        "rows",
        "epoch, s",
        "clustering, s",
        "drawing, s",
        "share, first epoch",
        "share, mean",
    ]
    rows = [
        [
            *(one["encoder"], f"{one['rows']:,}"),
            *(number(one[name]) for name in ("epoch", "clustering", "drawing")),
            *(f"{one[name]:.1%}" for name in ("share_first", "share")),
        ]
        for one in found["epochs"]
    ]
    words = (
        "Queries are clustered anew every few epochs; the mean spreads that over them. "
        f"Wanted: a mean of at most {found['limits']['share']:.0%}."
    )
    return ["## Shares of an epoch", "", *markdown_table(header, rows), "", words]


def _memory_part(cases: list[dict[str, Any]]) -> list[str]:
    header = ["labels", "batch", "rows", "peak beyond the texts, MB", "labels × dimension, MB"]
    rows = []
    for one in cases:
        once = 4e-6 * one["n_labels"] * one["dimension"]
        sizes = (f"{one[name]:,}" for name in ("n_labels", "batch", "rows"))
        rows.append([*sizes, *map(number, (one["fit_peak_mb"], once, one["batch"] * once, one["fit_wall"]))])
    words = (
        "One epoch with the encoder `bag` and momentum centroids; the peak holds weights and moments of AdamW, the "
        "memory of query embeddings, centroids, free vectors and prototypes. The last but one column is what scores of "
        "every query with every label's vector would take."
    )
    header += ["batch × labels × dimension, MB", "seconds"]
    return ["## Memory", "", *markdown_table(header, rows), "", words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--part", choices=["times", "memory"], help="only this; memory adds to what is there")
    parser.add_argument(
        "--encoders", nargs="+", default=list(ENCODERS[:2]), choices=ENCODERS, help="minilm is slow"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the page")
    options = parser.parse_args()
    file = options.out / "prime.json"
    found = json.loads(file.read_text()) if options.part == "memory" else {}
    if options.part != "memory":
        found |= measure_times(options.encoders, options.quick)
    if options.part != "times":
        cases = [(2_000, 64), (4_000, 64)] if options.quick else CASES
        rows = 4_000 if options.quick else MEMORY_ROWS
        logs = ROOT / "build" / "benchmarks"
        found["memory"] = [measure_memory(labels, batch, rows, logs) for labels, batch in cases]
    options.out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "prime.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
