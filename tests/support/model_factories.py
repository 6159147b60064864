"""Every model of the toolkit, for the contract tests: a new model is one more line in CASES."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from checkerboard import checkerboard

from tagwood import (
    Centroids,
    Disentangled,
    Ensemble,
    LinearTree,
    MimlNetwork,
    NameMatcher,
    Neighbours,
    PrototypeModel,
    SetGenerator,
    SoftmaxTree,
    Solver,
    Tagger,
    TextEncoder,
    TfidfEncoder,
)
from tagwood.neural.training import Training


class Rows(NamedTuple):
    """A checkerboard in the form that a model reads."""

    X_train: Any
    Y_train: Any
    X_test: Any
    Y_test: Any
    label_texts: list[str]


@dataclass(frozen=True)
class Case:
    """How to make a fresh, unfitted model, and what it can do.

    Parameters
    ----------
    make
        Makes the model.
    texts
        Whether it reads texts; otherwise features.
    neural
        Whether its fit needs torch, which takes seconds.
    needs_label_texts
        Whether `fit` needs a text or the names of each label.
    exact_threads
        Whether several threads learn the same bits as one.
    label_name
        Name of a label, from its number and its colour.
    """

    make: Callable[[], Any]
    texts: bool = False
    neural: bool = False
    needs_label_texts: bool = False
    exact_threads: bool = True
    label_name: str = "colour{colour} label{label}"

    def fit(self, rows: Rows, model: Any = None) -> Any:
        """Fit a model, by default a fresh one, on the training rows."""
        model = self.make() if model is None else model
        known = inspect.signature(model.fit).parameters
        names = [name for name in ("label_texts", "label_names") if name in known]
        options = dict.fromkeys(names if self.needs_label_texts else [], rows.label_texts)
        return model.fit(rows.X_train, rows.Y_train, **options)

    def rows(self, **shape: int) -> Rows:
        """Return a checkerboard in the form that the model reads."""
        made = checkerboard(**shape)
        colours = shape["n_colours"]
        names = [self.label_name.format(label=label, colour=label % colours) for label in range(shape["n_labels"])]
        parts = [made.X_train, made.X_test]
        if self.texts:
            parts = [[_text(row, colours) for row in part.toarray()] for part in parts]
        return Rows(parts[0], made.Y_train, parts[1], made.Y_test, names)


def _text(values: np.ndarray, n_colours: int) -> str:
    """Write a row of features as a text: its words are its larger features, and its colour."""
    if not np.any(values):
        return ""
    used = np.flatnonzero(values > np.quantile(values[values > 0], 0.3))
    return " ".join(f"colour{f % n_colours} word{f}" for f in used)


_SOFTMAX: dict[str, Any] = {"dimension": 16, "epochs": 30, "min_count": 1, "threads": 1}
_SETS = {
    "network__hidden": 16,
    "network__layers": 1,
    "network__dimension": 12,
    "training__epochs": 30,
    "training__batch_size": 8,
    "training__learning_rate": 0.02,
}


def _tagger(model: Any) -> Tagger:
    return Tagger(TfidfEncoder(min_df=1, threads=1), model, keep_texts=5)


# Leaves are small, so that small problems need real trees.
CASES: dict[str, Case] = {
    "LinearTree": Case(lambda: LinearTree(max_leaf_size=3, threads=1)),
    "LinearTree, one leaf": Case(lambda: LinearTree(threads=1)),
    "LinearTree, binary, float32": Case(
        lambda: LinearTree(arity=2, max_leaf_size=1, solver=Solver(weights="float32"), threads=1)
    ),
    "LinearTree, three trees": Case(lambda: LinearTree(n_trees=3, max_leaf_size=3, threads=1)),
    "LinearTree, matcher": Case(
        lambda: LinearTree(
            arity=2,
            max_leaf_size=2,
            solver=Solver(negatives="teacher+matcher"),
            rare_label_weight=1.0,
            threads=1,
        )
    ),
    "LinearTree, logistic": Case(
        lambda: LinearTree(
            max_leaf_size=3, solver=Solver(link="sigmoid", loss="logistic", weights="float16"), threads=1
        )
    ),
    "Disentangled": Case(lambda: Disentangled(LinearTree(max_leaf_size=4), threads=1)),
    "Disentangled, auto, three trees": Case(
        lambda: Disentangled(LinearTree(max_leaf_size=3, arity=2, n_trees=3), copies="auto", merge="mean", threads=1)
    ),
    "SoftmaxTree": Case(lambda: SoftmaxTree(**_SOFTMAX), texts=True, exact_threads=False),
    "Ensemble": Case(
        lambda: Ensemble([LinearTree(max_leaf_size=3, threads=1), LinearTree(n_trees=2, seed=5, threads=1)])
    ),
    "Ensemble of texts": Case(
        lambda: Ensemble([(TfidfEncoder(min_df=1, threads=1), LinearTree(threads=1)), SoftmaxTree(**_SOFTMAX)]),
        texts=True,
        exact_threads=False,
    ),
    "Neighbours": Case(lambda: Neighbours(threads=1)),
    "Centroids": Case(lambda: Centroids(threads=1)),
    "NameMatcher": Case(
        lambda: NameMatcher(threads=1), texts=True, needs_label_texts=True, label_name="colour{colour}"
    ),
    "Tagger": Case(lambda: _tagger(LinearTree(max_leaf_size=3, threads=1)), texts=True),
    "Tagger, disentangled": Case(lambda: _tagger(Disentangled(threads=1)), texts=True),
    "MimlNetwork": Case(
        lambda: MimlNetwork(hidden=32, training=Training(epochs=40, batch_size=16, learning_rate=0.01), threads=1),
        neural=True,
        exact_threads=False,
    ),
    "SetGenerator": Case(
        lambda: SetGenerator(threads=1).set_params(**_SETS), texts=True, neural=True, exact_threads=False
    ),
    "PrototypeModel": Case(
        lambda: PrototypeModel(
            encoder=TextEncoder("bag", dimension=64, vocabulary=400, threads=1),
            centroids="momentum",
            epochs=15,
            batch_size=16,
            threads=1,
        ),
        texts=True,
        neural=True,
        needs_label_texts=True,
        exact_threads=False,
    ),
}


def cases(*, texts: bool | None = None, neural: bool | None = None) -> list[Any]:
    """Return the names of cases as parameters of a test; neural ones have the marker ``neural``."""
    return [
        pytest.param(name, marks=[pytest.mark.neural] if case.neural else [])
        for name, case in CASES.items()
        if (texts is None or case.texts == texts) and (neural is None or case.neural == neural)
    ]
