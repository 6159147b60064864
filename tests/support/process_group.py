"""`run_processes`: run a function in several new processes that form a gloo process group."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def run_processes(count: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """Run ``work(*arguments)`` in `count` processes; return the result of the first one."""
    context = torch.multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        processes = [
            context.Process(target=_work, args=(rank, count, meeting, pipes[rank][1], work, arguments), daemon=True)
            for rank in range(count)
        ]
        for process, (_, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()  # so that the end of the process ends the pipe
        outcome = _outcomes([receiver for receiver, _ in pipes])
        for process in processes:
            if not all(ok for ok, _ in outcome):
                process.terminate()  # it may wait for one that failed
            process.join()
    failed = [words for ok, words in outcome if not ok]
    assert not failed, f"{len(failed)} of {count} processes failed: {failed[0]}"
    return outcome[0][1]


def _outcomes(receivers: list[Any]) -> list[tuple[bool, Any]]:
    """Return what the processes sent; after a failure, do not wait for the others."""
    found: dict[Any, tuple[bool, Any]] = {}
    receiver: Any
    while len(found) < len(receivers) and all(ok for ok, _ in found.values()):
        for receiver in wait([r for r in receivers if r not in found]):
            try:
                found[receiver] = receiver.recv()
            except EOFError:
                found[receiver] = (False, "a process ended without sending a result")
    return [found[receiver] for receiver in receivers if receiver in found]


def _work(rank: int, count: int, meeting: str, sender: Any, work: Callable[..., Any], arguments: Any) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
        value = work(*arguments)
        dist.barrier()
        dist.destroy_process_group()
        sender.send((True, value if rank == 0 else None))
    except Exception:
        sender.send((False, traceback.format_exc()))
