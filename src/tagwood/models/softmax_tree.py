"""`SoftmaxTree`: averaged word embeddings with a hierarchical softmax over a binary label tree (fastText's model).

In: texts and label sets. Out: a ranking whose scores are probabilities that sum to 1 over all labels.

Decisions
---------
* Training is fastText's: vectors of words and hashed n-grams are averaged, and every decision on the way to a label is
  a logistic regression on the average. A feature that occurs c times counts c-fold, but is updated once.
* Rows are shuffled in every epoch, which fastText leaves to the user, and the learning rate falls by rows, not words.
* `min_count` counts texts, not occurrences, and holds for n-grams too: n-grams of one text are half of all and more.
* In new texts n-grams that were not kept count as zero vectors: texts with few known words then get short averages,
  and with them the more frequent labels. It raised P@1 on held-out rows of cooking questions by 1.2 to 1.5 points.
* A branch whose labels have no training rows is never taken before all others, as in `LinearTree`.
* Scores of a row's labels compete, so a label of a row with m labels has about 1/m at best: `predict` keeps the labels
  with at least half of that, m being the mean of the training rows. A Tagger calibrates the scores instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_stored_finite, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.features.tfidf import TfidfEncoder
from tagwood.features.words import WordBags
from tagwood.models.base import (
    FittedModel,
    Progress,
    check_pairs,
    check_text_rows,
    ignore_progress,
)
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.trees.coding import build_fano_tree, build_huffman_tree
from tagwood.trees.interpolated import build_interpolated_tree, label_frequencies
from tagwood.trees.label_tree import LabelTree

SHAPES = ("interpolated", "balanced", "fano", "huffman")
_POSITIVES = ("sample", "sum")
_HASH_BITS = 21  # n-grams are hashed into 2**21 buckets; only buckets in use take memory
_TREE_FEATURES = 512  # largest features of a label that shape the tree
FIRST, SECOND, EVEN = -1, -2, -3  # decisions without a vector; as in cpp/softmax/softmax.hpp
_LINE = 64  # bytes of a cache line
_I32 = NDArray[np.int32]
_F32 = NDArray[np.float32]
_EVERYTHING = np.empty(0, dtype=np.uint8)


@storable("SoftmaxTree")
@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxTree(FittedModel):
    """Rank labels by a hierarchical softmax on averaged embeddings of words and word n-grams.

    It reads texts itself and is fast to train and to rank; a `LinearTree` is usually more precise.

    Parameters
    ----------
    tree
        ``"interpolated"``: a tree of the given `lam`; ``"balanced"``; ``"fano"``; ``"huffman"``, which fastText uses
        and which is the quickest to train and search.
    lam
        λ from 0 to 2. 0: similar labels together, all at about the same depth, which is ``"balanced"``. Towards 2:
        frequent labels ever nearer to the root. Against Huffman's tree, λ=1 is clearly ahead on held-out rows where
        training is short (five epochs on many labels), and about level, for P@1 sometimes behind, after 25 epochs:
        try both (docs/experiments/softmax_tree.md).
    dimension
        Length of the embeddings, a multiple of 8.
    epochs
        Passes over the rows.
    learning_rate
        Learning rate of stochastic gradient descent; it falls linearly to 0.
    min_count
        Smallest number of texts with a word, or bucket of n-grams, that is kept.
    ngrams
        Most words of an n-gram; 1 uses words only.
    positives
        Labels of a row in an update: ``"sample"`` draws one, as fastText does; ``"sum"`` takes all.
    seed, threads
        One thread gives the same model bits every time. Several threads (default all cores) write to the embeddings
        without locks, so that models differ a little from run to run.

    Attributes
    ----------
    tree_ : LabelTree
    bags_ : WordBags
    n_labels_ : int

    Examples
    --------
    >>> texts = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
    >>> model = SoftmaxTree(tree="huffman", threads=1, epochs=50).fit(texts, [[0], [0], [0], [1], [1], [1]] * 5)
    >>> model.rank(["the wood of an oak", "salt of the sea"], k=1).labels.tolist()
    [0, 1]
    """

    takes = "texts"

    tree: str = "interpolated"
    lam: float = 1.0
    dimension: int = 128
    epochs: int = 25
    learning_rate: float = 0.5
    min_count: int = 2
    ngrams: int = 2
    positives: str = "sample"
    seed: int = 0
    threads: int | None = None

    def fit(self, X: Iterable[str], y: Any, *, tree: LabelTree | None = None, progress: Progress | None = None) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        X
            One text per row.
        y
            (n_rows, n_labels) label sets: a sparse or dense 0/1 matrix, or the label ids of each row.
        tree
            A binary tree with one label per leaf to use instead of building one.
        progress
            Called with the name of a stage and the share done.
        """
        self.check_params()
        threads = check_threads(self.threads)
        rows, labels = check_text_rows(X, y)
        report = progress or ignore_progress
        if tree is None:
            tree = self._build_tree(rows, labels, threads, report)
        elif tree.n_labels != labels.shape[1]:
            expected = f"the tree must be over the {labels.shape[1]:,} labels of Y"
            raise InputError(expected, given=f"{tree.n_labels:,} labels")
        check_binary(tree)
        report("words", 0.0)
        bags = WordBags.learn(rows, self.min_count, longest=self.ngrams, bits=_HASH_BITS, threads=threads)
        plan = SoftmaxPlan(self.dimension, self.epochs, self.learning_rate, self.positives == "sum", self.seed, threads)
        self.arrays_ = train(bags.rows(rows, threads), labels, tree, plan, report)
        self.bags_, self.tree_ = bags, tree
        self.labels_per_row_ = labels.nnz / max(1, np.count_nonzero(np.diff(labels.indptr)))
        self.n_labels_ = labels.shape[1]
        return self

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Ranking:
        """Return the `k` most probable labels of each text, exactly.

        `restrict` and `exclude` are label ids that may, or may not, be returned; only allowed labels are searched for.
        """
        return Ranking.from_padded(*self._search(texts, k, restrict, exclude)[:3], self.n_labels_)

    def search_effort(self, texts: Iterable[str], k: int = 5) -> NDArray[np.int32]:
        """Return the number of decisions that the search evaluates for each text."""
        return self._search(texts, k, None, None)[3]

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: at most 50 per row, with at least half the probability of a label of a usual row."""
        return self.rank(texts, k=50).above(0.5 / self.labels_per_row_).to_sets()

    def score_labels(self, texts: Iterable[str], pairs: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of (n_pairs, 2) pairs of a row of `texts` and a label, without a search."""
        self._check_fitted()
        threads = check_threads(self.threads)
        rows = self.bags_.rows(texts, threads, new=True)
        wanted = check_pairs(pairs, rows.n_rows, self.n_labels_)
        order = np.argsort(wanted[:, 0], kind="stable")
        ends = np.searchsorted(wanted[order, 0], np.arange(rows.n_rows + 1)).astype(np.int64)
        leaves = label_leaves(self.tree_)[wanted[order, 1]]
        scores = np.empty(order.size, dtype=np.float32)
        scores[order] = _kernels.softmax_scores(
            self.arrays_, self.dimension, *rows[:3], ends, np.ascontiguousarray(leaves), threads
        )
        return scores

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        arrays = self.arrays_._asdict()
        for name in ("inputs", "outputs"):
            arrays[name] = arrays[name].reshape(-1, self.dimension)
        del arrays["child_ptr"]
        params = {
            "init": self.get_params(deep=False),
            "n_labels": self.n_labels_,
            "labels_per_row": self.labels_per_row_,
        }
        return State("SoftmaxTree", params=params, arrays=arrays, parts={"bags": self.bags_.state()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model; embeddings stay maps of the model file."""
        model = cls(**state.param("init", dict))
        model.check_params()
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)
        model.labels_per_row_ = check_float(state.param("labels_per_row", float), "labels_per_row", low=1.0)
        model.bags_ = WordBags.from_state(state.part("bags"))
        model.tree_, model.arrays_ = restore_arrays(state, model.bags_.n_features, model.dimension, model.n_labels_)
        return model

    def _build_tree(self, texts: Sequence[str], Y: sparse.csr_array, threads: int, report: Progress) -> LabelTree:
        """Build the tree: coding trees from label frequencies alone, the others also from TF-IDF features."""
        frequencies = label_frequencies(Y)
        if self.tree == "huffman":
            return build_huffman_tree(frequencies.marginal)
        if self.tree == "fano":
            return build_fano_tree(frequencies.coding)
        report("label features", 0.0)
        V = softmax_label_features(texts, Y, threads)
        report("label tree", 0.0)
        lam = 0.0 if self.tree == "balanced" else float(self.lam)
        return build_interpolated_tree(V, frequencies, lam=lam, max_leaf_size=1, seed=self.seed, threads=threads)

    def _search(
        self,
        texts: Iterable[str],
        k: int,
        restrict: ArrayLike | LabelFilter | None,
        exclude: ArrayLike | LabelFilter | None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]:
        self._check_fitted()
        wanted = min(check_int(k, "k", low=1), self.n_labels_)
        rows = self.bags_.rows(texts, check_threads(self.threads), new=True)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        nodes = _EVERYTHING if allowed is None else allowed.nodes(self.tree_)
        return _kernels.softmax_search(
            self.arrays_, self.dimension, *rows[:3], wanted, nodes, check_threads(self.threads)
        )

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_choice(self.tree, "tree", SHAPES)
        check_float(self.lam, "lam", low=0.0, high=2.0)
        check_int(self.dimension, "dimension", low=8, high=1 << 14)
        if self.dimension % 8:
            hint = f"Use {self.dimension // 8 * 8 + 8}."
            raise InputError("dimension must be a multiple of 8", given=str(self.dimension), hint=hint)
        check_int(self.epochs, "epochs", low=1)
        check_float(self.learning_rate, "learning_rate", above=0.0)
        check_int(self.min_count, "min_count", low=1)
        check_int(self.ngrams, "ngrams", low=1, high=5)
        check_choice(self.positives, "positives", _POSITIVES)
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


def softmax_label_features(texts: Sequence[str], Y: sparse.csr_array, threads: int) -> sparse.csr_array:
    """Return V (n_labels, n_words): the mean of the TF-IDF features of each label's texts, scaled to norm 1."""
    X = TfidfEncoder(ngrams=(1, 1), min_df=1, threads=threads).fit_transform(texts)
    return label_centroids(X, Y, max_features=_TREE_FEATURES, threads=threads)


class SoftmaxArrays(NamedTuple):
    """The arrays of a trained model in the order of the kernels; embeddings are flat."""

    inputs: _F32
    outputs: _F32
    parent: _I32
    child_ptr: _I32
    label_ptr: _I32
    labels: _I32
    decision: _I32


class Paths(NamedTuple):
    """The learned decisions on the path to each label: 2 · decision, + 1 for the second child."""

    ptr: NDArray[np.int64]
    steps: _I32


def check_binary(tree: LabelTree) -> LabelTree:
    """Return `tree` if every inner node has two children and every leaf one label."""
    children = np.diff(tree.child_ptr)
    sizes = np.diff(tree.label_ptr)
    if np.any((children != 0) & (children != 2)) or np.any(sizes[children == 0] != 1) or tree.has_copies:
        raise InputError(
            "the tree must be binary, with every label in a leaf of its own",
            given=f"nodes of up to {children.max()} children, leaves of up to {sizes.max()} labels",
            hint="Build it with arity=2 and max_leaf_size=1.",
        )
    return tree


def number_decisions(tree: LabelTree, seen: NDArray[np.bool_]) -> _I32:
    """Return the decision of each inner node; `seen` (n_labels,) marks the labels with training rows.

    If only one side has such labels, nothing can be learned: the path goes to that side. If neither has, both are even.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[[0], [1]], [[2], [3]]])
    >>> number_decisions(tree, np.array([True, True, True, False]))[:3].tolist()
    [0, 1, -1]
    """
    has = tree.nodes_with(seen)
    inner = np.flatnonzero(np.diff(tree.child_ptr))
    first = tree.child_ptr[inner]
    left, right = has[first], has[first + 1]
    decision = np.full(tree.n_nodes, EVEN, dtype=np.int32)
    decision[inner[left & ~right]] = FIRST
    decision[inner[right & ~left]] = SECOND
    both = inner[left & right]
    decision[both] = np.arange(both.size)
    return decision


def label_paths(tree: LabelTree, decision: _I32) -> Paths:
    """Return the learned decisions on the path to each label, from the root down.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0], [[1], [2]]])
    >>> paths = label_paths(tree, np.array([0, -3, 1, -3, -3], dtype=np.int32))
    >>> paths.ptr.tolist(), paths.steps.tolist()
    ([0, 1, 3, 5], [0, 1, 2, 1, 3])
    """
    labels, node = tree.labels, tree.leaf_of_copy
    owners, steps = [], []
    while labels.size:
        above = tree.parent[node]
        inside = above >= 0
        labels, node, above = labels[inside], node[inside], above[inside]
        learned = decision[above] >= 0
        side = (node != tree.child_ptr[above])[learned]
        owners.append(labels[learned])
        steps.append(2 * decision[above[learned]] + side)
        node = above
    owner = np.concatenate(owners[::-1]) if owners else np.empty(0, dtype=np.int32)
    flat = np.concatenate(steps[::-1]) if steps else np.empty(0, dtype=np.int32)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=tree.n_labels))])
    return Paths(ptr.astype(np.int64), flat[np.argsort(owner, kind="stable")].astype(np.int32))


