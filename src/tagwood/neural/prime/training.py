"""Training of a prototype module: trials that choose the centroids, its start, its steps, the final prototypes.

In: tokens of queries and labels, label sets, settings. Out: a trained `PrototypeModule`.

With several processes, each embeds its share of the queries and labels of a step; the embeddings are gathered, and
every process computes the loss of the whole batch and the same centroids.

Decisions
---------
* Whether centroids help depends on how informative label texts are and how many queries a label has;
  no simple count predicts it. So it is tried, also against label texts alone (``"none"``:
  a plain dual encoder without free vectors) with each of two margins: which one suits label texts differs between data
  sets (0.1 on YSO titles, 0.3 on packages), while prototypes need the large one.
* Centroids must beat label texts by more than one standard error of the paired difference: they make a model larger,
  and on YSO titles a lead of 0.2 points of nDCG@5 in a trial became a loss of P@1 on test rows.
* A trial is a whole training on fewer rows. Trials of a few steps chose wrongly: the harm done by a centroid that
  contains the query it is compared with grows while the encoder learns.
* Training starts from untrained prototypes (`choose_share`), and is undone unless it improves nDCG@5 of held-out rows.
* A trial takes a subset of the labels, with all their rows: fewer rows per label would change the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._sparse import check_labels, csr_parts
from tagwood.features.base import label_centroids
from tagwood.features.tfidf import TfidfEncoder
from tagwood.metrics import compare, evaluate
from tagwood.models.base import Progress
from tagwood.neural.encoders.modules import EncoderInputs
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.batches import Drawn, Positives, QueryBatches, cluster_queries, cluster_rows
from tagwood.neural.prime.label_index import LabelIndex
from tagwood.neural.prime.loss import Pairs, Scores, prototype_loss, softmax_loss
from tagwood.neural.prime.network import HIDE, PrototypeModule, PrototypeNetwork, QueryMemory, entries_of
from tagwood.neural.prime.settings import PrototypeLoss, PrototypeSettings
from tagwood.neural.processes import gather_objects, gather_rows, share_of, world
from tagwood.neural.torch_state import full_precision
from tagwood.neural.training import History, Rows, train
from tagwood.ranking import Ranking

LOW_MARGIN = "none, low margin"  # label texts alone, with the smaller margin
_MEASURE = "nDCG@5"
_ONE_ERROR = 0.683  # confidence of an interval of one standard error on each side
FEWEST_ROWS = 200  # with fewer rows trials are not informative, and the first candidate is taken
_HELD_OUT = 0.2
_LARGEST_BANK = 1 << 16
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)  # of the centroid in untrained prototypes
MOST_SOFTMAX = 50_000  # labels up to which the softmax over all labels is computed
_SHARE_ROWS = 1000  # held-out rows on which it is chosen
_FEWEST_SHARED = 20
_CHUNK = 4096  # labels whose prototypes are computed together


def draw_trial_rows(
    Y: sparse.csr_array, seed: int, n_rows: int = 10_000
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return some labels that have about `n_rows` rows, and their rows: those to train on and those to hold out."""
    random = np.random.default_rng([seed, 20])
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = random.permutation(np.flatnonzero(counts))
    last = int(np.searchsorted(np.cumsum(counts[order]), n_rows)) + 1
    labels = np.sort(order[:last])
    rows = np.flatnonzero(np.diff(check_labels(Y[:, labels]).indptr))
    mixed = random.permutation(rows)[: 2 * n_rows]  # a single label may have very many rows
    cut = round(_HELD_OUT * mixed.size)
    return labels, np.sort(mixed[cut:]), np.sort(mixed[:cut])


def trial_settings(settings: PrototypeSettings) -> dict[str, PrototypeSettings]:
    """Return the settings of each candidate; a margin that the user has changed is not tried with another value."""
    found = {kind: settings.with_centroids(kind) for kind in ("leave-one-out", "momentum", "none")}
    loss, usual = settings.loss, PrototypeLoss()
    if (loss.margin, loss.low, loss.high) == (usual.margin, usual.low, usual.high):
        found[LOW_MARGIN] = replace(settings, loss=replace(loss, high=loss.low)).with_centroids("none")
    return found


