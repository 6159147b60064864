"""`MimlNetwork`: a small network that learns from labels of groups of rows; for hundreds of labels, not for millions.

In: rows X, groups, labels of groups. Out: a ranking for groups or for single rows. With more labels, assign labels to
rows first (`tagwood.impute_labels`) and train any other model.

Decisions
---------
* The network is Deep-MIML, and with label embeddings the co-attention version of EAGLE. The paper has a ReLU between
  the concept layer and the pooling. Here it follows the hidden layer, and logits are signed: with the ReLU, two to
  seven of ten labels had no evidence in any row after some steps and got no gradient from then on (MNIST in groups of
  four: 75 % accuracy against 95 % on held-out digits).
* The paper multiplies logits of at least 0 by the attention mask. The logarithm of the mask is added to signed ones
  instead: a product would bring a negative logit nearer to zero where the mask is small, and the row that is attended
  least would win the maximum (tested).
* Padding is excluded from the pooling and does not change results (tested).
* A single row is a group of one, whose attention mask is 1: attention helps training and is not needed to predict.
* The loss is the mean binary cross-entropy over all labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import check_features, check_labels, normalize_rows
from tagwood.errors import InputError
from tagwood.groups.impute import embed_labels
from tagwood.groups.labels import GroupedLabels
from tagwood.models.base import FittedModel, Progress, check_training_data
from tagwood.neural.torch_state import check_parts, load_arrays, module_arrays, torch_threads
from tagwood.neural.training import History, Rows, Training, shuffled, train
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

ATTENTIONS = ("eagle", "eagle-0", "none")
_CELLS = 4096  # rows, including padding, in a batch of predictions


@storable("MimlNetwork")
class MimlNetwork(FittedModel):
    """Learn from groups of rows whose labels are known only for the group, and rank labels of groups or rows.

    1. Each label gets an embedding that is close to at least one row of each of its groups (`embed_labels`).
    2. A network computes a logit for each row and label. 3. Attention raises the logits of rows that are close to the
    label's embedding, and lowers the others. 4. The logit of a group is the maximum over its rows.

    Parameters
    ----------
    attention
        ``"eagle"``; ``"eagle-0"``: initial embeddings that are not optimized; ``"none"``: no attention (Deep-MIML).
    sharpness
        τ of the attention: higher values focus on closer rows. 0 is Deep-MIML. From 1 to 10 it matters little in groups
        of four rows and much in groups of fifty; 10 was best on held-out rows in both.
    contrast
        Of the label embeddings, see `impute_labels`; 0 is the paper's.
    concepts
        Number of concepts per label: different kinds of rows that share it.
    hidden
        Size of the hidden layer, 0 for none.
    training
        Epochs, batch size (in groups), learning rate and so on. Large groups tell little each and need most of the
        default's 30 epochs; give `evaluate` to `fit` to keep the best one.
    seed, threads
        The same seed and number of threads (default: all cores) give the same model bits on the CPU.

    Attributes
    ----------
    module_ : MimlModule
    history_ : History of the training; None in a loaded model
    n_features_, n_labels_ : int

    Examples
    --------
    Boxes of two letters. Boxes with a letter like (1, 0, 0) have label 0, boxes with (0, 1, 0) label 1:

    >>> X = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]] * 20)
    >>> boxes = np.kron(np.eye(60), np.ones((2, 1)))
    >>> model = MimlNetwork(threads=1).fit(X, [[0], [1], [0, 1]] * 20, groups=boxes)
    >>> model.rank(np.eye(3)[:2], k=1).labels.tolist()
    [0, 1]
    """

    _learned = "module_"

    def __init__(
        self,
        *,
        attention: str = "eagle",
        sharpness: float = 10.0,
        contrast: float = 1.0,
        concepts: int = 4,
        hidden: int = 128,
        training: Training = Training(epochs=30, batch_size=32, learning_rate=1e-2),  # noqa: B008 (frozen)
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.attention = attention
        self.sharpness = sharpness
        self.contrast = contrast
        self.concepts = concepts
        self.hidden = hidden
        self.training = training
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from rows and the labels of their groups.

        Parameters
        ----------
        X, y
            (n_rows, n_features) features; (n_groups, n_labels) labels of the groups: a 0/1 matrix, or the label ids of
            each group. Without `groups`, labels of the rows.
        groups
            (n_rows, n_groups) 0/1 matrix, or the group ids of each row. A row may be in several groups.
        evaluate
            Held-out measure of this model, higher is better, called after each epoch; the best weights are kept.
        folder, progress
            Folder for checkpoints, from which the same call resumes; function called with a line and the share done.
        """
        self.check_params()
        features, labels, members = _check_groups(X, y, groups)
        data = GroupRows(features, members)
        filled = np.flatnonzero(data.sizes)  # groups with rows
        device = self.training.device

        def loss(module: nn.Module, rows: Rows) -> torch.Tensor:
            groups = filled[rows]
            wanted = torch.from_numpy(labels[groups].toarray().astype(np.float32)).to(device)
            return nn.functional.binary_cross_entropy_with_logits(module(data.batch(groups, device)), wanted)

        with torch_threads(self.threads) as threads:
            module = self._new_module(features, members, labels, threads)
            unfinished = type(self)(**self.get_params(deep=False))
            unfinished._set_learned(module, features.shape[1], None)
            history = train(
                module,
                shuffled(filled.size, self.training.batch_size),
                loss,
                self.training,
                seed=self.seed,
                evaluate=None if evaluate is None else lambda _: evaluate(unfinished),
                folder=folder,
                progress=progress,
            )
        self._set_learned(module, features.shape[1], history)
        return self

    def rank(self, X: Any, k: int = 5, *, groups: Any = None) -> Ranking:
        """Return the best `k` labels of each group, or of each row without `groups`.

        Groups without rows get no labels.
        """
        self._check_fitted()
        k = min(check_int(k, "k", low=1), self.n_labels_)
        features = check_features(X, n_features=self.n_features_)
        members = None if groups is None else check_labels(groups, n_rows=features.shape[0], name="groups")
        data = GroupRows(features, members)
        labels = np.zeros((data.sizes.size, k), dtype=np.int32)
        scores = np.zeros((data.sizes.size, k), dtype=np.float32)
        device = str(self.module_.bias.device)
        with torch_threads(self.threads), torch.no_grad():
            for places in data.by_size(_CELLS):
                found = torch.sigmoid(self.module_(data.batch(places, device))).cpu().numpy()
                labels[places] = order = np.argsort(-found, axis=1, kind="stable")[:, :k]
                scores[places] = np.take_along_axis(found, order, axis=1)
        filled = data.sizes > 0
        indptr = np.concatenate([[0], np.cumsum(np.where(filled, k, 0))])
        return Ranking(indptr, labels[filled].ravel(), scores[filled].ravel(), self.n_labels_)

    def predict(self, X: Any, *, groups: Any = None) -> sparse.csr_array:
        """Return the label sets of groups or rows: labels with a probability of at least 0.5."""
        self._check_fitted()
        return self.rank(X, k=self.n_labels_, groups=groups).above(0.5).to_sets()

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        init = {**self.get_params(deep=False), "training": asdict(self.training)}
        params = {"init": init, "n_features": self.n_features_}
        return State("MimlNetwork", params=params, arrays=module_arrays(self.module_))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        model = cls(**{**init, "training": Training(**init["training"])})
        model.check_params()
        n_features = check_int(state.param("n_features", int), "n_features", low=1)
        n_labels = state.array("bias", np.float32, (None,)).size
        attends = "embeddings" in state.arrays and state.arrays["embeddings"].size > 0
        vectors = torch.zeros(n_labels, n_features) if attends else None
        module = model._module(n_features, n_labels, 1.0, vectors)
        load_arrays(module, state)
        model._set_learned(module.eval(), n_features, None)
        return model

    def _set_learned(self, module: MimlModule, n_features: int, history: History | None) -> None:
        self.module_, self.history_ = module, history
        self.n_features_, self.n_labels_ = n_features, module.n_labels

    def _module(self, n_features: int, n_labels: int, spread: float, vectors: torch.Tensor | None) -> MimlModule:
        sizes = (n_features, self.hidden, self.concepts, n_labels)
        return MimlModule(*sizes, spread=spread, embeddings=vectors, sharpness=self.sharpness)

    def _new_module(
        self, X: sparse.csr_array, members: sparse.csr_array | None, labels: sparse.csr_array, threads: int
    ) -> MimlModule:
        """Return an untrained network with the label embeddings of its attention."""
        vectors = None
        if self.attention != "none":
            found = embed_labels(
                X,
                sparse.eye_array(X.shape[0], format="csr") if members is None else members,
                labels,
                steps=20 if self.attention == "eagle" else 0,
                contrast=self.contrast,
                seed=self.seed,
                threads=threads,
            )
            vectors = torch.from_numpy(found.toarray())
        # Rows have norm 1; times the root of the average number of features, each feature is about 1.
        spread = float(np.sqrt(max(1.0, X.nnz / X.shape[0])))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self._module(X.shape[1], labels.shape[1], spread, vectors)

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_choice(self.attention, "attention", ATTENTIONS)
        check_float(self.sharpness, "sharpness", low=0.0)
        check_float(self.contrast, "contrast", low=0.0, high=1.0)
        check_int(self.concepts, "concepts", low=1)
        check_int(self.hidden, "hidden", low=0)
        check_parts(self, {"training": Training})
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