def label_leaves(tree: LabelTree) -> _I32:
    """Return (n_labels,) the leaf of each label."""
    leaves = np.empty(tree.n_labels, dtype=np.int32)
    leaves[tree.labels] = tree.leaf_of_copy
    return leaves


def restore_arrays(state: State, n_features: int, dimension: int, n_labels: int) -> tuple[LabelTree, SoftmaxArrays]:
    """Return the tree and the arrays of a stored model, after checks that keep the kernels within bounds."""
    tree = check_binary(LabelTree.from_state(state, n_labels))
    inputs = state.array("inputs", np.float32, (n_features, dimension)).reshape(-1)
    outputs = state.array("outputs", np.float32, (None, dimension)).reshape(-1)
    decision = state.array("decision", np.int32, (tree.n_nodes,))
    for name, values in (("inputs", inputs), ("outputs", outputs)):
        check_stored_finite(values, f"the {name} of a stored SoftmaxTree")
    shape = tree.parent, tree.child_ptr, tree.label_ptr, tree.labels
    return tree, SoftmaxArrays(inputs, outputs, *shape, decision)


def new_embeddings(n_rows: int, dimension: int) -> _F32:
    """Return a flat array of zeros that starts at a cache line: a row of 128 floats then covers eight, not nine."""
    size = n_rows * dimension
    buffer = np.zeros(size + _LINE // 4, dtype=np.float32)
    start = -buffer.ctypes.data % _LINE // 4
    return buffer[start : start + size]


class SoftmaxPlan(NamedTuple):
    """Settings of the training."""

    dimension: int
    epochs: int
    rate: float
    all_positives: bool
    seed: int
    threads: int


def train(X: CsrParts, Y: sparse.csr_array, tree: LabelTree, plan: SoftmaxPlan, report: Progress) -> SoftmaxArrays:
    """Return the arrays of a trained model."""
    random = np.random.default_rng(plan.seed)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    decision = number_decisions(tree, counts > 0)
    paths = label_paths(tree, decision)
    inputs = new_embeddings(X.n_cols, plan.dimension)
    random.random(dtype=np.float32, out=inputs)
    inputs -= 0.5
    inputs *= 2.0 / plan.dimension  # evenly within ±1/dimension, as in fastText
    outputs = new_embeddings(int(decision.max()) + 1 if decision.max() >= 0 else 0, plan.dimension)
    indptr, labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int32)
    rows = np.flatnonzero(np.diff(indptr)).astype(np.int32)
    for epoch in range(plan.epochs):
        report("training", epoch / plan.epochs)
        targets = (indptr, labels) if plan.all_positives else _draw_one(indptr, labels, random)
        first, last = (plan.rate * (1 - done / plan.epochs) for done in (epoch, epoch + 1))
        order = random.permutation(rows)
        _kernels.softmax_epoch(
            inputs, outputs, plan.dimension, X.indptr, X.indices, X.data, targets[0], targets[1],
            paths.ptr, paths.steps, order, first, last, plan.threads,
        )  # fmt: skip
    if not np.isfinite(outputs.sum(dtype=np.float64)):
        expected = "learning_rate must be small enough for training to stay finite"
        raise InputError(expected, given=f"{plan.rate:g}", hint="Try a fifth of it.")
    return SoftmaxArrays(inputs, outputs, tree.parent, tree.child_ptr, tree.label_ptr, tree.labels, decision)


def _draw_one(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return one label of each row that has any, as label sets."""
    sizes = np.diff(indptr)
    has = sizes > 0
    place = (random.random(has.sum()) * sizes[has]).astype(np.int64)
    return np.concatenate([[0], np.cumsum(has)]).astype(np.int64), labels[indptr[:-1][has] + place]