def best_candidate(Y: sparse.csr_array, rankings: dict[str, Ranking]) -> tuple[str, dict[str, float]]:
    """Return the candidate with the best nDCG@5, or label texts alone if its lead may be chance; and all measures."""
    measures = {kind: float(evaluate(Y, found, metrics=[_MEASURE])[_MEASURE]) for kind, found in rankings.items()}
    best = max(measures, key=lambda name: measures[name])
    plain = max((n for n in measures if n in ("none", LOW_MARGIN)), key=lambda name: measures[name])
    if best == plain:
        return best, measures
    leads = compare(Y, rankings[plain], rankings[best], metrics=[_MEASURE], confidence=_ONE_ERROR, threads=1)
    return (best if leads[_MEASURE].low > 0 else plain), measures


@dataclass(frozen=True, eq=False)
class PrototypeData:
    """Training queries and labels as the encoder reads them, the label sets of the queries, and their texts."""

    queries: EncoderInputs
    labels: EncoderInputs
    Y: sparse.csr_array
    texts: list[str]

    def take(self, rows: NDArray[np.int64]) -> PrototypeData:
        """Return some of the queries, with all labels."""
        texts = [self.texts[row] for row in rows]
        return PrototypeData(self.queries.take(rows), self.labels, check_labels(self.Y[rows]), texts)


