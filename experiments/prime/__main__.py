"""PRIME beside what it must beat: untrained prototypes, the dual encoder, the linear tree; prototypes in an ensemble.

``python -m experiments.prime`` measures both sets, or those of ``--data``, with two seeds; results already in the
output folder are kept, unless ``--fresh`` is given. MiniLM reads each text once, for all models and seeds (`states`).
``--top`` trains MiniLM's top two layers, too, and ``--members`` measures prototypes in an ensemble instead, both on
fewer rows. Rates, margins, epochs, shares and the weights of ensembles are chosen on held-out training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import Page, table
from experiments.prime.data import QUICK, SIZES, LabelledTexts, read_set
from experiments.prime.states import TOKENS, fill, kept_minilm
from experiments.statistics import compare_seeds
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
from tagwood.neural.prime.settings import PRESETS, PrototypeLoss
from tagwood.neural.prime.training import choose_share, untrained_prototypes

PAGE = Page("experiments", "prime")
MEASURES = ["P@1", "nDCG@5", "R@10"]
EPOCHS = 2
NEAR, FAR = PrototypeLoss(high=0.1), PrototypeLoss(high=0.3)  # margins of triplets
SOFTMAX = PrototypeLoss(prototypes=0.0, texts=0.0, queries=0.0, regulariser=0.0, softmax=1.0)
# The learning rates and losses that are tried; held-out rows choose one of them and the epoch, or no training.
TRIED: dict[str, list[tuple[float, PrototypeLoss]]] = {
    "dual encoder": [(1e-5, NEAR), (1e-5, FAR), (1e-4, NEAR), (1e-4, FAR), (5e-4, NEAR), (5e-4, FAR)],
    "PRIME": [(1e-5, NEAR), (1e-5, FAR), (1e-4, NEAR)],
    "PRIME, softmax": [(1e-5, SOFTMAX), (1e-4, SOFTMAX)],
    "PRIME, top": [(2e-5, NEAR)],
}
TOP_ROWS = (4_000, 2_000)  # training and test rows where the top layers are trained
NEW = 0.1  # share of the labels that are hidden from training in the trial of ensembles
MEMBERS = "tree + neighbours + names"
MEMBER_ROWS = (12_000, 2_000)  # training and test rows of ensembles, which train each member several times
Found = tuple[Ranking, str]  # and what was chosen on held-out rows
Run = Callable[[LabelledTexts, int], Found]


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


def trained(name: str) -> Run:
    """Rank by the model that is best on held-out rows, of those trained with the rates and losses that are tried."""

    def run(data: LabelledTexts, seed: int) -> Found:
        models = []
        for rate, loss in TRIED[name]:
            model = _prime(name, data.name, seed, rate, loss)
            models.append(model.fit(data.texts, data.Y, label_texts=data.label_texts))
        best = max(models, key=_held_out)
        loss = best.settings_.loss
        how = "softmax" if loss.softmax else f"margin {loss.high:g}"
        chosen = f"rate {best.learning_rate:g}, {how}: {100 * _held_out(best):.1f}"
        words = f"held-out nDCG@5 untrained {100 * (best.untrained_ or 0.0):.1f}; trained, {chosen}"
        return best.rank(data.test_texts, k=10), words

    return run


def _held_out(model: PrototypeModel) -> float:
    """Return the measure of the best epoch."""
    assert model.history_ is not None
    return max(model.history_.measures)


def _prime(name: str, data: str, seed: int, rate: float, loss: PrototypeLoss) -> PrototypeModel:
    plain = name == "dual encoder"
    settings = replace(PRESETS["ngame" if plain else "prime-lite"], loss=loss)
    encoder = kept_minilm(data, seed)
    if name == "PRIME, top":
        encoder = TextEncoder("minilm", trained="top", max_length=TOKENS, seed=seed, threads=1)
    return PrototypeModel(
        preset=settings.with_centroids("none" if plain else "leave-one-out"),
        encoder=encoder,
        epochs=EPOCHS,
        batch_size=256,
        learning_rate=rate,
        seed=seed,
        threads=1,
    )


def _untrained(data: str, seed: int) -> PrototypeModel:
    return PrototypeModel(encoder=kept_minilm(data, seed), centroids="leave-one-out", epochs=0, seed=seed, threads=1)


def classifiers(data: LabelledTexts, seed: int) -> Found:
    """Rank by linear classifiers on the embeddings of MiniLM, which start from untrained prototypes: PRIME (W)."""
    model = _untrained(data.name, seed).fit(data.texts, data.Y, label_texts=data.label_texts)
    found = model.with_classifiers(data.texts, data.Y, label_texts=data.label_texts)
    return found.rank(data.test_texts, k=10), f"C {found.C_:g}"


ROWS: dict[str, Run] = {
    "linear tree": tree,
    "untrained prototypes, TF-IDF": tfidf_prototypes,
    "untrained prototypes, minilm": minilm_prototypes,
    "dual encoder, minilm": trained("dual encoder"),
    "PRIME, minilm": trained("PRIME"),
    "PRIME, minilm, softmax over all labels": trained("PRIME, softmax"),
    "PRIME (W)": classifiers,
}
TOP = {row: ROWS[row] for row in ("untrained prototypes, minilm", "PRIME, minilm", "PRIME (W)")}
TOP["PRIME, minilm, top two layers"] = trained("PRIME, top")
COMPARED = "PRIME, minilm"


def measure(key: str, data: LabelledTexts, out: Path, seeds: int, runs: dict[str, Run]) -> None:
    """Measure a set: means over seeds, and differences of PRIME to each row, over test rows."""
    fill(data.name, data)
    counts = [len(data.texts), len(data.test_texts), len(data.label_texts)]
    rows: dict[str, dict[str, Any]] = {}
    rankings: dict[str, list[Ranking]] = {}
    for row, run in runs.items():
        began = time.process_time()
        found = [run(data, seed) for seed in range(seeds)]
        rankings[row] = [ranking for ranking, _ in found]
        reports = [evaluate(data.Y_test, ranking, metrics=MEASURES) for ranking in rankings[row]]
        means = {m: float(np.mean([report[m] for report in reports])) for m in MEASURES}
        note = "; ".join(dict.fromkeys(words for _, words in found))
        rows[row] = {**means, "note": note, "cpu_seconds": round(time.process_time() - began)}
        print(key, row, rows[row], flush=True)
    for row, one in rankings.items():
        if row != COMPARED:
            leads = compare_seeds(data.Y_test, one, rankings[COMPARED], metrics=MEASURES[1:], threads=1)
            rows[row]["lead"] = {m: lead[1:] for m, lead in leads.items()}
    _store(out, key, {"sizes": counts, "seeds": seeds, "rows": rows})


def _store(out: Path, key: str, found: dict[str, Any]) -> None:
    PAGE.save(out, PAGE.load(out, {}) | {key: found})


def measure_members(key: str, data: LabelledTexts, out: Path) -> None:
    """Measure ensembles without and with untrained prototypes of MiniLM, and how many true new labels each finds.

    A tenth of the labels, drawn at random, is hidden from training and added afterwards by their texts.
    """
    fill(data.name, data)
    n_labels = len(data.label_texts)
    order = np.random.default_rng(0).permutation(n_labels)
    new, known = np.sort(order[: round(NEW * n_labels)]), np.sort(order[round(NEW * n_labels) :])
    part = data.without_labels(known)
    columns = np.concatenate([known, new])
    Y_test = check_labels(data.Y_test[:, columns])
    rows = np.flatnonzero(np.diff(Y_test.indptr))
    Y_test, texts = check_labels(Y_test[rows]), [data.test_texts[row] for row in rows]
    found, rankings = {}, {}
    for title, more in ((MEMBERS, False), (f"{MEMBERS} + prototypes", True)):
        members = [LinearTree(threads=1), Neighbours(threads=1), NameMatcher(threads=1)]
        members += [_untrained(data.name, seed=0)] if more else []
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
        print(key, title, found[title], flush=True)
    pair = list(rankings.values())
    leads = compare(Y_test, *pair, metrics=MEASURES[1:], threads=1)
    found[f"{MEMBERS} + prototypes"]["lead"] = {
        one.name: [100 * one.difference, 100 * one.low, 100 * one.high] for one in leads.differences
    }
    _store(out, key, {"members": found, "rows": len(part.texts)})


def page_blocks(store: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of each set."""
    for key, found in store.items():
        name = key.partition(" ")[0]
        if "members" in found:
            yield from _members_blocks(name, found["rows"], found["members"])
            continue
        train, test, labels = found["sizes"]
        seeds = f"{found['seeds']} seeds" if found["seeds"] > 1 else "one seed"
        facts = f"{train:,} training rows, {test:,} test rows, {labels:,} labels, {seeds}"
        yield f"### {name}: {facts}"
        header = ["", *MEASURES, "PRIME's lead in nDCG@5", "in R@10", "chosen on held-out rows"]
        yield table(header, [[row, *_cells(one), one["note"]] for row, one in found["rows"].items()])


