"""The process that trains and measures Taggers on one split, started by `benchmarks.quality`.

In: a job as JSON, ``{"step": "qualities" | "unseen", "set", "seed", "limit", ...}``. Out: figures as JSON, in percent
where they are shares.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.measure import Meter, folder_mb, latencies_ms, least_cpu_seconds
from benchmarks.quality.data import SETS, Split, without_labels
from tagwood import LinearTree, Tagger
from tagwood.metrics import LabelCounts, evaluate
from tagwood.models.ensemble import Ensemble
from tagwood.models.ensemble.members import Inputs
from tagwood.ranking import Ranking

RANKED = ["P@1", "P@5", "nDCG@5", "nDCG@20", "R@10", "PSP@5", "example-F1@5"]
SETS_MEASURE = "micro-F1"
SEEN = ["P@1", "R@10"]  # of rows without new labels, before and after these are added
K = 50
SINGLE_TEXTS = 500
RESAMPLES = 60


class Answers(NamedTuple):
    """The ranking of the held-out rows, and their label sets by ``promise="f1"``."""

    ranking: Ranking
    sets: Ranking

    def measures(self, Y: sparse.csr_array, counts: LabelCounts) -> dict[str, float]:
        """Return all measures in percent."""
        ranked = evaluate(Y, self.ranking, metrics=RANKED, train_labels=counts)
        sets = evaluate(Y, self.sets, metrics=[SETS_MEASURE])
        found = {name: 100 * float(ranked[name]) for name in RANKED}
        return found | {SETS_MEASURE: 100 * float(sets[SETS_MEASURE])}

    def rows(self, index: Any) -> Answers:
        """Return some rows."""
        return Answers(self.ranking.rows(index), self.sets.rows(index))


def new_tagger(quality: str, threads: int = 1) -> Tagger:
    """Return the Tagger of a quality."""
    return Tagger(model=LinearTree(threads=threads), quality=quality)


def measure_qualities(split: Split, qualities: list[str], threads: int = 1) -> dict[str, Any]:
    """Train a Tagger of each quality and measure all of them on the held-out rows."""
    counts = LabelCounts.of(split.Y)
    found: dict[str, Any] = {}
    answers: dict[str, Answers] = {}
    for quality in qualities:
        print(f"{quality}: training on {len(split.texts):,} rows", flush=True)
        tagger = new_tagger(quality, threads)
        with Meter() as meter:
            tagger.fit(split.texts, split.Y, vocab=split.vocab)
        found[quality] = {**meter.as_dict("train"), **costs(tagger, split.test_texts)}
        ranking = tagger.rank(split.test_texts, K)
        answers[quality] = Answers(ranking, tagger.cut(ranking, "f1")[0])
        found[quality] |= answers[quality].measures(split.Y_test, counts)
        if isinstance(tagger.model_, Ensemble):
            found[quality]["fusion"] = type(tagger.model_.fusion_).__name__
            found[quality]["members"] = measure_members(tagger, split, counts)
        if tagger.measures_ is not None:
            found[quality]["estimate"] = 100 * tagger.measures_.values["nDCG@5"]
        print(json.dumps(found[quality]), flush=True)
    for quality in qualities[1:]:
        first = answers[qualities[0]]
        found[quality]["gain"] = gains(first, answers[quality], split.Y_test, counts)
    return found


def costs(tagger: Tagger, texts: list[str]) -> dict[str, float]:
    """Save and load the Tagger; return its size and how fast the loaded one is."""
    with tempfile.TemporaryDirectory() as folder:
        tagger.save(Path(folder) / "model")
        size = folder_mb(Path(folder) / "model")
        loaded = Tagger.load(Path(folder) / "model")
        single = latencies_ms(lambda text: loaded.tag_one(text, 5), texts[:SINGLE_TEXTS])
        times = [least_cpu_seconds(lambda text=text: loaded.tag_one(text, 5)) for text in texts[:SINGLE_TEXTS]]
        with Meter() as meter:
            loaded.tag(texts, 5)
    return {
        "disk_mb": size,
        "p50_ms": single["p50_ms"],
        "p50_cpu_ms": 1e3 * float(np.median(times)),
        "rows_per_cpu_s": len(texts) / meter.cpu,
    }


def measure_members(tagger: Tagger, split: Split, counts: LabelCounts) -> list[dict[str, Any]]:
    """Return what each member reaches alone on the held-out rows, and its report."""
    model = tagger.model_
    assert isinstance(model, Ensemble)
    inputs = Inputs.encode(model.members_, model.encoder_, split.test_texts)
    alone = {
        member.name: evaluate(split.Y_test, member.rank(own, K), metrics=RANKED, train_labels=counts)
        for member, own in zip(model.members_, inputs.of, strict=True)
    }
    return [
        {
            "name": report.name,
            "used": report.used,
            "lost": 100 * report.lost,
            "train_cpu": report.seconds,
            "held_out_alone": 100 * report.alone,
            **{name: 100 * float(alone[report.name][name]) for name in RANKED if report.name in alone},
        }
        for report in tagger.members()
    ]


def gains(first: Answers, second: Answers, Y: sparse.csr_array, counts: LabelCounts) -> dict[str, list[float]]:
    """Return the difference of the second to the first in each measure, and the half width of its 95 % interval.

    Both are measured on the same resampled rows.
    """
    before, after = first.measures(Y, counts), second.measures(Y, counts)
    rng = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {name: [] for name in before}
    for _ in range(RESAMPLES):
        rows = rng.integers(Y.shape[0], size=Y.shape[0])
        low, high = (one.rows(rows).measures(Y[rows], counts) for one in (first, second))
        for name, values in drawn.items():
            values.append(high[name] - low[name])
    return {name: [after[name] - before[name], 1.96 * float(np.std(drawn[name]))] for name in before}


def measure_unseen(split: Split, seed: int, qualities: list[str]) -> dict[str, Any]:
    """Train without a tenth of the labels, add them by their names, and measure how they are found."""
    unseen = without_labels(split, seed)
    n_old = len(unseen.split.vocab)
    new = np.arange(n_old, n_old + len(unseen.new_names))
    rows_new = np.flatnonzero(np.diff(unseen.Y_test[:, new].indptr))
    mask = np.zeros(unseen.Y_test.shape[1], dtype=np.float32)
    mask[new] = 1
    Y_new = sparse.csr_array(unseen.Y_test[rows_new] @ sparse.diags_array(mask))
    Y_new.eliminate_zeros()
    rows_old = np.setdiff1d(np.flatnonzero(np.diff(unseen.Y_test.indptr)), rows_new)
    found: dict[str, Any] = {"labels": len(new), "rows": int(rows_new.size)}
    texts = split.test_texts
    texts_new, texts_old = ([texts[row] for row in rows] for rows in (rows_new, rows_old))
    for quality in qualities:
        print(f"{quality}: training without {len(new):,} labels", flush=True)
        tagger = new_tagger(quality).fit(unseen.split.texts, unseen.split.Y, vocab=unseen.split.vocab)
        before = evaluate(unseen.split.Y_test[rows_old], tagger.rank(texts_old, 10), metrics=SEEN)
        tagger.update_labels(texts={name: name for name in unseen.new_names})
        after = evaluate(unseen.Y_test[rows_old], tagger.rank(texts_old, 10), metrics=SEEN)
        recall = evaluate(Y_new, tagger.rank(texts_new, 10), metrics=["R@10"])
        found[quality] = {
            "R@10": 100 * float(recall["R@10"]),
            "before": {name: 100 * float(before[name]) for name in SEEN},
            "after": {name: 100 * float(after[name]) for name in SEEN},
        }
        print(json.dumps(found[quality]), flush=True)
    return found


def main() -> None:
    job = json.loads(sys.argv[1])
    split = SETS[job["set"]].split(job["seed"], job["limit"])
    if job["step"] == "unseen":
        figures = measure_unseen(split, job["seed"], job["qualities"])
    else:
        figures = measure_qualities(split, job["qualities"], job["threads"])
    figures |= {
        "n_train": len(split.texts),
        "n_test": len(split.test_texts),
        "n_labels": int(np.count_nonzero(np.bincount(split.Y.indices))),
    }
    Path(job["answer"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
