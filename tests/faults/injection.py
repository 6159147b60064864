# ruff: noqa: T201
"""Injected faults in every command that writes: the n-th write, fsync, rename, open, mmap, allocation or thread fails.

A process that has imported everything forks for each trial; the child arms the shim (`shim.c`) and runs the command,
the parent judges: the old state or the new one, complete; one sentence; no litter. Litter of a killed child must be
gone after the next run. ``python -m tests.faults.injection`` runs all trials; ``--quick`` a cut of them. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

SHIM = Path(__file__).with_name("shim.c")
KINDS = {"write": 1, "fsync": 2, "rename": 3, "open": 4, "mmap": 5, "new": 6, "thread": 7}
HALF, KILL = -1, -2
HOWS = {
    "write": (errno.ENOSPC, errno.EIO, HALF, KILL),
    "fsync": (errno.EIO, errno.ENOSPC, KILL),
    "rename": (errno.EIO, errno.ENOSPC, KILL),
    "open": (errno.EMFILE, errno.EIO, errno.EACCES, KILL),
    "mmap": (errno.ENOMEM, KILL),
    "new": (errno.ENOMEM,),
    "thread": (errno.EAGAIN,),
}
MOST, MOST_NEW = 60, 150  # places of one kind in one command, and native allocations; more are sampled evenly
ROWS = 40
NOT_QUICK = ("convert columns", "convert compressed", "convert documents", "train groups")  # like others, but slow


class Scenario(NamedTuple):
    """A command in a folder: its arguments, and what it writes there."""

    name: str
    arguments: tuple[str, ...]
    writes: str  # file or folder
    is_model: bool = False


SCENARIOS = (
    Scenario("train", ("train", "data.csv", "-O", "fresh", "-j", "2", "--notes", "new"), "fresh", True),
    Scenario("train --force", ("train", "data.csv", "-O", "model", "-f", "-j", "2", "--notes", "new"), "model", True),
    Scenario("vocab load", ("vocab", "load", "model", "newer.tsv", "--by", "id"), "model", True),
    Scenario("train groups", ("train", "boxes.csv", "-O", "fresh", "-j", "2", "--notes", "new"), "fresh", True),
    Scenario("learn", ("learn", "memory", "corrections.jsonl", "--force"), "memory", True),
    Scenario("update", ("update", "model", "newer.csv", "--data", "data.csv", "-j", "2"), "model", True),
    Scenario("tune-threshold", ("tune-threshold", "model", "data.csv", "--write"), "model", True),
    Scenario("predict", ("predict", "model", "texts.txt", "-O", "out.jsonl", "--force"), "out.jsonl"),
    Scenario("predict csv", ("predict", "model", "texts.txt", "-O", "new.csv"), "new.csv"),
    Scenario("convert file", ("convert", "data.csv", "pairs.txt", "--to", "pecos", "--force"), "pairs.txt"),
    Scenario("convert folder", ("convert", "data.csv", "folder", "--to", "csr", "--force"), "folder"),
    Scenario("convert spreadsheet", ("convert", "data.csv", "table.xlsx", "--force"), "table.xlsx"),
    Scenario("convert columns", ("convert", "data.csv", "table.parquet", "--force"), "table.parquet"),
    Scenario("convert compressed", ("convert", "data.csv", "rows.jsonl.gz", "--force"), "rows.jsonl.gz"),
    Scenario("convert documents", ("convert", "data.csv", "texts", "--to", "txt-key", "--force"), "texts"),
    Scenario("eval", ("eval", "model", "data.csv", "-M", "report.json", "-r", "labels.tsv"), "report.json"),
    Scenario("impute", ("impute", "boxes.csv", "-O", "imputed.jsonl", "-j", "2", "--force"), "imputed.jsonl"),
    Scenario(
        "tune", ("tune", "data.csv", "-O", "tuned", "--ranges", "ranges.toml", "--trials", "2", "-j", "1"), "tuned"
    ),
    Scenario("feedback", ("feedback",), "feedback.jsonl"),
)


def build_shim(folder: Path) -> Path:
    """Compile the shim and return the library."""
    library = folder / "shim.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-fexceptions", "-o", str(library), str(SHIM)]
    # The shim calls the real operator new, so that its library must be loaded from the start.
    subprocess.run([*command, "-Wl,--no-as-needed", "-lstdc++", "-ldl"], check=True)
    return library


def prepare(template: Path) -> None:
    """Write what the commands read, and older versions of what they write."""
    sys.path[:0] = [str(Path(__file__).parents[1] / "support")]
    from library import make_library

    from tagwood import LinearTree, Neighbours, Tagger
    from tagwood.data import Dataset, write_dataset
    from tagwood.tagger.fitting import training_data

    texts, labels = make_library(ROWS)
    data: Dataset = training_data(texts, labels, None, None)
    write_dataset(data, template / "data.csv")
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    tagger.save(template / "model", notes="old")
    Tagger(model=Neighbours(threads=1)).fit(texts, labels).save(template / "memory")
    (template / "newer.tsv").write_text("id\tname\n" + "".join(f"{i}\tname {i}\n" for i in range(len(tagger.vocab_))))
    (template / "texts.txt").write_text("\n".join(texts[:5]) + "\n")
    rows = list(enumerate(zip(texts[:12], labels[:12], strict=True)))
    other = training_data(texts[:9], labels[:9], None, None)
    for name, form in (("pairs.txt", "pecos"), ("folder", "csr")):
        write_dataset(other, template / name, form)
    write_dataset(other, template / "newer.csv")
    (template / "boxes.csv").write_text(
        "text,labels,group\n" + "".join(f"{one},{';'.join(named)},box {row // 3}\n" for row, (one, named) in rows)
    )
    (template / "ranges.toml").write_text("[model]\nC = [0.5, 1.0, 2.0]\n")
    records = [{"id": str(row), "text": text, "accepted": list(named)} for row, (text, named) in rows]
    (template / "corrections.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    for name in ("out.jsonl", "report.json", "labels.tsv", "imputed.jsonl"):
        (template / name).write_text("old\n")
    (template / "feedback.jsonl").write_text('{"id": "1"}\n')


def run_command(place: Path, scenario: Scenario) -> int:
    """Run the command in its folder and return the exit code."""
    os.chdir(place)
    arguments = [
        str(place / one) if (place / one).exists() or one == scenario.writes else one for one in scenario.arguments
    ]
    if scenario.name == "feedback":
        from tagwood.service.journal import append_lines

        try:
            append_lines(place / "feedback.jsonl", b'{"id": "2"}\n')
        except OSError as error:
            sys.stderr.write(f"error: {error}\n")
            return 2
        return 0
    from tagwood.cli.app import run

    return run(arguments)


def in_child(place: Path, scenario: Scenario, arm: Callable[[], None], said: Path) -> tuple[int, str]:
    """Run a command in a forked process after `arm`; return its exit code (negative: signal) and its stderr."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            for number, target in ((1, "/dev/null"), (2, str(said))):
                os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            signal.alarm(120)
            arm()
            code = run_command(place, scenario)
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")


