"""The cost of training PRIME: steps, shares of an epoch, memory: ``python -m benchmarks.prime`` (fifteen minutes).

Texts and label names are generated (see `worker`): about 14 words per text, three labels each. Compared runs take turns
on the same batches; the fastest of each counts. Each memory figure comes from its own process. One thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import CACHE
from benchmarks.measure import fastest, run_job
from benchmarks.prime.worker import Bench, make_texts, start_training
from benchmarks.report import Page, machine, machine_line, number, table
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.batches import REFRESH
from tagwood.neural.training import make_optimizer

PAGE = Page("benchmarks", "prime")
ENCODERS = ("bag", "small", "minilm")
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
        "ratio_with_optimizer": (times["step"] + times["optimizer"]) / (times["encoder"] + times["optimizer"]),
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
    total = clustering + steps
    return {
        "encoder": encoder,
        "rows": n_rows,
        "clustering": clustering,
        "drawing": drawing,
        "epoch": total,
        "refresh": REFRESH,
        "share_first": (clustering + drawing) / total,
        "share": (clustering / REFRESH + drawing) / (clustering / REFRESH + steps),
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


def measure_memory(n_labels: int, batch: int, rows: int) -> dict[str, Any]:
    """Return the memory of a training in its own process."""
    job = {"n_labels": n_labels, "batch": batch, "rows": rows, "dimension": DIMENSION}
    log = CACHE / "logs" / "prime" / f"{n_labels}_{batch}.txt"
    return {
        **job,
        **run_job(Path(sys.executable), "benchmarks.prime.worker", job, log, threads=1, minutes=60),
    }


def measure_times(encoders: list[str], quick: bool) -> dict[str, Any]:
    """Return the times, which need a quiet machine: encoders, steps and epochs."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": machine(), "torch": torch.__version__}
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


def page_blocks(found: dict[str, Any]) -> Iterator[str]:
    """Yield a table per part."""
    yield f"{machine_line(found['machine'])} torch {found['torch']}, one thread."
    yield "## Encoders alone"
    names = ("mean_tokens", "tokens", "float32", "bfloat16")
    yield table(
        ["encoder", "tokens per text", "tokenizer, texts/s", "float32, texts/s", "bfloat16, texts/s"],
        [[one["encoder"], *(number(one[name]) for name in names)] for one in found["encoders"]],
    )
    yield "## A step"
    yield (
        "*Encoder alone*: forward and backward over the same queries and label texts. *Step*: drawing of positives, "
        "encoder, prototypes, losses with masks, backward, and the memory of embeddings."
    )
    yield table(
        ["encoder", "centroids", "queries", "labels", "tokens", "encoder alone, ms", "step, ms", "ratio", "drawing, ms",
         "AdamW, ms", "ratio with AdamW"],
        [
            [one["encoder"], one["centroids"], *(f"{one[name]:,}" for name in ("queries", "labels", "tokens")),
             *(number(one["ms"][name]) for name in ("encoder", "step")), f"{one['ratio']:.2f}",
             *(number(one["ms"][name]) for name in ("draw", "optimizer")), f"{one['ratio_with_optimizer']:.2f}"]
            for one in found["steps"]
        ],
    )  # fmt: skip
    yield "## Shares of an epoch"
    yield "Queries are clustered again every few epochs; the mean spreads that over them."
    yield table(
        ["encoder", "rows", "epoch, s", "clustering, s", "drawing, s", "share, first epoch", "share, mean"],
        [
            [one["encoder"], f"{one['rows']:,}", *(number(one[n]) for n in ("epoch", "clustering", "drawing")),
             *(f"{one[n]:.1%}" for n in ("share_first", "share"))]
            for one in found["epochs"]
        ],
    )  # fmt: skip
    if "memory" in found:
        yield "## Memory"
        yield (
            "One epoch with the encoder `bag` and momentum centroids. The peak holds weights and moments of AdamW, the "
            "memory of query embeddings, centroids, free vectors and prototypes. The last but one column: scores of "
            "every query with every label's vector."
        )
        yield _memory_table(found["memory"])


def _memory_table(cases: list[dict[str, Any]]) -> str:
    rows = []
    for one in cases:
        once = 4e-6 * one["n_labels"] * one["dimension"]
        sizes = (f"{one[name]:,}" for name in ("n_labels", "batch", "rows"))
        rows.append([*sizes, *map(number, (one["fit_peak_mb"], once, one["batch"] * once, one["fit_wall"]))])
    header = ["labels", "batch", "rows", "peak beyond the texts, MB", "labels × dimension, MB"]
    return table([*header, "batch × labels × dimension, MB", "seconds"], rows)


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--part", choices=["times", "memory"], help="memory adds to earlier results")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS[:2]), choices=ENCODERS, help="minilm is slow")
    options = parser.parse_args()
    found = PAGE.load(options.out, {}) if options.part == "memory" else {}
    if options.part != "memory":
        found |= measure_times(options.encoders, options.quick)
    if options.part != "times":
        cases = [(2_000, 64), (4_000, 64)] if options.quick else CASES
        rows = 4_000 if options.quick else MEMORY_ROWS
        found["memory"] = [measure_memory(labels, batch, rows) for labels, batch in cases]
    PAGE.save(options.out, found)
    PAGE.write(options.out, page_blocks(found))


if __name__ == "__main__":
    main()
