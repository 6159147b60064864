"""The forecast of ``tagwood plan``: measure, fit, check: ``python -m benchmarks.planning`` (about six minutes).

Training runs on real and synthetic sets of different sizes, each in its own process, give the constants
(src/tagwood/planning/coefficients.json, written with ``--constants``); sets that were not used to fit them show the
errors. Also measured: the effect of the settings that ``plan`` changes to keep to limits. Out: plan.md and plan.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import CACHE, SHARED
from benchmarks.measure import run_job
from benchmarks.planning.fit import error_bands, fit_coefficients, ratios
from benchmarks.report import Page, machine, machine_line, number, table
from tagwood.planning.forecast import FILE, Coefficients
from tagwood.planning.probe import measure_probe

PAGE = Page("benchmarks", "plan")
WORDS = ("features.ngrams=[1,1]",)


@dataclass(frozen=True)
class Set:
    """Rows of a set with settings; `role` is "fit", "check" or "knobs"."""

    name: str
    rows: int = 0
    settings: tuple[str, ...] = ()
    role: str = "fit"

    @property
    def title(self) -> str:
        """Name, rows and settings in one line."""
        rows = f", {self.rows:,} rows" if self.rows else ""
        return f"{self.name}{rows}" + "".join(f", {one.partition('.')[2]}" for one in self.settings)


# Synthetic: rows, labels, features, features per row; as texts of made-up words.
SYNTHETIC = {
    "synthetic-short": (20_000, 40_000, 20_000, 75.0),
    "synthetic-few-labels": (20_000, 5_000, 20_000, 75.0),
    "synthetic-long": (40_000, 1_000, 20_000, 300.0),
}
BAGS = ("bibtex", "delicious")  # features with names, made into texts
SETS = (
    Set("cooking-stackexchange"),
    Set("yso-titles", 20_000),
    Set("yso-titles", 60_000),
    Set("yso-titles"),
    Set("debian-depends", 12_000),
    Set("debian-depends"),
    Set("debian-depends", 0, (*WORDS, "tree.n_trees=2")),
    *(Set(name, 0, WORDS) for name in SYNTHETIC),
    Set("tibkat-gnd-en"),
    Set("tibkat-gnd-en", 0, ("features.min_df=5", "model.threshold=0.2")),
    Set("eurlex57k", role="check"),
    Set("tate-subjects", role="check"),
    *(Set(name, role="check") for name in BAGS),
)
KNOB_SETS = ("debian-depends", "yso-titles")
KNOBS = (
    (), WORDS, ("features.min_df=3",), ("features.min_df=5",), ("features.min_df=10",), ("features.min_df=20",),
    ("model.threshold=0.15",), ("model.threshold=0.2",), ("model.threshold=0.3",), ("model.threshold=0.5",),
    ("tree.max_leaf_size=25",), ("tree.arity=16",), ("tree.n_trees=3",),
)  # fmt: skip


def measure(sets: Sequence[Set], threads: int) -> list[dict[str, Any]]:
    """Measure each set in its own process; missing sets are skipped by name."""
    found = []
    for one in sets:
        path = data_file(one.name)
        if path is None:
            print(f"skipped: {one.name} is not in ../shared/data", flush=True)
            continue
        began = time.perf_counter()
        job = {"data": str(path), "rows": one.rows, "settings": list(one.settings), "threads": threads}
        log = CACHE / "logs" / "plan" / "worker.txt"
        result = run_job(Path(sys.executable), "benchmarks.planning.worker", job, log, threads=threads, minutes=20)
        print(f"{one.role}: {one.title}: {time.perf_counter() - began:.0f} s", flush=True)
        found.append({"set": one.name, "title": one.title, "role": one.role, **result})
    return found


def data_file(name: str) -> Path | None:
    """Return the training file of a set; synthetic ones are made on first use."""
    made = name in SYNTHETIC or name in BAGS
    if name not in SYNTHETIC and not (SHARED / name).exists():
        return None
    path = CACHE / "plan" / f"{name}.jsonl" if made else SHARED / name / "train.jsonl.gz"
    if made and not path.exists():
        rows = synthetic_rows(*SYNTHETIC[name]) if name in SYNTHETIC else bag_rows(SHARED / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        part.rename(path)
    return path


def bag_rows(folder: Path) -> list[dict[str, Any]]:
    """Return a set of features with names as texts: the names of a row's features, in the order of the columns."""
    words = (folder / "features.txt").read_text(encoding="utf-8").split()
    X, Y = (sparse.csr_array(sparse.load_npz(folder / f"{part}.trn.npz")) for part in "XY")
    return [
        {"text": " ".join(words[i] for i in X[[row]].indices), "labels": [f"l{i}" for i in Y[[row]].indices]}
        for row in range(X.shape[0])
    ]


