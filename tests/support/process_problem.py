"""A training run for test_processes.py; the new processes can import it because this folder is on the path."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from torch import nn

from tagwood.neural.processes import gather_rows, world
from tagwood.neural.training import Training, shuffled, train


class Encoder(nn.Module):
    """Something before and something after rows are compared with each other."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(5, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.body(x))


def data():
    return torch.randn(24, 5, generator=torch.Generator().manual_seed(1))


def own_loss(module, rows):
    return module.head(module(data()[rows])).square().mean()


def shared_loss(module, rows):
    together = gather_rows(module(data()[rows]))
    logits = module.head(together) @ together.T
    return nn.functional.cross_entropy(logits, torch.arange(len(together)))


class StopError(Exception):
    pass


def trained_weights(shared, folder):
    settings = Training(epochs=3, batch_size=9 if not shared else 8, learning_rate=0.05, checkpoint_minutes=0.0)
    step = shared_loss if shared else own_loss

    def stop(line, share):
        if folder is not None and round(share * 9) == 4:  # after the fourth of nine steps
            raise StopError

    options = {"folder": folder, "shared_loss": shared}
    if folder is not None:
        with contextlib.suppress(StopError):
            train(Encoder(), shuffled(24, settings.batch_size), step, settings, progress=stop, **options)
    module = Encoder()
    if world()[0] == 1:  # weights of other processes are replaced by those of the first
        nn.init.zeros_(module.head.weight)
    train(module, shuffled(24, settings.batch_size), step, settings, **options)
    return np.concatenate([weight.detach().numpy().ravel() for weight in module.parameters()])


def all_weights(folder):
    return trained_weights(False, None), trained_weights(True, None), trained_weights(False, folder)
