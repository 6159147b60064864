"""EAGLE's tables and figures on our data: learning from labels that are known only for groups of rows.

Run with ``python -m experiments.eagle figure3 table2 figure4 --data eurlex57k``. Table 2: random groups of 4
and 10 and clusters of depth 8, P@1/3/5 of the linear tree on single test rows. Figure 3: Theorem 1's
regression. Figure 4: group size, clustering depth, noise. Rows marked "contrast" take the mean row off label
embeddings, which the paper does not.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tagwood.data import read_dataset
from tagwood.features import TfidfEncoder
from tagwood.groups import Imputed, clustered_groups, impute_from_scores, impute_labels, random_groups
from tagwood.metrics import evaluate
from tagwood.models.linear_tree import LinearTree

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "docs" / "experiments"
METRICS = ("P@1", "P@3", "P@5")
PAPER = {"contrast": 0.0}
METHODS: dict[str, dict[str, Any]] = {
    "Baseline": {"method": "baseline"},
    "EAGLE-0": {"method": "eagle-0", **PAPER},
    "EAGLE": {"method": "eagle", **PAPER},
    "EAGLE-0, contrast": {"method": "eagle-0"},
    "EAGLE, contrast": {"method": "eagle"},
    "EAGLE, contrast, soft": {"method": "eagle", "soft": True},
}


class Problem:
    """A text set as features and labels; labels that no training row has are left out of the test rows."""

    def __init__(self, name: str, n_rows: int | None) -> None:
        train = read_dataset(DATA / name / "train.jsonl.gz")
        train = train.rows(np.arange(min(n_rows or train.n_rows, train.n_rows)))
        test = read_dataset(DATA / name / "test.jsonl.gz", vocab=train.vocab, on_unknown="skip")
        encoder = TfidfEncoder(ngrams=(1, 1), threads=2)
        self.X, self.X_test = encoder.fit_transform(train.texts), encoder.transform(test.texts)
        self.Y, self.Y_test = train.labels, test.labels

    def fit(self, labels: sparse.csr_array, weights: sparse.csr_array | None = None) -> LinearTree:
        """Train the model that learns from the imputed labels."""
        return LinearTree(threads=2).fit(self.X, labels, sample_weight=weights)

    def score(self, model: LinearTree) -> dict[str, float]:
        """Return P@1/3/5 on the test rows, in percent."""
        report = evaluate(self.Y_test, model.rank(self.X_test, k=5), metrics=METRICS)
        return {metric: round(100 * report[metric], 2) for metric in METRICS}

    def right(self, imputed: Imputed) -> float:
        """Share of the assignments that the hidden labels confirm, in percent."""
        return round(100 * float(imputed.labels.multiply(self.Y).sum()) / max(1, imputed.labels.nnz), 2)


def run_methods(problem: Problem, groups: sparse.csr_array, names: list[str]) -> dict[str, dict[str, float]]:
    """Impute with each method, train, score."""
    labels = sparse.csr_array(groups.T @ problem.Y)
    found = {}
    for name in names:
        imputed = impute_labels(problem.X, groups, labels, threads=2, **METHODS[name])
        model = problem.fit(imputed.labels, imputed.weights if METHODS[name].get("soft") else None)
        found[name] = {"right": problem.right(imputed), **problem.score(model)}
        print(f"  {name}: {found[name]}", flush=True)
        if name == "EAGLE, contrast":
            scores = model.rank(problem.X, k=100).to_csr()
            again = impute_from_scores(scores, groups, labels, previous=imputed)
            second = problem.score(problem.fit(again.labels))
            found[f"{name}, round 2"] = {"right": problem.right(again), **second}
            print(f"  {name}, round 2: {found[f'{name}, round 2']}", flush=True)
    return found


def table2(problem: Problem) -> dict[str, Any]:
    rules = {
        "R-4": random_groups(problem.X.shape[0], 4),
        "R-10": random_groups(problem.X.shape[0], 10),
        "C (depth 8)": clustered_groups(problem.X, 8, threads=2),
    }
    result: dict[str, Any] = {"oracle": {"right": 100.0, **problem.score(problem.fit(problem.Y))}}
    print("oracle", result["oracle"], flush=True)
    for rule, groups in rules.items():
        print(rule, flush=True)
        result[rule] = run_methods(problem, groups, list(METHODS))
    return result


def figure4(problem: Problem) -> dict[str, Any]:
    """Loss of P@1 against the oracle over group size, clustering depth and noise in the clusters."""
    names = ["Baseline", "EAGLE-0", "EAGLE", "EAGLE, contrast"]
    n_rows = problem.X.shape[0]
    best = problem.score(problem.fit(problem.Y))["P@1"]
    axes = {
        "group size": {g: random_groups(n_rows, g) for g in (2, 4, 10, 20, 50)},
        "depth": {d: clustered_groups(problem.X, d, threads=2) for d in (6, 8, 10, 12)},
        "noise": {z: clustered_groups(problem.X, 8, noise=z, threads=2) for z in (0.0, 0.25, 0.5, 0.75, 1.0)},
    }
    result: dict[str, Any] = {"oracle": best}
    for axis, settings in axes.items():
        for value, groups in settings.items():
            print(axis, value, flush=True)
            scores = run_methods(problem, groups, names)
            loss = {name: round(100 * (1 - found["P@1"] / best), 2) for name, found in scores.items()}
            result.setdefault(axis, {})[str(value)] = loss
    return result


def figure3(n_repeats: int = 20, n_groups: int = 500, size: int = 5, width: int = 20) -> dict[str, Any]:
    """Theorem 1: error of regression without (NoAS) and with assignment (AS), over that with known pairs."""
    result = {}
    for deviation in (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0):
        errors = np.array(
            [
                regression_errors(np.random.default_rng(seed), n_groups, size, width, deviation)
                for seed in range(n_repeats)
            ]
        )
        root = np.sqrt(np.square(errors).mean(axis=0))
        result[str(deviation)] = {"NoAS": float(root[0] / root[2]), "AS": float(root[1] / root[2])}
    return result


def regression_errors(
    random: np.random.Generator, n_groups: int, size: int, width: int, deviation: float
) -> tuple[float, float, float]:
    """Return the errors of NoAS, AS and least squares with known pairs, as in equation (3)."""
    B = random.normal(size=(width, width))
    B /= np.linalg.norm(B, 2)
    centres = random.normal(size=(n_groups, 1, width))
    X = centres + deviation * random.normal(size=(n_groups, size, width))
    Z = X @ B + random.normal(size=X.shape)
    known = least_squares(X.reshape(-1, width), Z.reshape(-1, width))
    no_as = least_squares(X.sum(axis=1), Z.sum(axis=1))
    # Each output goes to the row of its group with the smallest residual; the order inside a group is
    # unknown.
    residual = np.linalg.norm(Z[:, :, None, :] - (X @ no_as)[:, None, :, :], axis=3)
    chosen = np.take_along_axis(X, residual.argmin(axis=2)[:, :, None], axis=1)
    assigned = least_squares(chosen.reshape(-1, width), Z.reshape(-1, width))
    return tuple(float(np.linalg.norm(found - B, 2)) for found in (no_as, assigned, known))  # type: ignore[return-value]


def least_squares(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(X, Z, rcond=None)[0]


def to_markdown(title: str, result: dict[str, Any]) -> str:
    """Return a nested result as one table: the outer keys, then the columns of the innermost values."""
    rows: list[tuple[str, dict[str, float]]] = []

    def walk(path: tuple[str, ...], value: Any) -> None:
        if isinstance(value, dict) and all(isinstance(v, dict) for v in value.values()):
            for key, below in value.items():
                walk((*path, key), below)
        elif isinstance(value, dict) and not any(isinstance(v, dict) for v in value.values()):
            rows.append((" · ".join(path), value))
        elif isinstance(value, dict):
            for key, below in value.items():
                walk((*path, key), below if isinstance(below, dict) else {"value": below})

    walk((), result)
    columns = list(dict.fromkeys(column for _, values in rows for column in values))
    lines = [f"# {title}", "", f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, values in rows:
        cells = [f"{values[c]:.2f}" if c in values else "" for c in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["table2", "figure3", "figure4"])
    parser.add_argument("--data", default="eurlex57k", help="a text set in ../shared/data")
    parser.add_argument("--rows", type=int, help="use only so many training rows")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    problem = Problem(args.data, args.rows) if {"table2", "figure4"} & set(args.what) else None
    for what in args.what:
        name = "eagle-figure3" if what == "figure3" else f"eagle-{what}-{args.data}"
        if what == "figure3":
            result = figure3()
        else:
            assert problem is not None
            result = table2(problem) if what == "table2" else figure4(problem)
        (args.out / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        text = to_markdown(f"EAGLE, {what}" + ("" if what == "figure3" else f", {args.data}"), result)
        (args.out / f"{name}.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
