"""PRIME beside what it must beat: untrained prototypes, the dual encoder, the linear tree; and PRIME in an ensemble.

``python -m experiments.prime`` measures both sets, or those of ``--data``, with two seeds; results already in the
output folder are kept. MiniLM reads each text once, for all models and seeds (`states`). ``--members`` measures PRIME
in an ensemble instead, on fewer rows. Shares, accepted epochs and the weights of ensembles are chosen on held-out
training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import Page, table
from experiments.prime.data import QUICK, SIZES, LabelledTexts, read_set
from experiments.prime.states import fill, kept_minilm
from experiments.statistics import compare_seeds
from tagwood import (
    Centroids,
    Ensemble,
    LinearTree,
    NameMatcher,
    Neighbours,
    PrototypeModel,
    Ranking,
    TfidfEncoder,
    compare,
    evaluate,
)
from tagwood._sparse import check_labels
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.training import choose_share, untrained_prototypes

PAGE = Page("experiments", "prime")
MEASURES = ["P@1", "nDCG@5", "R@10"]
EPOCHS = 2
RATES = {"PRIME": None, "dual encoder": 5e-4}  # None is the default of the model
NEW = 0.1  # share of the labels that are hidden from training in the trial of ensembles
MEMBERS = "tree + neighbours + names"
MEMBER_ROWS = (12_000, 2_000)  # training and test rows of ensembles, which train each member several times
Found = tuple[Ranking, str]  # and what was chosen on held-out rows


def tree(data: LabelledTexts, seed: int) -> Found:
    """Rank by a linear tree on TF-IDF."""
    tfidf = TfidfEncoder(threads=1)
    model = LinearTree(seed=seed, threads=1).fit(tfidf.fit_transform(data.texts), data.Y)
    return model.rank(tfidf.transform(data.test_texts), k=10), ""


def tfidf_prototypes(data: LabelledTexts, seed: int) -> Found:
    """Rank by the cosine to the mean TF-IDF vector of a label's rows."""
    tfidf = TfidfEncoder(ngrams=(1, 1), threads=1)
    model = Centroids(threads=1).fit(tfidf.fit_transform(data.texts), data.Y)
    return model.rank(tfidf.transform(data.test_texts), k=10), ""


def minilm_prototypes(data: LabelledTexts, seed: int) -> Found:
    """Rank by the cosine to the mean of label text and centroid of MiniLM vectors, not trained."""
    encoder = kept_minilm(data.name, seed)
    queries, texts = encoder.transform(data.texts), encoder.transform(data.label_texts)
    share = choose_share(queries, texts, data.Y, seed)
    index = LabelIndex(untrained_prototypes(queries, texts, data.Y, share), "flat", threads=1)
    return index.rank(encoder.transform(data.test_texts), 10), f"centroid {share:g}"


def trained(preset: str, name: str) -> Callable[[LabelledTexts, int], Found]:
    """Rank by a trained model."""

    def run(data: LabelledTexts, seed: int) -> Found:
        model = _prime(preset, name, data.name, seed).fit(data.texts, data.Y, label_texts=data.label_texts)
        assert model.history_ is not None
        before, best = model.untrained_ or 0.0, max(model.history_.measures, default=0.0)
        words = f"held-out nDCG@5 {100 * before:.1f} before training, best epoch {100 * best:.1f}"
        return model.rank(data.test_texts, k=10), words

    return run


def _prime(preset: str, name: str, data: str, seed: int = 0) -> PrototypeModel:
    return PrototypeModel(
        preset=preset,
        encoder=kept_minilm(data, seed),
        centroids=None if name == "dual encoder" else "leave-one-out",
        epochs=EPOCHS,
        batch_size=256,
        learning_rate=RATES[name],
        seed=seed,
        threads=1,
    )


def classifiers(data: LabelledTexts, seed: int) -> Found:
    """Rank by linear classifiers on the embeddings of MiniLM, which start from untrained prototypes: PRIME (W)."""
    model = _prime("prime-lite", "PRIME", data.name, seed)
    model.epochs = 0
    model.fit(data.texts, data.Y, label_texts=data.label_texts)
    found = model.with_classifiers(data.texts, data.Y, label_texts=data.label_texts)
    return found.rank(data.test_texts, k=10), f"C {found.C_:g}"


ROWS: dict[str, Callable[[LabelledTexts, int], Found]] = {
    "linear tree": tree,
    "untrained prototypes, TF-IDF": tfidf_prototypes,
    "untrained prototypes, minilm": minilm_prototypes,
    "dual encoder, minilm": trained("ngame", "dual encoder"),
    "PRIME, minilm": trained("prime-lite", "PRIME"),
    "PRIME (W)": classifiers,
}
COMPARED = "PRIME, minilm"


