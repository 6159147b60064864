"""Checkpoints of a training run: one file, written whole or not at all, read without running code from it.

In: what a run needs to go on bit for bit. Out: the same. Files hold tensors and plain values only
(``torch.load(weights_only=True)``).
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import torch

from tagwood.errors import InputError, StorageError

FILE = "checkpoint.pt"
_FORMAT = 1


def write_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint over the last one; a crash leaves the last one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{FILE}.new"
    torch.save({"format": _FORMAT, **content}, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def read_checkpoint(folder: Path, description: str) -> dict[str, Any] | None:
    """Return the checkpoint of a folder, or None if there is none.

    `description` says which run it must belong to: settings, shapes of the weights, number of processes.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, OSError) as error:
        raise StorageError(
            f"not a readable checkpoint ({type(error).__name__})",
            path=path,
            hint="Delete it to begin the training anew.",
        ) from error
    if content.get("format") != _FORMAT:
        raise StorageError("a checkpoint of another version of tagwood", path=path, hint="Delete it.")
    if content.get("description") != description:
        raise InputError(
            f"{path} must belong to this training run",
            given="one with other settings, data or weights",
            hint="Use the settings it was begun with, or delete it to begin anew.",
        )
    return content


def remove_checkpoint(folder: Path) -> None:
    """Delete the checkpoint of a run that is complete."""
    (folder / FILE).unlink(missing_ok=True)


def random_state(device: str) -> list[torch.Tensor]:
    """Return the state of torch's random numbers on the CPU and on the device."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(torch.device(device))] if device.startswith("cuda") else states


def set_random_state(states: list[torch.Tensor], device: str) -> None:
    """Go on with random numbers where `random_state` was asked; a run that changes its device draws new ones there."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and device.startswith("cuda"):
        torch.cuda.set_rng_state(states[1], torch.device(device))
