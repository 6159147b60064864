"""`LightConv`: lightweight convolutions from states of words to fewer states of stretches ("label-level" states).

In: (n_rows, longest, channels) states. Out: a state for every third word, each a weighted mean of the words around it.

Decisions
---------
* Layers of kernels 3, 7, 15 and 30 as in the paper: depth-wise, softmax-normalised, one kernel for a group of channels.
  Between them stands nothing (the paper's count of parameters leaves room for nothing else), so the layers together are
  one convolution with a kernel of 52 words, whose weights are positive and sum to 1. It is computed as such: a matrix
  from words to stretches, applied once. Tests compare it with the layers one after the other.
* At the borders of a text the mean is over the words that are there: the weights of the others are left out. So
  padding changes nothing.
"""

from __future__ import annotations

import torch
from torch import nn

KERNELS = (3, 7, 15, 30)
STRIDE = 3


class LightConv(nn.Module):
    """Means over stretches of words, with learned weights.

    Parameters
    ----------
    groups
        Groups of channels, each with its own kernels; the number of channels is a multiple of it.
    kernels
        Width of the kernel of each layer.
    stride
        Of the last layer: one state for so many words.

    Examples
    --------
    >>> conv = LightConv(groups=1)
    >>> means = conv(torch.tensor([[[1.0], [1.0], [1.0], [0.0]]]), torch.tensor([3])).detach()
    >>> means[0, :, 0].round(decimals=3).tolist(), conv.lengths(torch.tensor([1, 3, 4])).tolist()
    ([1.0, 0.0], [1, 1, 2])
    """

    def __init__(self, groups: int = 8, kernels: tuple[int, ...] = KERNELS, stride: int = STRIDE) -> None:
        super().__init__()
        self.groups, self.stride = groups, stride
        self.kernels = nn.ParameterList(nn.Parameter(0.1 * torch.randn(groups, width)) for width in kernels)

    def lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return how many states texts of so many words get."""
        return torch.div(lengths + self.stride - 1, self.stride, rounding_mode="floor")

    def kernel(self) -> torch.Tensor:
        """Return the (groups, width) kernel of all layers together."""
        joined = torch.softmax(self.kernels[0], dim=1)
        for one in list(self.kernels)[1:]:
            weights = torch.softmax(one, dim=1).flip(1)[:, None]  # conv1d does not flip
            wide = nn.functional.pad(joined, (weights.shape[2] - 1, weights.shape[2] - 1))
            joined = nn.functional.conv1d(wide[None], weights, groups=self.groups)[0]
        return joined

    def offset(self) -> int:
        """Return how many words before a stretch's own word its kernel begins."""
        return sum((one.shape[1] - 1) // 2 for one in self.kernels)

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return (n_rows, fewer, channels) states; those beyond `lengths(lengths)` are 0.

        Parameters
        ----------
        states
            (n_rows, longest, channels).
        lengths
            (n_rows,) words of each text.
        """
        n_rows, longest, channels = states.shape
        places = torch.arange(longest, device=states.device)
        fewer = int(self.lengths(torch.tensor(longest)))
        real = (places < lengths[:, None]).to(states.dtype)
        weights = self._matrix(longest, fewer)  # (groups, fewer, longest)
        width = channels // self.groups
        # One product per group of channels: (fewer, longest) times (longest, n_rows * width).
        inside = (states * real[:, :, None]).view(n_rows, longest, self.groups, width).permute(2, 1, 0, 3)
        sums = torch.bmm(weights, inside.reshape(self.groups, longest, n_rows * width))
        mass = torch.matmul(weights, real.T).clamp_min(1e-9)  # (groups, fewer, n_rows)
        means = sums.view(self.groups, fewer, n_rows, width) / mass[..., None]
        kept = torch.arange(fewer, device=states.device) < self.lengths(lengths)[:, None]
        return means.permute(2, 1, 0, 3).reshape(n_rows, fewer, channels) * kept[:, :, None]

    def _matrix(self, longest: int, fewer: int) -> torch.Tensor:
        """Return the (groups, fewer, longest) weights of words in stretches."""
        kernel = self.kernel()
        device = kernel.device
        at = torch.arange(longest, device=device)
        at = at - self.stride * torch.arange(fewer, device=device)[:, None] + self.offset()
        inside = (at >= 0) & (at < kernel.shape[1])
        return kernel[:, at.clamp(0, kernel.shape[1] - 1)] * inside
