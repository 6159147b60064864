"""Annif on TIBKAT: its Omikuji Bonsai, its MLLM and its tuned ensemble of both, beside `balanced` on the same rows.

In: a seed and a number of rows. Out: figures of each project and of a Tagger. Annif has an environment of its own, made
by `benchmarks.peers`; its projects are trained by its command line and asked in one process.

Decisions: 2,000 of the training rows (at most a tenth) tune the weights of the ensemble with Annif's own ``hyperopt``;
Annif's projects are trained on the others, as its documentation recommends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import CACHE
from benchmarks.measure import cpu_seconds, run_job
from benchmarks.peers import interpreter
from benchmarks.quality.data import SETS, Split
from benchmarks.service.annif import write_sentence_data
from tagwood.metrics import evaluate
from tagwood.ranking import Ranking

PROJECTS = {"bonsai": "Annif, Omikuji Bonsai", "mllm": "Annif, MLLM", "ensemble": "Annif, tuned ensemble"}
MEASURES = ["P@1", "nDCG@5", "nDCG@20", "R@10", "example-F1@5"]
TUNING_ROWS = 2_000
TRIALS = 30
_COMMON = "language=en\nanalyzer=snowball(english)\nvocab=gnd\nlimit=100\n"
_BONSAI = "cluster_balanced=False\ncluster_k=100\nmax_depth=3\nmin_df=2\nngram=2\n"


def compare(seed: int, limit: int, minutes: float) -> dict[str, Any]:
    """Train Annif's projects and a Tagger on the same rows of TIBKAT and measure them on the same held-out rows."""
    split = SETS["tibkat"].split(seed, limit)
    folder = CACHE / "quality" / "annif"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    n_tuning = min(TUNING_ROWS, len(split.texts) // 10)
    _write_files(folder, split, n_tuning)
    seconds = _train(folder)
    rows = []
    for project, title in PROJECTS.items():
        job = {"project": project, "folder": str(folder), "environment": environment(folder)}
        job["texts"] = str(folder / "test.json")
        log = folder / f"{project}.txt"
        asked = run_job(interpreter("annif"), "benchmarks.quality.annif_worker", job, log, threads=1, minutes=minutes)
        ranking = Ranking.from_lists(
            [[(label, score) for label, score in row] for row in asked.pop("answers")], split.Y.shape[1]
        )
        rows.append({"title": title, "train_cpu": seconds[project], **asked, **_measures(split.Y_test, ranking)})
        print(rows[-1], flush=True)
    return {
        "seed": seed,
        "limit": limit,
        "n_train": len(split.texts),
        "n_tuning": n_tuning,
        "n_test": len(split.test_texts),
        "sources": _sources(folder),
        "rows": rows,
    }


def _measures(Y: sparse.csr_array, ranking: Ranking) -> dict[str, float]:
    found = evaluate(Y, ranking, metrics=MEASURES)
    return {name: 100 * float(found[name]) for name in MEASURES}


def _write_files(folder: Path, split: Split, n_tuning: int) -> None:
    uris = [f"<http://example.org/{label}>" for label in range(len(split.vocab))]
    names = [_flat(split.vocab.name(label)) for label in range(len(split.vocab))]
    often = Counter(names)  # Annif needs distinct names
    names = [name if often[name] == 1 else f"{name} ({label})" for label, name in enumerate(names)]
    _write_lines(folder / "vocab.tsv", [f"{uri}\t{name}" for uri, name in zip(uris, names, strict=True)])
    lists = np.split(split.Y.indices, split.Y.indptr[1:-1])
    lines = [
        f"{_flat(text)}\t{' '.join(uris[label] for label in labels)}"
        for text, labels in zip(split.texts, lists, strict=True)
    ]
    _write_lines(folder / "tune.tsv", lines[:n_tuning])
    _write_lines(folder / "train.tsv", lines[n_tuning:])
    (folder / "test.json").write_text(json.dumps([_flat(text) for text in split.test_texts]))
    _configure(folder, "bonsai,mllm")
    write_sentence_data(folder)


def _configure(folder: Path, sources: str) -> None:
    (folder / "projects.cfg").write_text(
        f"[bonsai]\nname=Bonsai\nbackend=omikuji\n{_COMMON}{_BONSAI}\n"
        f"[mllm]\nname=MLLM\nbackend=mllm\n{_COMMON}\n"
        f"[ensemble]\nname=Ensemble\nbackend=ensemble\nlanguage=en\nvocab=gnd\nlimit=100\nsources={sources}\n"
    )


def _train(folder: Path) -> dict[str, float]:
    """Train and tune; return CPU seconds of each project, those of the ensemble with its sources."""
    _run(folder, ["load-vocab", "gnd", "vocab.tsv", "--language", "en"])
    seconds = {}
    for project in ("bonsai", "mllm"):
        start = cpu_seconds()
        _run(folder, ["train", project, "train.tsv", "--jobs", "1"])
        seconds[project] = cpu_seconds() - start
    start = cpu_seconds()
    _run(folder, ["hyperopt", "ensemble", "tune.tsv", "--trials", str(TRIALS), "--metric", "NDCG"])
    seconds["ensemble"] = sum(seconds.values()) + cpu_seconds() - start
    _configure(folder, _sources(folder))
    return seconds


def _sources(folder: Path) -> str:
    """Return the weights that ``hyperopt`` found."""
    found = re.findall(r"^sources=(.+)$", (folder / "hyperopt.txt").read_text(), re.MULTILINE)
    return str(found[-1])


def _run(folder: Path, arguments: Sequence[str]) -> None:
    print(f"annif {' '.join(arguments[:2])}", flush=True)
    command = [str(interpreter("annif")), "-m", "annif.cli", *arguments]
    with (folder / f"{arguments[0]}.txt").open("a") as log:
        subprocess.run(
            command, cwd=folder, env={**os.environ, **environment(folder)}, check=True, stdout=log, stderr=log
        )


def environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of Annif in a folder, on one core."""
    return {
        "ANNIF_DATADIR": str(folder / "data"),
        "ANNIF_CONFIG": "annif.default_config.ProductionConfig",
        "ANNIF_PROJECTS": str(folder / "projects.cfg"),
        "NLTK_DATA": str(folder / "nltk"),
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _flat(text: str) -> str:
    return " ".join(text.split())
