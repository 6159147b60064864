"""The qualities of a Tagger beside each other, and beside Annif: ``python -m benchmarks.quality``.

In: training rows of the sets of ../shared/data, of which a part is held out; missing sets are skipped by name. Every
split is measured in its own process on one core. Results are saved after each step, and results of earlier runs in the
same folder are kept, so that a run can be continued set by set.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import CACHE
from benchmarks.measure import JobFailedError, run_job
from benchmarks.peers import interpreter, version
from benchmarks.quality import annif
from benchmarks.quality.data import SETS
from benchmarks.quality.tables import page_blocks
from benchmarks.report import Page, machine, replace_row

PAGE = Page("benchmarks", "quality")
QUICK_ROWS = 3_000
STEPS = ("qualities", "unseen")


def parse() -> argparse.Namespace:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--best", action="store_true", help='also train quality="best"')
    parser.add_argument("--annif", action="store_true", help="also train Annif on TIBKAT, with the first seed")
    parser.add_argument("--rows", type=int, default=0, help="rows of each set; default all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows and one seed, to try it out")
    parser.add_argument("--threads", type=int, default=1, help="of training and answers; published times are of one")
    parser.add_argument("--minutes", type=float, default=60, help="time limit of a step")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.seeds = options.rows or QUICK_ROWS, options.seeds[:1]
    return options


def run_steps(options: argparse.Namespace, content: dict[str, Any]) -> None:
    """Measure all sets, seeds and steps; labels never seen are measured with the first seed only."""
    qualities = ["fast", "balanced", *(["best"] if options.best else [])]
    for name in options.sets:
        if not SETS[name].path.exists():
            print(f"skipped: {SETS[name].folder} is not in ../shared/data", flush=True)
            continue
        for seed in options.seeds:
            for step in options.steps:
                if step == "unseen" and seed != options.seeds[0]:
                    continue
                print(f"{SETS[name].title}, seed {seed}: {step}", flush=True)
                job = {"step": step, "set": name, "seed": seed, "limit": options.rows, "threads": options.threads}
                job["qualities"] = qualities if step == "qualities" else ["fast", "balanced"]
                log = CACHE / "quality" / f"{name}-{seed}-{step}.txt"
                try:
                    figures = run_job(
                        interpreter("tagwood"),
                        "benchmarks.quality.worker",
                        job,
                        log,
                        threads=options.threads,
                        minutes=options.minutes,
                    )
                except JobFailedError as error:
                    print(f"! {error}", flush=True)
                    continue
                key = {"set": name, "seed": seed, "limit": options.rows}
                before = next((row for row in content[step] if key.items() <= row.items()), {})  # perhaps with best
                content[step] = replace_row(content[step], {**before, **key, **figures}, list(key))
                PAGE.save(options.out, content)


def main() -> None:
    options = parse()
    content = PAGE.load(options.out, {"qualities": [], "unseen": [], "annif": []})
    content["machine"] = machine()
    content["versions"] = {"tagwood": version("tagwood")}
    run_steps(options, content)
    if options.annif:
        content["versions"]["annif"] = version("annif")
        row = annif.compare(options.seeds[0], options.rows, options.minutes)
        content["annif"] = replace_row(content["annif"], row, ["seed", "limit"])
        PAGE.save(options.out, content)
    PAGE.write(options.out, page_blocks(content))


if __name__ == "__main__":
    main()
