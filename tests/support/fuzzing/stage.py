"""The good things that cases break: a dataset in every format, a model, predictions, a recipe, label tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tagwood import Dataset, LabelVocab, LinearTree, Tagger
from tagwood.data import FORMATS, write_dataset

TOPICS = {
    "trees": ["oak", "ash", "elm", "leaf", "bark"],
    "water": ["sea", "salt", "wave", "river", "rain"],
    "stars": ["sun", "moon", "orbit", "comet", "night"],
    "Steine; Fels": ["granite", "slate", "quarry", "chalk", "Kiesel"],
}
N_ROWS = 60
RECIPE = """[features]
ngrams = [1, 2]
min_df = 2

[tree]
arity = 4
lam = 0.5

[model]
C = 1.0
threads = 1
keep_texts = 5

[sets]
rule = "f1"
holdout = 0.0
"""


class Stage(NamedTuple):
    """Folders and files of the fuzzer.

    `data` maps a format's name to the path that commands get, `files` to the bytes of all files behind it.
    """

    root: Path
    data: dict[str, Path]
    files: dict[str, dict[str, bytes]]
    model: Path
    predictions: Path
    recipe: Path
    table: Path

    @property
    def work(self) -> Path:
        """Where a case puts broken files."""
        return self.root / "work"

    @property
    def out(self) -> Path:
        """Where commands write, and the current folder while they run; empty before each case.

        It lies deep enough that ``../..`` is still inside the stage.
        """
        return self.root / "one" / "two" / "out"


def make_stage(root: Path) -> Stage:
    """Write everything below an empty folder."""
    rows = make_rows(N_ROWS)
    data, files = {}, {}
    for name, chosen in FORMATS.items():
        ending = chosen.endings[0] if chosen.endings and not chosen.folder else ""
        path = root / "data" / name / f"set{ending}"
        write_dataset(rows, path, name)
        data[name] = path
        inside = sorted(p for p in path.parent.rglob("*") if p.is_file())
        files[name] = {str(p.relative_to(path.parent)): p.read_bytes() for p in inside}
    tagger = Tagger(model=LinearTree(threads=1), keep_texts=5)
    model = tagger.fit(rows.texts or (), rows.labels, vocab=rows.vocab).save(root / "model")
    predictions = root / "predictions.jsonl"
    answers = tagger.tag(rows.texts or (), k=2)
    lines = [{"labels": [{"label": tag.name, "score": tag.score} for tag in tags]} for tags in answers]
    predictions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "recipe.toml").write_text(RECIPE)
    (root / "table.tsv").write_text("".join(f"http://x/{i}\t{name}\n" for i, name in enumerate(TOPICS)))
    return Stage(root, data, files, model, predictions, root / "recipe.toml", root / "table.tsv")


def make_rows(n: int) -> Dataset:
    """Texts of one or two topics, with features and groups, so that every format holds something."""
    random = np.random.default_rng(0)
    names = list(TOPICS)
    labels = [sorted(random.choice(4, size=random.integers(1, 3), replace=False).tolist()) for _ in range(n)]
    texts = [" ".join(str(random.choice(TOPICS[names[one]])) for one in row for _ in range(3)) for row in labels]
    features = random.random((n, 6)).astype(np.float32)
    vocab = LabelVocab.from_names(names)
    return Dataset(labels, vocab, texts=texts, features=features, ids=[f"row{i}" for i in range(n)])
