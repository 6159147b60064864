"""All benchmarks, one after the other, each in its own process: ``python -m benchmarks``, ``make bench``.

The comparison with other tools comes last, because it takes hours; an interrupted run of it continues where it stopped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks import ROOT

BENCHMARKS = (
    ("metrics",),
    ("reading",),
    ("tfidf",),
    ("cold_start",),
    ("promises",),
    ("groups",),
    ("planning",),
    ("text_to_labels",),
    ("softmax_tree",),
    ("set_loss",),
    ("set_output",),
    ("prime",),
    ("service",),
    ("filters",),
    ("updates",),
    ("roofline",),
    ("quality", "--annif"),
    ("linear_tree", "--scaling"),
    ("linear_tree", "--seeds", "3"),
    ("linear_tree",),
)


def main() -> None:
    names = list(dict.fromkeys(name for name, *_ in BENCHMARKS))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(names)}; default all")
    parser.add_argument("--publish", action="store_true", help="write to docs/benchmarks, not build/benchmarks")
    arguments = parser.parse_args()
    chosen = arguments.names or names
    if set(chosen) - set(names):
        parser.error(f"unknown: {', '.join(sorted(set(chosen) - set(names)))}; known: {', '.join(names)}")
    failed = []
    for name, *options in BENCHMARKS:
        if name not in chosen:
            continue
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        command += ["--publish"] if arguments.publish else []
        print(f"== {' '.join(command[1:])}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(" ".join([name, *options]))
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
