"""CPU time and memory of `impute_labels` on EURLEX57K in groups of 10: ``python -m benchmarks.groups``.

Compared with a loop over the labels in NumPy and SciPy (one sparse product per step, `reduceat` for the groups) and
with the training of the linear tree that follows. Scaling is measured over rows and over the size of the groups.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import SHARED
from benchmarks.measure import Meter, least_cpu_seconds
from benchmarks.report import Page, machine, machine_line, number, table
from experiments.eagle.grouping import random_groups
from tagwood.data import read_dataset
from tagwood.features import TfidfEncoder
from tagwood.groups import impute_labels
from tagwood.models.linear_tree import LinearTree

PAGE = Page("benchmarks", "impute")
DATA = SHARED / "eurlex57k" / "train.jsonl.gz"
STEPS, STEP_SIZE, TIE = 20, 0.03, 1e-5


def loop_over_labels(
    X: sparse.csr_array, groups: sparse.csr_array, labels: sparse.csr_array, every: int
) -> sparse.coo_array:
    """Impute every `every`-th label in NumPy and SciPy; the same rows as `impute_labels`."""
    members = sparse.csr_array(groups.T)
    columns = sparse.csc_array(labels)
    mean = X.mean(axis=0)
    found_rows, found_labels = [], []
    for label in range(0, labels.shape[1], every):
        mine = members[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]]
        rows, starts, sizes = mine.indices, mine.indptr[:-1], np.diff(mine.indptr)
        own = X[rows]
        used = np.zeros(X.shape[1], dtype=np.float32)
        used[own.indices] = mean[own.indices]
        e = own.sum(axis=0) - rows.size * used
        e /= max(np.linalg.norm(e), 1e-12)
        for _ in range(STEPS):
            similarity = own @ e
            picked = similarity >= np.repeat(np.maximum.reduceat(similarity, starts), sizes) - TIE
            g = own.T @ picked.astype(np.float32) - picked.sum() * used
            e += STEP_SIZE * g / np.linalg.norm(g)
            e /= np.linalg.norm(e)
        similarity = own @ e
        best = rows[similarity >= np.repeat(np.maximum.reduceat(similarity, starts), sizes) - TIE]
        found_rows.append(best)
        found_labels.append(np.full(best.size, label))
    where = (np.concatenate(found_rows), np.concatenate(found_labels))
    return sparse.coo_array((np.ones(where[0].size), where), shape=(X.shape[0], labels.shape[1]))


def scaling(X: sparse.csr_array, Y: sparse.csr_array) -> dict[str, object]:
    """Return CPU seconds over n·ḡ, and the slope of their logarithms."""
    points = []
    for n_rows, size in ((5_625, 10), (11_250, 10), (22_500, 10), (45_000, 10), (45_000, 5), (45_000, 20)):
        x, y = X[:n_rows], Y[:n_rows]
        groups = random_groups(x.shape[0], size)
        labels = sparse.csr_array(groups.T @ y)
        seconds = least_cpu_seconds(lambda x=x, g=groups, t=labels: impute_labels(x, g, t, threads=1), repeats=3)
        points.append({"rows": int(x.shape[0]), "size": size, "cpu_seconds": seconds})
    work = np.log([p["rows"] * p["size"] for p in points])
    slope = float(np.polyfit(work, np.log([p["cpu_seconds"] for p in points]), 1)[0])
    return {"points": points, "slope": slope}


def measure(every: int) -> dict[str, Any]:
    data = read_dataset(DATA)
    X, Y = TfidfEncoder(ngrams=(1, 1)).fit_transform(data.texts), data.labels
    groups = random_groups(X.shape[0], 10)
    labels = sparse.csr_array(groups.T @ Y)
    with Meter() as meter:
        found = impute_labels(X, groups, labels, threads=2)
    ours = least_cpu_seconds(lambda: impute_labels(X, groups, labels, threads=1), repeats=3)
    start = time.process_time()
    looped = loop_over_labels(X, groups, labels, every)
    loop = (time.process_time() - start) * labels.nnz / labels[:, ::every].nnz
    same = looped.tocsr().multiply(found.labels).sum() / looped.nnz
    tree = least_cpu_seconds(lambda: LinearTree(threads=1).fit(X, found.labels))
    return {
        "machine": machine(),
        "cpu_seconds": {"impute_labels": ours, "loop": loop, "linear tree": tree},
        "loop_labels": "all labels" if every == 1 else f"every {every}th label, scaled up",
        "same_assignments": float(same),
        "extra_megabytes": meter.peak_mb,
        "features_megabytes": X.nnz * 8 / 2**20,
        "scaling": scaling(X, Y),
    }


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield the tables."""
    seconds, scale = result["cpu_seconds"], result["scaling"]
    titles = {
        "impute_labels": "`impute_labels`, 20 steps",
        "loop": f"SciPy loop ({result['loop_labels']})",
        "linear tree": "`LinearTree.fit` on the result",
    }
    ours = seconds["impute_labels"]
    yield table(
        ["", "CPU s", "× `impute_labels`"],
        [[title, number(seconds[key]), number(seconds[key] / ours, 2)] for key, title in titles.items()],
    )
    yield (
        f"Loop and kernel agree on {result['same_assignments']:.2%} of the assignments. Peak memory rises by "
        f"{result['extra_megabytes']:.0f} MB; X itself takes {result['features_megabytes']:.0f} MB. Slope of log CPU "
        f"time over log (rows × group size): {scale['slope']:.2f}."
    )
    points = scale["points"]
    yield table(
        ["rows", "group size", "CPU s"],
        [[f"{p['rows']:,}", str(p["size"]), f"{p['cpu_seconds']:.2f}"] for p in points],
    )
    yield machine_line(result["machine"])


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--every", type=int, default=1, help="run the slow loop on every EVERY-th label")
    args = parser.parse_args()
    if not DATA.exists():
        print(f"skipped: {DATA} is missing")
        return
    result = measure(args.every)
    PAGE.save(args.out, result)
    PAGE.write(args.out, page_blocks(result))


if __name__ == "__main__":
    main()
