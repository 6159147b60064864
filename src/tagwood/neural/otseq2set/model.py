"""`SetGenerator`: reads a text and generates its label set, one label after another (OTSeq2Set and its baselines).

In: texts and label sets. Out: a label set for each text (`predict`), and a ranking by step probabilities (`rank`).

Decisions
---------
* All kinds share one encoder and decoder (`SetNetwork`). ``"otseq2set"``: student forcing, bipartite matching and
  optimal transport. ``"seq2seq"``: teacher forcing, labels by ascending id. ``"mlc2seq"``: the same, frequent labels
  first. ``"sgm"``: as ``"mlc2seq"``, with a global embedding and a softmax that excludes labels generated before.
* The score of a generated label is the probability of its step, that of other labels their highest step probability.
* By default the decoder has as many steps as the largest training set has labels. Larger sets keep the first labels in
  the order of the kind; for ``"otseq2set"``, the most frequent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_int, check_threads
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import check_texts
from tagwood.features.tfidf import TfidfEncoder
from tagwood.features.words import WordSequences
from tagwood.models.base import FittedModel, Progress, check_label_texts, check_text_rows, out_of_fold
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree import LinearTree
from tagwood.neural.otseq2set.decoding import (
    Generated,
    best_labels,
    decode_beam,
    decode_greedy,
    join_batches,
    label_attention,
    sum_words,
    text_pieces,
)
from tagwood.neural.otseq2set.network import Columns, SetNetwork
from tagwood.neural.otseq2set.settings import DecodingSettings, LossSettings, NetworkSettings, SetTraining
from tagwood.neural.otseq2set.training import SetRows, set_step, similar_lengths
from tagwood.neural.otseq2set.words import label_table, word_table
from tagwood.neural.torch_state import (
    check_parts,
    flushed_denormals,
    load_arrays,
    module_arrays,
    torch_threads,
)
from tagwood.neural.training import History, train
from tagwood.probabilities.sets import learn_size_cuts, sizes_by_cuts
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

KINDS = ("otseq2set", "seq2seq", "mlc2seq", "sgm")
SIZES = ("generated", "learned")
_PARTS: dict[str, Any] = {
    "network": NetworkSettings,
    "loss": LossSettings,
    "decoding": DecodingSettings,
    "training": SetTraining,
}
_MAX_WORDS = 500_000  # size of the vocabulary, as in the paper
_ROWS = 128  # texts in a batch of predictions
_CUTS = "size_cuts"
_SHARED_KERNELS = 8  # kernels of the light convolutions that earlier versions stored
_Found = TypeVar("_Found")


@storable("SetGenerator")
class SetGenerator(FittedModel):
    """Generate the label set of a text: a bi-GRU reads it, and a GRU with attention generates one label per step.

    The model decides how many labels a text has. Training is slow compared with a `LinearTree`: seconds per thousand
    short texts and epoch, on one core.

    Parameters
    ----------
    kind
        ``"otseq2set"`` learns sets regardless of the order of their labels; ``"seq2seq"``, ``"mlc2seq"`` and ``"sgm"``
        learn sequences and are meant for comparison.
    network, loss, decoding, training
        `NetworkSettings`, `LossSettings`, `DecodingSettings` and `SetTraining`.
    seed, threads
        The same seed and number of threads (default: all cores) give the same model bits on the CPU.

    Attributes
    ----------
    module_ : SetNetwork
    words_ : WordSequences
    candidates_ : CandidateTree, or None if the output is not restricted to candidates
    n_steps_ : int, number of decoder steps
    n_labels_ : int
    size_cuts_ : thresholds found by `learn_sizes`; None before
    history_ : History of the training; None in a loaded model

    Examples
    --------
    >>> texts = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
    >>> sets = [[0, 1], [1], [0], [2], [2], [2]] * 5
    >>> training = SetTraining(epochs=30, batch_size=6, learning_rate=0.01)
    >>> model = SetGenerator(network=NetworkSettings(hidden=32), training=training, threads=1).fit(texts, sets)
    >>> model.predict(["oak and ash", "salt and sea"]).toarray().tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    takes = "texts"
    data_parallel = True  # see `tagwood.scale.processes`
    explains_by = "shares of its probability, by where the model looked"
    _learned = "module_"
    module_: SetNetwork
    words_: WordSequences
    candidates_: CandidateTree | None
    n_steps_: int
    n_labels_: int
    size_cuts_: NDArray[np.float64] | None
    history_: History | None

    def __init__(
        self,
        *,
        kind: str = "otseq2set",
        network: NetworkSettings = NetworkSettings(),  # noqa: B008 (frozen)
        loss: LossSettings = LossSettings(),  # noqa: B008 (frozen)
        decoding: DecodingSettings = DecodingSettings(),  # noqa: B008 (frozen)
        training: SetTraining = SetTraining(),  # noqa: B008 (frozen)
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.kind = kind
        self.network = network
        self.loss = loss
        self.decoding = decoding
        self.training = training
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        X, y
            One text per row; (n_rows, n_labels) label sets, none empty: a 0/1 matrix, or the label ids of each row.
        label_texts
            Name or description of each label. Label embeddings start from the mean of its words; default: at random.
        evaluate
            Held-out measure of this model, higher is better, called after each epoch; the best weights are kept.
        folder, progress
            Folder for checkpoints, from which the same call resumes; function called with a line and the share done.
        """
        self.check_params()
        rows, labels = _check_rows(X, y)
        n_labels, sizes = labels.shape[1], np.diff(labels.indptr)
        names = None if label_texts is None else check_label_texts(label_texts, n_labels)
        threads = check_threads(self.threads)
        words = WordSequences.learn(rows, self.network.min_count, most=_MAX_WORDS, threads=threads)
        n_steps = int(sizes.max()) if self.decoding.steps is None else self.decoding.steps
        tree, candidates = None, None
        if self.decoding.output_for(n_labels) == "candidates":
            tree, candidates = CandidateTree.fit(
                rows, labels, self.decoding.candidates, seed=self.seed, threads=threads
            )
        data = SetRows(
            *words.rows(rows, self.network.max_length, threads),
            n_labels,
            *ordered_labels(labels, "given" if self.kind == "seq2seq" else "frequency", n_steps),
            candidates,
            device=self.training.device,
        )
        options = self.loss.options(np.minimum(sizes, n_steps), n_steps) if self._blank else None
        teacher_epochs = self.loss.teacher_epochs if self._blank else 0
        with torch_threads(self.threads), flushed_denormals():
            module = self._new_network(words, n_labels, names)
            unfinished = type(self)(**self.get_params(deep=False))
            unfinished._set_learned(module, words, n_steps, tree, None)
            history = train(
                module,
                similar_lengths(data.lengths, self.training.batch_size, teacher_epochs),
                set_step(data, options, n_steps),
                self.training,
                seed=self.seed,
                evaluate=None if evaluate is None else lambda _: evaluate(unfinished),
                folder=folder,
                progress=progress,
            )
        self._set_learned(module, words, n_steps, tree, history)
        return self

    def predict(self, X: Iterable[str], *, sizes: str = "generated") -> sparse.csr_array:
        """Return the label sets.

        With ``sizes="generated"`` they are the sets as the decoder generates them, with ``"learned"`` the most probable
        labels, as many as the thresholds of `learn_sizes` give for the expected number of labels.
        """
        self._check_fitted()
        cuts = self.size_cuts_ if check_choice(sizes, "sizes", SIZES) == "learned" else None
        if sizes == "learned" and cuts is None:
            raise NotFittedError(
                'sizes="learned" needs learned sizes',
                hint="Call learn_sizes(X, y) with held-out rows first.",
            )

        def sets(
            places: NDArray[np.int64], made: Generated, columns: Columns | None
        ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
            labels = made.labels.cpu().numpy()
            if cuts is not None:
                labels, scores = best_labels(made, columns, cuts.size)
                wanted = sizes_by_cuts(made.expected.cpu().numpy(), cuts)
                labels[(scores <= 0) | (np.arange(labels.shape[1]) >= wanted[:, None])] = -1
            return places, labels, np.ones(labels.shape, dtype=np.float32)

        return join_batches(self._decode(list(check_texts(X)), sets), self.n_labels_).to_sets()

    def rank(
        self,
        X: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text by step probability.

        A generated label has the probability of its step, any other label its highest probability of any step. Only
        labels in `restrict`, and none in `exclude`, are returned.
        """
        self._check_fitted()
        wanted = min(check_int(k, "k", low=1), self.n_labels_)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        found = self._decode(
            list(check_texts(X)),
            lambda places, made, columns: (places, *best_labels(made, columns, wanted)),
            None if allowed is None else allowed.mask,
        )
        return join_batches(found, self.n_labels_)

    def expected_sizes(self, X: Iterable[str]) -> NDArray[np.float64]:
        """Return the expected number of labels of each text: the sum over the steps of the probability of a new label.

        The weight of ∅ in training is undone.
        """
        self._check_fitted()
        rows = list(check_texts(X))
        expected = np.zeros(len(rows))
        for places, some in self._decode(rows, lambda places, made, _: (places, made.expected)):
            expected[places] = some.double().cpu().numpy()
        return expected

    def learn_sizes(self, X: Iterable[str], y: Any) -> Self:
        """Learn thresholds from expected to actual numbers of labels; used by ``predict(sizes="learned")``.

        The thresholds minimize the mean absolute error of the size on these rows: a few hundred or more held-out ones,
        as in `fit`. They are stored with the model; a new `fit` drops them.
        """
        self._check_fitted()
        rows, labels = _check_rows(X, y)
        self.size_cuts_ = learn_size_cuts(self.expected_sizes(rows), np.diff(labels.indptr), self.n_steps_)
        return self

    def explain_text(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a text with their share of a label's score, by the attention of the decoder.

        The attention is that of the step which generated the label, or in which it was most probable. It shows where
        the model looked, not what would change without a word. Each word appears once; the weights sum to the label's
        probability in that step.
        """
        self._check_fitted()
        check_int(label, "label", low=0, high=self.n_labels_ - 1)
        pieces, owner = text_pieces(text, self.words_, self.network.max_length)
        (weights,) = self._decode([text], lambda _, made, columns: label_attention(made, columns, label), trace=True)
        return sum_words(pieces, owner, weights)

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        init = self.get_params(deep=False)
        arrays = module_arrays(self.module_)
        if self.size_cuts_ is not None:
            arrays[_CUTS] = self.size_cuts_
        params = {
            "init": {**init, **{name: asdict(init[name]) for name in _PARTS}},
            "n_steps": self.n_steps_,
            "n_labels": self.n_labels_,
            "dimension": self.module_.words.embedding_dim,
        }
        parts = {"words": self.words_.state()}
        if self.candidates_ is not None:
            parts["candidates"] = self.candidates_.state()
        return State("SetGenerator", params=params, arrays=arrays, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        init = dict(state.param("init", dict))
        model = cls(**{**init, **{name: part(**init[name]) for name, part in _PARTS.items()}})
        model.check_params()
        n_labels, dimension, n_steps = (
            check_int(state.param(name, int), name, low=1) for name in ("n_labels", "dimension", "n_steps")
        )
        check_int(n_steps, "n_steps", high=max(n_labels + 1, 10_000))  # memory grows with it
        words = WordSequences.from_state(state.part("words"))
        module = model._network(words.n_words, n_labels, dimension)
        _check_convolutions(state, model.network.hidden)
        load_arrays(module, state)
        tree = CandidateTree.from_state(state.part("candidates")) if "candidates" in state.parts else None
        model._set_learned(module.eval(), words, n_steps, tree, None)
        if _CUTS in state.arrays:
            cuts = state.array(_CUTS, np.float64, (n_steps,))
            if not bool(np.all(np.diff(cuts) >= 0)):
                raise InputError("size_cuts must be sorted in ascending order", given="descending values")
            model.size_cuts_ = cuts
        return model

    @property
    def _blank(self) -> bool:
        """Whether ∅ is a blank instead of the end of the sequence."""
        return self.kind == "otseq2set"

    def _set_learned(
        self,
        module: SetNetwork,
        words: WordSequences,
        n_steps: int,
        tree: CandidateTree | None,
        history: History | None,
    ) -> None:
        self.module_, self.words_, self.n_steps_ = module, words, n_steps
        self.candidates_, self.history_ = tree, history
        self.n_labels_, self.size_cuts_ = module.end, None

    def _network(self, n_words: int, n_labels: int, dimension: int) -> SetNetwork:
        decoding = self.decoding
        bottleneck = 0 if decoding.output_for(n_labels) == "full" else decoding.bottleneck
        sizes = (n_words, n_labels, dimension)
        return SetNetwork(*sizes, self.network, bottleneck=bottleneck, global_embedding=self.kind == "sgm")

    def _new_network(self, words: WordSequences, n_labels: int, label_texts: list[str] | None) -> SetNetwork:
        """Return an untrained network with its initial word and label embeddings; same seed, same weights."""
        random = np.random.default_rng(self.seed)
        path = self.network.word_vectors
        table, spread = word_table(words, self.network.dimension, path, random)
        if label_texts is None:
            vectors = random.normal(scale=spread, size=(n_labels, table.shape[1])).astype(np.float32)
        else:
            vectors = label_table(label_texts, words, table, path, random)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self._network(words.n_words, n_labels, table.shape[1])
        with torch.no_grad():
            network.words.weight.copy_(torch.from_numpy(table))
            network.labels.weight[:n_labels].copy_(torch.from_numpy(vectors))
            network.labels.weight[n_labels].zero_()  # ∅ or the end
            network.labels.weight[n_labels + 1].mul_(spread)
        return network

    def _decode(
        self,
        rows: list[str],
        collect: Callable[[NDArray[np.int64], Generated, Columns | None], _Found],
        allowed: NDArray[np.bool_] | None = None,
        trace: bool = False,
    ) -> list[_Found]:
        """Generate labels batch by batch; return `collect(places, generated, columns)` of each batch."""
        tree, module = self.candidates_, self.module_
        data = SetRows(
            *self.words_.rows(rows, self.network.max_length, check_threads(self.threads)),
            self.n_labels_,
            candidates=None if tree is None or not rows else tree.find(rows, allowed),
            allowed=allowed,
            device=str(module.score.device),
        )
        weight = self.loss.empty_weight if self._blank and self.loss.empty_weight else 1.0
        decode = partial(decode_greedy, trace=trace)
        if self.decoding.beam_width > 1 and not trace:
            decode = partial(decode_beam, beam_width=self.decoding.beam_width)
        found = []
        with torch_threads(self.threads), torch.no_grad():
            for places in data.by_length(_ROWS):
                memory, columns = module(data.batch(places)), data.columns(places)
                made = decode(module, memory, self.n_steps_, blank=self._blank, columns=columns, empty_weight=weight)
                found.append(collect(places, made, columns))
        return found

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        check_choice(self.kind, "kind", KINDS)
        check_parts(self, _PARTS)
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


def ordered_labels(Y: sparse.csr_array, order: str, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row boundaries and the labels of each row in the order of generation, at most `most` per row.

    ``"given"`` sorts by label id, ``"frequency"`` puts frequent labels first. Larger sets keep the first labels.

    Examples
    --------
    >>> borders, labels = ordered_labels(sparse.csr_array([[1, 1, 1], [0, 0, 1]]), "frequency", most=2)
    >>> borders.tolist(), labels.tolist()
    ([0, 2, 3], [2, 0, 2])
    """
    sizes = np.diff(Y.indptr)
    row = np.repeat(np.arange(Y.shape[0]), sizes)
    labels = Y.indices.astype(np.int64)
    counts = np.bincount(labels, minlength=Y.shape[1])
    rank = -counts[labels] if order == "frequency" else np.zeros(labels.size)
    labels = labels[np.lexsort((labels, rank, row))]
    kept = np.arange(labels.size) - np.repeat(Y.indptr[:-1], sizes) < most
    borders = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))])
    return borders.astype(np.int64), labels[kept]


