"""Tasks for the tests of clusters: a function that workers can import, and a worker that is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tagwood.storage.state import State


def slow_square(shared: Path, part: int, threads: int) -> State:
    """Return the square after a while; `shared` is a folder with the process ids of running parts."""
    running = shared / f"{os.getpid()}-{part}-{time.time_ns()}"
    running.touch()
    time.sleep(0.2)
    running.unlink()
    return State("Square", params={"square": part * part})


def kill_a_worker(folder: Path, random_state: random.Random) -> bool:
    """Kill one of the processes that run a part, if there is one."""
    running = sorted(folder.iterdir())
    if not running:
        return False
    chosen = random_state.choice(running)
    chosen.unlink(missing_ok=True)
    os.kill(int(chosen.name.partition("-")[0]), signal.SIGKILL)
    return True


def kill_an_actor(name: str, random_state: random.Random) -> bool:
    """Kill a Ray actor of this name among the processes that the tests have started, if there is one."""
    parents, actors = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if name in (folder / "cmdline").read_text():
                actors.append(int(folder.name))
        except (OSError, ValueError):
            continue
    ours = [pid for pid in actors if os.getpid() in _ancestors(pid, parents)]
    if ours:
        os.kill(random_state.choice(ours), signal.SIGKILL)
    return bool(ours)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    found = []
    while pid in parents:
        pid = parents[pid]
        found.append(pid)
    return found
