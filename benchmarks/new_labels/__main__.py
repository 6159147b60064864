"""Labels added after training, found by their names: ``python -m benchmarks.new_labels``.

In: training rows of TIBKAT and EURLEX57K from ../shared/data, of which a part is held out. Out: how often new labels
are found among all, what labels of training lose, and what a call costs, before and after labels are added. Three
cases: 200 new labels; a tenth of all labels; and 200 new labels with all labels of the vocabulary that no row has.
"""

from __future__ import annotations

import gzip
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.measure import least_cpu_seconds
from benchmarks.quality.data import SETS, Split
from benchmarks.quality.worker import new_tagger
from benchmarks.report import Page, machine, machine_line, replace_row, table
from tagwood import Tagger
from tagwood.data import LabelVocab
from tagwood.metrics import evaluate

PAGE = Page("benchmarks", "new_labels")
CASES = {"200": "200 new", "tenth": "a tenth", "bulk": "200 new and all untrained"}
COLUMNS = {
    "case": "",
    "seed": "seed",
    "n_rows": "rows",
    "added": "added",
    "n_new": "rows with new labels",
    "R@10": "R@10 of new labels",
    "P@1": "P@1, other rows",
    "P@1 after": "after",
    "P@5": "P@5, other rows",
    "P@5 after": "after",
    "all P@5": "P@5, all rows",
    "all P@5 after": "after",
    "all sets P": "precision of sets, all rows",
    "all sets P after": "after",
    "call ms": "CPU ms per text",
    "call ms after": "after",
}
SINGLE_TEXTS = 200


def choose(split: Split, case: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the new labels, taken out of the training rows, and all labels that are added after training."""
    counts = np.bincount(split.Y.indices, minlength=len(split.vocab))
    used = np.random.default_rng(seed).permutation(np.flatnonzero(counts))
    new = np.sort(used[: round(0.1 * used.size) if case == "tenth" else 200])
    return new, np.union1d(new, np.flatnonzero(counts == 0)) if case == "bulk" else new


def all_names(name: str, vocab: LabelVocab) -> list[list[str]]:
    """Return further names of each label: those in both languages of TIBKAT's vocabulary."""
    if name != "tibkat":
        return [[] for _ in range(len(vocab))]
    with gzip.open(SETS[name].path / "labels_de_en.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = dict(line.rstrip("\n").split("\t", 1) for line in lines)
    return [[one for one in rows.get(uri, "").split("\t") if one] for uri in vocab.uris or ()]


def columns(vocab: LabelVocab, others: list[list[str]], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Return the names, URIs and further names of some labels."""
    names, uris = list(vocab.names or ()), list(vocab.uris or ())
    parts = {"names": names, "uris": uris, "alternatives": others}
    return {name: [column[i] for i in labels] for name, column in parts.items()}


def quality(tagger: Tagger, texts: list[str], Y: sparse.csr_array, other: NDArray[np.int64]) -> dict[str, float]:
    """Return measures of rows without new labels (`other`) and of all rows, sets by ``promise="f1"``, in percent."""
    ranking = tagger.rank(texts, 50)
    sets = tagger.cut(ranking, "f1")[0]
    of_other = evaluate(Y[other], ranking.rows(other), metrics=["P@1", "P@5"])
    found = {name: 100 * of_other[name] for name in ("P@1", "P@5")}
    found["all P@5"] = 100 * evaluate(Y, ranking, metrics=["P@5"])["P@5"]
    return found | {"all sets P": 100 * evaluate(Y, sets, metrics=["micro-P"])["micro-P"]}


def measure(split: Split, others: list[list[str]], case: str, kind: str, seed: int) -> dict[str, Any]:
    """Train without some labels, add them by their names, and measure before and after."""
    new, later = choose(split, case, seed)
    old = np.setdiff1d(np.arange(len(split.vocab)), later)
    Y = split.Y[:, old]
    rows = np.flatnonzero(np.diff(Y.indptr))
    vocab = LabelVocab.from_names(**columns(split.vocab, others, old))
    tagger = new_tagger(kind).fit([split.texts[i] for i in rows], Y[rows], vocab=vocab)
    has_new = np.diff(split.Y_test[:, new].indptr) > 0
    other = np.flatnonzero(~has_new)
    before = quality(tagger, split.test_texts, split.Y_test[:, old], other)
    before["call ms"] = call_ms(tagger, split.test_texts)
    tagger.update_labels(vocab=tagger.vocab_.add(**columns(split.vocab, others, later)))
    every = split.Y_test[:, np.concatenate([old, later])]
    after = quality(tagger, split.test_texts, every, other)
    after["call ms"] = call_ms(tagger, split.test_texts)
    only = np.isin(np.arange(every.shape[1]), len(old) + np.searchsorted(later, new)).astype(np.float32)
    wanted = sparse.csr_array(every[has_new] @ sparse.diags_array(only))
    wanted.eliminate_zeros()
    found = tagger.rank([split.test_texts[i] for i in np.flatnonzero(has_new)], 10)
    figures = {"added": int(later.size), "n_new": int(has_new.sum())}
    figures["R@10"] = 100 * evaluate(wanted, found, metrics=["R@10"])["R@10"]
    return figures | before | {f"{name} after": value for name, value in after.items()}


def call_ms(tagger: Tagger, texts: list[str]) -> float:
    """Return the median CPU time of a call with one text."""
    times = [least_cpu_seconds(lambda text=text: tagger.tag_one(text, 5)) for text in texts[:SINGLE_TEXTS]]
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--sets", nargs="*", choices=["tibkat", "eurlex57k"], default=["tibkat", "eurlex57k"])
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--qualities", nargs="*", choices=["fast", "balanced"], default=["fast", "balanced"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of the rows held out and the new labels")
    parser.add_argument("--rows", type=int, default=12_000, help="rows of each set, training and held out together")
    options = parser.parse_args()
    content = PAGE.load(options.out, {"rows": []})
    content["machine"] = machine()
    for name, seed in product(options.sets, options.seeds):
        split = SETS[name].split(seed, options.rows)
        others = all_names(name, split.vocab)
        for case, kind in product(options.cases, options.qualities):
            row = {"case": f"{SETS[name].title}, {CASES[case]}: {kind}", "seed": seed, "n_rows": len(split.texts)}
            row |= measure(split, others, case, kind, seed)
            print({key: round(v, 2) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
            content["rows"] = replace_row(content["rows"], row, ["case", "seed", "n_rows"])
            PAGE.save(options.out, content)
    PAGE.write(options.out, page_blocks(content))


def page_blocks(content: dict[str, Any]) -> list[str]:
    """Return the machine and the table."""
    lines = [[cell(row[name]) for name in COLUMNS] for row in content["rows"]]
    return [machine_line(content["machine"]), table(list(COLUMNS.values()), lines)]


def cell(value: Any) -> str:
    """Return a value as it is shown."""
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