def _check_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return texts and label sets for training; each row must have at least one label."""
    rows, labels = check_text_rows(texts, Y)
    empty = np.flatnonzero(np.diff(labels.indptr) == 0)
    if empty.size:
        raise InputError(
            "every row must have at least one label, because a set generator cannot learn from rows without labels",
            given=f"{empty.size:,} rows without labels, the first is row {empty[0]}",
            hint="Remove them: keep = Y.sum(axis=1) > 0.",
        )
    return rows, labels


def _check_convolutions(state: State, channels: int) -> None:
    """Raise `InputError` for the light convolutions of an earlier version: linear, with shared kernels."""
    kernel = state.arrays.get("conv_kernels_0")
    if kernel is not None and kernel.shape[0] == _SHARED_KERNELS != channels:
        raise InputError(
            "a stored SetGenerator must have one kernel per channel",
            given="light convolutions of an earlier version of tagwood",
            hint="Train it again, or use the version that stored it.",
        )


@dataclass(frozen=True, eq=False)
class CandidateTree:
    """A linear tree on TF-IDF features that finds the candidate labels of a text.

    The output layer then computes hundreds of labels per text instead of tens of thousands.
    """

    encoder: TfidfEncoder
    tree: LinearTree
    count: int

    @classmethod
    def fit(
        cls, texts: Sequence[str], Y: sparse.csr_array, count: int, *, seed: int, threads: int
    ) -> tuple[CandidateTree, sparse.csr_array]:
        """Return the fitted tree and the candidates of the training rows, which include their own labels.

        The candidates of a row come from a tree that has not seen it, so that they are as good as those of new texts.
        """
        encoder = TfidfEncoder(threads=threads)
        X = encoder.fit_transform(list(texts))
        k = min(count, Y.shape[1])

        def rank(train: NDArray[np.intp], held: NDArray[np.intp]) -> Ranking:
            return LinearTree(seed=seed, threads=threads).fit(X[train], Y[train]).rank(X[held], k=k)

        candidates = out_of_fold(np.arange(len(texts)), rank, seed=seed)
        tree = LinearTree(seed=seed, threads=threads).fit(X, Y)
        found = candidates.to_sets() + (Y > 0)
        ones = np.ones_like(found.data, dtype=np.int8)
        return cls(encoder, tree, count), sparse.csr_array((ones, found.indices, found.indptr), found.shape)

    def find(self, texts: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> sparse.csr_array:
        """Return the (n_texts, n_labels) candidates, among the allowed labels only."""
        X = self.encoder.transform(list(texts))
        restrict = None if allowed is None else np.flatnonzero(allowed)
        return self.tree.rank(X, k=min(self.count, self.tree.n_labels_), restrict=restrict).to_sets()

    def state(self) -> State:
        """Return the stored form."""
        parts = {"encoder": self.encoder.state(), "tree": self.tree.state()}
        return State("CandidateTree", params={"count": self.count}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> CandidateTree:
        """Rebuild from the stored form."""
        encoder = TfidfEncoder.from_state(state.part("encoder"))
        return cls(encoder, LinearTree.from_state(state.part("tree")), state.param("count", int))