def new_module(
    encoder: TextEncoder, data: PrototypeData, settings: PrototypeSettings, seed: int, threads: int
) -> PrototypeModule:
    """Return an untrained module, with centroids, clusters of labels and free vectors computed by the encoder."""
    dimension, own = encoder.module.dimension, settings.prototype
    memory, share = None, 0.5
    if own.centroids != "none" or settings.batches.clustered:
        memory = QueryMemory(data.Y, dimension, own.centroids)
        queries = encoder.embed(data.queries)
        memory.start(torch.from_numpy(queries))
        if own.centroids != "none":
            share = choose_share(queries, encoder.embed(data.labels), data.Y, seed)
    vector_of, bank = _free_vectors(encoder, data, settings, seed, threads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PrototypeModule(
            encoder.module, dimension, own, memory=memory, bank=bank, vector_of=vector_of, share=share
        )


def untrained_prototypes(
    queries: NDArray[np.float32], texts: NDArray[np.float32], Y: sparse.csr_array, share: float
) -> NDArray[np.float32]:
    """Return (n_labels, dimension) means of label text and centroid of the rows, of norm 1; the baseline of PRIME.

    `queries` (n_rows, dimension) and `texts` (n_labels, dimension) have norm 1. Labels without rows are their texts.

    Examples
    --------
    >>> unit, Y = np.eye(2, dtype=np.float32), sparse.csr_array([[0, 1], [0, 0]])
    >>> untrained_prototypes(unit, unit, Y, share=1.0).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    centroids = np.asarray(sparse.csr_array(Y > 0).T.astype(np.float32) @ queries)
    norms = np.linalg.norm(centroids, axis=1, keepdims=True)
    shares = np.where(norms > 0, np.float32(share), np.float32(0.0))
    mixed = (1 - shares) * texts + shares * centroids / np.maximum(norms, 1e-12)
    return np.asarray(mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def choose_share(queries: NDArray[np.float32], texts: NDArray[np.float32], Y: sparse.csr_array, seed: int = 0) -> float:
    """Return the share of the centroid for which untrained prototypes have the best nDCG@5 on held-out rows."""
    order = np.random.default_rng([seed, 50]).permutation(np.flatnonzero(np.diff(Y.indptr)))
    held, rest = order[: min(_SHARE_ROWS, order.size // 5)], order[min(_SHARE_ROWS, order.size // 5) :]
    if held.size < _FEWEST_SHARED:
        return 0.5
    known, true = check_labels(Y[rest]), check_labels(Y[held])
    found = {}
    for share in SHARES:
        index = LabelIndex(untrained_prototypes(queries[rest], texts, known, share), "flat", threads=1)
        found[share] = float(evaluate(true, index.rank(queries[held], 5), metrics=[_MEASURE])[_MEASURE])
    return max(found, key=lambda share: found[share])


def _free_vectors(
    encoder: TextEncoder, data: PrototypeData, settings: PrototypeSettings, seed: int, threads: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return the number of each label's free vector, and the vectors: mean text embeddings of their labels."""
    n_labels, wanted = data.Y.shape[1], settings.prototype.free_vectors
    count = min(_LARGEST_BANK, -(-n_labels // 2)) if wanted is None else min(wanted, n_labels)
    if count == 0:
        return None, None
    texts = encoder.embed(data.labels)
    size = -(-n_labels // count)
    if size == 1:
        vector_of = np.arange(n_labels)
    elif settings.prototype.clusters == "texts":
        vector_of = cluster_queries(texts, size, seed=seed, threads=threads)
    else:
        X = TfidfEncoder(ngrams=(1, 1), threads=threads).fit(data.texts).transform(data.texts)
        V = csr_parts(label_centroids(X, data.Y, max_features=100, threads=threads))
        vector_of = cluster_rows(V, size, seed=seed, threads=threads)
    total = np.zeros((int(vector_of.max()) + 1, texts.shape[1]), dtype=np.float32)
    np.add.at(total, vector_of, texts)
    norms = np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return torch.from_numpy(vector_of.astype(np.int64)), torch.from_numpy(total / norms)


def train_module(
    module: PrototypeModule,
    data: PrototypeData,
    settings: PrototypeSettings,
    *,
    seed: int,
    threads: int,
    evaluate: Callable[[nn.Module], float] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> History:
    """Train a module in place."""
    own = settings.batches
    memory = module.memory if own.clustered else None
    positives = Positives(data.Y, own.positives, by_propensity=own.by_propensity, seed=seed)
    return train(
        module,
        QueryBatches(data.Y, settings.training.batch_size, memory, seed=seed, threads=threads),
        PrototypeStep(data, positives, settings.loss),
        settings.training,
        seed=seed,
        evaluate=evaluate,
        folder=folder,
        progress=progress,
        no_decay=("bank",),
        shared_loss=True,
    )


class PrototypeStep:
    """The loss of a batch of moments (see `batches`), in the form that the training loop calls."""

    def __init__(self, data: PrototypeData, positives: Positives, loss: PrototypeLoss) -> None:
        self.data, self.positives, self.loss = data, positives, loss
        self.epoch, self.everything = -1, torch.empty(0)  # prototypes of all labels at the start of an epoch

    def __call__(self, module: nn.Module, moments: Rows) -> torch.Tensor:
        """Return the loss of the batch, and store the new embeddings of its queries in the memory."""
        moments = np.concatenate(gather_objects(moments))
        drawn = self.positives.draw(moments)
        queries = _embed_together(module, self.data.queries, drawn.rows)
        texts = _embed_together(module, self.data.labels, drawn.labels)
        with full_precision(queries.device):
            return self._loss(module, moments, drawn, queries, texts)

    def _loss(
        self, module: nn.Module, moments: Rows, drawn: Drawn, queries: torch.Tensor, texts: torch.Tensor
    ) -> torch.Tensor:
        pairs = Pairs(*(part.to(queries.device) for part in drawn.pairs))
        scores = Scores(queries @ texts.T)
        parts: PrototypeModule = module  # type: ignore[assignment]
        if parts.network is not None:
            labels = torch.from_numpy(drawn.labels).to(queries.device)
            if parts.settings.centroids == "leave-one-out" and parts.memory is not None:
                rows = torch.from_numpy(drawn.rows).to(queries.device)[pairs.query]
                known = labels[pairs.label]
                hidden = parts.draw_hidden(known.numel(), queries.device)
                alone = parts.prototypes(texts[pairs.label], known, parts.memory.without(rows, known), hidden)
                own = (queries[pairs.query] * alone).sum(dim=1)
                first = np.unique(drawn.pairs.label.numpy(), return_index=True)[1]  # pair of each label
                prototypes = alone[torch.from_numpy(first)]
            else:
                own = None
                prototypes = parts.prototypes(texts, labels, hidden=parts.draw_hidden(labels.numel(), queries.device))
            scores = Scores(scores.texts, queries @ prototypes.T, own)
        loss = prototype_loss(scores, pairs, self.loss)
        if self.loss.softmax and scores.prototypes is not None and self.data.Y.shape[1] <= MOST_SOFTMAX:
            loss = loss + self.loss.softmax * self._softmax(parts, drawn, queries, scores, int(moments[0]))
        if parts.memory is not None:
            parts.memory.update(drawn.rows, queries)
        return loss

    def _softmax(
        self, module: PrototypeModule, drawn: Drawn, queries: torch.Tensor, scores: Scores, moment: int
    ) -> torch.Tensor:
        """Return the cross-entropy of the positives over all labels."""
        Y = self.data.Y
        if moment // Y.shape[0] != self.epoch:
            self.epoch = moment // Y.shape[0]
            self.everything = negative_prototypes(module, self.data, [self.positives.seed, 60, self.epoch])
        assert scores.prototypes is not None
        device, pairs = queries.device, drawn.pairs
        labels = torch.from_numpy(drawn.labels).to(device)
        everything = (queries @ self.everything.T).index_copy(1, labels, scores.prototypes)
        places, true = entries_of(Y.indptr.astype(np.int64), Y.indices, drawn.rows)
        wrong = torch.ones(everything.shape, dtype=torch.bool, device=device)
        wrong[torch.from_numpy(places).to(device), torch.from_numpy(true).long().to(device)] = False
        query, label = pairs.query.to(device), pairs.label.to(device)
        own = scores.prototypes[query, label] if scores.own is None else scores.own
        return softmax_loss(own, everything[query], wrong[query])


def negative_prototypes(module: PrototypeModule, data: PrototypeData, seed: list[int]) -> torch.Tensor:
    """Return prototypes of all labels, without gradients, with the sources they would have as positives.

    A label has the centroid of its rows without one of them, drawn at random, and a share of the labels is hidden.
    """
    random, (n_rows, n_labels) = np.random.default_rng(seed), data.Y.shape
    order, left_out = random.permutation(data.Y.nnz), np.zeros(n_labels, dtype=np.int64)
    left_out[data.Y.indices[order]] = np.repeat(np.arange(n_rows), np.diff(data.Y.indptr))[order]
    hides = random.random(n_labels) < HIDE
    memory = module.memory if module.settings.centroids == "leave-one-out" else None
    found, was_training, device = [], module.training, module.vector_of.device
    module.eval()
    with torch.no_grad():
        for at in range(0, n_labels, _CHUNK):
            ids = np.arange(at, min(at + _CHUNK, n_labels))
            labels, rows, hidden = (torch.from_numpy(part).to(device) for part in (ids, left_out[ids], hides[ids]))
            centroids = None if memory is None else memory.without(rows, labels)
            found.append(module.prototypes(module(data.labels.take(ids)), labels, centroids, hidden))
    module.train(was_training)
    return torch.cat(found)


def _embed_together(module: nn.Module, tokens: EncoderInputs, rows: NDArray[np.int64]) -> torch.Tensor:
    """Return the embeddings of rows in every process; each process computes its share."""
    rank, size = world()
    if size == 1:
        found: torch.Tensor = module(tokens.take(rows))
        return found
    own = module(tokens.take(share_of(rows, rank, size)))
    counts = [share_of(rows, other, size).size for other in range(size)]
    longest = max(counts)
    padded = torch.cat([own, own.new_zeros(longest - len(own), own.shape[1])])
    together = gather_rows(padded).view(size, longest, -1)
    return torch.cat([part[:count] for part, count in zip(together, counts, strict=True)])


def label_prototypes(module: PrototypeModule, encoder: TextEncoder, labels: EncoderInputs) -> NDArray[np.float32]:
    """Return the (n_labels, dimension) prototypes of all training labels in the module's present state."""
    texts = torch.from_numpy(encoder.embed(labels))
    device = module.vector_of.device
    found = []
    was_training = module.training
    module.eval()
    with torch.inference_mode():
        for at in range(0, len(texts), _CHUNK):
            part = texts[at : at + _CHUNK].to(device)
            ids = torch.arange(at, at + len(part), device=device)
            found.append(module.prototypes(part, ids).cpu())
    module.train(was_training)
    return np.ascontiguousarray(torch.cat(found).numpy())


def new_prototypes(network: PrototypeNetwork | None, texts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the prototypes of labels that have only the embedding of their text."""
    if network is None or not len(texts):
        return texts
    with torch.inference_mode():
        found = network(torch.from_numpy(texts)[:, None, :], torch.ones(len(texts), 1, dtype=torch.bool))
    return np.ascontiguousarray(found.numpy())
