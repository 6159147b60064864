"""The process in which a trained Annif project answers, started by `benchmarks.quality.annif`.

In: a job as JSON, ``{"project", "folder", "texts"}``. Out: the best 20 labels of each text, and texts per CPU second.
Runs in the environment of Annif.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Meter, latencies_ms

BATCH = 32
K = 20
SINGLE_TEXTS = 100


def main() -> None:
    job = json.loads(sys.argv[1])
    os.environ.update(job["environment"])
    import annif
    import annif.registry
    from annif.corpus import Document

    with annif.create_flask_app().app_context():
        project = annif.registry.get_project(job["project"])
        documents = [Document(text=text) for text in json.loads(Path(job["texts"]).read_text())]
        numbers = {subject: _number(uri) for subject, uri in _uris(project)}

        def answer(some: list[Any]) -> list[list[tuple[int, float]]]:
            batch = project.suggest(some)
            return [[(numbers[one.subject_id], one.score) for one in list(row)[:K]] for row in batch]

        single = latencies_ms(lambda document: answer([document]), documents[:SINGLE_TEXTS])
        answers = []
        with Meter() as meter:
            for start in range(0, len(documents), BATCH):
                answers += answer(documents[start : start + BATCH])
    figures = {"p50_ms": single["p50_ms"], "rows_per_cpu_s": len(documents) / meter.cpu, "answers": answers}
    Path(job["answer"]).write_text(json.dumps(figures))


def _uris(project: Any) -> list[tuple[int, str]]:
    subjects = project.subjects
    return [(number, subjects[number].uri) for number in range(len(subjects))]


def _number(uri: str) -> int:
    return int(uri.rstrip(">").rpartition("/")[2])


if __name__ == "__main__":
    main()
