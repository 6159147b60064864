"""Updates against full training, and a day of a shop: ``python -m benchmarks.updates``.

1. One per cent of the rows come late: CPU time and P@5 of `Tagger.update` and of a full training, over several splits.
2. A day of a shop, with titles of a library as queries and its subjects as products: every hour brings new rows, new
labels and removed ones; P@5 of updates, of full training every hour and of doing nothing, for the labels that exist at
the time. Rows are training rows of the set, some of them held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.quality.data import SETS, Split
from benchmarks.report import Page, machine, machine_line, replace_row, table
from tagwood import LabelVocab, LinearTree, Ranking, Tagger
from tagwood.data import Dataset
from tagwood.metrics import evaluate
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("benchmarks", "updates")
HOURS = 24
LATE = {
    "yso": ("yso", "fast"),
    "tibkat": ("tibkat", "fast"),
    "debian": ("debian", "fast"),
    "yso-balanced": ("yso", "balanced"),
}
_LATE = 0.01


def new_tagger(quality: str) -> Tagger:
    """Return an unfitted Tagger of a quality, on one thread."""
    return Tagger(model=LinearTree(threads=1), quality=quality, keep_texts=0)


def cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the CPU seconds it took."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def precision(tagger: Tagger, texts: list[str], Y: sparse.csr_array) -> float:
    """Return P@5 in points."""
    ranking = tagger.rank(texts, 5)
    n_labels = max(Y.shape[1], ranking.n_labels)
    wide = sparse.csr_array(Y)
    wide.resize((Y.shape[0], n_labels))
    whole = Ranking(ranking.indptr, ranking.labels, ranking.scores, n_labels)
    return 100 * float(evaluate(wide, whole, metrics=["P@5"])["P@5"])


def late_rows(name: str, quality: str, rows: int, seeds: int) -> dict[str, Any]:
    """Compare an update by one per cent of the rows with a full training, over several splits."""
    runs = [_late_rows(SETS[name].split(seed, rows), quality) for seed in range(seeds)]
    return {"set": SETS[name].title, "quality": quality, "runs": runs}


def _late_rows(split: Split, quality: str) -> dict[str, Any]:
    n_old = round((1 - _LATE) * len(split.texts))
    old, new = (
        Dataset(split.Y[part], split.vocab, texts=split.texts[part]) for part in (slice(n_old), slice(n_old, None))
    )
    full, full_cpu = cpu(lambda: new_tagger(quality).fit(split.texts, split.Y, vocab=split.vocab))
    found: dict[str, Any] = {"rows": len(split.texts), "new_rows": new.n_rows}
    found |= {"full": precision(full, split.test_texts, split.Y_test), "full_cpu": full_cpu}
    tagger = new_tagger(quality).fit(old)
    found["nothing"] = precision(tagger, split.test_texts, split.Y_test)
    _, found["update_cpu"] = cpu(lambda: tagger.update(new, old=old))
    found["update"] = precision(tagger, split.test_texts, split.Y_test)
    return found


class Hour(NamedTuple):
    """Rows that come in an hour, labels that begin with it, and labels that end with it."""

    rows: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def plan_day(split: Split, seed: int = 0) -> tuple[NDArray[np.int64], list[Hour], NDArray[np.int64]]:
    """Return the rows of the first training, the hours, and the labels that exist from the start.

    A tenth of the labels begin during the day, and a twentieth of the others end. Rows with a label that begins come
    in its hour or later; the first training has two thirds of the others.
    """
    rng = np.random.default_rng(seed)
    n_labels = split.Y.shape[1]
    used = rng.permutation(np.flatnonzero(np.bincount(split.Y.indices, minlength=n_labels)))
    n_new = used.size // 10
    begins = np.full(n_labels, -1)
    begins[used[:n_new]] = np.arange(n_new) % HOURS
    ends = np.array_split(used[n_new : n_new + used.size // 20], HOURS)
    first = np.array([begins[row.indices].max(initial=-1) for row in split.Y])
    arrives = np.where(
        first < 0,
        np.where(rng.random(first.size) < 2 / 3, -1, rng.integers(0, HOURS, first.size)),
        rng.integers(np.maximum(first, 0), HOURS),
    )
    hours = [Hour(np.flatnonzero(arrives == h), np.flatnonzero(begins == h), ends[h]) for h in range(HOURS)]
    return np.flatnonzero(arrives < 0), hours, np.sort(used[begins[used] < 0])


def shop_day(split: Split) -> dict[str, Any]:
    """Return P@5 by hour, and CPU seconds of the whole day, of three ways to live with new labels."""
    start, hours, first_labels = plan_day(split)
    order = np.concatenate([first_labels, *(hour.begin for hour in hours)])  # labels in order of appearance
    Y, Y_test = sparse.csr_array(split.Y[:, order]), sparse.csr_array(split.Y_test[:, order])
    names = [split.vocab.uri(int(label)) or str(label) for label in order]
    place = np.zeros(split.Y.shape[1], dtype=np.int64)
    place[order] = np.arange(order.size)
    vocab = LabelVocab.from_names(names[: first_labels.size])
    base, n_live = _rows(split, Y, start, vocab), first_labels.size
    taggers = {way: new_tagger("fast").fit(base) for way in ("update", "nothing")}
    seconds, curves = dict.fromkeys(("update", "full"), 0.0), {way: [] for way in ("update", "full", "nothing")}
    seen, gone = start, np.empty(0, dtype=np.int64)
    for hour in hours:
        n_live += hour.begin.size
        grown = LabelVocab.from_names(names[:n_live])
        gone = np.append(gone, place[hour.end])
        live = grown.remove(gone.tolist())
        new, old = _rows(split, Y, hour.rows, live), _rows(split, Y, seen, live)
        seen = np.append(seen, hour.rows)
        _, spent = cpu(lambda new=new, old=old: taggers["update"].update(new, old=old))
        seconds["update"] += spent
        everything = _rows(split, Y, seen, live)
        full, spent = cpu(lambda everything=everything: new_tagger("fast").fit(everything))
        seconds["full"] += spent
        taggers["nothing"].update_labels(mask=[int(one) for one in place[hour.end]])
        truth = Y_test[:, :n_live] @ sparse.diags_array((~live.removed_mask()).astype(np.float32))
        truth = sparse.csr_array(truth)
        truth.eliminate_zeros()
        use = np.flatnonzero(np.diff(truth.indptr))
        texts = [split.test_texts[row] for row in use]
        for way, tagger in {**taggers, "full": full}.items():
            curves[way].append(precision(tagger, texts, truth[use]))
    facts = {"rows": int(start.size), "new_rows": int(seen.size - start.size), "labels": int(first_labels.size)}
    return {**facts, "new_labels": int(n_live - first_labels.size), "removed": int(gone.size)} | {
        "hours": curves,
        "cpu": seconds,
    }


def _rows(split: Split, Y: sparse.csr_array, rows: NDArray[np.int64], vocab: LabelVocab) -> Dataset:
    return Dataset(sparse.csr_array(Y[rows][:, : len(vocab)]), vocab, texts=[split.texts[row] for row in rows])


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--rows", type=int, default=30_000, help="rows of a set, held-out ones included")
    parser.add_argument("--seeds", type=int, default=4, help="splits")
    parser.add_argument("--day-rows", type=int, default=30_000, help="0 keeps the day that was measured before")
    parser.add_argument("--sets", nargs="*", choices=LATE, default=list(LATE), help="the others keep their lines")
    args = parser.parse_args()
    result: dict[str, Any] = PAGE.load(args.out, {"late": []}) | {"machine": machine()}
    for title in args.sets:
        found = late_rows(*LATE[title], args.rows, args.seeds)
        result["late"] = replace_row(result["late"], found, ["set", "quality"])
    if args.day_rows:
        result["day"] = shop_day(SETS["yso"].split(0, args.day_rows))
    PAGE.save(args.out, result)
    (args.out / "updates.svg").write_text(day_chart(result["day"]), encoding="utf-8")
    PAGE.write(args.out, page_blocks(result))


def day_chart(day: dict[str, Any]) -> str:
    """Return the figure of the day."""
    titles = {"full": "full training every hour", "update": "update every hour", "nothing": "nothing"}
    curves = {title: [Mark(h + 1, p) for h, p in enumerate(day["hours"][way])] for way, title in titles.items()}
    return chart_svg(Chart("A day of a shop: P@5 of the labels of the hour", "hour", "P@5, %", curves))


def late_line(one: dict[str, Any]) -> list[str]:
    """Return a line of the table: means over splits, and the difference with its standard error."""
    runs = one["runs"]
    mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    lost = np.array([run["update"] - run["full"] for run in runs])
    return [
        one["set"],
        one["quality"],
        f"{runs[0]['rows']:,}",
        str(len(runs)),
        *(f"{mean[way]:.2f}" for way in ("nothing", "update", "full")),
        f"{lost.mean():+.2f} ± {lost.std(ddof=1) / np.sqrt(lost.size):.2f}",
        f"{mean['update_cpu']:.2f}",
        f"{mean['full_cpu']:.1f}",
        f"{100 * mean['update_cpu'] / mean['full_cpu']:.1f} %",
    ]


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield the tables and the figure."""
    yield machine_line(result["machine"])
    header = ["set", "quality", "rows", "splits", "P@5 before", "update", "full", "update - full"]
    yield "**One per cent of the rows come late**\n\n" + table(
        [*header, "CPU s update", "CPU s full", "share"], [late_line(one) for one in result["late"]]
    )
    day = result["day"]
    yield (
        f"**A day of a shop**: {day['rows']:,} rows and {day['labels']:,} labels at first; in 24 hours "
        f"{day['new_rows']:,} rows and {day['new_labels']:,} labels come, {day['removed']:,} labels end. "
        f"CPU of the day: updates {day['cpu']['update']:.0f} s, full training every hour {day['cpu']['full']:.0f} s."
    )
    yield "![P@5 by hour](updates.svg)"
    some = [0, 5, 11, 17, 23]
    lines = [[way, *(f"{day['hours'][way][h]:.2f}" for h in some)] for way in ("full", "update", "nothing")]
    yield table(["P@5 at hour", *(str(h + 1) for h in some)], lines)


if __name__ == "__main__":
    main()
