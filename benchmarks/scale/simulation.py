"""A discrete-event simulation of training on a cluster. In: task times, nodes, stragglers, failures. Out: its length.

Tasks wait in one queue, the longest first, as `tagwood.models.tasks` orders them. A straggler takes a multiple of its
time. Nodes fail at random; what runs there starts again elsewhere, and the node comes back after a while.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Cluster:
    """Nodes with `cpus` each; times in seconds, `failures` per node and day."""

    nodes: int = 100
    cpus: int = 16
    straggler_share: float = 0.05
    straggler_factor: float = 3.0
    failures: float = 1 / 30
    repair: float = 600.0
    overhead: float = 0.01  # per task: Ray's dispatch


class Outcome(NamedTuple):
    """Length of a run, the CPU seconds that were lost to failures, and how many failures there were."""

    seconds: float
    lost: float
    failures: int


def forecast_tasks(
    n_rows: float, n_labels: float, seconds_per_visit: float, *, arity: int = 64, leaf: int = 70, spread: float = 5.4
) -> np.ndarray:
    """Return the task times of one tree: a task for each large node, and parts of at most 1/1024 of the work.

    A level costs ``rows * nodes per row * (outputs + 8)`` visits; a row is in one node of the root's level, and in up
    to `spread` nodes of every other level.
    """
    levels, nodes = [], 1.0
    while nodes * leaf < n_labels:
        levels.append((nodes, arity))
        nodes *= arity
    nodes = n_labels / leaf
    levels.append((nodes, leaf))
    costs = [n_rows * (1.0 if count == 1 else spread) * (outputs + 8) for count, outputs in levels]
    limit = sum(costs) / 1024
    tasks: list[float] = []
    small = 0.0
    for (count, _), cost in zip(levels, costs, strict=True):
        if cost / count > limit:
            tasks += [cost / count] * round(count)
        else:
            small += cost
    tasks += [limit] * round(small / limit)
    return seconds_per_visit * np.sort(np.array(tasks))[::-1]


def simulate(tasks: np.ndarray, cluster: Cluster, seed: int = 0) -> Outcome:
    """Run all tasks; events are ends of tasks, failures and repairs."""
    random = np.random.default_rng(seed)
    slow = np.where(random.random(tasks.size) < cluster.straggler_share, cluster.straggler_factor, 1.0)
    waiting = deque(range(tasks.size))
    free = [cluster.cpus] * cluster.nodes
    running: list[dict[int, tuple[int, float]]] = [{} for _ in range(cluster.nodes)]
    rate = cluster.failures / 86_400
    events: list[tuple[float, int, str, int, int]] = []
    count = 0

    def push(at: float, kind: str, node: int, run: int = -1) -> None:
        nonlocal count
        heapq.heappush(events, (at, count, kind, node, run))
        count += 1

    for node in range(cluster.nodes):
        if rate:
            push(random.exponential(1 / rate), "fail", node)
    now, lost, failures, done, runs = 0.0, 0.0, 0, 0, 0
    ready = deque(node for node in range(cluster.nodes) for _ in range(cluster.cpus))
    while done < tasks.size:
        while waiting and ready:
            node = ready.popleft()
            if free[node] <= 0:
                continue
            task = waiting.popleft()
            free[node] -= 1
            running[node][runs] = (task, now)
            push(now + tasks[task] * slow[task] + cluster.overhead, "end", node, runs)
            runs += 1
        now, _, kind, node, run = heapq.heappop(events)
        if kind == "end" and run in running[node]:
            running[node].pop(run)
            free[node] += 1
            ready.append(node)
            done += 1
        elif kind == "fail":
            failures += 1
            for task, start in running[node].values():
                lost += now - start
                waiting.appendleft(task)
            running[node].clear()
            free[node] = 0
            push(now + cluster.repair, "repair", node)
            push(now + cluster.repair + random.exponential(1 / rate), "fail", node)
        elif kind == "repair":
            free[node] = cluster.cpus
            ready.extend([node] * cluster.cpus)
    return Outcome(now, lost, failures)
