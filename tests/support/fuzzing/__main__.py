# ruff: noqa: T201
"""The whole run: portions of cases in processes of their own, so that a crash of native code is found and named."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PORTION = 500
MOST_CPU = 300  # seconds for a portion, which takes about 20: native code hangs


def main() -> None:
    """Run the cases that the command line names; end with code 1 if any is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzzing")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, with its arguments and its output")
    parser.add_argument("--portion", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.portion is not None:
        run_portion(args.first, args.portion)
    elif args.only is not None:
        show(args.only)
    else:
        raise SystemExit(run_all(args.first, args.cases))


def run_all(first: int, n_cases: int) -> int:
    """Run portions one after the other; return the exit code."""
    kinds: Counter[tuple[str, int]] = Counter()
    began, failures, at = time.perf_counter(), [], first
    while at < first + n_cases:
        size = min(PORTION, first + n_cases - at)
        done, died = _portion(at, size)
        for line in done:
            kinds[line["kind"], line["code"]] += 1
        wrong = [line for line in done if line["wrong"]]
        at += len(done)
        if died:
            wrong.append({"number": at, "kind": "?", "arguments": "see --only", "wrong": died})
            at += 1
        for one in wrong:
            print(f"WRONG {one['number']} ({one['kind']}): {one['arguments']}\n  {one['wrong']}", flush=True)
        failures += wrong
        if not done:
            break
        print(f"{at - first:,} cases, {len(failures)} wrong, {time.perf_counter() - began:.0f} s", flush=True)
    for (kind, code), count in sorted(kinds.items(), key=str):
        print(f"  {kind:<18} exit code {code}: {count:,}")
    print(f"{sum(kinds.values()):,} cases, {len(failures)} wrong")
    return 1 if failures else 0


def _portion(first: int, size: int) -> tuple[list[dict], str | None]:
    """Run cases in a new process; return those that ended, and how the process died if it did."""
    command = [sys.executable, "-m", "tests.support.fuzzing", "--first", str(first), "--portion", str(size)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    done = [json.loads(line) for line in run.stdout.splitlines()]
    return done, f"the process ended with {run.returncode}" if run.returncode else None


def run_portion(first: int, size: int) -> None:
    """Run cases in this process and write a line for each."""
    import resource

    from .running import judge
    from .stage import make_stage

    with tempfile.TemporaryDirectory() as folder:
        stage = make_stage(Path(folder))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU, MOST_CPU))
        for number in range(first, first + size):
            case, code, wrong = judge(stage, number)
            line = {
                "number": number,
                "kind": case.kind,
                "arguments": case.arguments,
                "code": code,
                "wrong": wrong,
            }
            print(json.dumps(line), file=sys.__stdout__, flush=True)


def show(number: int) -> None:
    """Run one case and show all of it."""
    from .cases import make_case
    from .running import judge, run_case
    from .stage import make_stage

    with tempfile.TemporaryDirectory() as folder:
        stage = make_stage(Path(folder))
        case, code, wrong = judge(stage, number)
        print(case, "\n", code, wrong)
        case = make_case(stage, number)
        print(*run_case(case._replace(interrupt=None)), sep="\n")


if __name__ == "__main__":
    main()
