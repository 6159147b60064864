"""One training of a prototype module: its start, its steps, and the prototypes of all labels at its end.

In: tokens of queries and labels, label sets, settings. Out: a trained `PrototypeModule`.

With several processes, each embeds its share of the queries and labels of a step; embeddings are gathered, and every
process computes the loss of the whole batch and the same centroids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._sparse import check_labels, csr_parts
from tagwood.features.base import label_centroids
from tagwood.features.tfidf import TfidfEncoder
from tagwood.metrics import compare, evaluate
from tagwood.neural.encoders.head import FrozenRows
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.encoders.tokens import TokenRows
from tagwood.neural.prime.batches import Positives, QueryBatches, cluster_queries
from tagwood.neural.prime.loss import PrototypeLoss, Scores, prototype_loss
from tagwood.neural.prime.network import PrototypeModule, PrototypeNetwork, QueryMemory
from tagwood.neural.prime.settings import Settings
from tagwood.neural.training import (
    History,
    Moment,
    Rows,
    gather_objects,
    gather_rows,
    share_of,
    train,
    world,
)
from tagwood.ranking import Ranking
from tagwood.trees.balanced import split_labels

# SECTION neural.prototype_trials
# Which prototypes suit the data: trainings on a part of the labels, compared on held-out rows.
#
# In: texts, label sets, label texts, and a function that makes a model. Out: the best of the ways to make prototypes.
#
# Decisions
# ---------
# * Whether a prototype should lean on its centroid depends on how much label texts say and how many queries a label has
#   (docs/experiments/prime.md), and no simple count tells it. So it is tried, against label texts alone too: ``"none"``
#   is the plain dual encoder here, without free vectors, with each of the two margins: which one is better for label
#   texts differs from set to set (0.1 on YSO titles, 0.3 on packages), while prototypes want the large one.
# * Centroids are taken only if they beat label texts by more than one standard error of the paired difference:
# they make
#   a model larger, and on YSO titles a lead of 0.2 points of nDCG@5 in a trial became a loss of P@1 on test rows.
# * A trial is the whole training, on fewer rows. Trials of a few steps chose wrongly: the harm that a centroid does by
#   containing the query that is compared with it grows while the encoder learns to find itself there.
# * The part is made of labels, with all rows that have one of them: fewer rows per label would change the answer.


LOW_MARGIN = "none, low margin"
CANDIDATES = ("leave-one-out", "momentum", "none", LOW_MARGIN)
_ONE_ERROR = 0.683  # confidence of an interval of one standard error on each side
TRIAL_ROWS = 10_000
_MEASURE = "nDCG@5"
FEWEST_ROWS = 200  # with fewer rows, a trial says nothing: the first candidate is taken
_HELD_OUT = 0.2


class Ranker(Protocol):
    """What a trial trains."""

    def rank(self, texts: list[str], k: int = 5) -> Ranking:
        """Rank labels."""
        ...


class Part(NamedTuple):
    """Rows and labels of a trial, and which of the rows are held out."""

    labels: NDArray[np.int64]
    train: NDArray[np.int64]
    held: NDArray[np.int64]


def draw_part(Y: sparse.csr_array, n_rows: int, seed: int) -> Part:
    """Return some labels with all their rows, about `n_rows` of them."""
    random = np.random.default_rng([seed, 20])
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = random.permutation(np.flatnonzero(counts))
    last = int(np.searchsorted(np.cumsum(counts[order]), n_rows)) + 1
    labels = np.sort(order[:last])
    rows = np.flatnonzero(np.diff(check_labels(Y[:, labels]).indptr))
    mixed = random.permutation(rows)[: 2 * n_rows]  # a label may stand on very many rows
    cut = round(_HELD_OUT * mixed.size)
    return Part(labels, np.sort(mixed[cut:]), np.sort(mixed[:cut]))


def choose_centroids(
    texts: list[str],
    Y: sparse.csr_array,
    label_texts: list[str],
    fit: Callable[[str, list[str], sparse.csr_array, list[str]], Ranker],
    *,
    candidates: Sequence[str] = CANDIDATES,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[str, dict[str, float]]:
    """Return the candidate that is best on held-out rows, and the nDCG@5 of each.

    `fit` takes a candidate, texts, label sets and label texts, and returns a trained model.
    """
    if np.count_nonzero(np.diff(Y.indptr)) < FEWEST_ROWS:
        return candidates[0], {}
    part = draw_part(Y, TRIAL_ROWS, seed)
    train, held = check_labels(Y[part.train][:, part.labels]), check_labels(Y[part.held][:, part.labels])
    names = [label_texts[label] for label in part.labels]
    rows, held_texts = ([texts[row] for row in chosen] for chosen in (part.train, part.held))
    rankings: dict[str, Ranking] = {}
    for number, kind in enumerate(candidates):
        if progress is not None:
            progress(f"trial of centroids: {kind}", number / len(candidates))
        rankings[kind] = fit(kind, rows, train, names).rank(held_texts, k=5)
    measures = {
        kind: float(evaluate(held, found, metrics=[_MEASURE])[_MEASURE]) for kind, found in rankings.items()
    }
    return best_kind(held, rankings, measures), measures


def best_kind(Y: sparse.csr_array, rankings: dict[str, Ranking], measures: dict[str, float]) -> str:
    """Return the candidate with the best measure, or that of label texts alone where its lead may be luck."""
    best, plain = (
        max(names, key=lambda name: measures[name])
        for names in (measures, [name for name in measures if name in ("none", LOW_MARGIN)])
    )
    if best == plain:
        return best
    lead = compare(Y, rankings[plain], rankings[best], metrics=[_MEASURE], confidence=_ONE_ERROR, threads=1)[
        _MEASURE
    ]
    return best if lead.low > 0 else plain


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
