"""Every model of the toolkit, for the contract tests: a new model is one more line in MODELS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tagwood import Disentangled, LinearTree, Solver

# Name -> how to make a fresh, unfitted model. Leaves are small, so that small problems need real trees.
MODELS: dict[str, Callable[[], Any]] = {
    "LinearTree": lambda: LinearTree(max_leaf_size=3, threads=1),
    "LinearTree, one leaf": lambda: LinearTree(threads=1),
    "LinearTree, binary, float32": lambda: LinearTree(
        arity=2, max_leaf_size=1, solver=Solver(weights="float32"), threads=1
    ),
    "LinearTree, three trees": lambda: LinearTree(n_trees=3, max_leaf_size=3, threads=1),
    "LinearTree, matcher": lambda: LinearTree(
        arity=2, max_leaf_size=2, solver=Solver(negatives="teacher+matcher"), rare_label_weight=1.0, threads=1
    ),
    "LinearTree, logistic": lambda: LinearTree(
        max_leaf_size=3, solver=Solver(link="sigmoid", loss="logistic", weights="float16"), threads=1
    ),
    "Disentangled": lambda: Disentangled(LinearTree(max_leaf_size=4), threads=1),
    "Disentangled, auto, three trees": lambda: Disentangled(
        LinearTree(max_leaf_size=3, arity=2, n_trees=3), copies="auto", merge="mean", threads=1
    ),
}
