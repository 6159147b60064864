# ruff: noqa: T201
"""A service with little memory: workers whose address space shrinks while they answer, and services that start small.

``python -m tests.faults.memory --trials 120`` limits the worker of a running service (three quarters of the trials):
every answer is right or a problem, no worker ends by a signal of native code, and without the limit the service answers
again, by a new worker if need be. The other trials start a service with falling limits: it serves, or ends with one
sentence. Linux only; ``python -m tests.faults.injection`` does the same for the commands that write.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]
from library import make_library  # noqa: E402  needs the line above when this is not run by pytest
from services import Service, ask  # noqa: E402

from tagwood import LinearTree, Tagger  # noqa: E402

COMMAND = "import resource; resource.setrlimit(resource.RLIMIT_AS, ({0}, {0})); from tagwood.cli import main; main()"
IMPORTS = "import tagwood.cli.serve, tagwood.service.processes, tagwood.service.worker"
ALLOWED = {200, 201, 500, 503, 507}
SECONDS = 120
TEXT = "oak and sea"


class Trials:
    """A model folder, the right answer, and what was counted."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model"
        texts, labels = make_library(200)
        self.tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
        self.tagger.save(self.model)
        self.expected = [tag.name for tag in self.tagger.tag([TEXT], 2)[0]]
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, trials: int) -> None:
        """Run all trials."""
        shrinking = trials - trials // 4
        service = Service(self.model, "--quiet", "--reload-seconds", "0.1", "--max", "text_chars=100000")
        try:
            for step in range(shrinking):
                self._shrink(service, int(150e6 * (1 - step / shrinking) ** 3), swap=step % 10 == 0)
            deaths = ask(service.address, "/metrics")[1].decode()
        finally:
            code = service.stop()
        self._expect(code == 0, f"the service ended with {code}")
        for line in deaths.splitlines():
            if line.startswith("tagwood_worker_deaths_total{"):
                cause, number = line.partition('cause="')[2].split('"} ')
                self.counts[f"workers ended: {cause}"] = int(float(number))
                self._expect(not (cause.startswith("SIG") and float(number)), f"{number} workers ended by {cause}")
        least = _address_space()
        for step in range(trials // 4):
            self._start(least + int(400e6 * (1 - step / (trials // 4)) ** 3))

    def _shrink(self, service: Service, more: int, *, swap: bool) -> None:
        """Answer with `more` bytes than the worker uses; then without a limit."""
        pid = service.worker_pids()[0]
        used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
        if swap:
            self.tagger.save(self.model, overwrite=True)
        for path, body in (
            ("/v1/suggest", {"texts": [f"{TEXT} {number} " * 300 for number in range(400)], "k": 2}),
            ("/v1/suggest", {"texts": TEXT, "k": 2}),
            ("/v1/explain", {"text": TEXT, "label": self.expected[0]}),
            ("/v1/feedback", {"text": TEXT, "accepted": self.expected}),
        ):
            status, content = _ask(service, path, body)
            self.counts[f"limited: {status or 'cut off'}"] += 1
            self._expect(status in ALLOWED | {0}, f"{path} with {more:,} bytes: {status} {content[:200]!r}")
        if pid in service.worker_pids():
            resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.counts["limits of a worker"] += 1
        status, content = _ask(service, "/v1/suggest", {"texts": TEXT, "k": 2}, tries=3)
        names = [one["name"] for one in json.loads(content)["results"][0]["labels"]] if status == 200 else []
        self._expect(names == self.expected, f"after {more:,} bytes: {status} {content[:200]!r}")

    def _start(self, limit: int) -> None:
        """Start a service with a limit: it answers rightly and stops, or ends with one sentence."""
        command = [sys.executable, "-c", COMMAND.format(limit), "serve", str(self.model), "--port", "0", "--json"]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen([*command, "--quiet"], stdout=subprocess.PIPE, stderr=said)
            assert process.stdout is not None
            hangs = threading.Timer(3 * SECONDS, process.kill)
            hangs.start()
            out = b""
            while not out.rstrip().endswith(b"}") and (line := process.stdout.readline()):
                out += line
            status = 0
            if out:
                status = ask(json.loads(out)["address"], "/v1/suggest", {"texts": TEXT, "k": 2})[0]
                process.send_signal(signal.SIGTERM)
            code = process.wait(SECONDS)
            hangs.cancel()
            process.stdout.close()
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
        self.counts[f"started: {status or 'one sentence'}"] += 1
        last = words.splitlines()[-1] if words else ""
        if status:
            self._expect(
                status in ALLOWED and code == 0, f"started with {limit:,}: {status}, code {code}: {words[-300:]}"
            )
        else:
            fine = code > 0 and last.startswith("error: ") and "Traceback" not in words
            self._expect(fine, f"start with {limit:,} bytes: code {code}: {words[-500:]}")

    def _expect(self, fine: bool, words: str) -> None:
        if not fine:
            self.failures.append(words)
            print("FAILED", words, flush=True)


def _ask(service: Service, path: str, body: Any, tries: int = 1) -> tuple[int, bytes]:
    """Return status and content; (0, b"") if the worker ended before it answered."""
    for attempt in range(tries):
        try:
            return ask(service.address, path, body, timeout=SECONDS)
        except (OSError, HTTPException):
            time.sleep(0.2 * attempt)
    return 0, b""


def _address_space() -> int:
    """Return the bytes of address space that a process needs to import the service."""
    code = f"{IMPORTS}\nprint(open('/proc/self/status').read().partition('VmPeak:')[2].split()[0])"
    return 1024 * int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    """Run the trials; end with code 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.memory")
    parser.add_argument("--trials", type=int, default=120)
    args = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"
    folder = Path(tempfile.mkdtemp(prefix="tagwood-memory-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        trials = Trials(folder)
        trials.run(args.trials)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for what, count in sorted(trials.counts.items()):
        print(f"  {what:<36}{count:>6,}")
    print(f"memory limits of services: {args.trials:,} trials; {len(trials.failures)} failures")
    sys.exit(1 if trials.failures else 0)


if __name__ == "__main__":
    main()
