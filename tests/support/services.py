"""Services for tests: limits small enough to be reached, and a real service with its processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tagwood.service.settings import RequestLimits

_MAIN = "from tagwood.cli import main; main()"
LIMITS = RequestLimits(body_bytes=20_000, text_chars=2_000, texts=20, k=50, labels=30, concurrent=64, body_seconds=0.5)


def ask(address, path, body=None, timeout=30):
    """Return status and content of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address + path.lstrip("/"), data, {"Content-Type": "application/json"} if data else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


class Service:
    """`tagwood serve` in processes of its own; `lines` is its log, `words` is what else it says."""

    def __init__(self, model, *options):
        command = [sys.executable, "-c", _MAIN, "serve", str(model), "--port", "0", "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.lines: list[dict] = []
        self.words: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        said = b""
        while not said.rstrip().endswith(b"}"):
            line = self.process.stdout.readline()
            assert line, self.lines
            said += line
        self.address = json.loads(said)["address"]

    def _read(self):
        for line in self.process.stderr or ():
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.words.append(line.decode().strip())

    def events(self, name):
        return [line for line in list(self.lines) if line["event"] == name]

    def worker_pids(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def ready_workers(self):
        """Whether each worker is ready, by its number, as the log says."""
        ready = {}
        for line in list(self.lines):
            if line["event"] == "worker ended":
                ready[line["number"]] = False
            elif line["event"] == "ready":
                ready[line["worker"]] = True
        return ready

    def wait_for(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.lines[-5:]
            time.sleep(0.05)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        code = self.process.wait(40)
        self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code
