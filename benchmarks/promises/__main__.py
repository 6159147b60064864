"""Do promise sets keep their promise, how large are they, and is "f1" best? ``python -m benchmarks.promises``.

Of each set a part of the training rows trains the model, 5,000 fit the
calibrator, and 10,000 join the test rows in a pool. The pool is then split at random, 200 times, into 5,000 rows that
fit the set rule and the others, on which its sets are measured. "Hindsight" is the single threshold on the same
probabilities (for F1: on the model's own scores) that is best on those other rows: a bound that no method can know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import SHARED
from benchmarks.report import Page, table
from tagwood.data import read_dataset
from tagwood.features import TfidfEncoder
from tagwood.metrics.matching import match
from tagwood.models.linear_tree import LinearTree
from tagwood.probabilities.calibration import Calibrator
from tagwood.probabilities.sets import fit_set_rule
from tagwood.ranking import Ranking

PAGE = Page("benchmarks", "promises")
PROMISES = {
    "eurlex57k": ("precision>=0.9", "recall>=0.8"),
    "tibkat-gnd-en": ("precision>=0.6", "recall>=0.4"),
    "yso-titles": ("precision>=0.6", "recall>=0.3"),
}
N_CALIBRATOR, N_POOL, N_RULE, K = 5_000, 10_000, 5_000, 50
CONFIDENCE = 0.9
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pool:
    """Held-out rows, their candidates and which of these are right, as tables of n_rows × K."""

    scores: Ranking
    probabilities: Ranking
    Y: sparse.csr_array
    hits: Floats
    n_true: Floats

    def table(self, ranking: Ranking) -> Floats:
        """Return the scores of a ranking as a table; -1 where a row has fewer."""
        used = np.arange(K) < np.diff(ranking.indptr)[:, None]
        table = np.full(used.shape, -1.0)
        table[used] = ranking.scores
        return table


def make_pool(name: str, seed: int = 0) -> Pool:
    """Train on a part of the training rows, calibrate on another, rank the rest and the test rows."""
    train = read_dataset(SHARED / name / "train.jsonl.gz")
    test = read_dataset(SHARED / name / "test.jsonl.gz", vocab=train.vocab, on_unknown="add")
    encoder = TfidfEncoder(min_df=2, ngrams=(1, 2) if name == "yso-titles" else (1, 1)).fit(train.texts)
    X, X_test = encoder.transform(train.texts), encoder.transform(test.texts)
    Y = train.labels.copy()
    Y.resize((Y.shape[0], test.labels.shape[1]))
    order = np.random.default_rng(seed).permutation(X.shape[0])
    first, second, rest = np.split(order, [N_CALIBRATOR, N_CALIBRATOR + N_POOL])
    model = LinearTree(threads=1).fit(X[rest], Y[rest])
    counts = np.bincount(Y[rest].indices, minlength=Y.shape[1])
    calibrator = Calibrator("context").fit(model.rank(X[first], k=K), Y[first], frequencies=counts)
    scores = model.rank(sparse.vstack([X[second], X_test], format="csr"), k=K)
    Y_pool = sparse.csr_array(sparse.vstack([Y[second], test.labels], format="csr"))
    laid = match(Y_pool, scores)
    hits = np.zeros((scores.n_rows, K))
    hits[np.arange(K) < np.diff(scores.indptr)[:, None]] = laid.hits
    return Pool(scores, calibrator.transform(scores), Y_pool, hits, laid.n_true.astype(np.float64))


def one_split(pool: Pool, rule: str, seed: int) -> dict[str, float]:
    """Fit the rule on some rows of the pool and measure its sets on the others."""
    order = np.random.default_rng(seed).permutation(pool.scores.n_rows)
    fitting, others = order[:N_RULE], order[N_RULE:]
    found = fit_set_rule(rule, pool.probabilities.rows(fitting), pool.Y[fitting], confidence=CONFIDENCE)
    sets, review = found.apply(pool.probabilities.rows(others))
    sizes = np.diff(sets.indptr)
    right = np.where(np.arange(K) < sizes[:, None], pool.hits[others], 0.0).sum(axis=1)
    values = {
        "precision": right.sum() / max(1, sizes.sum()),
        "recall": _mean_recall(right, pool.n_true[others]),
    }
    values["f1"] = 2 * right.sum() / (sizes.sum() + pool.n_true[others].sum())
    return {"size": sizes.mean(), "review": review.mean(), "kept": found.kept, **values}


def hindsight(pool: Pool, kind: str, value: float, seed: int) -> float:
    """Return what the best single threshold reaches on the same rows: labels per row, or F1 for "f1"."""
    others = np.random.default_rng(seed).permutation(pool.scores.n_rows)[N_RULE:]
    table = pool.table(pool.scores if kind == "f1" else pool.probabilities)[others]
    order = np.argsort(-table, axis=None)
    hits, n_true = pool.hits[others], pool.n_true[others]
    count = np.arange(1, order.size + 1)
    if kind == "precision":
        holds = np.flatnonzero(np.cumsum(hits.ravel()[order]) / count >= value)
        return float(count[holds[-1]] / others.size) if holds.size else 0.0
    if kind == "recall":
        share = (hits / np.maximum(n_true, 1)[:, None]).ravel()[order]
        reached = np.searchsorted(np.cumsum(share) / np.count_nonzero(n_true), value)
        return float((reached + 1) / others.size)
    return float(np.max(2 * np.cumsum(hits.ravel()[order]) / (count + n_true.sum())))


def best_fixed_k(pool: Pool, seed: int) -> float:
    """Return the largest F1 that a fixed number of labels per row reaches on the same rows."""
    others = np.random.default_rng(seed).permutation(pool.scores.n_rows)[N_RULE:]
    right = np.cumsum(pool.hits[others].sum(axis=0))
    returned = np.cumsum((pool.table(pool.scores)[others] >= 0).sum(axis=0))
    return float(np.max(2 * right / (returned + pool.n_true[others].sum())))


def measure(name: str, splits: int) -> dict[str, Any]:
    """Return all figures of a set."""
    pool = make_pool(name)
    result: dict[str, Any] = {"rows": pool.scores.n_rows, "promises": {}}
    for rule in PROMISES[name]:
        kind, value = rule.split(">=")
        runs = [one_split(pool, rule, seed) for seed in range(splits)]
        best = [hindsight(pool, kind, float(value), seed) for seed in range(splits)]
        result["promises"][rule] = {
            "holds": float(np.mean([run[kind] >= float(value) for run in runs])),
            "value": float(np.mean([run[kind] for run in runs])),
            "size": float(np.mean([run["size"] for run in runs])),
            "against_hindsight": float(np.mean([r["size"] / b for r, b in zip(runs, best, strict=True)])),
            "review": float(np.mean([run["review"] for run in runs])),
            "kept": float(np.mean([run["kept"] for run in runs])),
        }
    some = range(min(splits, 20))
    runs = [one_split(pool, "f1", seed) for seed in some]
    threshold = [hindsight(pool, "f1", 0.0, seed) for seed in some]
    fixed = [best_fixed_k(pool, seed) for seed in some]
    wins = [run["f1"] > max(t, k) for run, t, k in zip(runs, threshold, fixed, strict=True)]
    means = {"f1": np.mean([run["f1"] for run in runs]), "threshold": np.mean(threshold), "k": np.mean(fixed)}
    result["f1"] = {**{key: float(mean) for key, mean in means.items()}, "wins": float(np.mean(wins))}
    return result


def _mean_recall(right: Floats, n_true: Floats) -> float:
    some = n_true > 0
    return float(np.mean(right[some] / n_true[some]))


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield both tables."""
    sets = {name: result for name, result in content.items() if name != "splits"}
    columns = {"holds": 3, "value": 3, "size": 2, "against_hindsight": 3, "review": 3, "kept": 2}
    yield table(
        ["set, promise", "holds", "measured", "labels per row", "size / hindsight", "review", "certified"],
        [
            [f"{name}, `{rule}`", *(f"{found[key]:.{digits}f}" for key, digits in columns.items())]
            for name, result in sets.items()
            for rule, found in result["promises"].items()
        ],
    )
    yield f"Micro-F1, mean of {min(content['splits'], 20)} splits; *wins* is the share in which `f1` beats both."
    yield table(
        ["set", '`"f1"`', "best threshold", "best k", "wins"],
        [
            [name, *(f"{f1[key]:.4f}" for key in ("f1", "threshold", "k")), f"{f1['wins']:.2f}"]
            for name, f1 in ((name, result["f1"]) for name, result in sets.items())
        ],
    )


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("names", nargs="*", default=list(PROMISES), help=f"sets out of {', '.join(PROMISES)}")
    parser.add_argument("--splits", type=int, default=200)
    args = parser.parse_args()
    content: dict[str, Any] = {"splits": args.splits}
    for name in args.names:
        if not (SHARED / name).exists():
            print(f"skipped: {name} is not in ../shared/data")
            continue
        content[name] = measure(name, args.splits)
        print(name, json.dumps(content[name]), flush=True)
    if len(content) > 1:
        PAGE.save(args.out, content)
        PAGE.write(args.out, page_blocks(content))


if __name__ == "__main__":
    main()
