# ruff: noqa: T201
"""A service under load for minutes: swaps, killed workers, a full disk, feedback, malformed requests; all checked.

``python -m tests.faults.soak --minutes 20`` serves a model with two workers on loopback and, at a modest load, compares
every answer with the model it names, keeps the ids of acknowledged feedback, replaces and damages the model, kills
workers, and lets the disk of the feedback be full for a while.In the last fifth nobody is killed: from the moment when
all workers are ready, memory and open files must not grow; without kills (``--kill-seconds 0``), in the whole run. The
counts are printed as JSON; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]
from library import make_library  # noqa: E402  needs the line above when this is not run by pytest
from services import Service, ask  # noqa: E402

from tagwood import LinearTree, Tagger  # noqa: E402
from tagwood.storage import read_manifest  # noqa: E402
from tagwood.storage.folder import manifest_bytes  # noqa: E402

TEXTS = [
    " ".join(words) for words in (("oak", "sea"), ("moon", "tide"), ("slate", "elm"), ("comet",), ("rain", "bark"))
]


class Soak:
    """The service, its clients, and what they counted."""

    options: tuple[str, ...] = ("--quiet",)

    def __init__(self, folder: Path, minutes: float, pause: float, kill_seconds: float = 3.0) -> None:
        self.folder, self.pause, self.kill_seconds = folder, pause, kill_seconds
        self.model = folder / "model"
        texts, labels = make_library(200)
        kinds = [LinearTree(threads=1), LinearTree(threads=1, max_leaf_size=2, arity=2), LinearTree(threads=1, C=0.01)]
        self.taggers = [Tagger(model=kind, seed=seed).fit(texts, labels) for seed, kind in enumerate(kinds)]
        self.expected = [[self._shown(tagger.tag([text], 3)[0]) for text in TEXTS] for tagger in self.taggers]
        self.names: dict[str, int] = {}  # served name -> which tagger
        self.answers: Counter[tuple[str, int, Any]] = Counter()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.acknowledged: list[str] = []
        self.disk_is_full = False
        self.model_is_gone = False
        self.cut_off: list[tuple[float, float]] = []  # begin and end of requests without an answer
        self.lock = threading.Lock()
        self.ends = time.monotonic() + 60 * minutes
        self.calm = time.monotonic() + (60 * minutes * 0.8 if kill_seconds else 0.0)
        self._save(0)
        self.stored = folder / "stored.jsonl"
        self.feedback = folder / "feedback.jsonl"
        self.stored.touch()
        self.feedback.symlink_to(self.stored)
        options = ("--workers", "2", "--reload-seconds", "0.1", "--feedback", str(self.feedback))
        self.service = Service(self.model, *options, *self.options)

    @staticmethod
    def _shown(tags: Any) -> tuple[tuple[str, float], ...]:
        return tuple((tag.name, round(float(tag.score), 5)) for tag in tags)

    def _save(self, which: int) -> None:
        self.taggers[which].save(self.model, overwrite=True, notes=str(which))
        name = hashlib.sha256(manifest_bytes(read_manifest(self.model))).hexdigest()[:12]
        self.names[name] = which

    def _going(self) -> bool:
        return time.monotonic() < self.ends

    def _request(self, kind: str, *arguments: Any) -> tuple[int, bytes]:
        """Return status and body; (0, b"") if a killed worker cut the answer off."""
        begun = time.monotonic()
        try:
            status, content = ask(self.service.address, *arguments)
        except (OSError, HTTPException) as error:
            status, content = 0, b""
            self.cut_off.append((begun, time.monotonic()))
            if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
                self._fail(f"{kind}: connection refused")
        with self.lock:
            self.counts[f"{kind}: {status or 'cut off'}"] += 1
        return status, content

    def suggest(self, rng: random.Random) -> None:
        """Ask for labels; the answer is compared at the end, when all names are known."""
        which = rng.randrange(len(TEXTS))
        gone = self.model_is_gone
        status, content = self._request("suggest", "/v1/suggest", {"texts": TEXTS[which], "k": 3})
        if status == 200:
            value = json.loads(content)
            found = tuple((one["name"], round(one["score"], 5)) for one in value["results"][0]["labels"])
            with self.lock:
                self.answers[value["model"], which, found] += 1
        elif status and not (status == 503 and (gone or self.model_is_gone)):
            self._fail(f"suggest answered {status}: {content[:200]!r}")

    def say(self, rng: random.Random) -> None:
        """Send feedback; what is acknowledged must be stored."""
        full, gone = self.disk_is_full, self.model_is_gone
        status, content = self._request("feedback", "/v1/feedback", {"text": "oak", "accepted": ["trees"]})
        if status == 201:
            self.acknowledged.append(json.loads(content)["id"])
        elif status and not (
            (status == 507 and (full or self.disk_is_full)) or (status == 503 and (gone or self.model_is_gone))
        ):
            self._fail(f"feedback answered {status}")

    def disturb(self, rng: random.Random) -> None:
        """Send a malformed request; nothing but an answer below 500 or a closed connection is right."""
        host, port = self.service.address.split("/")[2].split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=30) as sock:
                sock.sendall(malformed(rng))
                sock.shutdown(socket.SHUT_WR)
                first = sock.recv(200).partition(b"\r\n")[0]
        except OSError:
            first = b""
        status = int(first.split()[1]) if first.startswith(b"HTTP/1.1 ") else 0
        with self.lock:
            self.counts[f"malformed: {status or 'closed'}"] += 1
        if status >= 500:
            self._fail(f"a malformed request got {status}")

    def swap(self, rng: random.Random) -> None:
        """Replace the model; now and then a damaged one is there for a moment."""
        self._save(rng.randrange(len(self.taggers)))
        self.counts["swaps"] += 1
        if rng.random() < 0.05:
            right = (self.model / "manifest.json").read_bytes()
            (self.model / "manifest.json").write_bytes(right[:-30])
            time.sleep(0.3)
            (self.model / "manifest.json").write_bytes(right)
            self.counts["damaged models"] += 1
        time.sleep(0.25)

    def kill(self, rng: random.Random) -> None:
        """Kill a worker, until the calm last fifth."""
        time.sleep(self.kill_seconds * rng.uniform(0.5, 1.5))
        pids = self.service.worker_pids()
        if time.monotonic() < self.calm and pids:
            os.kill(rng.choice(pids), signal.SIGKILL)
            self.counts["kills"] += 1

    def fill_disk(self, rng: random.Random) -> None:
        """Let the disk of the feedback be full for a few seconds."""
        time.sleep(rng.uniform(20, 40))
        self.disk_is_full = True
        self._link(self.feedback, Path("/dev/full"))
        time.sleep(4)
        self._link(self.feedback, self.stored)
        time.sleep(1)
        self.disk_is_full = False
        self.counts["full disks"] += 1

    def watch(self, rng: random.Random) -> None:
        """Record memory and open files of all processes, once nobody is killed any more and all workers are ready."""
        time.sleep(2)
        if time.monotonic() < self.calm or list(self.service.ready_workers().values()) != [True, True]:
            return
        pids = [self.service.process.pid, *self.service.worker_pids()]
        memory = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in pids)
        files = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
        self.samples.append((memory, files))

    def _link(self, link: Path, target: Path) -> None:
        new = self.folder / f"new-{link.name}"
        new.symlink_to(target)
        new.replace(link)

    def _fail(self, words: str) -> None:
        with self.lock:
            self.failures.append(words)

    def run(self) -> dict[str, Any]:
        """Run everything, stop the service, and return the report."""
        self.samples: list[tuple[int, int]] = []
        clients = enumerate(self._clients())
        threads = [threading.Thread(target=self._repeat, args=(one, seed)) for seed, one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        code = self.service.stop()
        if code:
            self.failures.append(f"the service ended with {code}")
        self._judge()
        malformed = sum(count for what, count in self.counts.items() if what.startswith("malformed"))
        return {
            "answers checked": sum(self.answers.values()),
            "malformed requests": malformed,
            "feedback acknowledged": len(self.acknowledged),
            **dict(sorted(self.counts.items())),
            "memory (MB), open files": self._growth(),
            "failures": len(self.failures),
            "first failures": self.failures[:5],
        }

    def _clients(self) -> list[Callable[[random.Random], None]]:
        calls = [self.suggest] * 3 + [self.disturb] * 2 + [self.kill] * bool(self.kill_seconds)
        return [*calls, self.say, self.swap, self.fill_disk, self.watch]

    def _repeat(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        while self._going():
            try:
                work(rng)
            except Exception as error:
                self._fail(f"{work.__name__}: {type(error).__name__}: {error}")
            time.sleep(self.pause)

    def _judge(self) -> None:
        for (name, which, found), count in self.answers.items():
            if name not in self.names:
                self.failures.append(f"{count} answers of an unknown model {name}")
            elif not _same(self.expected[self.names[name]][which], found):
                self.failures.append(f"{count} answers of {name} are not those of its model: {found}")
        stored = {json.loads(line)["id"] for line in self.stored.read_text().splitlines() if line.endswith("}")}
        lost = set(self.acknowledged) - stored
        if lost:
            self.failures.append(f"{len(lost)} acknowledged records are lost")
        left = [path.name for path in self.folder.iterdir() if path.name.startswith(".tagwood")]
        if left:
            self.failures.append(f"left behind: {left}")

    def _growth(self) -> str:
        half = len(self.samples) // 2
        if half < 3:
            self.failures.append(f"{len(self.samples)} samples of memory and files are too few: run it for longer")
            return "too few samples"
        parts = self.samples[:half], self.samples[half:]
        memory = [sorted(one for one, _ in part)[len(part) // 2] / 1e6 for part in parts]
        files = [sorted(two for _, two in part)[len(part) // 2] for part in parts]
        if memory[1] > 1.15 * memory[0] or files[1] > files[0] + 6:
            self.failures.append(f"memory or files grow: {memory}, {files}")
        return f"{memory[0]:.0f} -> {memory[1]:.0f}, {files[0]} -> {files[1]}"


def _same(expected: Any, found: Any) -> bool:
    if len(expected) != len(found):
        return False
    return all(a[0] == b[0] and abs(a[1] - b[1]) < 1e-4 for a, b in zip(expected, found, strict=True))


def malformed(rng: random.Random) -> bytes:
    """Return the bytes of a request with something wrong in it, or nothing."""
    paths = (
        "/v1/suggest",
        "/v1/explain",
        "/v1/feedback",
        "/v1/labels/x",
        "/v1/tree",
        "/v1/groups/1",
        "/../etc",
        "/health",
    )
    body = json.dumps({"texts": ["oak"], "k": 3, "label": "trees", "text": "sea"}).encode()
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(body))
        piece = rng.choice([b"\x00", b"\xff", b"NaN", b"[[", b"}", b'"', b"1e999", b"\\ud800", b"-", b"9" * 30])
        body = body[:at] + piece + body[at + rng.randrange(3) :]
    length = len(body) if rng.random() < 0.9 else rng.choice([0, 3, 10**9, -1])
    lines = [f"{rng.choice(['POST', 'POST', 'POST', 'GET', 'PUT', 'HEAD', 'X'])} {rng.choice(paths)} HTTP/1.1"]
    lines += [f"Host: {rng.choice(['127.0.0.1', 'localhost', 'evil', ''])}", f"Content-Length: {length}"]
    lines += [
        f"Content-Type: {rng.choice(['application/json', 'application/json', 'text/plain'])}",
        "Connection: close",
    ]
    if rng.random() < 0.1:
        lines.append(
            rng.choice(["Host: localhost", "Transfer-Encoding: chunked", "X: " + "y" * 40_000, "bad header", ": x"])
        )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def run_bounded(make: Callable[[Path], Soak]) -> None:
    """Run a service in a folder of its own, print the report, and end with 1 if anything failed."""
    folder = Path(tempfile.mkdtemp(prefix="tagwood-soak-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    try:
        report = make(folder).run()
        left = [path.name for path in (folder / "tmp").iterdir()]
        report["left in the temp folder"] = left
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report, indent=2))
    sys.exit(1 if report["failures"] or left else 0)


def main() -> None:
    """Run the soak and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--pause", type=float, default=0.03, help="seconds between the requests of a client")
    parser.add_argument("--kill-seconds", type=float, default=3.0, help="mean time between two kills; 0: none")
    args = parser.parse_args()
    run_bounded(lambda folder: Soak(folder, args.minutes, args.pause, args.kill_seconds))


if __name__ == "__main__":
    main()
