"""PRIME beside what it must beat: untrained prototypes, the dual encoder, the linear tree; and PRIME in an ensemble.

``python -m experiments.prime`` measures both sets, or those of ``--data``; results already in the output
folder are kept. ``python -m experiments.prime.states`` fills a cache of MiniLM's outputs first (some minutes). Shares,
accepted epochs and the weights of ensembles are chosen on held-out training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import Page, table
from experiments.prime.data import QUICK, SIZES, LabelledTexts, read_set
from experiments.prime.states import kept_minilm
from tagwood import (
    Centroids,
    Ensemble,
    LinearTree,
    NameMatcher,
    Neighbours,
    PrototypeModel,
    Ranking,
    TextEncoder,
    TfidfEncoder,
    compare,
    evaluate,
)
from tagwood._sparse import check_labels
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.training import choose_share, untrained_prototypes

PAGE = Page("experiments", "prime")
MEASURES = ["P@1", "nDCG@5", "R@10"]
EPOCHS = 4
RATES = {"PRIME": None, "PRIME, top layers": None, "dual encoder": 5e-4}  # None is the default of the model
NEW = 0.1  # share of the labels that are hidden from training in the trial of ensembles
MEMBERS = "tree + neighbours + names"


def tree(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
    """Rank by a linear tree on TF-IDF."""
    tfidf = TfidfEncoder(threads=1)
    model = LinearTree(threads=1).fit(tfidf.fit_transform(data.texts), data.Y)
    return model.rank(tfidf.transform(data.test_texts), k=10), ""


def tfidf_prototypes(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
    """Rank by the cosine to the mean TF-IDF vector of a label's rows."""
    tfidf = TfidfEncoder(ngrams=(1, 1), threads=1)
    model = Centroids(threads=1).fit(tfidf.fit_transform(data.texts), data.Y)
    return model.rank(tfidf.transform(data.test_texts), k=10), ""


