"""The process in which one tool goes from texts to label names, started by `benchmarks.text_to_labels`.

In: a job as JSON, ``{"step": "train" | "ask", ...}``. Out: figures as JSON. Runs in the environment of the tool.
"""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.adapters.base import TextAdapter
from benchmarks.measure import Meter, folder_mb, latencies_ms, repeated

SINGLE_TEXTS = 2_000


def read_texts(path: Path, limit: int) -> tuple[list[str], list[list[str]]]:
    """Return texts and label ids of a JSON lines file; rows without a text or a label are left out.

    Line breaks become spaces: libpecos cannot read its own vocabulary if words contain any.
    """
    texts, labels = [], []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["text"].strip() and row["labels"]:
                texts.append(" ".join(row["text"].split()))
                labels.append(sorted(set(map(str, row["labels"]))))
            if len(texts) == limit:
                break
    return texts, labels


def train(adapter: TextAdapter, job: dict[str, Any]) -> dict[str, float]:
    """Train and save; reading is not counted."""
    texts, labels = read_texts(Path(job["data"]) / "train.jsonl.gz", job["limit"])
    folder = Path(job["folder"])
    folder.mkdir(parents=True)
    with Meter() as meter:
        adapter.train(texts, labels, folder, job["threads"])
    return {**meter.as_dict("train"), "disk_mb": folder_mb(folder)}


def ask(adapter: TextAdapter, job: dict[str, Any]) -> dict[str, float]:
    """Load the model; predict single texts with one thread, then all with all threads."""
    texts, labels = read_texts(Path(job["data"]) / "test.jsonl.gz", job["limit"])
    model = adapter.load(Path(job["folder"]), job["mode"], 1)
    found = latencies_ms(lambda text: adapter.one(model, text), texts[:SINGLE_TEXTS])
    del model
    model = adapter.load(Path(job["folder"]), job["mode"], job["threads"])
    answers, passes = repeated(lambda: adapter.many(model, texts), least_seconds=5)
    best = min(passes, key=lambda meter: meter.cpu)
    names = [[tag[-3] if len(tag) > 2 else tag[0] for tag in answer] for answer in answers]
    return {
        **found,
        **best.as_dict("batch"),
        "rows_per_cpu_s": len(texts) / best.cpu,
        "characters": sum(map(len, texts)) / len(texts),
        "n_test": len(texts),
        **precision(names, labels),
    }


def precision(names: list[list[str]], labels: list[list[str]]) -> dict[str, float]:
    """Return P@1 and P@5 in percent."""
    found = {}
    for k in (1, 5):
        hits = sum(len(set(answer[:k]) & set(true)) for answer, true in zip(names, labels, strict=True))
        found[f"P@{k}"] = 100 * hits / k / len(labels)
    return found


def main() -> None:
    job = json.loads(sys.argv[1])
    adapter = importlib.import_module(f"benchmarks.adapters.{job['tool']}").TextDriver()
    figures = {"train": train, "ask": ask}[job["step"]](adapter, job)
    Path(job["answer"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
