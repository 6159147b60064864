"""PRIME on three sets of short texts: prototypes against a plain dual encoder, parts left out, trees, new labels.

``python -m experiments.prime`` runs what is not in docs/experiments/prime.json yet and writes the page prime.md; names
of parts (``family``, ``main`` ...) run only those, ``--data`` takes some of the sets, ``--report`` writes the page.
About an hour on one core. Settings were chosen on held-out training rows (see the page).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from experiments import prime_runs, prime_zero_shot
from experiments.prime_data import SIZES
from experiments.prime_page import write_page
from tagwood import Ranking, compare

OUT = Path(__file__).parent.parent / "docs" / "experiments"
KEPT = Path(__file__).parent.parent / "build" / "prime"  # rankings, to compare rows with each other
SEEDS = (0, 1, 2)
MAIN = ("dual encoder, margin 0.1", "dual encoder, margin 0.3", "momentum", "leave-one-out", "no centroids")
PARTS = ("family", "main", "zero-shot", "ablation")
Record = dict[str, Any]


def jobs(
    part: str, data: list[str], seeds: list[int]
) -> Iterator[tuple[str, Callable[[], dict[str, Record]]]]:
    """Yield (key, work) of a part; work returns records by key."""
    for seed in seeds:
        for name in data:
            if part == "family":
                yield f"{name}|PRIME|{seed}", lambda n=name, s=seed: _family(n, s)
            elif part == "zero-shot":
                key = f"{name}|zero-shot|{seed}"
                yield key, lambda n=name, s=seed, k=key: {k: prime_zero_shot.run_zero_shot(n, s)}
            else:
                rows = [row for row in prime_runs.rows_of(name) if (row in MAIN) == (part == "main")]
                for row in sorted(rows, key=lambda one: MAIN.index(one) if one in MAIN else 0):
                    key = f"{name}|{row}|{seed}"
                    yield key, lambda n=name, r=row, s=seed: _row(n, r, s)


def _family(name: str, seed: int) -> dict[str, Record]:
    found = {}
    for row, (record, ranking) in prime_runs.run_family(name, seed).items():
        _keep(f"{name}|{row}|{seed}", ranking)
        found[f"{name}|{row}|{seed}"] = record
    return found


def _row(name: str, row: str, seed: int) -> dict[str, Record]:
    key, chosen = f"{name}|{row}|{seed}", load(OUT / "prime.json").get(f"{name}|PRIME|{seed}", {})
    if chosen.get("centroids") == row:  # the same model: same settings, same seed
        _keep(key, _kept(f"{name}|PRIME|{seed}"))
        return {key: {name: value for name, value in chosen.items() if name not in ("centroids", "trials")}}
    record, ranking = prime_runs.run_row(name, row, seed)
    _keep(key, ranking)
    return {key: record}


def _keep(key: str, ranking: Ranking) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    top = ranking.top(5)
    path = KEPT / f"{key.replace('|', '_').replace('/', '_')}.npz"
    np.savez_compressed(path, indptr=top.indptr, labels=top.labels, scores=top.scores, n_labels=top.n_labels)


def _kept(key: str) -> Ranking:
    with np.load(KEPT / f"{key.replace('|', '_').replace('/', '_')}.npz") as file:
        return Ranking(file["indptr"], file["labels"], file["scores"], int(file["n_labels"]))


def differences(store: dict[str, Record], name: str, row: str, others: list[str]) -> None:
    """Add to the records of a row how its P@1, P@5 and PSP@5 differ from those of other rows, with intervals.

    Rankings of all seeds are put below each other: intervals are over test rows and seeds.
    """
    data = prime_runs.the_set(name)
    Y = data.Y_test
    for other in others:
        seeds = [s for s in SEEDS if f"{name}|{row}|{s}" in store and f"{name}|{other}|{s}" in store]
        if not seeds:
            continue
        one, two = (_below([_kept(f"{name}|{r}|{s}") for s in seeds]) for r in (other, row))
        true = sparse.vstack([Y] * len(seeds), format="csr")
        found = compare(true, one, two, metrics=["P@1", "P@5", "PSP@5"], train_labels=data.Y, threads=1)
        store[f"{name}|{row}|minus {other}"] = {
            "seeds": len(seeds),
            **{d.name: [round(100 * v, 3) for v in (d.difference, d.low, d.high)] for d in found.differences},
        }


def _below(rankings: list[Ranking]) -> Ranking:
    ends = np.cumsum([0, *(ranking.labels.size for ranking in rankings)])
    indptr = [ranking.indptr[1:] + end for ranking, end in zip(rankings, ends, strict=False)]
    parts = [np.concatenate([getattr(r, name) for r in rankings]) for name in ("labels", "scores")]
    return Ranking(np.concatenate([[0], *indptr]), *parts, rankings[0].n_labels)


def load(file: Path) -> dict[str, Record]:
    """Return the records so far."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def add(file: Path, records: dict[str, Record]) -> dict[str, Record]:
    """Add records to the file, which other processes may write too, and return all."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = {**load(file), **records}
        file.write_text(
            json.dumps(store, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return store


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; default all")
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--only", default="", help="run only jobs whose key holds this")
    parser.add_argument("--report", action="store_true", help="write the page from what was measured")
    args = parser.parse_args()
    if set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(set(args.parts) - set(PARTS)))}; known: {', '.join(PARTS)}")
    torch.set_num_threads(1)
    file = OUT / "prime.json"
    store = load(file)
    for part in [] if args.report else args.parts or PARTS:
        for key, work in jobs(part, args.data, args.seeds):
            if key in (store := load(file)) or args.only not in key:
                continue
            began = time.process_time()
            records = work()
            store = add(file, records)
            print(key, round(time.process_time() - began, 1), records[key], flush=True)
    if args.report:
        for name in args.data:
            differences(store, name, "momentum", ["dual encoder, margin 0.1", "dual encoder, margin 0.3"])
            differences(store, name, "tree + PRIME", ["linear tree", "PRIME"])
        store = add(file, {key: record for key, record in store.items() if "|minus " in key})
    write_page(store, OUT)


if __name__ == "__main__":
    main()