def minilm_prototypes(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
    """Rank by the cosine to the mean of label text and centroid of MiniLM vectors, not trained."""
    queries, texts = encoder.transform(data.texts), encoder.transform(data.label_texts)
    share = choose_share(queries, texts, data.Y)
    index = LabelIndex(untrained_prototypes(queries, texts, data.Y, share), "flat", threads=1)
    return index.rank(encoder.transform(data.test_texts), 10), f"centroid {share:g}"


def trained(preset: str, name: str) -> Callable[[LabelledTexts, TextEncoder], tuple[Ranking, str]]:
    """Rank by a trained model."""

    def run(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
        model = _prime(preset, name, encoder).fit(data.texts, data.Y, label_texts=data.label_texts)
        assert model.history_ is not None
        before, best = model.untrained_ or 0.0, max(model.history_.measures, default=0.0)
        words = f"held-out nDCG@5 {100 * before:.1f} before training, best epoch {100 * best:.1f}"
        return model.rank(data.test_texts, k=10), words

    return run


def _prime(preset: str, name: str, encoder: TextEncoder) -> PrototypeModel:
    centroids = None if name == "dual encoder" else "leave-one-out"
    return PrototypeModel(
        preset=preset,
        encoder=encoder,
        centroids=centroids,
        epochs=2 if encoder.trained == "top" else EPOCHS,
        batch_size=256,
        learning_rate=RATES[name],
        threads=1,
    )


def top_layers(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
    """Rank by PRIME of which the last two layers of MiniLM are trained, from states of the fourth."""
    top = TextEncoder("minilm", trained="top", max_length=encoder.max_length, threads=1)
    return trained("prime-lite", "PRIME, top layers")(data, top)


def classifiers(data: LabelledTexts, encoder: TextEncoder) -> tuple[Ranking, str]:
    """Rank by linear classifiers on the embeddings of MiniLM, in a tree shaped by the prototypes: PRIME (W)."""
    model = _prime("prime-lite", "PRIME", encoder)
    model.epochs = 1
    model.fit(data.texts, data.Y, label_texts=data.label_texts)
    found = model.with_classifiers(data.texts, data.Y)
    return found.rank(data.test_texts, k=10), f"C {found.tree.C:g}"


ROWS: dict[str, Callable[[LabelledTexts, TextEncoder], tuple[Ranking, str]]] = {
    "linear tree": tree,
    "untrained prototypes, TF-IDF": tfidf_prototypes,
    "untrained prototypes, minilm": minilm_prototypes,
    "dual encoder, minilm": trained("ngame", "dual encoder"),
    "PRIME, minilm": trained("prime-lite", "PRIME"),
    "PRIME, top layers": top_layers,
    "PRIME (W)": classifiers,
}
COMPARED = "PRIME, minilm"


def measure(name: str, out: Path, quick: bool) -> None:
    """Measure the missing rows of a set; differences are those of PRIME to each row, over test rows."""
    store: dict[str, Any] = PAGE.load(out, {})
    data = read_set(name, *QUICK) if quick else read_set(name)
    encoder, rankings = kept_minilm(name, 0), {}
    if set(store.get(name, {}).get("rows", {})) == set(ROWS):
        return
    found: dict[str, Any] = {"sizes": [len(data.texts), len(data.test_texts), len(data.label_texts)], "rows": {}}
    for row, run in ROWS.items():
        began = time.process_time()
        rankings[row], words = run(data, encoder)
        report = evaluate(data.Y_test, rankings[row], metrics=MEASURES)
        seconds = round(time.process_time() - began)
        found["rows"][row] = {**{m: report[m] for m in MEASURES}, "note": words, "cpu_seconds": seconds}
        print(name, row, found["rows"][row], flush=True)
    for row, ranking in rankings.items():
        if row != COMPARED:
            leads = compare(data.Y_test, ranking, rankings[COMPARED], metrics=MEASURES[1:], threads=1)
            found["rows"][row]["lead"] = {one.name: [one.difference, one.low, one.high] for one in leads.differences}
    PAGE.save(out, {**PAGE.load(out, {}), name: found})


def measure_members(name: str, out: Path, quick: bool) -> None:
    """Measure ensembles without and with PRIME on all labels, and how many true new labels each finds.

    A tenth of the labels, drawn at random, is hidden from training and added afterwards by their texts.
    """
    store: dict[str, Any] = PAGE.load(out, {})
    if "members" in store[name]:
        return
    data = read_set(name, *QUICK) if quick else read_set(name)
    n_labels = len(data.label_texts)
    order = np.random.default_rng(0).permutation(n_labels)
    new, known = np.sort(order[: round(NEW * n_labels)]), np.sort(order[round(NEW * n_labels) :])
    part = data.without_labels(known)
    columns = np.concatenate([known, new])
    Y_test = check_labels(data.Y_test[:, columns])
    rows = np.flatnonzero(np.diff(Y_test.indptr))
    Y_test, texts = check_labels(Y_test[rows]), [data.test_texts[row] for row in rows]
    found, rankings = {}, {}
    for title, more in ((MEMBERS, False), (f"{MEMBERS} + PRIME", True)):
        members = [LinearTree(threads=1), Neighbours(threads=1), NameMatcher(threads=1)]
        members += [_prime("prime-lite", "PRIME", kept_minilm(name, 0))] if more else []
        encoder = TfidfEncoder(threads=1)
        model = Ensemble(members, encoder=encoder, prune=False, threads=1)
        model.fit(part.texts, part.Y, label_texts=part.label_texts)
        model.add_labels([data.label_texts[label] for label in new])
        rankings[title] = model.rank(texts, k=10)
        report = evaluate(Y_test, rankings[title], metrics=MEASURES)
        hits = rankings[title].labels >= known.size
        true = check_labels(Y_test[:, known.size :])
        right = rankings[title].to_csr()[:, known.size :].multiply(true).count_nonzero()
        found[title] = {
            **{m: report[m] for m in MEASURES},
            "new_found": right / max(1, true.nnz),
            "new_returned": float(hits.sum() / len(texts)),
            "n_new": [int(true.nnz), int(new.size)],
        }
        print(name, title, found[title], flush=True)
    pair = list(rankings.values())
    leads = compare(Y_test, *pair, metrics=MEASURES[1:], threads=1)
    found[f"{MEMBERS} + PRIME"]["lead"] = {one.name: [one.difference, one.low, one.high] for one in leads.differences}
    store = PAGE.load(out, {})
    store[name]["members"] = found
    PAGE.save(out, store)


def page_blocks(store: dict[str, Any]) -> list[str]:
    """Return one table per set."""
    blocks = []
    for name, found in store.items():
        train, test, labels = found["sizes"]
        blocks.append(f"### {name}: {train:,} training rows, {test:,} test rows, {labels:,} labels")
        rows = []
        for row, values in found["rows"].items():
            leads = [values.get("lead", {}).get(m) for m in MEASURES[1:]]
            cells = [
                "" if one is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * x for x in one)) for one in leads
            ]
            rows.append([row, *(f"{100 * values[m]:.1f}" for m in MEASURES), *cells, values["note"]])
        header = ["", *MEASURES, "PRIME's lead in nDCG@5", "in R@10", "chosen on held-out rows"]
        blocks.append(table(header, rows))
        blocks += _members_block(found["members"]) if "members" in found else []
    return blocks


def _members_block(found: dict[str, Any]) -> list[str]:
    """Return what PRIME adds to an ensemble."""
    rows = []
    for title, one in found.items():
        leads = [one.get("lead", {}).get(m) for m in MEASURES[1:]]
        cells = ["" if x is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * v for v in x)) for x in leads]
        rows.append([title, *(f"{100 * one[m]:.1f}" for m in MEASURES), *cells, f"{100 * one['new_found']:.1f} %"])
    true, new = next(iter(found.values()))["n_new"]
    words = f"As a member, where {new:,} labels are new: their {true:,} test pairs count as found among ten labels."
    header = ["", *MEASURES, "lead in nDCG@5", "in R@10", "pairs of new labels found"]
    return [words, table(header, rows)]


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True)
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [] if args.report else args.data:
        measure(name, args.out, args.quick)
        measure_members(name, args.out, args.quick)
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, {})))


if __name__ == "__main__":
    main()
