"""Golden inputs: a few rows with their ranking at the time of saving, compared by `load(verify=True)`.

`record_golden` takes a model and rows in the form its `rank` takes (CSR, dense or texts) and returns a `State` to
store; `find_deviation` compares a loaded model with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.storage.state import State, pack_strings, unpack_strings

GOLDEN_K = 5
TOLERANCE = 1e-4
_MAX_ROWS = 1000
_ADVICE = "Pass the same few rows that the model's rank takes: a CSR or dense matrix, or a list of texts."


def record_golden(model: Any, inputs: Any) -> State | None:
    """Rank `inputs` and return both as a state.

    Without inputs, use the model's `golden_inputs()`; return None if it has none.
    """
    if inputs is None:
        offer = getattr(model, "golden_inputs", None)
        inputs = offer() if callable(offer) else None
    if inputs is None:
        return None
    if not callable(getattr(model, "rank", None)):
        raise InputError(
            "golden inputs need a model with a rank method",
            given=type(model).__name__,
            hint="Leave golden out.",
        )
    params, arrays = _pack_inputs(inputs)
    ranking = model.rank(unpack_inputs(params, arrays), k=GOLDEN_K)
    for name, dtype in (("indptr", np.int64), ("labels", np.int32), ("scores", np.float32)):
        arrays[f"expected_{name}"] = np.asarray(getattr(ranking, name), dtype=dtype)
    return State("golden", params={**params, "k": GOLDEN_K}, arrays=arrays)


def find_deviation(model: Any, golden: State) -> str | None:
    """Rank the stored inputs and describe the first difference from the stored ranking; None if there is none.

    Scores may differ by 1e-4 (relative above 1), and labels with scores that close may change places.
    """
    k = golden.param("k", int)
    ranking = model.rank(unpack_inputs(golden.params, golden.arrays), k=k)
    indptr = golden.array("expected_indptr", np.int64, (None,))
    labels = golden.array("expected_labels", np.int32, (int(indptr[-1]),))
    scores = golden.array("expected_scores", np.float32, (int(indptr[-1]),))
    if ranking.indptr.size != indptr.size:
        return f"{ranking.indptr.size - 1} rows instead of {indptr.size - 1}"
    for row in range(indptr.size - 1):
        want = slice(int(indptr[row]), int(indptr[row + 1]))
        have = slice(int(ranking.indptr[row]), int(ranking.indptr[row + 1]))
        fault = _compare_row(k, labels[want], scores[want], ranking.labels[have], ranking.scores[have])
        if fault:
            return f"golden row {row}: {fault}"
    return None


def _compare_row(
    k: int, labels: NDArray[Any], scores: NDArray[Any], new_labels: NDArray[Any], new_scores: NDArray[Any]
) -> str | None:
    if labels.size != new_labels.size:
        return f"{new_labels.size} labels instead of {labels.size}"
    if not np.all(_close(scores, new_scores)):
        return f"scores {new_scores.tolist()} instead of {scores.tolist()}"
    expected = dict(zip(labels.tolist(), scores.tolist(), strict=True))
    found = dict(zip(new_labels.tolist(), new_scores.tolist(), strict=True))
    for label in expected.keys() | found.keys():
        # A label may be in only one ranking if its score ties with the last of k places.
        old = expected.get(label, scores[-1])
        new = found.get(label, new_scores[-1])
        lost = label not in expected or label not in found
        if (lost and labels.size < k) or not _close(old, new):
            return f"labels {new_labels.tolist()} instead of {labels.tolist()}"
    return None


def _close(expected: Any, found: Any) -> Any:
    return np.isclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def _pack_inputs(inputs: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if sparse.issparse(inputs) and inputs.ndim == 2:
        matrix = sparse.csr_array(inputs)
        _check_rows(matrix.shape[0])
        arrays = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
        return {"form": "csr", "shape": list(matrix.shape)}, arrays
    if isinstance(inputs, np.ndarray) and inputs.ndim == 2:
        _check_rows(inputs.shape[0])
        return {"form": "dense"}, {"dense": inputs}
    if isinstance(inputs, list | tuple) and all(isinstance(text, str) for text in inputs):
        _check_rows(len(inputs))
        blob, offsets = pack_strings(inputs)
        return {"form": "texts"}, {"blob": blob, "offsets": offsets}
    raise InputError(
        "golden must be a matrix or a list of texts", given=f"a {type(inputs).__name__}", hint=_ADVICE
    )


def unpack_inputs(params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the stored inputs in the form that `rank` takes."""
    if params["form"] == "texts":
        return unpack_strings(arrays["blob"], arrays["offsets"])
    if params["form"] == "dense":
        return arrays["dense"].copy()
    parts = (arrays["data"].copy(), arrays["indices"].copy(), arrays["indptr"].copy())
    return sparse.csr_array(parts, shape=tuple(params["shape"]))


def _check_rows(n_rows: int) -> None:
    if not 1 <= n_rows <= _MAX_ROWS:
        raise InputError(
            f"golden must be 1 to {_MAX_ROWS:,} rows", given=f"{n_rows:,}", hint="Pass about ten rows."
        )
