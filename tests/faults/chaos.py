"""A service in bad hands for minutes: killed workers, bad models, models overwritten in place, a full disk.

``python -m tests.faults.chaos`` serves a model with two workers on loopback under the load of `soak`. In each of 20
rounds a worker is killed and another model, good or bad, takes the place of the served one while that worker restarts.
A candidate answers half of the requests, until it is overwritten, too: then the served model must answer them all.
No answer may be wrong, no connection refused, only requests that a killed worker held may be cut off, and every event
must be in the metrics and in the log. The counts are printed as JSON; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.soak import Soak, ask, run_bounded

_DYING = 0.5  # seconds in which a killed process may still accept a connection
Damage = Callable[[Path], Any]


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


DAMAGES: tuple[tuple[str, Damage], ...] = (
    ("manifest.json", _cut),
    ("arrays*", _cut),
    ("arrays*", _flip),
    ("arrays*", Path.unlink),
    ("manifest.json", lambda path: path.write_text("{}")),
)


class Chaos(Soak):
    """The service behind a link to its model, and the one thread that disturbs it."""

    def __init__(self, folder: Path, rounds: int, minutes: float, pause: float) -> None:
        self.candidate = folder / "candidate"
        # With a line of the log for each request.
        self.options = ("--candidate", str(self.candidate), "--candidate-share", "0.5", "--send-candidate")
        super().__init__(folder, minutes, pause)
        self.rounds = rounds
        self.killed: list[float] = []
        self.overwritten: list[tuple[float, float]] = []  # begin and end

    def _save(self, which: int) -> None:
        """Store a model in a folder of its own, and let the link to the served model point there."""
        if not self.names:
            self._save_at(self.candidate, which)
        self.good = self.folder / f"good-{len(self.names)}"
        self._save_at(self.good, which)
        self.newest = next(reversed(self.names))
        self._link(self.model, self.good)

    def _save_at(self, folder: Path, which: int) -> None:
        served, self.model = self.model, folder
        super()._save(which)
        self.model = served

    def _clients(self) -> list[Callable[[random.Random], None]]:
        return [*[self.suggest] * 3, self.say, self.disturb_all]

    def disturb_all(self, rng: random.Random) -> None:
        """Do everything once, in rounds; then end the run."""
        try:
            for number in range(self.rounds):
                self._kill()
                if number % 2:
                    self._bad(number // 2)
                else:
                    self._good(rng)
                self._wait_for_workers()
                if number == self.rounds // 3:
                    self._overwrite(rng)
                if number == self.rounds // 2:
                    self._overwrite_candidate(rng)
                if number == 2 * self.rounds // 3:
                    self._fill_disk()
            self.metrics = counts(ask(self.service.address, "/metrics")[1].decode())
            self._compare_metrics()
        finally:
            self.ends = 0.0

    def _kill(self) -> None:
        self.killed.append(time.monotonic())
        os.kill(self.service.worker_pids()[0], signal.SIGKILL)
        self.counts["kills"] += 1

    def _good(self, rng: random.Random) -> None:
        self._save(rng.randrange(len(self.taggers)))
        self.counts["good models"] += 1

    def _bad(self, number: int) -> None:
        """Serve a damaged copy until a worker says so, then the good one again."""
        pattern, damage = DAMAGES[number % len(DAMAGES)]
        bad = Path(shutil.copytree(self.good, self.folder / f"bad-{number}"))
        damage(next(bad.glob(pattern)))
        before = len(self.service.events("model not loaded"))
        self._link(self.model, bad)
        self.service.wait_for(lambda: len(self.service.events("model not loaded")) > before)
        self.counts["bad models"] += 1
        self._link(self.model, self.good)

    def _overwrite(self, rng: random.Random) -> None:
        """Write other arrays into the files that the workers have mapped; then serve a good model."""
        begun, before = time.monotonic(), len(self.service.events("model not loaded"))
        self.model_is_gone = True
        _noise(self.good, rng)
        self.service.wait_for(lambda: len(self.service.events("model not loaded")) > before)
        if ask(self.service.address, "/ready")[0] != 503 or ask(self.service.address, "/health")[0] != 200:
            self._fail("a service with an overwritten model must be alive, but not ready")
        time.sleep(1)
        self._good(rng)
        self._wait_for_workers()
        self.model_is_gone = False
        self.overwritten.append((begun, time.monotonic()))
        self.counts["models overwritten in place"] += 1

    def _overwrite_candidate(self, rng: random.Random) -> None:
        """Do the same to the candidate, while the served model answers; then save a good candidate."""

        def of_candidate(event: str) -> int:
            return sum("role" in line for line in self.service.events(event))

        self.service.wait_for(lambda: list(self.service.ready_workers().values()) == [True, True])
        begun = time.monotonic()
        failed, loaded = of_candidate("model not loaded"), of_candidate("model")
        _noise(self.candidate, rng)
        self.service.wait_for(lambda: of_candidate("model not loaded") >= failed + 2)
        time.sleep(1)
        self._save_at(self.candidate, rng.randrange(len(self.taggers)))
        self.service.wait_for(lambda: of_candidate("model") >= loaded + 2)
        self.overwritten.append((begun, time.monotonic()))
        self.counts["candidates overwritten in place"] += 1

    def _fill_disk(self) -> None:
        seen = self.counts["feedback: 507"]
        self.disk_is_full = True
        self._link(self.feedback, Path("/dev/full"))
        self.service.wait_for(lambda: self.counts["feedback: 507"] > seen)
        time.sleep(2)
        self._link(self.feedback, self.stored)
        time.sleep(1)
        self.disk_is_full = False
        self.counts["full disks"] += 1

    def _wait_for_workers(self) -> None:
        """Wait until both workers have the good model."""

        def have_it() -> bool:
            newest: dict[int, str | None] = {}
            for line in list(self.service.lines):
                if line["event"] == "worker ended":
                    newest[line["number"]] = None
                elif line["event"] == "model" and "role" not in line:
                    newest[line["worker"]] = line["model"]
                elif line["event"] == "ready":
                    newest[line["worker"]] = line["models"][0]
            return newest == {0: self.newest, 1: self.newest} and len(self.service.worker_pids()) == 2

        self.service.wait_for(have_it, seconds=60)

    def _compare_metrics(self) -> None:
        """Every event is in the metrics and in the log, and as often in both."""
        events, found = self.service.events, self.metrics
        deaths = sum(value for key, value in found.items() if key.startswith("tagwood_worker_deaths_total"))
        refused = [line for line in events("request") if line["route"] == "/v1/feedback" and line["status"] >= 500]
        pairs = {
            "kills": (found['tagwood_worker_deaths_total{cause="SIGKILL"}'], self.counts["kills"]),
            "deaths": (deaths, len(events("worker ended"))),
            "reloads": (found["tagwood_reloads_total"], len(events("model"))),
            "failed reloads": (found["tagwood_reload_failures_total"], len(events("model not loaded"))),
            "feedback not stored": (found['tagwood_requests_total{route="/v1/feedback",status="5xx"}'], len(refused)),
        }
        for what, (metric, log) in pairs.items():
            self.counts[f"{what}, in metrics and log"] = log
            if metric != log:
                self._fail(f"{what}: {metric} in the metrics, {log} in the log")
        unseen = set(self.names) - {line["model"] for line in events("model")}
        if unseen:
            self._fail(f"models that no log line names: {unseen}")

    def _growth(self) -> str:
        return "not measured"

    def _judge(self) -> None:
        super()._judge()
        done = self.counts["kills"], self.counts["good models"] + self.counts["bad models"]
        if done[0] < self.rounds or done[1] < self.rounds:
            self.failures.append(f"the time ended after {done[0]} kills and {done[1]} reloads")
        if "suggest: 503" not in self.counts:
            self.failures.append("nobody noticed the overwritten model")
        for begin, end in self.cut_off:
            by_kill = any(begin - _DYING <= kill <= end for kill in self.killed)
            if not by_kill and not any(first <= end and begin <= last for first, last in self.overwritten):
                self.failures.append(f"a request was cut off after {end - begin:.2f} seconds, though nobody was killed")


def _noise(folder: Path, rng: random.Random) -> None:
    """Write noise into the arrays of a model, which services have mapped."""
    path = next(folder.glob("arrays*"))
    noise = rng.randbytes(path.stat().st_size)
    with path.open("r+b") as file:
        file.write(noise)


def counts(text: str) -> dict[str, float]:
    """Return the samples of a text of metrics, by name and labels."""
    return {key: float(value) for key, value in re.findall(r"^(tagwood_\S+) (\S+)$", text, flags=re.M)}


def main() -> None:
    """Run the rounds and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos")
    parser.add_argument("--rounds", type=int, default=20, help="killed workers and replaced models")
    parser.add_argument("--minutes", type=float, default=6.0, help="the run fails if it takes longer")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between the requests of a client")
    args = parser.parse_args()
    run_bounded(lambda folder: Chaos(folder, args.rounds, args.minutes, args.pause))


if __name__ == "__main__":
    main()