def measure(name: str, out: Path, sizes: tuple[int | None, int | None], seeds: int) -> None:
    """Measure a set unless it is known: means over seeds, and differences of PRIME to each row, over test rows."""
    if "rows" in PAGE.load(out, {}).get(name, {}):
        return
    data = read_set(name, *sizes)
    fill(name, data)
    counts = [len(data.texts), len(data.test_texts), len(data.label_texts)]
    rows: dict[str, dict[str, Any]] = {}
    rankings: dict[str, list[Ranking]] = {}
    for row, run in ROWS.items():
        began = time.process_time()
        found = [run(data, seed) for seed in range(seeds)]
        rankings[row] = [ranking for ranking, _ in found]
        reports = [evaluate(data.Y_test, ranking, metrics=MEASURES) for ranking in rankings[row]]
        means = {m: float(np.mean([report[m] for report in reports])) for m in MEASURES}
        note = "; ".join(dict.fromkeys(words for _, words in found))
        rows[row] = {**means, "note": note, "cpu_seconds": round(time.process_time() - began)}
        print(name, row, rows[row], flush=True)
    for row, one in rankings.items():
        if row != COMPARED:
            leads = compare_seeds(data.Y_test, one, rankings[COMPARED], metrics=MEASURES[1:], threads=1)
            rows[row]["lead"] = {m: lead[1:] for m, lead in leads.items()}
    store: dict[str, Any] = PAGE.load(out, {})
    store[name] = {**store.get(name, {}), "sizes": counts, "seeds": seeds, "rows": rows}
    PAGE.save(out, store)


def measure_members(name: str, out: Path, quick: bool) -> None:
    """Measure ensembles without and with PRIME on all labels, and how many true new labels each finds.

    A tenth of the labels, drawn at random, is hidden from training and added afterwards by their texts.
    """
    if "members" in PAGE.load(out, {}).get(name, {}):
        return
    data = read_set(name, *(QUICK if quick else MEMBER_ROWS))
    fill(name, data)
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
        members += [_prime("prime-lite", "PRIME", name)] if more else []
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
    found[f"{MEMBERS} + PRIME"]["lead"] = {
        one.name: [100 * one.difference, 100 * one.low, 100 * one.high] for one in leads.differences
    }
    store: dict[str, Any] = PAGE.load(out, {})
    store[name] = {**store.get(name, {}), "members": {"rows": len(part.texts), "found": found}}
    PAGE.save(out, store)


def page_blocks(store: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of each set."""
    for name, found in store.items():
        if "rows" in found:
            train, test, labels = found["sizes"]
            facts = f"{train:,} training rows, {test:,} test rows, {labels:,} labels, {found['seeds']} seeds"
            yield f"### {name}: {facts}"
            header = ["", *MEASURES, "PRIME's lead in nDCG@5", "in R@10", "chosen on held-out rows"]
            yield table(header, [[row, *_cells(one), one["note"]] for row, one in found["rows"].items()])
        if "members" in found:
            yield from _members_blocks(name, **found["members"])


def _cells(values: dict[str, Any]) -> list[str]:
    """Return measures, and leads with their intervals, in percent."""
    leads = [values.get("lead", {}).get(m) for m in MEASURES[1:]]
    words = ["" if one is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*one) for one in leads]
    return [*(f"{100 * values[m]:.1f}" for m in MEASURES), *words]


def _members_blocks(name: str, rows: int, found: dict[str, Any]) -> Iterator[str]:
    """Yield what PRIME adds to an ensemble."""
    true, new = next(iter(found.values()))["n_new"]
    yield f"### {name}: as a member, {rows:,} training rows, one seed"
    yield f"{new:,} labels are new: their {true:,} test pairs count as found among ten labels."
    header = ["", *MEASURES, "lead in nDCG@5", "in R@10", "pairs of new labels found"]
    yield table(header, [[title, *_cells(one), f"{100 * one['new_found']:.1f} %"] for title, one in found.items()])


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True)
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--rows", type=int, help="training rows; default: all of TIBKAT, 40,000 of YSO")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--members", action="store_true", help="measure PRIME in an ensemble instead")
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [] if args.report else args.data:
        if args.members:
            measure_members(name, args.out, args.quick)
        else:
            measure(name, args.out, QUICK if args.quick else (args.rows, None), args.seeds)
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, {})))


if __name__ == "__main__":
    main()
