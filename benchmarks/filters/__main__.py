"""CPU time of a call with a label filter or after changes of labels: ``python -m benchmarks.filters``.

A synthetic catalogue of products is queried one text at a time. Plain calls and the others take turns, on one thread; a
figure is the median over rounds of the ratio of CPU times. Also: how often a filtered beam returns the same labels as
an exact search among the allowed ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.filters.pecos import measure_pecos
from benchmarks.report import Page, machine, machine_line, table
from benchmarks.synthetic import Problem, power_law
from tagwood import LinearTree, Tagger
from tagwood.data import Dataset
from tagwood.models.label_filter import LabelFilter
from tagwood.tagger import SetRules
from tagwood.tagger.fitting import label_sets

PAGE = Page("benchmarks", "filters")
_K = 5


def make_problem(n_labels: int, n_queries: int) -> Problem:
    """Return rows of about 12 words with about two labels each."""
    sizes = (int(0.55 * n_labels), n_queries, n_labels, min(200_000, n_labels))
    return power_law(*sizes, labels_per_row=2.0, nnz_per_row=12.0, noise=0.3)


def as_texts(X: Any) -> list[str]:
    """Return the rows as texts with a word for each feature."""
    return [" ".join(f"w{word}" for word in X.indices[X.indptr[row] : X.indptr[row + 1]]) for row in range(X.shape[0])]


def train(problem: Problem, quality: str) -> Tagger:
    """Train a Tagger whose labels are called by numbers with gaps, as products are."""
    tagger = Tagger(model=LinearTree(), quality=quality, sets=SetRules(refit=False), keep_texts=0)
    return tagger.fit(as_texts(problem.X_train), as_ids(problem.Y_train))


def as_ids(Y: Any) -> list[list[int]]:
    """Return the labels of the rows as numbers with gaps."""
    return [(Y.indices[Y.indptr[row] : Y.indptr[row + 1]] * 1009 + 7).tolist() for row in range(Y.shape[0])]


def load_or_train(problem: Problem, quality: str, folder: Path) -> Tagger:
    """Return the model of a folder, or train it and save it there."""
    if not folder.exists():
        train(problem, quality).save(folder)
    tagger = Tagger.load(folder)
    for part in (tagger.encoder_, tagger.model_, *(m.model for m in getattr(tagger.model_, "members_", ()))):
        if hasattr(part, "threads"):
            part.threads = 1
    return tagger


def changed_taggers(problem: Problem, quality: str, folder: Path) -> dict[str, Tagger]:
    """Return the model of a folder after changes of its labels, by title; each is loaded for itself."""

    def load() -> Tagger:
        return load_or_train(problem, quality, folder)

    n_labels, texts = len(load().vocab_), as_texts(problem.X_train[:1_000])
    some_rows = slice(min(problem.X_train.shape[0], 20_000))  # the others say nothing about new labels
    old_ids = as_ids(problem.Y_train[some_rows])
    old = Dataset(*label_sets(old_ids, load().vocab_), texts=as_texts(problem.X_train[some_rows]))
    described = {3_000_000_000 + number: f"{text} new{number}" for number, text in enumerate(texts)}
    found = {}
    for n_new in (1, len(texts)):
        some = dict(list(described.items())[:n_new])
        found[f"{n_new:,} labels added by name"] = load().update_labels(texts=some)
        new_ids = [[2_000_000_000 + number] for number in range(n_new)]
        found[f"{n_new:,} labels added with rows"] = load().update(texts[:n_new], new_ids, old=old)
    chosen = np.random.default_rng(2).choice(n_labels, min(10_000, n_labels // 10), replace=False).tolist()
    title = f"{len(chosen):,} labels"
    found[f"{title} masked"] = load().update_labels(mask=[load().vocab_.label_id(row) for row in chosen])
    found[f"{title} removed"] = load().update_labels(vocab=load().vocab_.remove(chosen))
    both = load().update_labels(vocab=load().vocab_.remove(chosen), texts=described)
    return found | {f"{title} removed, {len(described):,} added by name": both}


def filter_jobs(tagger: Tagger, sizes: list[int]) -> dict[str, dict[str, Any]]:
    """Return options of `tag_one` by title."""
    rng = np.random.default_rng(0)
    n_labels = len(tagger.vocab_)
    sets = {size: np.sort(rng.choice(n_labels, size, replace=False)) for size in sizes if size < n_labels}
    some = min(10_000, n_labels // 10)
    rows = np.sort(rng.choice(n_labels, some, replace=False))
    ids = np.array([tagger.vocab_.label_id(int(row)) for row in rows])
    mask = np.zeros(n_labels, dtype=bool)
    mask[rows] = True
    jobs: dict[str, dict[str, Any]] = {"plain": {}}
    for size, own in sets.items():
        jobs[f"restrict to {size:,}, prepared"] = {"restrict": LabelFilter.of(own, n_labels)}
    prepared = tagger.label_filter(ids)
    other = LabelFilter.of(rng.choice(n_labels, n_labels // 2, replace=False), n_labels)
    jobs[f"exclude {some:,}, prepared"] = {"exclude": prepared}
    jobs["restrict to half and exclude, both prepared"] = {"restrict": other, "exclude": prepared}
    jobs[f"restrict to {some:,}, NumPy ids in each call"] = {"restrict": ids}
    jobs[f"restrict to {some:,}, a mask in each call"] = {"restrict": mask}
    jobs[f"restrict to {some:,}, a list of ids in each call"] = {"restrict": ids.tolist()}
    return jobs


def cpu_ratios(calls: dict[str, Callable[[str], object]], texts: list[str], rounds: int) -> dict[str, Any]:
    """Return CPU milliseconds of one text and the ratio to the plain call: medians over rounds of interleaved runs."""
    times: dict[str, list[float]] = {title: [] for title in calls}
    for turn in range(rounds + 1):
        for title, call in calls.items():
            some = texts[: 20 if "each call" in title else len(texts)]
            spent = _cpu(lambda some=some, call=call: [call(text) for text in some])
            if turn:  # the first round prepares
                times[title].append(1e3 * spent / len(some))
    plain = np.array(times["plain"])
    return {
        title: {"cpu_ms": float(np.median(spent)), "ratio": float(np.median(np.array(spent) / plain))}
        for title, spent in times.items()
    }


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def agreement(tagger: Tagger, texts: list[str], allowed: LabelFilter) -> float:
    """Return the share of the labels of an exact search among the allowed ones that the filtered beam returns."""
    model = tagger.model_
    X = tagger.encoder_.transform(texts)
    beam = model.rank(X, _K, restrict=allowed)  # type: ignore[call-arg]
    exact = model.rank(X, _K, restrict=allowed, search="exact")  # type: ignore[call-arg]
    found = [len({one for one, _ in beam[row]} & {one for one, _ in exact[row]}) for row in range(len(texts))]
    return float(np.sum(found) / max(1, exact.labels.size))


def measure(n_labels: int, quality: str, cache: Path, rounds: int) -> dict[str, Any]:
    """Measure one model."""
    problem = make_problem(n_labels, 200)
    tagger = load_or_train(problem, quality, cache / f"{quality}-{n_labels}")
    texts = as_texts(problem.X_test)
    jobs = filter_jobs(tagger, [1_000, 10_000, 100_000, 500_000])
    result: dict[str, Any] = {"n_labels": n_labels, "quality": quality}
    calls = {title: partial(tagger.tag_one, k=_K, **options) for title, options in jobs.items()}
    result["calls"] = cpu_ratios(calls, texts, rounds)
    changed = {"plain": tagger, **changed_taggers(problem, quality, cache / f"{quality}-{n_labels}")}
    calls = {title: partial(other.tag_one, k=_K) for title, other in changed.items()}
    result["changes"] = cpu_ratios(calls, texts, rounds)
    if quality == "fast":
        prepared = {title: job["restrict"] for title, job in jobs.items() if "to " in title and ", prepared" in title}
        result["agreement"] = {title: agreement(tagger, texts, allowed) for title, allowed in prepared.items()}
    return result


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--fused-labels", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=Path("build/filters"), help="folder for the trained models")
    parser.add_argument("--pecos", type=int, default=0, metavar="LABELS", help="also PECOS beside tagwood")
    args = parser.parse_args()
    runs = [(args.labels, "fast"), (args.fused_labels, "fast"), (args.fused_labels, "balanced")]
    result = {"machine": machine(), "models": [measure(*run, args.cache, args.rounds) for run in runs]}
    if args.pecos:
        result["models"].append(measure(args.pecos, "fast", args.cache, args.rounds))
        result["pecos"] = measure_pecos(make_problem(args.pecos, 200), args.cache / "pecos")
    PAGE.save(args.out, result)
    PAGE.write(args.out, page_blocks(result))


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield the tables."""
    yield f"{machine_line(result['machine'])} Ratios are of interleaved runs."
    for model in result["models"]:
        yield f"**{model['n_labels']:,} labels, quality {model['quality']}**, one text, one thread"
        same = model.get("agreement", {})
        rows = [
            [
                title,
                f"{found['cpu_ms']:.2f}",
                f"{found['ratio']:.2f}",
                f"{100 * same[title]:.0f}" if title in same else "",
            ]
            for title, found in model["calls"].items()
        ]
        yield table(["call", "CPU ms", "× plain", "% of the exact search's labels"], rows)
        changes = [[t, f"{v['cpu_ms']:.2f}", f"{v['ratio']:.2f}"] for t, v in model["changes"].items()]
        yield table(["plain call after", "CPU ms", "× plain"], changes)
    if "pecos" in result:
        found = result["pecos"]
        yield f"**PECOS**, {found['n_labels']:,} labels, `selected_outputs_csr` of one row"
        yield table(
            ["call", "CPU ms", "× plain"], [[t, f"{v[0]:.2f}", f"{v[1]:.2f}"] for t, v in found["calls"].items()]
        )


if __name__ == "__main__":
    main()
