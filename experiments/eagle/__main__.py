"""EAGLE's tables and figures on our data: learning from labels that are known only for groups of rows.

``python -m experiments.eagle`` runs what is missing in eagle.json of the output folder and writes the page; names of
parts (``table2``, ``table3`` ...) run only those, ``--report`` only writes the page. Under an hour on one core;
``--quick`` takes few rows of one set for each part, ``--cluster local`` computes runs on all cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from experiments.eagle import miml, xmc
from experiments.eagle.page import PAGE, page_blocks
from experiments.tasks import add_cluster, run_calls

PARTS = ("figure3", "table2", "background", "corpus", "figure4", "table3")


def jobs(part: str, store: dict[str, dict[str, Any]], quick: bool) -> Iterator[list[xmc.Job]]:
    """Yield the jobs of a part, in lists of jobs that do not need each other's results."""
    if part == "table2":
        for name, parts in (xmc.QUICK if quick else xmc.SETS).items():
            yield [job for one in parts for job in xmc.table2(name, one)]
    elif part == "table3":
        for name in miml.IMAGES[:1] if quick else (*miml.IMAGES, "docstrings"):
            yield from miml.table3(store, name, quick)
    elif part in ("figure4", "background"):
        n_rows = xmc.QUICK_ROWS if quick else None
        yield list(xmc.figure4(n_rows) if part == "figure4" else xmc.background(n_rows))
    else:
        yield list(getattr(xmc, part)())


def in_words(key: str) -> str:
    """Return a key as it is typed and printed: with spaces, since a bar would end a cell of a Markdown table."""
    return key.replace("|", " ")


def beginnings(keys: list[str]) -> str:
    """Return how keys begin.

    Examples
    --------
    >>> beginnings(["table2|delicious|R-4|0|auto", "table2|delicious|R-4|1|auto", "table2|delicious|R-10|0|auto"])
    'table2 delicious R-4, table2 delicious R-10'
    """
    return ", ".join(dict.fromkeys(" ".join(key.split("|")[:3]) for key in keys))


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True, keeps=True)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; default all")
    parser.add_argument("--only", default="", help='run only jobs whose key contains this, as in "table3 mnist 50"')
    parser.add_argument("--report", action="store_true", help="only write the page from earlier results")
    add_cluster(parser)
    args = parser.parse_args()
    if set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(set(args.parts) - set(PARTS)))}; known: {', '.join(PARTS)}")
    torch.set_num_threads(1)
    store: dict[str, dict[str, Any]] = PAGE.load(args.out, {})
    only, seen = in_words(args.only), []
    for part in [] if args.report else args.parts or PARTS:
        for together in jobs(part, store, args.quick):
            seen += [key for key, _ in together]
            missing = [(key, call) for key, call in together if only in in_words(key) and PAGE.missing(store, key)]
            for place, run in run_calls([call for _, call in missing], args.cluster):
                key = missing[place][0]
                store[key] = {**run.result, "cpu_seconds": run.cpu_seconds}
                PAGE.save(args.out, store)
                print(in_words(key), store[key], flush=True)
    if seen and not any(only in in_words(key) for key in seen):
        parser.error(f"no key contains {only!r}; keys begin with: {beginnings(seen)}")
    args.out.mkdir(parents=True, exist_ok=True)
    PAGE.write(args.out, page_blocks(store, args.out))


if __name__ == "__main__":
    main()
