"""Golden inputs: a few rows and the ranking they had at saving, checked again on `load(verify=True)`.

In: a model and rows as its `rank` takes them (CSR, dense or texts). Out: a `State` to store, and later the
verdict.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.storage.state import State, pack_strings, unpack_strings

# SECTION storage.stamps
# Remember which files were hashed already, so that loading again takes milliseconds whatever the size.
#
# A stamp is an empty file in the user's cache folder. Its name is a hash of the model file's device, inode,
# size, times of change and expected SHA-256: any later write, copy or replacement gives another name, and the
# file is hashed again. Without a usable cache folder there are no stamps, and every load hashes.
#
# Decisions: `ctime` is part of the name because no ordinary program can set it back, unlike `mtime`. A file
# that changed a moment ago gets no stamp, because a second change within the same clock tick would leave the
# same times.


_TICK_NS = 20_000_000  # twice the coarsest kernel tick (100 Hz)
_COARSE_NS = 2_000_000_000  # file systems that keep whole seconds
_MAX_STAMPS = 4096


def is_settled(info: os.stat_result) -> bool:
    """Return whether a change from now on is sure to give the file another time of change."""
    last = max(info.st_mtime_ns, info.st_ctime_ns)
    coarse = info.st_ctime_ns % 1_000_000_000 == 0
    return time.time_ns() - last > (_COARSE_NS if coarse else _TICK_NS)


def wait_until_settled(info: os.stat_result) -> bool:
    """Wait one tick, if that is all it takes, and return whether the file has settled."""
    if not is_settled(info):
        time.sleep(1.5 * _TICK_NS / 1e9)
    return is_settled(info)


def has_stamp(info: os.stat_result, digest: str) -> bool:
    """Return whether this very file was found to have this digest before."""
    folder = _cache_folder()
    # os.path.exists also answers where the folder may not be entered.
    return folder is not None and os.path.exists(folder / _name(info, digest))  # noqa: PTH110


def write_stamp(info: os.stat_result, digest: str) -> None:
    """Remember that this file has this digest; a cache that cannot be written is no error."""
    folder = _cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _name(info, digest)).touch()
        _forget_oldest(folder)


def _name(info: os.stat_result, digest: str) -> str:
    facts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, digest)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _cache_folder() -> Path | None:
    # XDG base directory rules: an unset, empty or relative value means the default.
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - Path() would have to be built first
        return Path(base) / "tagwood" / "verified"
    try:
        return Path.home() / ".cache" / "tagwood" / "verified"
    except RuntimeError:
        return None


def _forget_oldest(folder: Path) -> None:
    stamps = list(os.scandir(folder))
    if len(stamps) > _MAX_STAMPS:
        stamps.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in stamps[: len(stamps) // 2]:
            os.unlink(entry.path)  # noqa: PTH108 - DirEntry has the path as text


GOLDEN_K = 5
TOLERANCE = 1e-4
_MAX_ROWS = 1000
_ADVICE = "Pass the same few rows that the model's rank takes: a CSR or dense matrix, or a list of texts."


def record_golden(model: Any, inputs: Any) -> State | None:
    """Rank `inputs` and return both as a state.

    Without inputs, take what the model's `golden_inputs()` offers; without that, return None.
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
    """Rank the stored inputs again; return how the result differs from the stored one, or None if it agrees.

    Scores may differ by 1e-4 (relative above 1), and labels may change places where their scores are that
    close.
    """
    k = golden.param("k", int)
    ranking = model.rank(unpack_inputs(golden.params, golden.arrays), k=k)
    indptr = golden.array("expected_indptr", np.int64, (None,))
    labels = golden.array("expected_labels", np.int32, (int(indptr[-1]),))
    scores = golden.array("expected_scores", np.float32, (int(indptr[-1]),))
    if ranking.indptr.size != indptr.size:
        return f"{ranking.indptr.size - 1} rows came instead of {indptr.size - 1}"
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
        return f"{new_labels.size} labels came instead of {labels.size}"
    if not np.all(_close(scores, new_scores)):
        return f"scores {new_scores.tolist()} came instead of {scores.tolist()}"
    expected = dict(zip(labels.tolist(), scores.tolist(), strict=True))
    found = dict(zip(new_labels.tolist(), new_scores.tolist(), strict=True))
    for label in expected.keys() | found.keys():
        # A label in only one of the two is fair if level with the last of k places, where a tie is cut.
        old = expected.get(label, scores[-1])
        new = found.get(label, new_scores[-1])
        lost = label not in expected or label not in found
        if (lost and labels.size < k) or not _close(old, new):
            return f"labels {new_labels.tolist()} came instead of {labels.tolist()}"
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
            f"golden must be 1 to {_MAX_ROWS:,} rows", given=f"{n_rows:,}", hint="A few rows do."
        )
