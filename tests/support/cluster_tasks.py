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
