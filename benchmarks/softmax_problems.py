"""Real texts as fastText reads them: words in lower case, labels by number. In: a set's name. Out: files and labels.

Both tools get the same words: runs of two or more letters and digits, in lower case, of the first so many words of a
text. Training rows are shuffled once, because fastText reads them in the order of the file.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import ROOT
from tagwood.data import Dataset, read_dataset

SHARED = ROOT.parent / "shared" / "data"
CACHE = ROOT / ".cache" / "bench" / "softmax_tree"
# Set -> words of a text that are used; 0: all.
SETS = {"cooking-stackexchange": 0, "eurlex57k": 100, "tibkat-gnd-en": 100, "yso-titles": 0}
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class Problem:
    """A set in ``.cache``: train.txt, test.txt, and the label sets of the test rows."""

    name: str
    folder: Path
    Y_test: sparse.csr_array
    facts: dict[str, Any]


def words(text: str, most: int) -> str:
    """Return the words of a text, joined by spaces.

    Examples
    --------
    >>> words("What's a roux-based sauce?", 0)
    'what roux based sauce'
    """
    found = _WORD.findall(text.lower())
    return " ".join(found[:most] if most else found)


def prepare(name: str, n_rows: int | None = None) -> Problem:
    """Write the files of a set; `n_rows` takes that many training rows only."""
    train = read_dataset(SHARED / name / "train.jsonl.gz")
    test = read_dataset(SHARED / name / "test.jsonl.gz", vocab=train.vocab, on_unknown="skip")
    order = np.random.default_rng(0).permutation(train.n_rows)[:n_rows]
    most = SETS[name]
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines, n_words = _lines(train, order, most)
    (folder / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = [words(text, most) for text in test.texts or ()]
    (folder / "test.txt").write_text("\n".join(asked) + "\n", encoding="utf-8")
    facts = {
        "n_train": len(lines), "n_test": test.n_rows, "n_words": n_words, "most_words": most,
        "n_labels": int(np.unique(train.labels[order].indices).size),
        "labels_per_row": float(train.labels[order].nnz / order.size),
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts))
    return Problem(name, folder, test.labels, facts)


def _lines(train: Dataset, order: Any, most: int) -> tuple[list[str], int]:
    texts, Y = list(train.texts or ()), train.labels
    lines, n_words = [], 0
    for row in order.tolist():
        text = words(texts[row], most)
        marks = " ".join(f"__label__{label}" for label in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
        lines.append(f"{marks} {text}")
        n_words += text.count(" ") + 1
    return lines, n_words
