"""`SetGenerator`: reads a text and generates its label set, as many labels as it needs (OTSeq2Set and its baselines).

In: texts and label sets. Out: a label set for each text (`predict`), and a ranking by step probabilities (`rank`).

Decisions
---------
* One encoder and decoder (`set_network`) for all kinds. ``"otseq2set"``: student forcing, bipartite matching and
  transport. ``"seq2seq"``: teacher forcing, labels by rising number; ``"mlc2seq"``: frequent labels first; ``"sgm"``:
  the same with a global embedding and no label twice in its softmax.
* The score of a generated label is the probability of its step; other labels have their best probability in any step.
* The decoder has as many steps as the largest training set has labels, if not told otherwise; of larger sets the first
  labels in the kind's order are learned, for ``"otseq2set"`` the frequent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import check_texts
from tagwood.features.words import WordSequences
from tagwood.models.base import FittedModel, check_text_rows
from tagwood.models.linear_tree.model import allowed_labels
from tagwood.neural.otseq2set.candidates import CandidateTree
from tagwood.neural.otseq2set.decoding import (
    Generated,
    best_labels,
    decode_beam,
    decode_greedy,
    generated_cells,
    join_cells,
    join_places,
    label_attention,
    learn_size_cuts,
    sized_cells,
    sizes_by_cuts,
    sum_words,
    text_pieces,
)
from tagwood.neural.otseq2set.loss import STEPS, SetLossOptions, choose_scheme, usual_weight
from tagwood.neural.otseq2set.network import Columns, SetNetwork, SetSizes
from tagwood.neural.otseq2set.training import SetRows, SetTask, near_lengths, set_step
from tagwood.neural.otseq2set.words import label_table, word_table
from tagwood.neural.torch_state import flushed_denormals, load_arrays, module_arrays, torch_threads
from tagwood.neural.training import History, Training, in_words, train
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

# SECTION neural.set_params
# The settings of a `SetGenerator`: stored, checked, and turned into those of its parts.


KINDS = ("otseq2set", "seq2seq", "mlc2seq", "sgm")
OUTPUTS = ("auto", "full", "bottleneck", "candidates")
SCALES = ("mean", "sum")
EMPTIES = ("label", "free")
_MANY = 5_000  # labels above which the output is restricted to candidates
_UNIT = 16  # groups of channels of both directions


class SetParams(FittedModel):
    """Constructor and checks of `SetGenerator`, where the parameters are described."""

    def __init__(
        self,
        *,
        kind: str = "otseq2set",
        light_conv: bool = True,
        scheme: str = "auto",
        ot_weight: float = 8.0,
        ot_steps: str = "all",
        ot_empty: str = "label",
        empty_weight: float = 0.2,
        loss_scale: str = "mean",
        teacher_epochs: int = 0,
        word_vectors: str | None = None,
        dimension: int = 100,
        hidden: int = 256,
        layers: int = 2,
        dropout: float = 0.2,
        max_length: int = 300,
        min_count: int = 2,
        steps: int | None = None,
        output: str = "auto",
        bottleneck: int = 300,
        candidates: int = 100,
        beam: int = 1,
        epochs: int = 20,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        patience: int = 0,
        checkpoint_minutes: float = 10.0,
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.kind = kind
        self.light_conv = light_conv
        self.scheme = scheme
        self.ot_weight = ot_weight
        self.ot_steps = ot_steps
        self.ot_empty = ot_empty
        self.empty_weight = empty_weight
        self.loss_scale = loss_scale
        self.teacher_epochs = teacher_epochs
        self.word_vectors = word_vectors
        self.dimension = dimension
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.max_length = max_length
        self.min_count = min_count
        self.steps = steps
        self.output = output
        self.bottleneck = bottleneck
        self.candidates = candidates
        self.beam = beam
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.checkpoint_minutes = checkpoint_minutes
        self.device = device
        self.seed = seed
        self.threads = threads

    @property
    def _blank(self) -> bool:
        """Whether ∅ is a blank and not the end."""
        return self.kind == "otseq2set"

    @property
    def _order(self) -> str:
        """In which order labels are generated, where there is one."""
        return "given" if self.kind == "seq2seq" else "frequency"

    def _training(self) -> Training:
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=0.0,
            warm_up=0.0,
            decay="cosine",
            clip=8.0,
            patience=self.patience,
            checkpoint_minutes=self.checkpoint_minutes,
            device=self.device,
        )

    def _task(self, sizes: NDArray[np.int64], n_steps: int) -> SetTask:
        """Return how to learn sets of these sizes."""
        if not self._blank:
            return SetTask(None, n_steps)
        sizes = np.minimum(sizes, n_steps)
        return SetTask(
            SetLossOptions(
                scheme=choose_scheme(sizes) if self.scheme == "auto" else self.scheme,
                empty_weight=self.empty_weight,
                ot_weight=self.ot_weight,
                divisor=usual_weight(sizes, n_steps, self.empty_weight) if self.loss_scale == "mean" else 1.0,
                steps=self.ot_steps,
            ),
            n_steps,
            self.ot_empty == "free",
        )

    def _sizes(self, n_words: int, n_labels: int, dimension: int) -> SetSizes:
        return SetSizes(
            n_words,
            n_labels,
            dimension,
            self.hidden,
            self.layers,
            self.bottleneck if self._output(n_labels) != "full" else 0,
            self.light_conv,
            self.kind == "sgm",
            self.dropout,
        )

    def _output(self, n_labels: int) -> str:
        if self.output == "auto":
            return "full" if n_labels <= _MANY else "candidates"
        return self.output

    def _check_params(self) -> None:
        check_choice(self.kind, "kind", KINDS)
        check_choice(self.scheme, "scheme", ("auto", "all", "first-n"))
        check_choice(self.loss_scale, "loss_scale", SCALES)
        check_choice(self.ot_steps, "ot_steps", STEPS)
        check_choice(self.ot_empty, "ot_empty", EMPTIES)
        check_choice(self.output, "output", OUTPUTS)
        check_float(self.ot_weight, "ot_weight", low=0.0)
        check_float(self.empty_weight, "empty_weight", low=0.0)
        check_float(self.dropout, "dropout", low=0.0, high=0.9)
        for name in ("dimension", "layers", "max_length", "min_count", "bottleneck", "candidates", "beam"):
            check_int(getattr(self, name), name, low=1)
        check_int(self.teacher_epochs, "teacher_epochs", low=0)
        if self.steps is not None:
            check_int(self.steps, "steps", low=1)
        check_int(self.hidden, "hidden", low=_UNIT)
        if self.hidden % _UNIT:
            raise InputError(
                f"hidden must be a multiple of {_UNIT}",
                given=str(self.hidden),
                hint=f"Take {(self.hidden // _UNIT + 1) * _UNIT}.",
            )
        if not isinstance(self.light_conv, bool):
            raise InputError("light_conv must be True or False", given=repr(self.light_conv))
        if self.word_vectors is not None and not isinstance(self.word_vectors, str):
            raise InputError(
                "word_vectors must be the path of a file", given=type(self.word_vectors).__name__
            )
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)
        self._training().check()


# SECTION neural.set_inputs
# What `SetGenerator.fit` is given, checked and brought into the form of the training loop.


ORDERS = ("given", "frequency")


def check_set_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return texts and label sets that a set network can be trained on: each row has at least one label."""
    rows, labels = check_text_rows(texts, Y)
    empty = np.flatnonzero(np.diff(labels.indptr) == 0)
    if empty.size:
        raise InputError(
            "every row must have at least one label, because a generator of label sets learns nothing from "
            "rows without any",
            given=f"{empty.size:,} rows without labels, the first is row {empty[0]}",
            hint="Leave them out: keep = Y.sum(axis=1) > 0.",
        )
    return rows, labels


