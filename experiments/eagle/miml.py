"""EAGLE with few labels: Table 3 (Deep-MIML against co-attention) and Figure 5 (label embeddings as pictures).

In: images and passages. Out: jobs, as in `xmc`. The learning rate and the sharpness τ of each method and the epoch that
is kept are chosen on held-out single rows, the first two with the first seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks import SHARED
from experiments.eagle.problems import docstrings
from experiments.eagle.xmc import Job
from tagwood.groups import embed_labels
from tagwood.neural.miml import MimlNetwork
from tagwood.neural.training import Training

IMAGES = ("mnist", "fashion-mnist")
# The rate is chosen with the first τ, then τ with this rate; a τ of 0 is Deep-MIML.
RATES, FIRST_SHARPNESS, SHARPNESS = (3e-3, 1e-2, 3e-2), 3.0, (1.0, 10.0, 30.0)
# Attention, and contrast of the label embeddings: 0 is the paper's.
METHODS = {
    "Deep-MIML": ("none", 0.0),
    "EAGLE-0, as printed": ("eagle-0", 0.0),
    "EAGLE, as printed": ("eagle", 0.0),
    "EAGLE": ("eagle", 1.0),
}
HELD_OUT = 2_000
# Group size -> number of groups drawn, and epochs; large groups tell little each.
GROUPS, EPOCHS = {4: 4_000, 50: 1_500}, {4: 16, 50: 30}
N_SEEDS, CHOOSING_SEEDS = 5, 2
_SETS = {"mnist": (4, 50), "fashion-mnist": (4, 50), "docstrings": (4,)}


class Rows(NamedTuple):
    """Single rows with one of ten labels each: to draw groups from, to choose settings on, to measure on."""

    X: sparse.csr_array
    y: np.ndarray
    X_held: sparse.csr_array
    y_held: np.ndarray
    X_test: sparse.csr_array
    y_test: np.ndarray


@lru_cache(maxsize=1)
def rows_of(name: str) -> Rows:
    """Read a set of single rows."""
    if name == "docstrings":
        return _passages()
    with np.load(SHARED / "images" / f"{name}.npz") as file:
        X, y, X_test, y_test = (file[k] for k in ("x_train", "y_train", "x_test", "y_test"))
    X, X_test = (sparse.csr_array(m.reshape(len(m), -1).astype(np.float32) / np.float32(255)) for m in (X, X_test))
    return Rows(X[HELD_OUT:], y[HELD_OUT:], X[:HELD_OUT], y[:HELD_OUT], X_test, y_test)


def _passages() -> Rows:
    """Passages of ten modules with many of them, as words that stand on at least ten passages."""
    problem = docstrings()[0]
    counts = np.asarray(problem.Y.sum(axis=0)).ravel()
    modules = np.argsort(-counts, kind="stable")[:10]

    def single(X: sparse.csr_array, Y: sparse.csr_array) -> tuple[sparse.csr_array, np.ndarray]:
        of = Y[:, modules].toarray() > 0
        alone = np.flatnonzero(of.sum(axis=1) == 1)
        return X[alone], of[alone].argmax(axis=1)

    X, y = single(problem.X, problem.Y)
    words = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]) >= 10)
    X_test, y_test = single(problem.X_test, problem.Y_test)
    order = np.random.default_rng(0).permutation(X.shape[0])
    held, rest = order[: len(order) // 5], order[len(order) // 5 :]
    X, X_test = sparse.csr_array(X[:, words]), sparse.csr_array(X_test[:, words])
    return Rows(X[rest], y[rest], X[held], y[held], X_test, y_test)


def draw(rows: Rows, size: int, seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Draw groups of rows by chance; a group has the labels of its rows."""
    random = np.random.default_rng(seed)
    count = GROUPS[size]
    members = random.integers(0, rows.X.shape[0], (count, size))
    columns = np.repeat(np.arange(count), size)
    groups = sparse.csr_array(
        (np.ones(columns.size, dtype=np.float32), (members.ravel(), columns)), shape=(rows.X.shape[0], count)
    )
    groups.data[:] = 1.0  # a row drawn twice for a group is in it once
    Y = np.zeros((count, 10), dtype=np.float32)
    Y[columns, rows.y[members.ravel()]] = 1.0
    return groups, Y


