"""Run tools on problems: every step in its own process, every result kept.

In: a `Tool` and a `Problem`. Out: one dict of figures per way to predict. Results are JSON files in
``.cache/bench/results/<problem>``; a step that was measured with the same version, settings and sizes is not repeated.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import CACHE, ROOT, peers
from benchmarks.measure import JobFailedError, run_job
from benchmarks.peers import Tool
from benchmarks.problems import Problem
from tagwood import Ranking
from tagwood.metrics import LabelCounts, evaluate

K = 5
MEASURES = tuple(f"{family}@{k}" for family in ("P", "PSP") for k in (1, 3, 5))
RESULTS = CACHE / "results"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """How steps are run.

    Parameters
    ----------
    threads
        For training and batches; single rows always use one.
    fresh
        Repeat earlier measurements.
    keep_models
        Leave trained models in ``.cache/bench/models``.
    minutes
        Time limit of a step; a step that takes longer counts as failed.
    """

    threads: int = 2
    fresh: bool = False
    keep_models: bool = False
    minutes: float = 240

    def run(self, tool: Tool, problem: Problem) -> list[Figures]:
        """Train the tool on the problem and predict in each of its modes; a failure is a row too."""
        work = Work(self, tool, problem, problem.prepare(repository_file=tool.adapter == "omikuji"))
        failure = work.file("failed")
        for path in work.files() if self.fresh else [failure]:
            path.unlink(missing_ok=True)
        try:
            return work.run()
        except JobFailedError as error:
            print(f"{problem.name}: {tool.title}: {error}", flush=True)
            failure.parent.mkdir(parents=True, exist_ok=True)
            failure.write_text(json.dumps({"failed": str(error)}) + "\n")
            return work.stored_rows()
        finally:
            if not self.keep_models:
                shutil.rmtree(work.model.parent, ignore_errors=True)

    def stored(self, tool: Tool, problem: Problem) -> list[Figures]:
        """Return the rows that were measured before."""
        if not (problem.folder / "shape.json").exists():
            return []
        work = Work(self, tool, problem, problem.prepare(repository_file=False))
        return work.stored_rows() if work.files() else []


@dataclass(frozen=True)
class Work:
    """One tool on one problem: its steps and their files."""

    runner: Runner
    tool: Tool
    problem: Problem
    sizes: dict[str, Any]

    @property
    def model(self) -> Path:
        """Folder of the trained model."""
        return CACHE / "models" / self.problem.name / self.tool.name / "model"

    def file(self, step: str) -> Path:
        """Return where the result of a step is kept."""
        return RESULTS / self.problem.name / f"{self.tool.name}.{step}.json"

    def files(self) -> list[Path]:
        """Return the files of all finished steps."""
        return list((RESULTS / self.problem.name).glob(f"{self.tool.name}.*.json"))

    def run(self) -> list[Figures]:
        """Run the missing steps and return all rows."""
        known = {mode: self._stored(_step(mode)) for mode in self.tool.modes}
        trained = self._stored("train")
        if trained is None or (None in known.values() and not self.model.exists()):
            shutil.rmtree(self.model.parent, ignore_errors=True)
            self.model.parent.mkdir(parents=True)
            trained = self._do("train", {"step": "train", "settings": self.tool.settings})
            known = dict.fromkeys(self.tool.modes)
        return [self._row(mode, trained, known[mode] or self._predict(mode)) for mode in self.tool.modes]

    def stored_rows(self) -> list[Figures]:
        """Return the measured rows, or one with the reason of a failure."""
        trained = self._stored("train")
        found = {mode: self._stored(_step(mode)) for mode in self.tool.modes}
        rows = [self._row(mode, trained, known) for mode, known in found.items() if trained and known]
        if not rows and self.file("failed").exists():
            said = json.loads(self.file("failed").read_text())
            rows = [{"tool": self.tool.name, "mode": "", "title": self.tool.title, **(trained or {}), **said}]
        return rows

    def _row(self, mode: str, trained: Figures, predicted: Figures) -> Figures:
        return {
            "tool": self.tool.name,
            "mode": mode,
            "title": self.tool.row_title(mode),
            **trained,
            **predicted,
        }

    def _predict(self, mode: str) -> Figures:
        step = _step(mode)
        ranking = CACHE / "rankings" / self.problem.name / f"{self.tool.name}.{step}.npz"
        job = {
            "k": K,
            "ranking": str(ranking),
            "n_labels": self.sizes["n_labels"],
            "mode": self.tool.modes[mode],
        }
        return self._do(step, {"step": "predict", **job}, ranking)

    def _do(self, step: str, job: dict[str, Any], ranking: Path | None = None) -> Figures:
        print(f"{self.problem.name}: {self.tool.title}, {step} ...", flush=True)
        runner, adapter = self.runner, self.tool.adapter
        job |= {"data": str(self.problem.folder), "folder": str(self.model)}
        job |= {"adapter": adapter, "threads": runner.threads}
        log = CACHE / "logs" / self.problem.name / f"{self.tool.name}.{step}.txt"
        limits = {"threads": runner.threads, "minutes": runner.minutes}
        figures = run_job(peers.interpreter(adapter), "benchmarks.worker", job, log, **limits)
        if ranking is not None:
            figures |= precision(self.problem, ranking)
        figures |= {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "commit": _commit()}
        self.file(step).parent.mkdir(parents=True, exist_ok=True)
        self.file(step).write_text(json.dumps({"key": self._key(step), "figures": figures}, indent=2) + "\n")
        return figures

    def _stored(self, step: str) -> Figures | None:
        if not self.file(step).exists():
            return None
        content = json.loads(self.file(step).read_text())
        return content["figures"] if content["key"] == self._key(step) else None

    def _key(self, step: str) -> dict[str, Any]:
        """Return what a stored result must agree with to be used again."""
        settings = {"settings": self.tool.settings, "threads": self.runner.threads}
        modes = {_step(mode): options for mode, options in self.tool.modes.items()}
        return {"version": _version(self.tool.adapter), **settings, **self.sizes, "mode": modes.get(step)}


def precision(problem: Problem, ranking_file: Path) -> dict[str, float]:
    """Evaluate a stored ranking, by the same code for all tools."""
    Y = problem.labels("trn")
    counts = LabelCounts(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])
    report = evaluate(
        problem.labels("tst"),
        read_scores(ranking_file),
        metrics=MEASURES,
        train_labels=counts,
        propensity=problem.propensity,
    )
    return {name: 100 * report[name] for name in MEASURES}


def read_scores(path: Path) -> Ranking:
    """Return a stored CSR of scores as a ranking; equal scores stay in the tool's order."""
    found = sparse.load_npz(path)
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    order = np.lexsort((-found.data, rows))  # stable
    return Ranking(found.indptr, found.indices[order], found.data[order], found.shape[1])


def _step(mode: str) -> str:
    return f"predict-{mode or 'default'}"


@cache
def _version(adapter: str) -> str:
    return peers.version(adapter)


@cache
def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
