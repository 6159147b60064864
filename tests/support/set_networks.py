"""Small set networks with random weights, for tests of decoding and training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tagwood.neural.otseq2set.network import Columns, SetNetwork, Words
from tagwood.neural.otseq2set.settings import NetworkSettings

N_LABELS = 6


def make_network(seed: int = 0, *, scale: float = 4.0, dtype: torch.dtype = torch.float32, **sizes) -> SetNetwork:
    """A network whose steps prefer different labels; `scale` makes its probabilities less even."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        settings = NetworkSettings(hidden=16, layers=1, dropout=0.0)
        for name in ("hidden", "layers", "light_conv"):
            settings = replace(settings, **{name: sizes.pop(name, getattr(settings, name))})
        network = SetNetwork(9, N_LABELS, sizes.pop("dimension", 5), settings, **sizes)
        with torch.no_grad():
            network.labels.weight.mul_(2.0)
            network.output.weight.mul_(scale)
    return network.to(dtype).eval()


def make_words(lengths=(3, 1, 5, 2), seed: int = 0) -> Words:
    rng = np.random.default_rng(seed)
    ids = np.zeros((len(lengths), max(lengths)), dtype=np.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = rng.integers(1, 9, length)
    return Words(torch.from_numpy(ids), torch.tensor(lengths))


def make_columns(n_rows: int, seed: int = 0) -> Columns:
    """Candidates: some of the labels 0, 2, 3, 5 for each row, and the end."""
    rng = np.random.default_rng(seed)
    labels, allowed = np.full((n_rows, 5), N_LABELS), np.zeros((n_rows, 5), dtype=bool)
    for row in range(n_rows):
        own = np.array([0, 2, 3, 5])[rng.random(4) < 0.7]
        labels[row, : own.size], allowed[row, : own.size] = own, True
    allowed[:, -1] = True
    return Columns(torch.from_numpy(labels), torch.from_numpy(allowed))