def synthetic_rows(n_rows: int, n_labels: int, n_features: int, per_row: float) -> list[dict[str, Any]]:
    """Return a power-law problem as texts: a word for each feature, in random order."""
    from benchmarks import synthetic

    made = synthetic.power_law(n_rows, 10, n_labels, n_features, nnz_per_row=per_row, seed=0)
    random = np.random.default_rng(0)
    X, Y = made.X_train, made.Y_train
    texts = np.split(X.indices, X.indptr[1:-1])
    labels = np.split(Y.indices, Y.indptr[1:-1])
    return [
        {
            "text": " ".join(f"w{word}" for word in random.permutation(words)),
            "labels": [f"l{one}" for one in own],
        }
        for words, own in zip(texts, labels, strict=True)
    ]


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the checked sets, of the fitted ones, and of the settings."""
    by_role = {role: [run for run in content["runs"] if run["role"] == role] for role in ("check", "fit")}
    yield machine_line(content["machine"])
    yield "## Sets that were not used to fit"
    yield _table(by_role["check"])
    yield "## Sets that the constants were fitted to"
    yield _table(by_role["fit"])
    bands = ", ".join(f"{name} {band:.2f}" for name, band in content["bands"].items())
    yield f"Nine of ten runs lie within these factors, each forecast with constants from other sets: {bands}."
    if content["knobs"]:
        yield "## Settings that `plan` changes"
        yield "20,000 training rows; P@1 and P@5 on a tenth of these rows, held out."
        yield _table(content["knobs"], knobs=True)


def _table(runs: list[dict[str, Any]], knobs: bool = False) -> str:
    """Return measurements, each followed by forecast over measurement."""
    quantities = {
        "memory": ("peak MB", "peak", 1e-6),
        "cpu": ("CPU s", "cpu_total", 1.0),
        "size": ("model MB", "size", 1e-6),
        "latency": ("one text µs", "latency", 1e6),
        "batch": ("one of many µs", "batch", 1e6),
    }
    if knobs:
        del quantities["batch"]
    header = ["set and setting", "P@1", "P@5"] if knobs else ["set", "rows", "labels"]
    header += [one for title, *_ in quantities.values() for one in (title, "÷")]
    header += [] if knobs else ["depth", "forecast CPU s"]
    cells = []
    for run in runs:
        found, ratio = run["measured"], run["ratios"]
        row = [run["title"].replace(", 20,000 rows", "") if knobs else run["title"]]
        row += [f"{found[m]:.1f}" for m in ("P@1", "P@5")] if knobs else [f"{run[n]:,}" for n in ("rows", "labels")]
        for name, (_, key, unit) in quantities.items():
            row += [number(unit * found[key]), f"{ratio[name]:.2f}"]
        if not knobs:
            wrong = "" if found["depth"] == run["figures"]["depth"] else " (wrong)"
            row += [f"{found['depth']}{wrong}", number(found["plan_cpu"])]
        cells.append(row)
    return table(header, cells)


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--constants", action="store_true", help="write the constants into the package")
    parser.add_argument("--report", action="store_true", help="fit again to the earlier measurements")
    args = parser.parse_args()
    stored = CACHE / "plan" / "runs.json"
    if args.report:
        content = json.loads(stored.read_text())
    else:
        knobs = [Set(name, 20_000, knob, "knobs") for name in KNOB_SETS for knob in KNOBS]
        runs = measure(SETS, args.threads)
        content = {"machine": machine(), "probe": measure_probe(), "runs": runs, "knobs": measure(knobs, args.threads)}
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(content))
    known = fit(content)
    if args.constants:
        FILE.write_text(known.to_json(), encoding="utf-8")
    PAGE.save(args.out, content)
    PAGE.write(args.out, page_blocks(content))
    checks = [run for run in content["runs"] if run["role"] == "check"]
    off = [run["title"] for run in checks if not 1 / 1.5 <= run["ratios"]["cpu"] <= 1.5]
    off += [run["title"] for run in checks if abs(run["ratios"]["memory"] - 1) > 0.25]
    if off:
        raise SystemExit(f"error above the limit: {', '.join(off)}")


def fit(content: dict[str, Any]) -> Coefficients:
    """Return constants fitted to the runs; add error bands and ratios to the content."""
    fit_runs = [run for run in content["runs"] if run["role"] == "fit"]
    checks = [run for run in content["runs"] if run["role"] == "check"]
    if not fit_runs:
        raise SystemExit("no set to fit to is in ../shared/data")
    content["bands"] = error_bands(fit_runs, checks, lambda one, other: one["set"] == other["set"])
    facts = {
        "machine": machine_line(content["machine"]).removeprefix("Machine: "),
        "fitted to": "; ".join(run["title"] for run in fit_runs),
        "checked on": "; ".join(run["title"] for run in checks),
    }
    known = fit_coefficients(fit_runs, content["bands"], facts, content["probe"])
    for run in [*content["runs"], *content["knobs"]]:
        run["ratios"] = ratios(run, known)
    return known


if __name__ == "__main__":
    main()
