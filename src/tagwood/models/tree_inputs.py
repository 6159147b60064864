"""Checks of what users hand to a label tree. In: anything. Out: arrays the inside can trust, or an `InputError`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_int
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts
from tagwood.errors import InputError
from tagwood.models.tree_weights import SearchPlan

SEARCHES = ("beam", "exact")


def check_training_data(X: Any, Y: Any) -> tuple[CsrParts, sparse.csr_array]:
    """Return checked features and label sets that a tree can be trained on."""
    features = csr_parts(check_features(X))
    if features.n_rows == 0 or features.n_cols == 0:
        raise InputError("X must have at least one row and one feature", given=f"{features.n_rows} rows")
    labels = check_labels(Y, n_rows=features.n_rows)
    if labels.nnz == 0:
        raise InputError(
            "Y must hold at least one label", given="none", hint="Check that the label column was read."
        )
    return features, labels


def check_search(k: Any, width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    """Return the plan of a search for `k` labels, or say which argument does not fit.

    Plans are remembered: for a service that asks row by row the checks would take as long as a small search.
    """
    try:
        return _known_plan(k, width, search, max_nodes, merge)
    except TypeError:  # what cannot be remembered is no number and no word: the checks say so
        return _checked_plan(k, width, search, max_nodes, merge)


def _checked_plan(k: Any, width: Any, search: Any, max_nodes: Any, merge: str) -> SearchPlan:
    check_int(k, "k", low=1)
    check_int(width, "width", low=1)
    check_choice(search, "search", SEARCHES)
    budget = 0 if max_nodes is None else check_int(max_nodes, "max_nodes", low=1)
    if budget and search != "exact":
        raise InputError("max_nodes belongs to search='exact'", given=f"search={search!r}")
    return SearchPlan(search == "exact", int(width), budget, merge)


_known_plan = lru_cache(maxsize=256, typed=True)(_checked_plan)  # typed: True is no number of labels, 1 is


def allowed_labels(
    restrict: ArrayLike | None, exclude: ArrayLike | None, n_labels: int
) -> NDArray[np.bool_] | None:
    """Return a mask of the labels that may be returned; None where all may."""
    if restrict is None and exclude is None:
        return None
    allowed = np.ones(n_labels, dtype=bool)
    if restrict is not None:
        allowed[:] = False
        allowed[_check_ids(restrict, "restrict", n_labels)] = True
    if exclude is not None:
        allowed[_check_ids(exclude, "exclude", n_labels)] = False
    return allowed


def _check_ids(ids: ArrayLike, name: str, n_labels: int) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(ids))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n_labels:
        raise InputError(f"{name} must hold label ids from 0 to {n_labels - 1}")
    return array.astype(np.int64)


def check_pairs(pairs: ArrayLike, n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Return (n_pairs, 2) rows and labels."""
    wanted = np.asarray(pairs)
    if wanted.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if wanted.ndim != 2 or wanted.shape[1] != 2 or wanted.dtype.kind not in "iu":
        raise InputError("pairs must be whole numbers of shape (n_pairs, 2): row, label")
    if wanted.min() < 0 or wanted[:, 0].max() >= n_rows or wanted[:, 1].max() >= n_labels:
        raise InputError(f"pairs must name rows below {n_rows} and labels below {n_labels}")
    return wanted.astype(np.int64)
