"""What labels tell of each other inside a `Tagger`: sets of ``promise="f1"`` with and without it, of the same Tagger.

``python -m experiments.set_model --in-tagger``. In: a set's name and a seed. Out: micro-F1, nDCG@5, size error and CPU
time per text of both. Without it, the same members are fused alone, and the set rule is fitted to that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

from benchmarks.problems import read_splits
from benchmarks.report import table
from experiments.set_model.candidates import label_names
from experiments.statistics import compare_sets, micro_f1, set_counts
from tagwood import LabelVocab, LinearTree, Tagger, compare
from tagwood.models.ensemble import model as ensemble_module
from tagwood.models.ensemble.trial import KEPT, learn_together, sigmoid
from tagwood.probabilities.sets import fit_set_rule
from tagwood.ranking import Ranking

SIZES = (12_000, 4_000)  # training and test rows
QUICK = (3_000, 300)
_REPEATS = 3


@dataclass(frozen=True)
class Problem:
    """Texts and labels to train on and to test with, and the table of the labels that have training rows."""

    texts: list[str]
    Y: sparse.csr_array
    test_texts: list[str]
    Y_test: sparse.csr_array
    vocab: LabelVocab


def read_problem(name: str, seed: int, n_train: int, n_test: int) -> Problem:
    """Return a random part of the training and of the test rows of a set."""
    random = np.random.default_rng(10 + seed)
    train, test = read_splits(name)
    train = train.rows(np.sort(random.permutation(train.n_rows)[:n_train]))
    test = test.rows(np.sort(random.permutation(test.n_rows)[:n_test]))
    used = np.flatnonzero(np.bincount(train.labels.indices, minlength=train.n_labels))
    names: dict[str, int] = {}
    name_of = label_names(name)
    for label in used.tolist():
        found = name_of(train.vocab.name(label))
        names[found if found not in names else f"{found} ({label})"] = label
    Y, Y_test = (sparse.csr_array(part.labels[:, used]) for part in (train, test))
    return Problem(list(train.texts or ()), Y, list(test.texts or ()), Y_test, LabelVocab.from_names(list(names)))


def measure_in_tagger(name: str, seed: int, quick: bool) -> dict[str, Any]:
    """Train a Tagger of quality balanced and measure it with and without what labels tell of each other."""
    problem = read_problem(name, seed, *(QUICK if quick else SIZES))
    plain: list[Ranking] = []

    def keep(trial: Any, used: Any, logits: Any) -> Any:
        plain.append(trial.candidates.ranking(sigmoid(logits), KEPT))
        return learn_together(trial, used, logits)

    with patch.object(ensemble_module, "learn_together", keep):
        tagger = Tagger(model=LinearTree(threads=1), quality="balanced", seed=seed)
        tagger.fit(problem.texts, problem.Y, vocab=problem.vocab)
    model: Any = tagger.model_
    report = model.report_[-1]
    found: dict[str, Any] = {"set": name, "seed": seed, "used": report.used, "training_cpu": report.seconds}
    if not report.used:
        return found
    held = model.held_out_
    rules = [fit_set_rule("f1", one, held.truth) for one in (plain[0], held.ranking)]
    stages, seconds, rankings = (None, model.together_), ([], []), [held.ranking] * 2
    for _ in range(_REPEATS):
        for number, stage in enumerate(stages):
            model.together_ = stage
            start = time.process_time()
            rankings[number] = model.rank(problem.test_texts, 50)
            seconds[number].append(time.process_time() - start)
    truth = problem.Y_test
    counts = [
        set_counts(truth, sparse.csr_array(rule.apply(ranking)[0].to_csr()))
        for rule, ranking in zip(rules, rankings, strict=True)
    ]
    errors = [np.abs(one[:, 1] - one[:, 2]) for one in counts]
    more = errors[1] - errors[0]
    half = 1.96 * more.std() / np.sqrt(more.size)
    order = compare(truth, *rankings, metrics=["nDCG@5"])["nDCG@5"]
    return found | {
        "F1": [micro_f1(one) for one in counts],
        "lead": compare_sets(*counts),
        "nDCG@5": [100 * value for value in (order.first, order.second, order.difference, order.low, order.high)],
        "size_error": [float(one.mean()) for one in errors],
        "size_lead": [float(more.mean()), float(more.mean() - half), float(more.mean() + half)],
        "microseconds": [1e6 * min(times) / len(problem.test_texts) for times in seconds],
    }


def tagger_block(rows: list[dict[str, Any]]) -> str:
    """Return the table of all sets and seeds."""
    cells = []
    for one in rows:
        if not one["used"]:
            cells.append([one["set"], str(one["seed"]), "left out", *[""] * 6])
            continue
        first, second, *gain = one["nDCG@5"]
        cells.append(
            [
                one["set"],
                str(one["seed"]),
                "{:.1f}, {:.1f}".format(*one["F1"]),
                "{:+.2f} ({:+.2f} to {:+.2f})".format(*one["lead"]),
                f"{first:.1f}, {second:.1f}",
                "{:+.2f} ({:+.2f} to {:+.2f})".format(*gain),
                "{:.2f}, {:.2f}".format(*one["size_error"]),
                "{:+.3f} ({:+.3f} to {:+.3f})".format(*one["size_lead"]),
                f"{one['training_cpu']:.1f}",
            ]
        )
    header = ["set", "seed", "micro-F1", "lead (95 %)", "nDCG@5", "lead (95 %)", "size error", "difference (95 %)"]
    title = f"### Inside a Tagger: {SIZES[0]:,} training rows, {SIZES[1]:,} test rows; without and with it"
    return f"{title}\n\n{table([*header, 'CPU s to learn'], cells)}"
