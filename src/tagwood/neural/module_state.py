"""Weights of a torch module as arrays of a `State`, and back. In: a module. Out: float32 arrays by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood.storage import State


def module_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights and buffers of a module; dots in names become underscores.

    Examples
    --------
    >>> sorted(module_arrays(nn.Sequential(nn.Linear(2, 1))))
    ['0_bias', '0_weight']
    """
    return {
        name.replace(".", "_"): np.ascontiguousarray(value.detach().cpu().numpy())
        for name, value in module.state_dict().items()
    }


def load_arrays(module: nn.Module, state: State) -> None:
    """Fill a module with the weights of a stored one; arrays of another shape or type are refused."""
    module.load_state_dict(
        {
            name: torch.from_numpy(
                np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
            )
            for name, value in module.state_dict().items()
        }
    )
