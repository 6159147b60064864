"""OTSeq2Set against its baselines and the linear tree, at CPU scale: Tables 3, 5, 6, 7, Figure 5, and what it takes.

``python -m experiments.otseq2set tree table3 seeds table5 lambda settings`` measures these parts on all sets, or those
of ``--data`` (``table3:docstrings`` is one part on one set), and writes docs/experiments/otseq2set.{json,md}; what was
measured before is kept, so an interrupted run goes on. ``keys`` are more seeds of the main rows only; ``time`` is Table
7 and needs a quiet machine; ``--report`` only writes the page. Models learn from the training rows; after each epoch
micro-F1 on held-out training rows decides which weights are kept, for all models alike, and settings are chosen on
these rows too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch

from experiments.otseq2set_data import CUTS, VECTORS, Part, TextSet, read_set, set_measures
from experiments.otseq2set_page import load, write
from experiments.otseq2set_tree import measure_tree
from tagwood.metrics.sets import set_scores
from tagwood.neural.set_generator import SetGenerator

Settings = dict[str, Any]
# One size for all models; chosen so that a run takes about a minute, the rest on held-out rows (see the page).
BASE: Settings = {
    "hidden": 96, "layers": 1, "epochs": 15, "batch_size": 64, "learning_rate": 4e-3, "min_count": 1,
    "output": "full", "threads": 1,
}  # fmt: skip
PLAIN: Settings = {"kind": "otseq2set", "light_conv": False, "ot_weight": 0.0}
MODELS: dict[str, Settings] = {
    "Seq2Seq": {"kind": "seq2seq", "light_conv": False},
    "MLC2Seq": {"kind": "mlc2seq", "light_conv": False},
    "SGM": {"kind": "sgm", "light_conv": False},
    "Seq2Seq + LC": {"kind": "seq2seq", "light_conv": True},
    "BM": PLAIN,
    "BM + LC": {**PLAIN, "light_conv": True},
    "BM + OT": {**PLAIN, "ot_weight": 8.0},
    "BM + OT + LC": {**PLAIN, "ot_weight": 8.0, "light_conv": True},
}
TIMED = ("Seq2Seq", "SGM", "BM", "BM + OT + LC")
KEY_ROWS = ("Seq2Seq", "BM", "BM + OT", "BM + OT + LC")
# What may decide whether the claim holds: one setting changed at a time.
VARIATIONS: dict[str, Settings] = {
    "OT on matched steps, λ = 8": {"ot_steps": "matched"},
    "OT on matched steps, λ = 2": {"ot_steps": "matched", "ot_weight": 2.0},
    "30 epochs": {"epochs": 30},
    "learning rate 0.002": {"learning_rate": 2e-3},
    "learning rate 0.008": {"learning_rate": 8e-3},
    "random embeddings": {"word_vectors": None},
    "∅ weight 0.1": {"empty_weight": 0.1},
    "∅ weight 0.5": {"empty_weight": 0.5},
    "∅ weight 1": {"empty_weight": 1.0},
    "5 teacher-forced epochs": {"teacher_epochs": 5},
}
LAMBDAS = (1.0, 2.0, 0.5, 4.0, 16.0)


def measure_run(data: TextSet, settings: Settings, seed: int) -> dict[str, Any]:
    """Fit one model; return the held-out curve, measures on held-out and test rows, CPU seconds and parameters."""
    options = {
        **BASE, "max_length": data.cut.words, "steps": data.cut.steps, "word_vectors": str(VECTORS), **settings
    }  # fmt: skip
    model = SetGenerator(seed=seed, **options)
    spent = [0.0]

    def held_out(fitted: SetGenerator) -> float:
        start = time.process_time()
        f1 = set_scores(data.held.Y, fitted.predict(data.held.texts)).f1
        spent[0] += time.process_time() - start
        return f1

    start = time.process_time()
    model.fit(data.train.texts, data.train.Y, label_texts=data.label_texts, evaluate=held_out)
    seconds = time.process_time() - start - spent[0]
    history = model.history_
    assert history is not None
    begin = time.process_time()
    test = scores(model, data.test)
    return {
        "curve": [round(100 * value, 2) for value in history.measures],
        "losses": [round(value, 4) for value in history.losses],
        "best_epoch": history.best_epoch,
        "held": scores(model, data.held),
        "test": test,
        "train_seconds": round(seconds, 1),
        "predict_ms": round(1e3 * (time.process_time() - begin) / len(data.test.texts), 2),
        "parameters": sum(weight.numel() for weight in model.module_.parameters()),
    }


def measure_time(data: TextSet, model: str, repeats: int = 3, epochs: int = 2) -> dict[str, float]:
    """Return the seconds of an epoch, the fastest of some fits, and the number of parameters."""
    options = {
        **BASE,
        "max_length": data.cut.words,
        "steps": data.cut.steps,
        **MODELS[model],
        "epochs": epochs,
    }
    found = [SetGenerator(**options).fit(data.train.texts, data.train.Y) for _ in range(repeats)]
    seconds = min(one.history_.seconds for one in found if one.history_ is not None) / epochs
    return {"seconds": seconds, "parameters": sum(weight.numel() for weight in found[0].module_.parameters())}


def scores(model: SetGenerator, part: Part) -> dict[str, float]:
    """Return P, R, F1 in the averages of Tables 3 and 6 in percent, and the mean absolute error of the set size."""
    return set_measures(part.Y, model.predict(part.texts))


def plan(part: str, name: str) -> Iterator[tuple[str, str, Settings, int]]:
    """Yield the runs of a part on a set: model, variation, settings, seed."""
    if part == "table3":
        yield from ((model, "", {}, 0) for model in MODELS)
    elif part == "seeds":
        yield from ((model, "", {}, seed) for seed in (1, 2) for model in MODELS)
    elif part == "keys":
        yield from ((model, "", {}, seed) for seed in (1, 2) for model in KEY_ROWS)
    elif part == "table5":
        for seed in (0, 1, 2):
            yield from (("BM", f"scheme {scheme}", {"scheme": scheme}, seed) for scheme in ("all", "first-n"))
    elif part == "lambda":
        yield from (("BM + OT", f"λ = {lam:g}", {"ot_weight": lam}, 0) for lam in LAMBDAS)
    elif part in ("settings", "matched"):
        for title, change in VARIATIONS.items():
            if part == "matched" and not title.startswith("OT"):
                continue
            models = ("BM + OT",) if title.startswith("OT") else ("Seq2Seq", "BM", "BM + OT")
            only_sets = set(change) & {"empty_weight", "teacher_epochs"}
            yield from ((m, title, change, 0) for m in models if not (only_sets and m == "Seq2Seq"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("tree", "table3", "keys", "seeds", "table5", "lambda", "matched", "settings", "time")
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(parts)}")
    parser.add_argument("--data", nargs="*", default=list(CUTS), choices=list(CUTS))
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for part in [] if args.report else args.parts:
        what, _, only = part.partition(":")
        if what not in parts:
            parser.error(f"unknown part {part!r}; known: {', '.join(parts)}")
        for name in [only] if only else args.data:
            measure_part(load(), what, name)
    write(load())


def measure_part(result: dict[str, Any], part: str, name: str) -> None:
    """Measure what is missing of a part on a set, and store each run as it comes."""
    data: TextSet | None = None
    if part in ("tree", "time"):
        if name not in result[part]:
            data = read_set(name)
            found = measure_tree(data) if part == "tree" else {m: measure_time(data, m) for m in TIMED}
            result = load()
            result[part][name] = found
            write(result)
        return
    for model, variation, change, seed in plan(part, name):
        key = f"{name} | {model} | {variation} | {seed}"
        if key in result["runs"]:
            continue
        data = data or read_set(name)
        run = measure_run(data, {**MODELS[model], **change}, seed)
        result = load()  # another process may have added runs
        result["runs"][key] = run
        print(f"{key}: held {run['held']['F1']}, test {run['test']['F1']}", flush=True)
        write(result)


if __name__ == "__main__":
    main()
