"""`machine_speed`: how much longer this machine computes than the one whose constants the forecast has.

In: nothing. Out: a factor of CPU time and where it comes from. A small fixed problem is trained by the real kernels, at
most ten seconds long; the factor is stored in the user's cache folder, so that the next forecast has it at once.

Decisions: the shortest CPU time of several trainings counts, because other processes can only make one longer. What was
stored for another processor, or with other constants, is measured again. A cache that cannot be written is no error.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.linear_tree import LinearTree
from tagwood.planning.forecast import read_coefficients
from tagwood.storage.folder import cache_folder
from tagwood.tagger import SetRules, Tagger

_MOST_SECONDS = 10.0
_MOST_RUNS, _FEWEST_RUNS = 7, 3
_N_TEXTS, _N_WORDS, _N_LABELS = 6000, 20_000, 2000


class Speed(NamedTuple):
    """CPU time here as a multiple of that where the constants were measured: "measured", "stored" or "constants"."""

    factor: float
    source: str


def machine_speed(
    *,
    again: bool = False,
    clock: Callable[[], float] = process_time,
    work: Callable[[], object] | None = None,
    folder: Path | None = None,
) -> Speed:
    """Return the stored speed of this machine, or measure it.

    Parameters
    ----------
    again
        Measure also where a speed is stored.
    clock, work
        CPU seconds so far, and what is measured; for tests.
    folder
        Where the result is stored; default: the cache folder of the user.
    """
    folder = cache_folder("planning") if folder is None else folder
    reference = read_coefficients().probe
    own = {"processor": _processor(), "reference": reference}
    stored = None if again or folder is None else _read(folder / "speed.json", own)
    if stored is not None:
        return Speed(stored / reference, "stored")
    seconds = measure_probe(clock, work)
    if folder is not None:
        _write(folder / "speed.json", {**own, "seconds": seconds})
    return Speed(seconds / reference, "measured")


def measure_probe(clock: Callable[[], float] = process_time, work: Callable[[], object] | None = None) -> float:
    """Return the shortest CPU time of several trainings of the fixed problem, in seconds."""
    work = probe_training() if work is None else work
    start, found = clock(), list[float]()
    while len(found) < _FEWEST_RUNS or (len(found) < _MOST_RUNS and clock() - start < _MOST_SECONDS):
        began = clock()
        work()
        found.append(clock() - began)
    return max(min(found), 1e-9)


def probe_training() -> Callable[[], object]:
    """Return the training that is measured: word pairs of texts by Zipf's law, labels that are in the texts."""
    rng = np.random.default_rng(0)
    words = np.minimum(rng.zipf(1.3, (_N_TEXTS, 40)), _N_WORDS)
    labels = rng.integers(0, _N_LABELS, (_N_TEXTS, 3))
    names = [[f"l{label}" for label in set(row)] for row in labels.tolist()]
    texts = [" ".join((*(f"w{word}" for word in row), *own)) for row, own in zip(words.tolist(), names, strict=True)]

    def train() -> Tagger:
        encoder = TfidfEncoder(threads=1)
        return Tagger(encoder, LinearTree(threads=1), sets=SetRules(holdout=0.0), keep_texts=0).fit(texts, names)

    return train


def _read(path: Path, own: dict[str, object]) -> float | None:
    """Return the stored seconds, if they are of this processor and these constants."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        seconds = float(stored.pop("seconds"))
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return seconds if stored == own and np.isfinite(seconds) and seconds > 0 else None


def _write(path: Path, content: dict[str, object]) -> None:
    """Write a file in one step, or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()


def _processor() -> str:
    """Return what tells one kind of processor from another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "flags", "CPU part"))]
    return " ".join([platform.machine(), platform.processor(), *dict.fromkeys(models)]).strip()