class Campaign:
    """The template, the states before and after each command, and the counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = folder / "template"
        self.template.mkdir()
        prepare(self.template)
        self.shim = ctypes.CDLL(None)
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.new: dict[str, dict[str, str]] = {}  # what each command leaves without a fault

    def arm(self, kind: str, at: int, how: int, place: Path) -> Callable[[], None]:
        """Return the function that a child calls first."""
        sticky = kind == "write" and how == errno.ENOSPC  # a full disk stays full
        return lambda: self.shim.fault_arm(KINDS[kind], ctypes.c_long(at), how, int(sticky), os.fsencode(place))

    def count(self, scenario: Scenario, kind: str) -> int:
        """Return how many calls of a kind a command makes, and keep the state that it leaves as the new one."""
        place = self._copy()
        counted = self.folder / "count"

        def command(place: Path, scenario: Scenario) -> None:
            self.arm(kind, 0, 0, place)()
            code = run_command(place, scenario)
            counted.write_text(f"{code} {self.shim.fault_disarm()}")
            os._exit(0)

        in_child(place, scenario, lambda: command(place, scenario), self.folder / "said")
        code, calls = map(int, counted.read_text().split())
        assert code == 0, (self.folder / "said").read_text()
        self.new[scenario.name] = state(place)
        return calls

    def trial(self, scenario: Scenario, kind: str, at: int, how: int) -> None:
        """Inject one fault and judge."""
        place = self._copy()
        code, said = in_child(place, scenario, self.arm(kind, at, how, place), self.folder / "said")
        wrong = self.judge(scenario, place, code, said, killed=how == KILL)
        self._count(f"{scenario.name}: {kind}", f"{scenario.name}, {kind} {at}, error {how}", wrong, said)

    def limit_memory(self, scenario: Scenario, megabytes: float) -> None:
        """Run a command with little more address space than the process has, and judge."""
        place = self._copy()

        def arm() -> None:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + int(megabytes * 1e6),) * 2)

        code, said = in_child(place, scenario, arm, self.folder / "said")
        wrong = self.judge(scenario, place, code, said, killed=False)
        self._count(f"{scenario.name}: memory limit", f"{scenario.name}, {megabytes} MB", wrong, said)

    def _count(self, what: str, words: str, wrong: str | None, said: str) -> None:
        self.counts[what] += 1
        if wrong is not None:
            self.failures.append(f"{words}: {wrong}: {said.strip()[-300:]}")
            print("FAILED", self.failures[-1], flush=True)

    def judge(self, scenario: Scenario, place: Path, code: int, said: str, *, killed: bool) -> str | None:
        """Return what is wrong after a trial."""
        if code < 0 and not (killed and code == -signal.SIGKILL):
            return f"ended by signal {-code}"
        if code == 99 or "Traceback" in said or "internal error" in said:
            return f"exit code {code} without one sentence"
        if code > 0 and not said.strip().splitlines()[-1].startswith("error: "):
            return "no sentence"
        left = litter(place)
        if left and code >= 0:
            return f"left behind: {left}"
        wrong = self._judge_state(scenario, place, code)
        if wrong is None and left:
            wrong = self._clean_up(scenario, place, left)
        return wrong

    def _judge_state(self, scenario: Scenario, place: Path, code: int) -> str | None:
        if scenario.is_model:
            return self._judge_model(scenario, place, code)
        found, old, new = state(place), state(self.template), self.new[scenario.name]
        if scenario.name == "tune":
            return self._judge_search(scenario, place)
        if scenario.name == "eval":  # two files, each complete
            mixed = all(found.get(name) in (old.get(name), new.get(name)) for name in ("report.json", "labels.tsv"))
            return None if mixed and (code or found == new) else "a half-written report"
        if code == 0:
            return None if found == new else "success, but not the new state"
        if found in (old, new):
            return None
        moved = (
            code < 0 and not (place / scenario.writes).exists() and any(".tagwood-old-" in one for one in litter(place))
        )
        return None if moved else f"neither old nor new: {set(found.items()) ^ set(old.items())}"

    def _judge_search(self, scenario: Scenario, place: Path) -> str | None:
        """A search that was stopped has whole files, and the same command continues it."""
        best = place / "tuned" / "best.toml"
        if best.exists():
            tomllib.loads(best.read_text())
        for name in litter(place / "tuned") if best.parent.exists() else ():
            os.utime(place / "tuned" / name, (time.time() - 60,) * 2)
        again, said = in_child(place, scenario, lambda: None, self.folder / "again")
        left = litter(place / "tuned")
        if again or left or not best.exists():
            return f"cannot be continued: code {again}, {left}, {said.strip()[-200:]}"
        return None

    def _judge_model(self, scenario: Scenario, place: Path, code: int) -> str | None:
        import tagwood
        from tagwood.storage import read_manifest

        target = place / scenario.writes
        if not target.exists():
            return None if code and not (self.template / scenario.writes).exists() else "the model is gone"
        tagwood.load(target, verify=True)
        if code == 0 and scenario.name.startswith("train") and read_manifest(target).notes != "new":
            return "success, but the old model"
        before = self.template / scenario.writes
        if code == 0 and before.exists() and read_manifest(target) == read_manifest(before):
            return "success, but the model is unchanged"
        return None

    def _clean_up(self, scenario: Scenario, place: Path, left: list[str]) -> str | None:
        for name in left:
            os.utime(place / name, (time.time() - 60,) * 2)
        shutil.rmtree(place / "fresh", ignore_errors=True)
        (place / "new.csv").unlink(missing_ok=True)
        shutil.rmtree(place / "texts", ignore_errors=True)  # documents are not replaced
        # A model that is unchanged is not written again, so another one is.
        code, said = in_child(
            place, SCENARIOS[1] if scenario.is_model else scenario, lambda: None, self.folder / "said"
        )
        again = litter(place)
        return None if code == 0 and not again else f"not cleaned up: {again}, code {code}, {said[-200:]}"

    def _copy(self) -> Path:
        place = self.folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.template, place, symlinks=True)
        return place


def litter(place: Path) -> list[str]:
    """Return the hidden entries of a folder."""
    return sorted(path.name for path in place.iterdir() if path.name.startswith("."))


def state(place: Path) -> dict[str, str]:
    """Return a hash of every file that is not hidden or part of a model."""
    files = [
        path for path in sorted(place.rglob("*")) if path.is_file() and "/." not in str(path.relative_to(place.parent))
    ]
    return {
        str(path.relative_to(place)): hashlib.sha256(content(path)).hexdigest()
        for path in files
        if not str(path.relative_to(place)).startswith(("model/", "memory/", "fresh/", "."))
    }


def content(path: Path) -> bytes:
    """Return what a file says; a spreadsheet also has the time of its making."""
    if path.suffix != ".xlsx" or not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as book:
        return b"".join(book.read(name) for name in book.namelist() if not name.startswith("docProps"))


def places(calls: int, most: int) -> Iterator[int]:
    """Yield numbers from 1 to `calls`, at most `most` of them, evenly."""
    yield from sorted(
        {1 + round(step * (calls - 1) / max(1, most - 1)) for step in range(min(calls, most))} if calls else ()
    )


def run_all(folder: Path, *, quick: bool, memory: int, only: str = "") -> Campaign:
    """Run the campaign, or the commands whose names start with `only`."""
    campaign = Campaign(folder)
    chosen = [one for one in SCENARIOS if one.name.startswith(only) and not (quick and one.name in NOT_QUICK)]
    for scenario in chosen:
        for kind, hows in HOWS.items():
            most = (MOST_NEW if kind == "new" else MOST) if not quick else 2 if kind in ("write", "open", "new") else 3
            for at in places(campaign.count(scenario, kind), most):
                for how in hows if not quick else (hows[at % len(hows)],):
                    campaign.trial(scenario, kind, at, how)
    limited = [
        one for one in SCENARIOS if one.name in ("train", "train --force", "predict", "convert file", "vocab load")
    ]
    for scenario in limited if memory else ():
        campaign.count(scenario, "write")
    for step in range(memory):
        campaign.limit_memory(limited[step % len(limited)], 400 * (1 - step / memory) ** 3)
    return campaign


def inside(*, quick: bool, memory: int, only: str) -> int:
    """Run in this process, which has the shim loaded; return the exit code."""

    import tagwood
    import tagwood.cli.convert
    import tagwood.cli.eval
    import tagwood.cli.impute
    import tagwood.cli.learn
    import tagwood.cli.predict
    import tagwood.cli.train
    import tagwood.cli.tune
    import tagwood.cli.tune_threshold
    import tagwood.cli.update
    import tagwood.cli.vocab
    import tagwood.service.journal  # noqa: F401  imported once, before the forks

    with tempfile.TemporaryDirectory(prefix="tagwood-faults-") as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        campaign = run_all(Path(folder).resolve(), quick=quick, memory=memory, only=only)
    for what, count in campaign.counts.items():
        print(f"  {what:<36}{count:>6,}")
    limits = sum(count for what, count in campaign.counts.items() if what.endswith("memory limit"))
    print(
        f"injected faults: {campaign.counts.total() - limits:,} trials; memory limits: {limits:,} trials; "
        f"{len(campaign.failures)} failures"
    )
    return 1 if campaign.failures else 0


def main() -> None:
    """Build the shim, and run the campaign in a process that has it loaded."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.injection")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", type=int, default=500, help="number of memory limits")
    parser.add_argument("--only", default="", help="beginning of the names of commands")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        sys.exit(inside(quick=args.quick, memory=args.memory, only=args.only))
    with tempfile.TemporaryDirectory() as folder:
        single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **single, "LD_PRELOAD": str(build_shim(Path(folder)))}
        rest = ["--quick"] if args.quick else []
        command = [
            sys.executable,
            "-m",
            "tests.faults.injection",
            "--inside",
            "--memory",
            str(args.memory),
            "--only",
            args.only,
            *rest,
        ]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
