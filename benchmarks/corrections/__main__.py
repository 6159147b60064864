"""What do corrections bring, at once and after training? ``python -m benchmarks.corrections``.

A model starts with 2,000 rows. In each of 20 rounds people correct 200 texts: the right labels of the text are accepted
or added, wrong suggestions among the first five are rejected. After each round, 2,000 other rows of the training file
are ranked: by the first model, by the model that took the corrections in at once (``Tagger.learn``), and, every fifth
round, by a model trained again with all corrections. No row of a test file is used.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import SHARED
from benchmarks.report import Page, table
from tagwood import Tagger
from tagwood.data import Dataset, read_dataset
from tagwood.metrics import evaluate
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("benchmarks", "corrections")
SETS = {"tibkat-gnd-en": "TIBKAT", "eurlex57k": "EURLEX57K"}
START, ROUNDS, PER_ROUND, TEST, SHOWN, TRAINED_EVERY = 2_000, 20, 200, 2_000, 5, 5
METRICS = ("P@1", "P@5", "nDCG@5")


def read(name: str) -> Dataset:
    """Return the rows of an experiment: those to start with, to correct and to measure on, in this order."""
    data = read_dataset(SHARED / name / "train.jsonl.gz")
    n = START + ROUNDS * PER_ROUND + TEST
    return data.rows(np.random.default_rng(0).permutation(data.n_rows)[:n])


def rejected(tagger: Tagger, data: Dataset) -> sparse.csr_array:
    """Return the wrong labels among those that a person sees."""
    shown = sparse.csr_array(tagger.rank(list(data.texts or ()), SHOWN).to_sets())
    shown.resize(data.labels.shape)
    wrong = sparse.csr_array(shown - shown.multiply(data.labels))
    wrong.eliminate_zeros()
    return wrong


def measure(tagger: Tagger, test: Dataset) -> dict[str, float]:
    """Return the metrics of held-out rows."""
    report = evaluate(test.labels, tagger.rank(list(test.texts or ()), 5), metrics=METRICS)
    return {name: float(report[name]) for name in METRICS}


def run(name: str) -> dict[str, Any]:
    """Return the metrics after each round, and the CPU time of a correction and of a training."""
    data = read(name)
    corrected = data.rows(np.arange(START, START + ROUNDS * PER_ROUND))
    test = data.rows(np.arange(START + ROUNDS * PER_ROUND, data.n_rows))
    first = Tagger().fit(data.rows(np.arange(START)))
    learned, one_by_one = copy(first), []
    found: dict[str, Any] = {"none": measure(first, test), "learn": [], "train": {}, "labels": data.n_labels}
    wrong = []
    for number in range(1, ROUNDS + 1):
        part = corrected.rows(np.arange((number - 1) * PER_ROUND, number * PER_ROUND))
        wrong.append(rejected(learned, part))
        for row in range(PER_ROUND):
            start = process_time()
            text = [(part.texts or ())[row]]
            learned.learn(text, part.labels[[row]], rejected=wrong[-1][[row]])
            one_by_one.append(1000 * (process_time() - start))
        found["learn"].append(measure(learned, test))
        if number % TRAINED_EVERY == 0:
            start = process_time()
            rows = data.rows(np.arange(START + number * PER_ROUND))
            empty = sparse.csr_array((START, data.n_labels), dtype=np.float32)
            again = Tagger().fit(
                Dataset(rows.labels, data.vocab, texts=rows.texts, rejected=sparse.vstack([empty, *wrong]))
            )
            found["train"][number] = {**measure(again, test), "seconds": process_time() - start}
        print(name, number, found["learn"][-1], found["train"].get(number), flush=True)
    found["milliseconds"] = [float(value) for value in np.percentile(one_by_one, [50, 99, 100])]
    return found


def closed(found: dict[str, Any], number: int, metric: str = "nDCG@5") -> float:
    """Return the share of what training gains that learning at once gains."""
    before = found["none"][metric]
    return (found["learn"][number - 1][metric] - before) / (found["train"][number][metric] - before)


def page_blocks(results: dict[str, Any]) -> list[str]:
    """Return the tables."""
    found = []
    for name, title in SETS.items():
        if name not in results:
            continue
        one = results[name]
        header, rows = ["corrected texts", "nothing", "`learn`", "training", "gap closed by `learn`"], []
        for key, trained in one["train"].items():
            number = int(key)
            values = (one["none"]["nDCG@5"], one["learn"][number - 1]["nDCG@5"], trained["nDCG@5"])
            share = f"{100 * closed(one | {'train': {number: trained}}, number):.0f} %"
            rows.append([f"{number * PER_ROUND:,}", *(f"{100 * value:.1f}" for value in values), share])
        half, most, worst = one["milliseconds"]
        found += [
            f"## {title}\n\nnDCG@5 in percent on {TEST:,} held-out rows.",
            f"![nDCG@5 by corrected texts](corrections_{name}.svg)",
            table(header, rows),
            f"One correction takes {half:.1f} ms of CPU time (median), {most:.1f} ms (99 %), {worst:.1f} ms (most).",
        ]
    return found


def draw(name: str, one: dict[str, Any], folder: Path) -> None:
    """Write the figure of a set."""
    rounds = [PER_ROUND * number for number in range(ROUNDS + 1)]
    start = 100 * one["none"]["nDCG@5"]
    learned = [start, *(100 * values["nDCG@5"] for values in one["learn"])]
    trained = {0: start} | {PER_ROUND * int(key): 100 * v["nDCG@5"] for key, v in one["train"].items()}
    curves = {
        "nothing": [Mark(x, start) for x in rounds],
        "learn at once": [Mark(*pair) for pair in zip(rounds, learned, strict=True)],
        "train again": [Mark(*pair) for pair in trained.items()],
    }
    chart = Chart(SETS[name], "corrected texts", "nDCG@5", curves)
    (folder / f"corrections_{name}.svg").write_text(chart_svg(chart), encoding="utf-8")


def main() -> None:
    """Run the benchmark and write the page."""
    parser = PAGE.parser(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    options = parser.parse_args()
    results = PAGE.load(options.out, {})
    for name in options.sets:
        results[name] = run(name)
        PAGE.save(options.out, results)
        draw(name, results[name], options.out)
    PAGE.write(options.out, page_blocks(results))


if __name__ == "__main__":
    main()
