"""One training of a prototype module: its start, its steps, and the prototypes of all labels at its end.

In: tokens of queries and labels, label sets, settings. Out: a trained `PrototypeModule`.

With several processes, each embeds its share of the queries and labels of a step; embeddings are gathered, and every
process computes the loss of the whole batch and the same centroids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._sparse import csr_parts
from tagwood.features.label_features import label_centroids
from tagwood.features.tfidf import TfidfEncoder
from tagwood.neural.batches import Positives, QueryBatches, cluster_queries
from tagwood.neural.centroids import QueryMemory
from tagwood.neural.prototype_loss import PrototypeLoss, Scores, prototype_loss
from tagwood.neural.prototype_network import PrototypeModule, PrototypeNetwork
from tagwood.neural.prototype_settings import Settings
from tagwood.neural.text_encoder import TextEncoder
from tagwood.neural.text_encoder_head import FrozenRows
from tagwood.neural.token_rows import TokenRows
from tagwood.neural.training import History, Moment, Rows, gather_rows, train, world
from tagwood.neural.training.processes import gather_objects, share_of
from tagwood.trees.balanced import split_labels

_LARGEST_BANK = 1 << 16
_CHUNK = 4096  # labels whose prototypes are computed together


@dataclass(frozen=True, eq=False)
class PrototypeData:
    """What the encoder reads of training queries and of labels, the queries' label sets, and the queries' texts."""

    queries: TokenRows | FrozenRows
    labels: TokenRows | FrozenRows
    Y: sparse.csr_array
    texts: list[str]

    def sample(self, n_rows: int = 1000) -> NDArray[np.int64]:
        """Return some rows, evenly spread."""
        return np.unique(np.linspace(0, self.Y.shape[0] - 1, n_rows).astype(np.int64))


class PrototypeStep:
    """The loss of some moments (see `batches`), as the training loop asks for it."""

    def __init__(self, data: PrototypeData, positives: Positives, loss: PrototypeLoss) -> None:
        self.data, self.positives, self.loss = data, positives, loss

    def __call__(self, module: nn.Module, moments: Rows) -> torch.Tensor:
        """Return the loss of the batch, and let the memory take the new embeddings of its queries."""
        drawn = self.positives.draw(np.concatenate(gather_objects(moments)))
        queries = _embed_together(module, self.data.queries, drawn.rows)
        texts = _embed_together(module, self.data.labels, drawn.labels)
        pairs = type(drawn.pairs)(*(part.to(queries.device) for part in drawn.pairs))
        scores = Scores(queries @ texts.T)
        parts: PrototypeModule = module  # type: ignore[assignment]
        if parts.network is not None:
            labels = torch.from_numpy(drawn.labels).to(queries.device)
            hidden = parts.hidden(labels.numel(), queries.device)
            prototypes = parts.prototypes(texts, labels, hidden=hidden)
            own = None
            if parts.settings.centroids == "leave-one-out" and parts.memory is not None:
                rows = torch.from_numpy(drawn.rows).to(queries.device)[pairs.query]
                known = labels[pairs.label]
                without = parts.memory.without(rows, known)
                masked = None if hidden is None else hidden[pairs.label]
                alone = parts.prototypes(texts[pairs.label], known, without, hidden=masked)
                own = (queries[pairs.query] * alone).sum(dim=1)
            scores = Scores(scores.texts, queries @ prototypes.T, own)
        loss = prototype_loss(scores, pairs, self.loss)
        if parts.memory is not None:
            parts.memory.update(drawn.rows, queries)
        return loss


def _embed_together(
    module: nn.Module, tokens: TokenRows | FrozenRows, rows: NDArray[np.int64]
) -> torch.Tensor:
    """Return embeddings of rows, each embedded by one of the processes; every process gets all."""
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


def new_module(
    encoder: TextEncoder, data: PrototypeData, settings: Settings, seed: int, threads: int
) -> PrototypeModule:
    """Return a module at its start: centroids, clusters of labels and free vectors of the encoder as it is."""
    needs_memory = settings.prototype.centroids != "none" or settings.batches.clustered
    memory = None
    if needs_memory:
        memory = QueryMemory(
            data.Y,
            encoder.module.dimension,
            settings.prototype.centroids,
            momentum=settings.prototype.momentum,
        )
        memory.start(torch.from_numpy(encoder.embed(data.queries)))
    vector_of, bank = _free_vectors(encoder, data, settings, seed, threads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PrototypeModule(
            encoder.module,
            encoder.module.dimension,
            settings.prototype,
            memory=memory,
            bank=bank,
            vector_of=vector_of,
        )


def _free_vectors(
    encoder: TextEncoder, data: PrototypeData, settings: Settings, seed: int, threads: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return which free vector each label has, and the vectors: means of the text embeddings of their labels."""
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
        vector_of = _alike_by_queries(data, size, seed, threads)
    total = np.zeros((int(vector_of.max()) + 1, texts.shape[1]), dtype=np.float32)
    np.add.at(total, vector_of, texts)
    norms = np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return torch.from_numpy(vector_of.astype(np.int64)), torch.from_numpy(total / norms)


def _alike_by_queries(data: PrototypeData, size: int, seed: int, threads: int) -> NDArray[np.int64]:
    """Return a cluster for each label, at most `size` labels in one, by the TF-IDF features of their queries."""
    X = TfidfEncoder(ngrams=(1, 1), threads=threads).fit(data.texts).transform(data.texts)
    V = csr_parts(label_centroids(X, data.Y, max_features=100, threads=threads))
    uniform = np.ones(V.n_rows)
    order, begin, end, left = split_labels(
        V, uniform, uniform, max_leaf_size=size, seed=seed, threads=threads
    )
    leaves = np.flatnonzero(left < 0)
    leaves = leaves[np.argsort(begin[leaves])]
    clusters = np.empty(V.n_rows, dtype=np.int64)
    clusters[order] = np.repeat(np.arange(leaves.size), end[leaves] - begin[leaves])
    return clusters


def train_module(
    module: PrototypeModule,
    data: PrototypeData,
    settings: Settings,
    *,
    seed: int,
    threads: int,
    evaluate: Callable[[nn.Module], float] | None = None,
    folder: str | Path | None = None,
    progress: Callable[[Moment], None] | None = None,
) -> History:
    """Train a module in place."""
    batching = settings.batches
    batches = QueryBatches(
        module.memory if batching.clustered else None,
        np.flatnonzero(np.diff(data.Y.indptr)).astype(np.int64),
        data.Y.shape[0],
        settings.training.batch_size,
        cluster_size=batching.cluster_size,
        refresh=batching.refresh,
        seed=seed,
        threads=threads,
    )
    positives = Positives(data.Y, batching.positives, by_propensity=batching.by_propensity, seed=seed)
    return train(
        module,
        batches,
        PrototypeStep(data, positives, settings.loss),
        settings.training,
        seed=seed,
        evaluate=evaluate,
        folder=folder,
        progress=progress,
        no_decay=[] if module.bank is None else ["bank"],
        shared_loss=True,
    )


def label_prototypes(
    module: PrototypeModule, encoder: TextEncoder, labels: TokenRows | FrozenRows
) -> NDArray[np.float32]:
    """Return the (n_labels, dimension) prototypes of all labels of the training, in the module's present state."""
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
    """Return the prototypes of labels that have nothing but the embedding of their text."""
    if network is None or not len(texts):
        return texts
    with torch.inference_mode():
        found = network(torch.from_numpy(texts)[:, None, :], torch.ones(len(texts), 1, dtype=torch.bool))
    return np.ascontiguousarray(found.numpy())