def accuracy(model: MimlNetwork, X: sparse.csr_array, y: np.ndarray) -> float:
    return round(100 * float(np.mean(model.rank(X, k=1).labels == y)), 2)


def fit(name: str, size: int, method: str, seed: int, rate: float, tau: float) -> dict[str, Any]:
    """Train on groups, measure on single rows."""
    rows = rows_of(name)
    groups, Y = draw(rows, size, seed)
    training = Training(epochs=EPOCHS[size], batch_size=32, learning_rate=rate)
    model = MimlNetwork(
        attention=METHODS[method][0],
        contrast=METHODS[method][1],
        sharpness=tau,
        concepts=2,
        hidden=64,
        training=training,
        seed=seed,
        threads=1,
    )
    model.fit(rows.X, Y, groups=groups, evaluate=lambda half: accuracy(half, rows.X_held, rows.y_held))
    history = model.history_
    assert history is not None
    return {
        "held_out": max(history.measures),
        "epochs": 1 + int(np.argmax(history.measures)),
        "accuracy": accuracy(model, rows.X_test, rows.y_test),
        "test_rows": len(rows.y_test),
        "rate": rate,
        "sharpness": tau,
    }


def table3(store: dict[str, dict[str, Any]], name: str, quick: bool = False) -> Iterator[list[Job]]:
    """Try learning rates, then values of τ with the first seeds; measure the best setting (`chosen`) with all seeds."""
    sizes = _SETS[name][: 1 if quick else None]
    first, last = (1, 1) if quick else (CHOOSING_SEEDS, N_SEEDS)

    def job(size: int, method: str, rate: float, tau: float, seed: int) -> Job:
        key = f"table3|{name}|{size}|{method}|{rate:g}|{tau:g}|{seed}"
        return key, partial(fit, name, size, method, seed, rate, tau)

    cases = list(product(sizes, METHODS))
    yield [
        job(size, method, rate, FIRST_SHARPNESS if METHODS[method][0] != "none" else 0.0, seed)
        for (size, method), rate, seed in product(cases, RATES[:1] if quick else RATES, range(first))
    ]
    yield [
        job(size, method, rows[0]["rate"], tau, seed)
        for size, method in cases
        if METHODS[method][0] != "none" and (rows := chosen(store, name, size, method))
        for tau, seed in product(() if quick else SHARPNESS, range(first))
    ]
    yield [
        job(size, method, rows[0]["rate"], rows[0]["sharpness"], seed)
        for size, method in cases
        if (rows := chosen(store, name, size, method))
        for seed in range(first, last)
    ]


def chosen(store: dict[str, dict[str, Any]], name: str, size: int, method: str) -> list[dict[str, Any]]:
    """Return the rows, one per seed, of the setting whose mean on held-out rows is the highest for the first seeds."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    prefix = f"table3|{name}|{size}|{method}|"
    for key, row in store.items():
        if key.startswith(prefix):
            setting, _, seed = key.removeprefix(prefix).rpartition("|")
            found.setdefault(setting, {})[seed] = row
    seeds = max(
        found.values(),
        key=lambda rows: np.mean([row["held_out"] for seed, row in rows.items() if int(seed) < CHOOSING_SEEDS]),
        default={},
    )
    return [seeds[seed] for seed in sorted(seeds, key=int)]


def figure5(name: str, size: int = 4) -> dict[str, list[list[float]]]:
    """Return the embeddings of the ten labels as pictures, from 0 to 1, without and with learning."""
    rows = rows_of(name)
    groups, Y = draw(rows, size, 0)
    found = {}
    for method, steps in (("EAGLE-0", 0), ("EAGLE", 20)):
        vectors = embed_labels(rows.X, groups, Y, steps=steps, contrast=0.0, threads=1).toarray()
        found[method] = (vectors / np.maximum(vectors.max(axis=1, keepdims=True), 1e-9)).tolist()
    return found