def _cells(values: dict[str, Any]) -> list[str]:
    """Return measures, and leads with their intervals, in percent."""
    leads = [values.get("lead", {}).get(m) for m in MEASURES[1:]]
    words = ["" if one is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*one) for one in leads]
    return [*(f"{100 * values[m]:.1f}" for m in MEASURES), *words]


def _members_blocks(name: str, rows: int, found: dict[str, Any]) -> Iterator[str]:
    """Yield what prototypes add to an ensemble."""
    true, new = next(iter(found.values()))["n_new"]
    yield f"### {name}: as a member, {rows:,} training rows, one seed"
    yield f"{new:,} labels are new: their {true:,} test pairs count as found among ten labels."
    header = ["", *MEASURES, "lead in nDCG@5", "in R@10", "pairs of new labels found"]
    yield table(header, [[title, *_cells(one), f"{100 * one['new_found']:.1f} %"] for title, one in found.items()])


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True, keeps=True)
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--rows", type=int, help="training rows; default: all of TIBKAT, 40,000 of YSO")
    parser.add_argument("--seeds", type=int, default=2)
    more = parser.add_mutually_exclusive_group()
    more.add_argument("--top", action="store_true", help="train the top two layers of MiniLM, too, on fewer rows")
    more.add_argument("--members", action="store_true", help="measure prototypes in an ensemble instead")
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [] if args.report else args.data:
        sizes = TOP_ROWS if args.top else MEMBER_ROWS if args.members else (args.rows or SIZES[name][0], None)
        key = f"{name} {'top' if args.top else 'members' if args.members else sizes[0]}"
        if not PAGE.missing(PAGE.load(args.out, {}), key):
            continue
        data = read_set(name, *(QUICK if args.quick else sizes))
        if args.members:
            measure_members(key, data, args.out)
        else:
            measure(key, data, args.out, args.seeds, TOP if args.top else ROWS)
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, {})))


if __name__ == "__main__":
    main()
