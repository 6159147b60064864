"""One small stored folder for every kind of model: sources of forged folders, and the golden folders of the format.

``python -m tests.faults.zoo FOLDER`` writes them, each with the ranking of its golden rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tagwood
from tagwood import LabelVocab, LinearTree, SoftmaxTree, Tagger, TfidfEncoder

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]
from library import make_library  # noqa: E402  needs the line above when this is not run by pytest
from model_factories import CASES  # noqa: E402

SHAPE = {"n_rows": 24, "n_labels": 9, "n_colours": 3, "n_features": 18, "seed": 1}
SMALL = {
    "SetGenerator": {"network__hidden": 16, "network__dimension": 4, "training__epochs": 1},
    "PrototypeModel": {"encoder__dimension": 32, "encoder__vocabulary": 300, "epochs": 1},
    "MimlNetwork": {"hidden": 4, "training__epochs": 1},
    "SoftmaxTree": {"dimension": 8, "epochs": 5, "ngrams": 1},  # pairs of words take 8 MB
    "Ensemble of texts": {"members": [(TfidfEncoder(min_df=1), LinearTree()), SoftmaxTree(dimension=8, ngrams=1)]},
}


def make_zoo(folder: Path, *, neural: bool = True) -> None:
    """Fit and save every kind of model that is not in the folder yet."""
    for name, case in CASES.items():
        target = folder / _folder_name(name)
        if target.exists() or (case.neural and not neural):
            continue
        rows = case.rows(**SHAPE)
        model = case.make()
        if name in SMALL:
            model.set_params(**SMALL[name])
        golden: Any = rows.X_test[:4]
        fitted = case.fit(rows, model)
        tagwood.save(fitted, target, golden=golden, notes=f"golden folder: {name}")
    for name, tagger in {"tagger-names": _named, "tagger-groups": _grouped, "tagger-balanced": _balanced}.items():
        if not (folder / name).exists():
            tagger().save(folder / name, notes=f"golden folder: {name}")


def _named() -> Tagger:
    texts, labels = make_library(60)
    vocab = LabelVocab.from_names(
        ["trees", "water", "stars", "stones", "never used"],
        uris=[f"http://example.org/{number}" for number in range(5)],
        languages={"de": ["Bäume", "Wasser", "Sterne", "Steine", ""]},
    )
    tagger = Tagger(TfidfEncoder(min_df=1, threads=1), LinearTree(threads=1, max_leaf_size=2, arity=2), keep_texts=8)
    return tagger.fit(texts, labels, vocab=vocab)


def _grouped() -> Tagger:
    texts, labels = make_library(60)
    tagger = Tagger(TfidfEncoder(min_df=1, threads=1), LinearTree(threads=1), keep_texts=8)
    return tagger.fit(texts, labels, [f"box {row // 4}" for row in range(60)])


def _balanced() -> Tagger:
    texts, labels = make_library(60)
    return Tagger(quality="balanced").fit(texts, labels)


def _folder_name(name: str) -> str:
    return name.lower().replace(", ", "-").replace(" ", "-")


if __name__ == "__main__":
    make_zoo(Path(sys.argv[1]))
