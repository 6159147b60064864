"""`MimlNetwork`: a small network that learns from labels of groups of rows; for hundreds of labels, not for millions.

In: rows X, groups, labels of groups. Out: a ranking for groups or for single rows. With more labels, give labels to
rows first (`tagwood.impute_labels`) and train any other model.

Decisions
---------
* The paper puts a ReLU between the concept layer and the pooling. Here it stands behind the hidden layer, and logits
  are signed: with the ReLU, two to seven labels of ten had no evidence in any row after some steps, got no gradient any
  more and stayed so (MNIST in groups of four: 75 % right against 95 % on held-out digits).
* Padding is left out of the pooling; results do not depend on it (tested).
* A single row is a group of one, whose mask is 1: attention helps to learn, and is not needed to predict.
* The loss is the mean binary cross-entropy over all labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import check_features, check_labels
from tagwood.errors import InputError
from tagwood.groups.impute import embed_labels
from tagwood.groups.labels import GroupedLabels
from tagwood.models.base import FittedModel
from tagwood.models.linear_tree.model import check_training_data
from tagwood.neural.miml.network import GroupRows, MimlModule
from tagwood.neural.torch_state import torch_threads
from tagwood.neural.training import History, Rows, Step, Training, in_words, shuffled, train
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

# SECTION neural.miml_inputs
# What `MimlNetwork.fit` is given, checked and brought into the form of the training loop.


def check_groups(
    X: Any, Y: Any, groups: Any
) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array | None]:
    """Return features, labels of groups and membership in groups, or raise `InputError`; no groups stay None."""
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


def group_loss(data: GroupRows, labels: sparse.csr_array, filled: NDArray[np.int64], device: str) -> Step:
    """Return the loss of some of the groups that have rows."""

    def step(module: nn.Module, rows: Rows) -> torch.Tensor:
        groups = filled[rows]
        wanted = torch.from_numpy(labels[groups].toarray().astype(np.float32)).to(device)
        return nn.functional.binary_cross_entropy_with_logits(module(data.batch(groups, device)), wanted)

    return step


ATTENTIONS = ("eagle", "eagle-0", "none")
_CELLS = 4096  # rows with padding in a batch of predictions


@storable("MimlNetwork")
class MimlNetwork(FittedModel):
    """Learn from groups of rows whose labels are known for the group only, and rank labels of groups or rows.

    1. Each label gets an embedding that is close to at least one row of each of its groups (`embed_labels`).
    2. A network gives each row a logit for each label. 3. Logits count more in rows close to the label's embedding.
    4. A group has the logit of its best row.

    Parameters
    ----------
    attention
        ``"eagle"``; ``"eagle-0"``: embeddings without learning; ``"none"``: no attention, Deep-MIML.
    sharpness
        τ: how much closer rows count for more. 0 is Deep-MIML.
    contrast
        Of the label embeddings; see `tagwood.impute_labels`.
    concepts
        Aspects of a label: its rows may look different in so many ways.
    hidden
        Size of the hidden layer, 0 for none.
    training
        Epochs, batch size (in groups), learning rate and so on.
    seed, threads
        Same seed and number of threads (default all cores), same model bits on the CPU.

    Attributes
    ----------
    module_ : MimlModule
    history_ : History of the training; None in a loaded model
    n_features_, n_labels_ : int

    Examples
    --------
    Boxes of two letters. Label 0 stands on boxes with a letter like (1, 0, 0), label 1 on (0, 1, 0):

    >>> X = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]] * 20)
    >>> boxes = np.kron(np.eye(60), np.ones((2, 1)))
    >>> settings = Training(epochs=40, batch_size=20, learning_rate=0.01)
    >>> model = MimlNetwork(training=settings, threads=1).fit(X, [[0], [1], [0, 1]] * 20, groups=boxes)
    >>> model.rank(np.eye(3)[:2], k=1).labels.tolist()
    [0, 1]
    """

    _learned = "module_"

    def __init__(
        self,
        *,
        attention: str = "eagle",
        sharpness: float = 1.0,
        contrast: float = 1.0,
        concepts: int = 4,
        hidden: int = 128,
        training: Training = Training(),  # noqa: B008 (frozen)
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
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Learn from rows and the labels of their groups.

        Parameters
        ----------
        X
            (n_rows, n_features) sparse or dense features.
        y
            (n_groups, n_labels) labels of the groups: a 0/1 matrix, or the label ids of each group; without `groups`,
            labels of the rows.
        groups
            (n_rows, n_groups) 0/1 matrix, or the group numbers of each row. A row may be in several groups.
        evaluate
            Held-out measure of this model, higher is better, asked after each epoch; the best weights are kept.
        folder
            Where checkpoints of a long training are kept; the same call goes on from them.
        progress
            Called with a line about the training and the share done.
        """
        self._check_params()
        features, labels, members = check_groups(X, y, groups)
        data = GroupRows(features, members)
        filled = np.flatnonzero(data.sizes)
        with torch_threads(self.threads) as threads:
            vectors = self._embeddings(features, members, labels, threads)
            module = self._new_module(features, labels.shape[1], vectors)
            measure = None if evaluate is None else self._measure(evaluate, features.shape[1])
            history = train(
                module,
                shuffled(filled.size, self.training.batch_size),
                group_loss(data, labels, filled, self.training.device),
                self.training,
                seed=self.seed,
                evaluate=measure,
                folder=folder,
                progress=in_words(progress),
            )
        self._learn(module, features.shape[1], history)
        return self

    def rank(self, X: Any, k: int = 5, *, groups: Any = None) -> Ranking:
        """Return the best `k` labels of each group, or without `groups` of each row.

        Groups without rows get no labels.
        """
        self._check_fitted()
        check_int(k, "k", low=1)
        data, k = self._groups(X, groups), min(k, self.n_labels_)
        labels = np.zeros((data.n_groups, k), dtype=np.int32)
        scores = np.zeros((data.n_groups, k), dtype=np.float32)
        for places, found in self._probabilities(data):
            order = np.argsort(-found, axis=1, kind="stable")[:, :k]
            labels[places] = order
            scores[places] = np.take_along_axis(found, order, axis=1)
        keep = np.repeat(data.sizes > 0, k)
        indptr = np.concatenate([[0], np.cumsum(np.where(data.sizes > 0, k, 0))])
        return Ranking(indptr, labels.ravel()[keep], scores.ravel()[keep], self.n_labels_)

    def predict(self, X: Any, *, groups: Any = None) -> sparse.csr_array:
        """Return the label sets of groups or rows: labels with a probability of at least 0.5."""
        self._check_fitted()
        return self.rank(X, k=self.n_labels_, groups=groups).above(0.5).to_sets()

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        arrays = {
            name.replace(".", "_"): np.ascontiguousarray(value.detach().cpu().numpy())
            for name, value in self.module_.state_dict().items()
        }
        params = {"init": {**self.get_params(deep=False), "training": asdict(self.training)}}
        return State("MimlNetwork", params={**params, "n_features": self.n_features_}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        model = cls(**{**init, "training": Training(**init["training"])})
        model._check_params()
        n_features = check_int(state.param("n_features", int), "n_features", low=1)
        n_labels = state.array("bias", np.float32, (None,)).size
        attends = "embeddings" in state.arrays and state.arrays["embeddings"].size > 0
        vectors = torch.zeros(n_labels, n_features) if attends else None
        module = model._module(n_features, n_labels, 1.0, vectors)
        module.load_state_dict(
            {
                name: torch.from_numpy(
                    np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
                )
                for name, value in module.state_dict().items()
            }
        )
        model._learn(module.eval(), n_features, None)
        return model

    def _learn(self, module: MimlModule, n_features: int, history: History | None) -> None:
        self.module_, self.history_ = module, history
        self.n_features_, self.n_labels_ = n_features, module.n_labels

    def _module(
        self, n_features: int, n_labels: int, spread: float, vectors: torch.Tensor | None
    ) -> MimlModule:
        return MimlModule(
            n_features,
            self.hidden,
            self.concepts,
            n_labels,
            spread=spread,
            embeddings=vectors,
            sharpness=self.sharpness,
        )

    def _new_module(self, X: sparse.csr_array, n_labels: int, vectors: torch.Tensor | None) -> MimlModule:
        spread = float(np.sqrt(max(1.0, X.nnz / X.shape[0])))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self._module(X.shape[1], n_labels, spread, vectors)

    def _embeddings(
        self, X: sparse.csr_array, members: sparse.csr_array | None, labels: sparse.csr_array, threads: int
    ) -> torch.Tensor | None:
        if self.attention == "none":
            return None
        alone = sparse.eye_array(X.shape[0], format="csr") if members is None else members
        steps = 20 if self.attention == "eagle" else 0
        found = embed_labels(
            X, alone, labels, steps=steps, contrast=self.contrast, seed=self.seed, threads=threads
        )
        return torch.from_numpy(found.toarray())

    def _measure(self, evaluate: Callable[[Self], float], n_features: int) -> Callable[[nn.Module], float]:
        def measure(module: nn.Module) -> float:
            assert isinstance(module, MimlModule)
            half = type(self)(**self.get_params(deep=False))
            half._learn(module, n_features, None)
            return evaluate(half)

        return measure

    def _groups(self, X: Any, groups: Any) -> GroupRows:
        features = check_features(X, n_features=self.n_features_)
        if groups is None:
            return GroupRows(features, None)
        return GroupRows(features, check_labels(groups, n_rows=features.shape[0], name="groups"))

    def _probabilities(self, data: GroupRows) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        device = str(self.module_.bias.device)
        found = []
        with torch_threads(self.threads), torch.no_grad():
            for places in data.by_size(_CELLS):
                logits = self.module_(data.batch(places, device))
                found.append((places, torch.sigmoid(logits).cpu().numpy()))
        return found

    def _check_params(self) -> None:
        check_choice(self.attention, "attention", ATTENTIONS)
        check_float(self.sharpness, "sharpness", low=0.0)
        check_float(self.contrast, "contrast", low=0.0, high=1.0)
        check_int(self.concepts, "concepts", low=1)
        check_int(self.hidden, "hidden", low=0)
        if not isinstance(self.training, Training):
            raise InputError("training must be a Training", given=type(self.training).__name__)
        self.training.check()
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)
