"""Small set networks with random weights, for tests of decoding and training."""

from __future__ import annotations

import numpy as np
import torch

from tagwood.neural.set_network import SetNetwork, SetSizes, Words
from tagwood.neural.set_output import Columns

N_LABELS = 6


def make_network(
    seed: int = 0, *, scale: float = 4.0, dtype: torch.dtype = torch.float32, **sizes
) -> SetNetwork:
    """A network whose steps prefer different labels; `scale` makes its probabilities less even."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options = {"dimension": 5, "hidden": 16, "layers": 1, "dropout": 0.0, **sizes}
        network = SetNetwork(SetSizes(9, N_LABELS, **options))
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
    """Candidates: labels 0, 2, 3, 5 and the end, some of them for each row."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((n_rows, 5)) < 0.7
    allowed[:, -1] = True
    return Columns(torch.tensor([0, 2, 3, 5, N_LABELS]), torch.from_numpy(allowed))