def check_label_texts(label_texts: Sequence[str] | None, n_labels: int) -> list[str] | None:
    """Return the texts of labels, one for each, or None."""
    if label_texts is None:
        return None
    found = list(check_texts(label_texts))
    if len(found) != n_labels:
        raise InputError(
            f"label_texts must hold one text for each of the {n_labels:,} labels", given=f"{len(found):,}"
        )
    return found


def ordered_labels(Y: sparse.csr_array, order: str, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return borders and labels of each row in the order in which they are generated, at most so many of a row.

    ``"given"`` is by rising label number; ``"frequency"`` puts frequent labels first. Of larger sets the first ones in
    that order are kept.

    Examples
    --------
    >>> borders, labels = ordered_labels(sparse.csr_array([[1, 1, 1], [0, 0, 1]]), "frequency", most=2)
    >>> borders.tolist(), labels.tolist()
    ([0, 2, 3], [2, 0, 2])
    """
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    labels = Y.indices.astype(np.int64)
    counts = np.bincount(labels, minlength=Y.shape[1])
    rank = -counts[labels] if order == "frequency" else np.zeros(labels.size)
    sequence = np.lexsort((labels, rank, row))
    labels, row = labels[sequence], row[sequence]
    place = np.arange(labels.size) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    kept = place < most
    borders = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=Y.shape[0]))])
    return borders.astype(np.int64), labels[kept]


# SECTION neural.set_answers
# What a fitted `SetGenerator` answers: label sets, rankings and explanations. In: texts. Out: labels.


SIZES = ("generated", "learned")
_ROWS = 128  # texts in a batch of predictions
_Take = Callable[[NDArray[np.int64], Generated, Columns | None], None]


class SetAnswers(SetParams):
    """The answers of `SetGenerator`, which has the parameters."""

    takes = "texts"
    explains_by = "shares of its probability, by where the model looked"
    _learned = "module_"
    module_: SetNetwork
    words_: WordSequences
    n_steps_: int
    n_labels_: int
    candidates_: CandidateTree | None
    size_cuts_: NDArray[np.float64] | None

    def predict(self, texts: Iterable[str], *, sizes: str = "generated") -> sparse.csr_array:
        """Return the label sets.

        Parameters
        ----------
        texts
            One text per row.
        sizes
            ``"generated"``: as the decoder says; ``"learned"``: as many labels as `learn_sizes` makes of the expected
            number, the most probable ones.
        """
        self._check_fitted()
        cuts = self._cuts() if check_choice(sizes, "sizes", SIZES) == "learned" else None
        cells: list[NDArray[np.int64]] = []

        def take(places: NDArray[np.int64], made: Generated, columns: Columns | None) -> None:
            if cuts is None:
                cells.append(generated_cells(places, made))
            else:
                wanted = sizes_by_cuts(made.expected.cpu().numpy(), cuts)
                cells.append(sized_cells(places, *best_labels(made, columns, cuts.size), wanted))

        n_rows = self._generate(texts, take)
        return join_cells(cells, n_rows, self.n_labels_)

    def expected_sizes(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Return the expected number of labels of each text: the sum of its steps' probabilities of a label, not ∅.

        Labels said before are left out, and the weight of ∅ in training is undone.
        """
        self._check_fitted()
        found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        n_rows = self._generate(
            texts, lambda places, made, _: found.append((places, made.expected.double().cpu().numpy()))
        )
        expected = np.zeros(n_rows)
        for places, some in found:
            expected[places] = some
        return expected

    def learn_sizes(self, texts: Iterable[str], Y: Any) -> Self:
        """Learn from held-out rows how many labels an expected number stands for; see ``predict(sizes="learned")``.

        The sizes have the least mean absolute error on these rows. They are stored with the model; a new `fit` drops
        them.

        Parameters
        ----------
        texts, Y
            Rows that were not trained on, some hundred or more, each with a label; as in `fit`.
        """
        self._check_fitted()
        rows, labels = check_set_rows(texts, Y)
        self.size_cuts_ = learn_size_cuts(self.expected_sizes(rows), np.diff(labels.indptr), self.n_steps_)
        return self

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text by step probability.

        A generated label has the probability of its step, another one its best probability in any step.

        Parameters
        ----------
        texts
            One text per row.
        k
            Labels per row.
        restrict, exclude
            Label ids that may, or may not, be returned; others are not generated.
        """
        self._check_fitted()
        wanted = min(check_int(k, "k", low=1), self.n_labels_)
        found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
        self._generate(
            texts,
            lambda places, made, columns: found.append((places, *best_labels(made, columns, wanted))),
            allowed_labels(restrict, exclude, self.n_labels_),
        )
        return join_places(found, self.n_labels_)

    def explain_text(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a text with their share of a label's score, by the decoder's attention.

        The step is the one that generated the label, or the one in which it was most probable. Attention says where the
        step looked, not what would change without a word. Words are as in the text, each once; weights sum to the
        label's probability in that step.
        """
        self._check_fitted()
        check_int(label, "label", low=0, high=self.n_labels_ - 1)
        pieces, owner = text_pieces(text, self.words_, self.max_length)
        looks: list[NDArray[np.float32]] = []
        self._generate(
            [text], lambda _, made, columns: looks.append(label_attention(made, columns, label)), trace=True
        )
        return sum_words(pieces, owner, looks[0])

    def _cuts(self) -> NDArray[np.float64]:
        if self.size_cuts_ is None:
            raise NotFittedError(
                'sizes="learned" needs sizes that were learned',
                hint="Call learn_sizes(texts, Y) with held-out rows first.",
            )
        return self.size_cuts_

    def _generate(
        self,
        texts: Iterable[str],
        take: Callable[[NDArray[np.int64], Generated, Columns | None], None],
        allowed: NDArray[np.bool_] | None = None,
        trace: bool = False,
    ) -> int:
        """Call `take` with some rows, what was generated for them and their candidates; return the number of texts."""
        self._check_fitted()
        rows = list(check_texts(texts))
        source, module = self.candidates_, self.module_
        data = SetRows(
            *self.words_.rows(rows, self.max_length, check_threads(self.threads)),
            self.n_labels_,
            candidates=None if source is None or not rows else source.find(rows, allowed),
            allowed=allowed,
            device=str(module.score.device),
        )
        weight = self.empty_weight if self._blank and self.empty_weight else 1.0
        options: dict[str, Any] = {"blank": self._blank, "empty_weight": weight, "trace": trace}
        with torch_threads(self.threads), torch.no_grad():
            for places in data.by_length(_ROWS):
                memory, columns = module(data.batch(places)), data.columns(places)
                options["columns"] = columns
                if self.beam == 1 or trace:
                    made = decode_greedy(module, memory, self.n_steps_, **options)
                else:
                    made = decode_beam(module, memory, self.n_steps_, width=self.beam, **options)
                take(places, made, columns)
        return len(rows)


# SECTION neural.set_state
# How a `SetGenerator` is stored: weights of its network, its words and, if it has one, its candidate tree.


_CUTS = "size_cuts"


def network_state(
    init: dict[str, Any],
    numbers: dict[str, int],
    network: SetNetwork,
    words: WordSequences,
    source: CandidateTree | None,
    size_cuts: NDArray[np.float64] | None,
) -> State:
    """Return the stored form."""
    arrays = module_arrays(network)
    if size_cuts is not None:
        arrays[_CUTS] = size_cuts
    params = {"init": init, **numbers, "dimension": network.sizes.dimension}
    parts = {"words": words.state()}
    if source is not None:
        parts["candidates"] = source.state()
    return State("SetGenerator", params=params, arrays=arrays, parts=parts)


def restored_network(
    params: SetParams, state: State
) -> tuple[SetNetwork, WordSequences, CandidateTree | None]:
    """Return network, words and candidate tree of a stored generator, in evaluation mode."""
    n_labels = check_int(state.param("n_labels", int), "n_labels", low=1)
    dimension = check_int(state.param("dimension", int), "dimension", low=1)
    words = WordSequences.from_state(state.part("words"))
    network = SetNetwork(params._sizes(words.n_words, n_labels, dimension))
    load_arrays(network, state)
    source = CandidateTree.from_state(state.part("candidates")) if "candidates" in state.parts else None
    network.eval()
    return network, words, source


def restored_cuts(state: State, n_steps: int) -> NDArray[np.float64] | None:
    """Return the cuts of a stored generator whose sizes were learned, or None."""
    if _CUTS not in state.arrays:
        return None
    cuts: NDArray[np.float64] = state.array(_CUTS, np.float64, (n_steps,))
    if not bool(np.all(np.diff(cuts) >= 0)):
        raise InputError("size_cuts must rise", given="cuts that fall")
    return cuts


# SECTION neural.set_start
# The network a `SetGenerator` starts with. In: settings, words, label texts. Out: an untrained `SetNetwork`.


def start_network(
    params: SetParams, words: WordSequences, n_labels: int, label_texts: list[str] | None
) -> SetNetwork:
    """Return a network whose vectors of words and labels are set; same seed, same weights.

    Parameters
    ----------
    params
        Settings of the generator.
    words, n_labels
        What it reads and what it says.
    label_texts
        One text per label, or None: label embeddings then start at random.
    """
    random = np.random.default_rng(params.seed)
    table, spread = word_table(words, params.dimension, params.word_vectors, random)
    if label_texts is None:
        vectors = random.normal(scale=spread, size=(n_labels, table.shape[1])).astype(np.float32)
    else:
        vectors = label_table(label_texts, words, table, params.word_vectors, random)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        network = SetNetwork(params._sizes(words.n_words, n_labels, table.shape[1]))
    with torch.no_grad():
        network.words.weight.copy_(torch.from_numpy(table))
        network.labels.weight[:n_labels].copy_(torch.from_numpy(vectors))
        network.labels.weight[n_labels:].mul_(spread)
    return network


_MOST_WORDS = 500_000  # of the vocabulary, as in the paper


@storable("SetGenerator")
class SetGenerator(SetAnswers):
    """Generate the label set of a text: a bi-GRU reads it, a GRU with attention says one label after the other.

    The model decides itself how many labels a text has. It is slow to train next to a `LinearTree`: seconds per
    thousand short texts and epoch, on one core.

    Parameters
    ----------
    kind
        ``"otseq2set"`` learns sets whatever the order of their labels; ``"seq2seq"``, ``"mlc2seq"`` and ``"sgm"``
        learn sequences and are there to compare.
    light_conv
        Attend to stretches of words too, not only to words.
    scheme
        Which steps of the decoder may learn a label: ``"all"``, or in a row of n labels the ``"first-n"``; ``"auto"``
        chooses from the sizes of the training sets.
    ot_weight
        Weight of the transport between the steps' labels and the row's, 0 for none.
    ot_steps
        ``"all"`` steps take part in the transport, or only those ``"matched"`` with a label.
    ot_empty
        What ∅ costs in the transport: ``"label"`` as much as a label with its embedding, so that steps are drawn away
        from ∅; ``"free"`` nothing, so that only which labels a step says counts, not whether it says one.
    empty_weight
        Weight of steps that have nothing to say. Lower: more labels.
    loss_scale
        ``"mean"`` divides the matching loss by the usual weight of a row's steps (the scale `ot_weight` is meant for);
        ``"sum"`` does not.
    teacher_epochs
        Epochs at the beginning in which the decoder of ``"otseq2set"`` is fed with true labels, frequent ones first.
    word_vectors
        File of word vectors to start from: GloVe's text form, or an ``.npy`` table with ``words.txt`` beside it.
        Default: random vectors of size `dimension`.
    dimension, hidden, layers, dropout
        Sizes of the network; `hidden` is a multiple of 16.
    max_length
        Words of a text that are read.
    min_count
        Words in fewer texts are unknown words.
    steps
        Steps of the decoder: the largest set it can generate. Default: the largest training set.
    output
        ``"full"``; ``"bottleneck"``: through a layer of size `bottleneck`; ``"candidates"``: of the best `candidates`
        labels of a linear tree only, which makes many labels possible; ``"auto"``: full up to 5,000 labels.
    bottleneck, candidates
        See `output`.
    beam
        Width of the search in `predict` and `rank`; 1 takes the best label of each step.
    epochs, batch_size, learning_rate, patience, checkpoint_minutes, device
        Of the training: Adam with a cosine schedule; see `Training`.
    seed, threads
        Same seed and number of threads (default all cores), same model bits on the CPU.

    Attributes
    ----------
    module_ : SetNetwork
    words_ : WordSequences
    n_steps_ : int, steps of the decoder
    n_labels_ : int
    size_cuts_ : where the sizes of `learn_sizes` begin; None before
    history_ : History of the training; None in a loaded model

    Examples
    --------
    >>> texts = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
    >>> sets = [[0, 1], [1], [0], [2], [2], [2]] * 5
    >>> model = SetGenerator(hidden=32, epochs=30, batch_size=6, learning_rate=0.01, threads=1).fit(texts, sets)
    >>> model.predict(["oak and ash", "salt and sea"]).toarray().tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    history_: History | None

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        X
            One text per row.
        y
            (n_rows, n_labels) label sets, none empty: a sparse or dense 0/1 matrix, or the label ids of each row.
        label_texts
            Name or description of each label; label embeddings start from the mean of its words. Default: at random.
        evaluate
            Held-out measure of this model, higher is better, asked after each epoch; the best weights are kept.
        folder
            Where checkpoints of a long training are kept; the same call goes on from them.
        progress
            Called with a line about the training and the share done.
        """
        self._check_params()
        rows, labels = check_set_rows(X, y)
        names = check_label_texts(label_texts, labels.shape[1])
        threads = check_threads(self.threads)
        words = WordSequences.learn(rows, self.min_count, most=_MOST_WORDS, threads=threads)
        sizes = np.diff(labels.indptr)
        n_steps = int(sizes.max()) if self.steps is None else self.steps
        source, found = None, None
        if self._output(labels.shape[1]) == "candidates":
            source, found = CandidateTree.fit(rows, labels, self.candidates, seed=self.seed, threads=threads)
        borders, ids = words.rows(rows, self.max_length, threads)
        data = SetRows(
            borders,
            ids,
            labels.shape[1],
            *ordered_labels(labels, self._order, n_steps),
            found,
            device=self.device,
        )
        with torch_threads(self.threads), flushed_denormals():
            module = start_network(self, words, labels.shape[1], names)
            half = type(self)(**self.get_params(deep=False))
            half._learn(module, words, n_steps, source, None)
            history = train(
                module,
                near_lengths(data.lengths, self.batch_size, self.teacher_epochs if self._blank else 0),
                set_step(data, self._task(sizes, n_steps)),
                self._training(),
                seed=self.seed,
                evaluate=None if evaluate is None else lambda _: evaluate(half),
                folder=folder,
                progress=in_words(progress),
            )
        self._learn(module, words, n_steps, source, history)
        return self

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        numbers = {"n_steps": self.n_steps_, "n_labels": self.n_labels_}
        return network_state(
            self.get_params(deep=False), numbers, self.module_, self.words_, self.candidates_, self.size_cuts_
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        module, words, source = restored_network(model, state)
        model._learn(module, words, check_int(state.param("n_steps", int), "n_steps", low=1), source, None)
        model.size_cuts_ = restored_cuts(state, model.n_steps_)
        return model

    def _learn(
        self,
        module: SetNetwork,
        words: WordSequences,
        n_steps: int,
        source: CandidateTree | None,
        history: History | None,
    ) -> None:
        self.module_, self.words_, self.n_steps_ = module, words, n_steps
        self.candidates_, self.history_ = source, history
        self.n_labels_, self.size_cuts_ = module.sizes.n_labels, None