def _check_groups(X: Any, Y: Any, groups: Any) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array | None]:
    """Return features, labels of groups, and memberships of rows in groups; None without groups."""
    if groups is None:
        parts, labels = check_training_data(X, Y)
        return parts.to_scipy(), labels, None
    features = check_features(X)
    grouped = GroupedLabels(groups, Y)
    if grouped.n_rows != features.shape[0]:
        raise InputError(
            f"groups must have one row for each of the {features.shape[0]:,} rows of X",
            given=f"{grouped.n_rows:,} rows",
        )
    if min(features.shape) == 0 or grouped.group_labels.nnz == 0 or grouped.sample_groups.nnz == 0:
        raise InputError(
            "there must be rows with features, groups with rows, and groups with labels",
            given=f"{features.shape[0]:,} rows in {grouped.n_groups:,} groups, {grouped.group_labels.nnz:,} labels",
        )
    return features, grouped.group_labels, grouped.sample_groups


class GroupBatch(NamedTuple):
    """A batch of groups: `rows` (n_groups, largest, n_features), and `real` (n_groups, largest), False for padding."""

    rows: torch.Tensor
    real: torch.Tensor


class GroupRows:
    """The rows of groups, scaled to norm 1 and sparse until `batch` makes tensors of them.

    `groups` is a (n_rows, n_groups) 0/1 array, or None if every row is its own group.
    """

    def __init__(self, X: sparse.csr_array, groups: sparse.csr_array | None) -> None:
        self.X = normalize_rows(X)
        if groups is None:
            self.starts = np.arange(X.shape[0] + 1)
            self.members = np.arange(X.shape[0])
        else:
            by_group = sparse.csr_array(groups.T)
            by_group.sort_indices()
            self.starts, self.members = by_group.indptr, by_group.indices
        self.sizes = np.diff(self.starts).astype(np.int64)  # rows of each group

    def batch(self, groups: NDArray[np.integer], device: str = "cpu") -> GroupBatch:
        """Return the rows of some groups as tensors; groups without rows are all padding."""
        sizes = self.sizes[groups]
        largest = max(1, int(sizes.max(initial=0)))
        real = np.arange(largest) < sizes[:, None]
        rows = self.members[np.concatenate([np.arange(self.starts[g], self.starts[g + 1]) for g in groups])]
        padded = np.zeros((len(groups), largest, self.X.shape[1]), dtype=np.float32)
        padded[real] = self.X[rows].toarray()
        return GroupBatch(torch.from_numpy(padded).to(device), torch.from_numpy(real).to(device))

    def by_size(self, n_cells: int) -> list[NDArray[np.int64]]:
        """Return batches of groups of similar sizes, each of at most `n_cells` rows including padding."""
        order = np.argsort(self.sizes, kind="stable").astype(np.int64)
        found, begin = [], 0
        for end in range(1, order.size + 1):
            full = end < order.size and (end + 1 - begin) * int(self.sizes[order[end]]) > n_cells
            if full or end == order.size:
                found.append(order[begin:end])
                begin = end
        return found


