"""Networks that choose sets among candidates: attention over candidates, and the GRU decoder of OTSeq2Set as control.

In: `Candidates`. Out: new probabilities of the candidates (`SetAttention`), or sets (`SetDecoder`). Both learn by the
batched matching and transport losses of OTSeq2Set.

Decisions
---------
* `SetAttention` does not depend on the order of the candidates. Candidate i is a step that can generate its own label
  or ∅, so its two logits are its log odds and 0. What the network adds to the log odds is a layer that starts at zero:
  untrained it returns exactly the probabilities that it was given.
* The matching then pairs each true label with its own step, and L_b with ∅ weight 1 is the likelihood of the set.
* In the transport ∅ has a dimension of its own; only matched steps move.
* Rows without a true candidate count too: each row has one more label and step, always generated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from experiments.set_model.candidates import FOLDED, Candidates
from tagwood.neural.otseq2set.loss import SetLossOptions, set_loss
from tagwood.neural.otseq2set.network import LOW
from tagwood.neural.training import Training, shuffled, train

HIDDEN, HEADS, LAYERS = 64, 4, 2
_PAIRS = 3  # P(other | label), P(label | other), cosine of the labels
_SURE = 20.0  # logit of the label that every row has
_SMALLEST = 1e-4  # probabilities nearer to 0 or 1 are moved to here


@dataclass(frozen=True)
class Options:
    """What a network sees and how it learns; `parts` are names of inputs that are left out."""

    left_out: tuple[str, ...] = ()
    transport: float = 0.0
    empty_weight: float = 1.0
    epochs: int = 10
    rate: float = 1e-3
    steps: int = 12  # of the decoder


class Batch:
    """Candidates as tensors: inputs of each candidate, of each pair, and what is right."""

    def __init__(self, data: Candidates, left_out: tuple[str, ...] = ()) -> None:
        real = data.labels >= 0
        p = np.clip(data.probabilities, _SMALLEST, 1 - _SMALLEST)
        own = np.where(real, np.log(p) - np.log1p(-p), -_SURE).astype(np.float32)
        vectors = data.vectors[np.maximum(data.labels, 0)] * real[:, :, None]
        place = np.broadcast_to(np.log1p(np.arange(own.shape[1])), own.shape)
        total = np.broadcast_to(np.log1p(data.probabilities.sum(axis=1))[:, None], own.shape)
        inputs = [np.stack([own / 4, data.probabilities, place / 3, total], axis=2)]
        zero = {name: 0.0 if name in left_out else 1.0 for name in ("scores", "cosines", "vectors", "together")}
        inputs += [zero["scores"] * data.scores, zero["cosines"] * data.cosines[:, :, None], zero["vectors"] * vectors]
        pairs = [data.together, data.together.transpose(0, 2, 1)]
        pairs = [zero["together"] * np.sqrt(part) for part in pairs]
        pairs.append(zero["vectors"] * np.einsum("nid,njd->nij", vectors, vectors))
        self.own, self.real = torch.from_numpy(own), torch.from_numpy(real)
        self.inputs = torch.from_numpy(np.concatenate(inputs, axis=2).astype(np.float32))
        self.pairs = torch.from_numpy(np.stack(pairs, axis=3).astype(np.float32))
        self.vectors, self.right = torch.from_numpy(vectors), torch.from_numpy(data.right)

    def rows(self, rows: NDArray[np.int64]) -> Batch:
        """Return some of the rows."""
        made, index = object.__new__(Batch), torch.from_numpy(rows)
        made.__dict__.update({name: value[index] for name, value in vars(self).items()})
        return made

    def __len__(self) -> int:
        return len(self.own)


class AttentionLayer(nn.Module):
    """Attention over the candidates of a row, with what is known of each pair as a bias, and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.mix = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.bias = nn.Linear(_PAIRS, HEADS, bias=False)
        self.wide = nn.Sequential(nn.Linear(HIDDEN, 2 * HIDDEN), nn.GELU(), nn.Linear(2 * HIDDEN, HIDDEN))
        self.drop = nn.Dropout(0.1)

    def forward(self, states: torch.Tensor, pairs: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Return the next (n_rows, K, HIDDEN) states."""
        n, k, d = states.shape
        q, keys, v = self.qkv(self.norm_1(states)).view(n, k, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        bias = self.bias(8 * pairs).permute(0, 3, 1, 2).masked_fill(~real[:, None, None, :], -1e4)
        mixed = nn.functional.scaled_dot_product_attention(q, keys, v, attn_mask=bias)
        states = states + self.drop(self.mix(mixed.transpose(1, 2).reshape(n, k, d)))
        found: torch.Tensor = states + self.drop(self.wide(self.norm_2(states)))
        return found


class SetAttention(nn.Module):
    """Add to each candidate's log odds what the other candidates of the row tell; at first nothing."""

    def __init__(self, n_inputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(n_inputs, HIDDEN)
        self.layers = nn.ModuleList(AttentionLayer() for _ in range(LAYERS))
        self.norm, self.out = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return (n_rows, K) log odds."""
        states = self.first(batch.inputs)
        for layer in self.layers:
            states = layer(states, batch.pairs, batch.real)
        return torch.where(batch.real, batch.own + self.out(self.norm(states))[:, :, 0], -_SURE)

    def loss(self, batch: Batch, options: Options) -> torch.Tensor:
        """Return the matching and transport loss of some rows."""
        odds = self(batch)
        n, k = odds.shape
        # One more step and output (k), which every row has; ∅ is output k + 1, with logit 0.
        logits = odds.new_full((n, k + 1, k + 2), LOW)
        logits[:, :, k + 1] = 0.0
        ids = torch.arange(k)
        logits[:, ids, ids] = odds
        logits[:, k, k] = _SURE
        return set_loss(logits, targets(batch), embeddings(batch, options), empty=k + 1, options=loss_options(options))

    @torch.inference_mode()
    def probabilities(self, batch: Batch) -> NDArray[np.float64]:
        """Return (n_rows, K) probabilities, 0 where there is no candidate."""
        self.eval()
        return torch.where(batch.real, torch.sigmoid(self(batch)), 0.0).double().numpy()


class SetDecoder(nn.Module):
    """The control: a GRU that generates one candidate, or ∅, a step, as the decoder of OTSeq2Set does."""

    def __init__(self, n_inputs: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.first = nn.Sequential(nn.Linear(n_inputs, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN))
        self.cell, self.query = nn.GRUCell(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.key, self.empty = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self.together = nn.Linear(2, 1, bias=False)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return (n_rows, steps, K + 1) logits, the last of ∅; a step is fed with what the one before generated."""
        states = self.first(batch.inputs)
        keys, real = self.key(states), batch.real
        hidden = (states * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp_min(1)
        fed, found = torch.zeros_like(hidden), []
        near = torch.zeros_like(batch.own)
        rows = torch.arange(len(batch))
        for _ in range(self.steps):
            hidden = self.cell(fed, hidden)
            score = (keys @ self.query(hidden)[:, :, None])[:, :, 0] / HIDDEN**0.5 + batch.own + near
            logits = torch.cat([score.masked_fill(~real, LOW), self.empty(hidden)], dim=1)
            found.append(logits)
            best = logits.argmax(dim=1)
            chosen, at = best < batch.own.shape[1], best.clamp_max(batch.own.shape[1] - 1)
            fed = states[rows, at] * chosen[:, None]
            near = near + self.together(batch.pairs[rows, at, :, :2])[:, :, 0] * chosen[:, None]
        return torch.stack(found, dim=1)

    def loss(self, batch: Batch, options: Options) -> torch.Tensor:
        """Return the matching and transport loss of some rows."""
        logits = self(batch)
        n, steps, width = logits.shape
        whole = logits.new_full((n, steps + 1, width + 1), LOW)
        whole[:, :steps, : width - 1], whole[:, :steps, width] = logits[:, :, :-1], logits[:, :, -1]
        whole[:, steps, width - 1] = _SURE
        return set_loss(
            whole, targets(batch, steps), embeddings(batch, options), empty=width, options=loss_options(options)
        )

    @torch.inference_mode()
    def chosen(self, batch: Batch) -> NDArray[np.bool_]:
        """Return (n_rows, K): which candidates are generated; ∅ is skipped, and no candidate counts twice."""
        self.eval()
        best = self(batch).argmax(dim=2)
        found = torch.zeros(len(batch), batch.own.shape[1] + 1, dtype=torch.bool)
        return found.scatter_(1, best, True)[:, :-1].numpy() & batch.real.numpy()


def targets(batch: Batch, most: int | None = None) -> torch.Tensor:
    """Return (n_rows, most + 1): the true candidates, padded with -1, and the label that every row has."""
    n, k = batch.right.shape
    places = torch.where(batch.right, torch.arange(k), -1).sort(dim=1, descending=True).values[:, :most]
    return torch.cat([places, torch.full((n, 1), k)], dim=1)


def embeddings(batch: Batch, options: Options) -> torch.Tensor | None:
    """Return (n_rows, K + 2, FOLDED + 2) vectors: the labels', and a dimension each for ∅ and what every row has."""
    if not options.transport:
        return None
    n, k = batch.own.shape
    found = torch.zeros(n, k + 2, FOLDED + 2)
    found[:, :k, : batch.vectors.shape[2]] = batch.vectors
    found[:, k, FOLDED] = found[:, k + 1, FOLDED + 1] = 1.0
    return found


def loss_options(options: Options) -> SetLossOptions:
    """Return the weights of the losses."""
    return SetLossOptions("all", options.empty_weight, options.transport, 1.0, "matched")


def fit(kind: str, data: Batch, options: Options, seed: int = 0, evaluate: Any = None) -> SetAttention | SetDecoder:
    """Train a network, ``"attention"`` or ``"decoder"``; with `evaluate` the best epoch is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        width = data.inputs.shape[2]
        module = SetAttention(width) if kind == "attention" else SetDecoder(width, options.steps)
    settings = Training(epochs=options.epochs, batch_size=64, learning_rate=options.rate)
    module.history = train(  # type: ignore[assignment]
        module,
        shuffled(len(data), settings.batch_size),
        lambda net, rows: net.loss(data.rows(rows), options),  # type: ignore[operator]
        settings,
        seed=seed,
        evaluate=evaluate,
    )
    return module
