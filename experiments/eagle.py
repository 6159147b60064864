"""EAGLE's tables and figures on our data: learning from labels that are known only for groups of rows.

``python -m experiments.eagle`` runs what is not in docs/experiments/eagle.json yet and writes the page eagle.md; names
of parts (``table2``, ``table3`` ...) run only those, ``--report`` only writes the page. Under an hour on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from experiments import eagle_miml, eagle_xmc
from experiments.eagle_page import write_page

OUT = Path(__file__).parent.parent / "docs" / "experiments"
PARTS = ("figure3", "choice", "margins", "table2", "background", "corpus", "figure4", "table3")


def jobs(part: str, store: dict[str, dict[str, Any]]) -> Iterator[eagle_xmc.Job]:
    """Yield the jobs of a part."""
    if part == "table2":
        for name, parts in eagle_xmc.SETS.items():
            for one in parts:
                yield from eagle_xmc.table2(name, one)
    elif part == "table3":
        for name in (*eagle_miml.IMAGES, "docstrings"):
            yield from eagle_miml.table3(store, name)
    else:
        yield from getattr(eagle_xmc, part)()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; default all")
    parser.add_argument("--only", default="", help="run only jobs whose key holds this")
    parser.add_argument("--report", action="store_true", help="write the page from what was measured")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(set(args.parts) - set(PARTS)))}; known: {', '.join(PARTS)}")
    torch.set_num_threads(1)
    file = args.out / "eagle.json"
    store: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for part in [] if args.report else args.parts or PARTS:
        for key, run in jobs(part, store):
            if key in store or args.only not in key:
                continue
            began = time.process_time()
            store[key] = {**run(), "cpu_seconds": round(time.process_time() - began, 1)}
            file.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(key, store[key], flush=True)
    write_page(store, args.out)


if __name__ == "__main__":
    main()