class MimlModule(nn.Module):
    """Rows -> hidden layer -> logits of the concepts of each label -> maximum over concepts -> maximum over rows.

    Rows are multiplied by `spread`. `embeddings` (n_labels, n_features) of the labels are for the attention; None means
    no attention. See `MimlNetwork` for the other parameters.
    """

    embeddings: torch.Tensor
    spread: torch.Tensor

    def __init__(
        self,
        n_features: int,
        hidden: int,
        concepts: int,
        n_labels: int,
        *,
        spread: float = 1.0,
        embeddings: torch.Tensor | None = None,
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        self.concepts, self.n_labels, self.sharpness = concepts, n_labels, sharpness
        self.hidden = nn.Linear(n_features, hidden) if hidden else None
        self.aspects = nn.Linear(hidden or n_features, concepts * n_labels)
        self.bias = nn.Parameter(torch.zeros(n_labels))
        self.register_buffer("spread", torch.tensor([float(spread)]))
        self.register_buffer("embeddings", torch.empty(0) if embeddings is None else embeddings)
        first = self.hidden or self.aspects
        nn.init.normal_(first.weight, std=1.0 / max(1e-6, float(spread)))
        nn.init.zeros_(first.bias)

    def forward(self, batch: GroupBatch) -> torch.Tensor:
        """Return the (n_groups, n_labels) logits; groups without rows have only the bias."""
        logits = self.row_logits(batch.rows)
        if self.embeddings.numel():
            logits = logits + self.log_mask(batch)
        logits = logits.masked_fill(~batch.real[:, :, None], -math.inf).amax(dim=1)
        return logits.masked_fill(~batch.real.any(dim=1)[:, None], 0.0) + self.bias

    def row_logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the (n_groups, largest, n_labels) logits of each row: the multi-instance logits."""
        rows = rows * self.spread
        if self.hidden is not None:
            rows = torch.relu(self.hidden(rows))
        aspects: torch.Tensor = self.aspects(rows)
        return aspects.view(*aspects.shape[:-1], self.concepts, self.n_labels).amax(dim=-2)

    def log_mask(self, batch: GroupBatch) -> torch.Tensor:
        """Return ln(g * softmax(τ X Lᵀ)) over the g real rows of each group; 0 where it has one row or none."""
        affinity = self.sharpness * (batch.rows @ self.embeddings.T)
        affinity = affinity.masked_fill(~batch.real[:, :, None], -math.inf)
        affinity = affinity.masked_fill(~batch.real.any(dim=1)[:, None, None], 0.0)  # groups without rows
        sizes = batch.real.sum(dim=1).clamp(min=1)[:, None, None]
        return torch.log_softmax(affinity, dim=1) + torch.log(sizes.to(affinity.dtype))
