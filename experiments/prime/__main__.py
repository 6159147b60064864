"""PRIME on three sets of short texts: prototypes against a plain dual encoder, parts left out, trees, new labels.

``python -m experiments.prime`` runs what is missing in prime.json of the output folder and writes the page; names of
parts (``main``, ``choice`` ...) run only those, ``--data`` takes some of the sets, ``--report`` only writes the page.
Two hours on one core. Settings were chosen on held-out training rows.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.prime import runs, zero_shot
from experiments.prime.data import SIZES
from experiments.prime.page import DISTINCT, PAGE, page_blocks
from experiments.prime.states import KEPT
from experiments.statistics import compare_seeds
from tagwood import Ranking, evaluate

SEEDS = (0, 1, 2)
MAIN = ("dual encoder, margin 0.1", "dual encoder, margin 0.3", "momentum")
PARTS = ("main", "choice", "family", "ensemble", "minilm", "zero-shot", "ablation")
COMPARED = {
    "PRIME": ["dual encoder, margin 0.1", "dual encoder, margin 0.3"],
    "tree + PRIME": ["linear tree", "PRIME"],
    "minilm: PRIME": ["PRIME", "minilm: dual encoder, margin 0.1", "minilm: dual encoder, margin 0.3"],
    "minilm: tree + PRIME, without the held-out rows": ["linear tree", "minilm: PRIME"],
    "minilm: tree + PRIME": ["linear tree", "minilm: PRIME"],
}
Record = dict[str, Any]
Work = Callable[[], dict[str, Record]]


def jobs(part: str, data: list[str], seeds: list[int], out: Path) -> Iterator[tuple[str, Work]]:
    """Yield (key, work) of a part; work returns records by key."""
    for seed in seeds:
        for name in data:
            if part == "minilm":
                for one in ("main", "choice", "ensemble", "zero-shot", *(() if seed else ("untrained",))):
                    yield from _jobs(one, name, seed, "minilm", out)
            else:
                yield from _jobs(part, name, seed, "bag", out)


def _jobs(part: str, name: str, seed: int, kind: str, out: Path) -> Iterator[tuple[str, Work]]:
    if part in ("main", "ablation"):
        others = [row for row in runs.rows_of(name) if row not in MAIN]
        for row in MAIN if part == "main" else others:
            yield _key(name, row, seed, kind), partial(_row, name, row, seed, kind)
        return
    row, work = {
        "choice": ("PRIME", _choice),
        "family": ("linear tree", _family),
        "ensemble": ("tree + PRIME", _ensemble),
        "zero-shot": ("zero-shot", _zero_shot),
        "untrained": ("not trained", _untrained),
    }[part]
    yield _key(name, row, seed, kind), partial(work, name, seed, kind, out)


def _key(name: str, row: str, seed: int, kind: str) -> str:
    return f"{name}|{row if kind == 'bag' else f'{kind}: {row}'}|{seed}"


def _row(name: str, row: str, seed: int, kind: str) -> dict[str, Record]:
    return _kept_all(name, {row: runs.run_row(name, row, seed, kind)}, seed, kind)


def _choice(name: str, seed: int, kind: str, out: Path) -> dict[str, Record]:
    """Let PRIME choose; the model is the row that it chose: same settings, same seed."""
    row, trials = runs.choose_row(name, seed, kind)
    key, own = (_key(name, one, seed, kind) for one in (row, "PRIME"))
    found = {} if key in PAGE.load(out, {}) else _row(name, row, seed, kind)
    record = found.get(key) or PAGE.load(out, {})[key]
    _keep(own, _kept(key))
    return found | {own: {**record, "chosen": row, "trials": trials}}


def _chosen(name: str, seed: int, kind: str, out: Path) -> str:
    return str(PAGE.load(out, {})[_key(name, "PRIME", seed, kind)]["chosen"])


def _family(name: str, seed: int, kind: str, out: Path) -> dict[str, Record]:
    return _kept_all(name, runs.run_family(name, _chosen(name, seed, kind, out), seed), seed, kind)


def _ensemble(name: str, seed: int, kind: str, out: Path) -> dict[str, Record]:
    return _kept_all(name, runs.run_ensemble(name, _chosen(name, seed, kind, out), seed, kind), seed, kind)


def _untrained(name: str, seed: int, kind: str, out: Path) -> dict[str, Record]:
    return _kept_all(name, {"not trained": runs.run_untrained(name, kind)}, seed, kind)


def _zero_shot(name: str, seed: int, kind: str, out: Path) -> dict[str, Record]:
    return {_key(name, "zero-shot", seed, kind): zero_shot.run_zero_shot(name, seed, kind)}


def _kept_all(name: str, found: runs.Found, seed: int, kind: str) -> dict[str, Record]:
    records = {}
    for row, (record, ranking) in found.items():
        key = _key(name, row, seed, kind)
        _keep(key, ranking)
        records[key] = record
    return records


def _keep(key: str, ranking: Ranking) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    top = ranking.top(5)
    np.savez_compressed(_path(key), indptr=top.indptr, labels=top.labels, scores=top.scores, n_labels=top.n_labels)


def _path(key: str) -> Path:
    return KEPT / f"{key.replace('|', '_').replace('/', '_')}.npz"


def _kept(key: str) -> Ranking:
    with np.load(_path(key)) as file:
        return Ranking(file["indptr"], file["labels"], file["scores"], int(file["n_labels"]))


def differences(store: dict[str, Record], name: str, row: str, others: list[str]) -> None:
    """Add to the records of a row how its P@1, P@5 and PSP@5 differ from those of other rows, with intervals.

    Near-duplicates count once. Rankings that were made elsewhere, and are not kept here, are left out.
    """
    data = runs.the_set(name)
    distinct = data.distinct_test_rows()
    Y = data.Y_test[distinct]
    for other in others:
        seeds = [s for s in SEEDS if all(_path(f"{name}|{r}|{s}").exists() for r in (row, other))]
        if not seeds:
            continue
        one, two = ([_kept(f"{name}|{r}|{s}").rows(distinct) for s in seeds] for r in (other, row))
        found = compare_seeds(Y, one, two, metrics=["P@1", "P@5", "PSP@5"], train_labels=data.Y, threads=1)
        store[f"{name}|{row}|minus {other}"] = {
            "seeds": len(seeds),
            "rows": int(distinct.size),
            **{measure: values[1:] for measure, values in found.items()},
        }


def distinct_precision(store: dict[str, Record], name: str) -> None:
    """Add to the records of a set P@5 on its test rows without near-duplicates."""
    data = runs.the_set(name)
    rows = data.distinct_test_rows()
    for key, record in store.items():
        if key.startswith(f"{name}|") and "P@5" in record and _path(key).exists():
            found = evaluate(data.Y_test[rows], _kept(key).rows(rows), metrics=["P@5"])
            record[DISTINCT] = round(100 * found["P@5"], 3)


def add(out: Path, records: dict[str, Record]) -> dict[str, Record]:
    """Add records to the results, which other processes may write too, and return all."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = dict(sorted({**PAGE.load(out, {}), **records}.items()))
        PAGE.save(out, store)
    return store


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; default all")
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--only", default="", help="run only jobs whose key contains this")
    parser.add_argument("--report", action="store_true", help="only compare rows and write the page")
    args = parser.parse_args()
    if set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(set(args.parts) - set(PARTS)))}; known: {', '.join(PARTS)}")
    torch.set_num_threads(1)
    store = PAGE.load(args.out, {})
    for part in [] if args.report else args.parts or PARTS:
        for key, work in jobs(part, args.data, args.seeds, args.out):
            if key in (store := PAGE.load(args.out, {})) or args.only not in key:
                continue
            began = time.process_time()
            records = work()
            store = add(args.out, records)
            print(key, round(time.process_time() - began, 1), records[key], flush=True)
    if args.report:
        for name in args.data:
            distinct_precision(store, name)
            for row, others in COMPARED.items():
                differences(store, name, row, others)
        store = add(args.out, store)
    PAGE.write(args.out, page_blocks(store))


if __name__ == "__main__":
    main()
