"""A model whose training loses a process a number of times, for tests/scale."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist

from tagwood.neural.processes import world
from tagwood.storage import State, storable


@storable("LosesProcess")
class LosesProcess:
    """Kills its second process, `times` in all, and otherwise adds one of each process."""

    def __init__(self, folder="", times=0, threads=None):
        self.folder, self.times, self.threads = folder, times, threads

    def get_params(self, deep=True):
        return {"folder": self.folder, "times": self.times}

    def fit(self, X, y):
        place = Path(self.folder)
        place.mkdir(exist_ok=True)
        if world()[0] == 1 and len(list(place.iterdir())) < self.times:
            (place / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        total = torch.ones(1)
        dist.all_reduce(total)
        self.total_ = float(total)
        return self

    def state(self):
        return State("LosesProcess", params={"total": self.total_})

    @classmethod
    def from_state(cls, state):
        model = cls()
        model.total_ = state.param("total", float)
        return model
