"""Output layers of `SetGenerator`: full, bottleneck, candidates: ``python -m benchmarks.set_output`` (four minutes).

cooking-stackexchange (735 labels) shows the precision that candidates cost, tibkat-gnd-en (22,625 labels) the time that
they save. Numbers of candidates above a quarter of a set's labels are left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse

from benchmarks import SHARED
from benchmarks.problems import read_splits
from benchmarks.report import Page, machine, machine_line, number, table
from tagwood.metrics import set_scores
from tagwood.neural.otseq2set import DecodingSettings, NetworkSettings, SetGenerator, SetTraining

PAGE = Page("benchmarks", "set_output")
OUTPUTS: dict[str, dict[str, Any]] = {
    "full": {"output": "full"},
    "bottleneck of 100": {"output": "bottleneck", "bottleneck": 100},
    "30 candidates": {"output": "candidates", "candidates": 30, "bottleneck": 100},
    "100 candidates": {"output": "candidates", "candidates": 100, "bottleneck": 100},
    "300 candidates": {"output": "candidates", "candidates": 300, "bottleneck": 100},
}
# Set -> training rows, test rows, epochs, words read, steps of the decoder.
SETS = {"cooking-stackexchange": (4_096, 2_000, 6, 15, 5), "tibkat-gnd-en": (1_280, 500, 6, 40, 6)}
NETWORK = NetworkSettings(word_vectors=str(SHARED / "glove" / "vectors.f16.npy"), hidden=96, layers=1)
TRAINING = SetTraining(batch_size=64, learning_rate=0.004)


def read_rows(name: str, n_train: int, n_test: int) -> tuple[list[str], Any, list[str], Any]:
    """Return texts and labels of some training and test rows; all labels of the training file stay."""
    train, test = read_splits(name)
    found: list[Any] = []
    for part, wanted in ((train, n_train), (test, n_test)):
        rows = np.flatnonzero(np.diff(part.labels.indptr))
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:wanted])
        found += [[(part.texts or ())[row] for row in rows], part.labels[rows]]
    return found[0], found[1], found[2], found[3]


def candidate_recall(model: SetGenerator, texts: list[str], Y: sparse.csr_array) -> float | None:
    """Return the share of the true labels that are candidates."""
    if model.candidates_ is None:
        return None
    return float((model.candidates_.find(texts).multiply(Y > 0)).sum() / Y.nnz)


def measure(name: str, outputs: list[str], scale: float) -> list[dict[str, Any]]:
    n_train, n_test, epochs, words, steps = SETS[name]
    texts, Y, test_texts, test_Y = read_rows(name, round(scale * n_train), round(scale * n_test))
    found = []
    for output in outputs:
        if OUTPUTS[output].get("candidates", 0) > Y.shape[1] / 4:
            continue
        model = SetGenerator(
            network=replace(NETWORK, max_length=words),
            decoding=DecodingSettings(steps=steps, **OUTPUTS[output]),
            training=replace(TRAINING, epochs=epochs),
            threads=1,
        )
        start = time.perf_counter()
        model.fit(texts, Y)
        seconds = time.perf_counter() - start
        assert model.history_ is not None
        start = time.perf_counter()
        sets = model.predict(test_texts)
        answer = time.perf_counter() - start
        scores = set_scores(test_Y, sets)
        row = {
            "set": name, "output": output, "rows": len(texts), "labels": Y.shape[1], "epochs": epochs,
            "parameters": sum(weight.numel() for weight in model.module_.parameters()),
            "step_ms": 1e3 * model.history_.seconds / model.history_.steps,
            "before_s": seconds - model.history_.seconds,
            "predict_ms": 1e3 * answer / len(test_texts),
            "P": 100 * scores.precision, "R": 100 * scores.recall, "F1": 100 * scores.f1,
            "candidate_recall": candidate_recall(model, test_texts, test_Y),
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield a table per set."""
    yield machine_line(result["machine"])
    header = ["output", "parameters", "before, s", "step, ms", "predict, ms per text", "P", "R", "micro-F1"]
    for name in SETS:
        rows = [row for row in result["runs"] if row["set"] == name]
        if not rows:
            continue
        yield f"## {name}"
        yield f"{rows[0]['labels']:,} labels, {rows[0]['rows']:,} rows, {rows[0]['epochs']} epochs."
        cells = [
            [row["output"], f"{row['parameters'] / 1e6:.2f} M",
             *(number(row[key]) for key in ("before_s", "step_ms", "predict_ms")),
             *(f"{row[key]:.1f}" for key in ("P", "R", "F1")),
             "" if row["candidate_recall"] is None else f"{row['candidate_recall']:.1%}"]
            for row in rows
        ]  # fmt: skip
        yield table([*header, "true labels among candidates"], cells)


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--outputs", nargs="*", default=list(OUTPUTS), choices=list(OUTPUTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    runs = [row for name in args.sets for row in measure(name, args.outputs, args.scale)]
    result = {"machine": machine(), "torch": torch.__version__, "threads": 1, "runs": runs}
    PAGE.save(args.out, result)
    PAGE.write(args.out, page_blocks(result))


if __name__ == "__main__":
    main()
