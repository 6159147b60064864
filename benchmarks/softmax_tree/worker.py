"""The process in which fastText or a softmax tree trains and predicts, started by `measure.run_job`.

In: a job as JSON: the folder of a problem, the tool and its settings. Out: figures as JSON,
and the ranking of the test rows as an ``.npz``. Runs in the environment of the tool.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.measure import Meter, folder_mb, latencies_ms, repeated

MARK = "__label__"
LATENCY_ROWS = 1_000


class Driver(Protocol):
    """The interface of a tool."""

    def read(self, path: Path) -> Any: ...

    def train(self, data: Any, job: dict[str, Any]) -> Any: ...

    def save(self, model: Any, folder: Path) -> None: ...

    def rank(self, model: Any, texts: list[str], k: int) -> Any: ...

    def places(self, answer: Any, k: int) -> tuple[Any, Any]: ...

    def more_figures(self, model: Any, texts: list[str], k: int) -> dict[str, Any]: ...


class FastText:
    """fastText from its Python package: trains from a file, predicts one text at a time."""

    def __init__(self) -> None:
        import fasttext

        self.package = fasttext

    def read(self, path: Path) -> Any:
        return str(path)

    def train(self, data: Any, job: dict[str, Any]) -> Any:
        settings = {
            "loss": "hs", "lr": job["rate"], "epoch": job["epochs"], "dim": job["dimension"], "wordNgrams": 2,
            "minCount": job["min_count"], "bucket": 1 << 21, "thread": job["threads"], "seed": job["seed"],
        }  # fmt: skip
        return self.package.train_supervised(data, **settings, verbose=0)

    def save(self, model: Any, folder: Path) -> None:
        folder.mkdir(parents=True)
        model.save_model(str(folder / "model.bin"))

    def rank(self, model: Any, texts: list[str], k: int) -> Any:
        # The call below model.predict, without the conversion of its answer to arrays.
        return [model.f.predict(text + "\n", k, 0.0, "strict") for text in texts]

    def places(self, answer: Any, k: int) -> tuple[Any, Any]:
        labels, scores = np.full((len(answer), k), -1, np.int32), np.zeros((len(answer), k), np.float32)
        for row, pairs in enumerate(answer):
            for place, (score, name) in enumerate(pairs):
                labels[row, place], scores[row, place] = int(name[len(MARK) :]), score
        return labels, scores

    def more_figures(self, model: Any, texts: list[str], k: int) -> dict[str, Any]:
        return {"words": len(model.f.getVocab("strict")[0])}


class Tagwood:
    """`tagwood.SoftmaxTree`."""

    def __init__(self) -> None:
        import tagwood

        self.package = tagwood
        self.new = tagwood.SoftmaxTree  # imports what it needs

    def read(self, path: Path) -> Any:
        texts, labels = [], []
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split(" ")
            n = next((i for i, word in enumerate(words) if not word.startswith(MARK)), len(words))
            labels.append([int(word[len(MARK) :]) for word in words[:n]])
            texts.append(" ".join(words[n:]))
        return texts, labels

    def train(self, data: Any, job: dict[str, Any]) -> Any:
        model = self.new(
            learning_rate=job["rate"],
            epochs=job["epochs"],
            dimension=job["dimension"],
            min_count=job["min_count"],
            threads=job["threads"],
            seed=job["seed"],
            **job["settings"],
        )
        return model.fit(*data)

    def save(self, model: Any, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.package.save(model, folder)

    def rank(self, model: Any, texts: list[str], k: int) -> Any:
        return model.rank(texts, k=k)

    def places(self, answer: Any, k: int) -> tuple[Any, Any]:
        return answer.labels.reshape(-1, k), answer.scores.reshape(-1, k)

    def more_figures(self, model: Any, texts: list[str], k: int) -> dict[str, Any]:
        depths = model.tree_.label_depths()
        answer = model.rank(texts, k=k).labels.reshape(-1, k)
        deepest = np.maximum.accumulate(depths[answer], axis=1).mean(axis=0)
        return {
            **{f"depth@{n}": float(deepest[n - 1]) for n in (1, 3, 5)},
            "decisions_1": float(model.search_effort(texts, k=1).mean()),
            "decisions_5": float(model.search_effort(texts, k=k).mean()),
            "words": model.bags_.n_words,
            "features": model.bags_.n_features,
        }


DRIVERS: dict[str, type[Driver]] = {"fasttext": FastText, "tagwood": Tagwood}


def measure(driver: Driver, job: dict[str, Any]) -> dict[str, Any]:
    """Train, save, predict all test rows and single ones; data are read before the clock starts."""
    folder, k = Path(job["data"]), job["k"]
    data = driver.read(folder / "train.txt")
    tests = (folder / "test.txt").read_text(encoding="utf-8").splitlines()
    with Meter() as meter:
        model = driver.train(data, job)
    del data
    driver.save(model, Path(job["folder"]))
    answer, passes = repeated(lambda: driver.rank(model, tests, k), least_seconds=3)
    labels, scores = driver.places(answer, k)
    np.savez(job["ranking"], labels=labels, scores=scores)
    found = {**meter.as_dict("train"), "disk_mb": folder_mb(Path(job["folder"]))}
    found |= {"rows_per_cpu_s": len(tests) / min(one.cpu for one in passes)}
    found |= latencies_ms(lambda text: driver.rank(model, [text], k), tests[:LATENCY_ROWS])
    return {**found, **driver.more_figures(model, tests, k)}


def main() -> None:
    job = json.loads(sys.argv[1])
    Path(job["answer"]).write_text(json.dumps(measure(DRIVERS[job["tool"]](), job)))


if __name__ == "__main__":
    main()
