"""`SetGenerator`: reads a text and generates its label set, as many labels as it needs (OTSeq2Set and its baselines).

In: texts and label sets. Out: a label set for each text (`predict`), and a ranking by step probabilities (`rank`).

Decisions
---------
* One encoder and decoder (`set_network`) for all kinds. ``"otseq2set"``: student forcing, bipartite matching and
  transport. ``"seq2seq"``: teacher forcing, labels by rising number; ``"mlc2seq"``: frequent labels first; ``"sgm"``:
  the same with a global embedding and no label twice in its softmax.
* The score of a generated label is the probability of its step; other labels have their best probability in any step.
* The decoder has as many steps as the largest training set has labels, if not told otherwise; of larger sets the most
  frequent labels are learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_int, check_threads
from tagwood.features.texts import check_texts
from tagwood.features.word_sequences import WordSequences
from tagwood.neural.miml_inputs import in_words
from tagwood.neural.set_candidates import CandidateTree
from tagwood.neural.set_decoding import Generated, decode
from tagwood.neural.set_inputs import check_label_texts, check_set_rows, ordered_labels
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_output import Columns
from tagwood.neural.set_params import SetParams
from tagwood.neural.set_ranking import best_labels, join_places
from tagwood.neural.set_rows import SetRows, near_lengths
from tagwood.neural.set_training import set_step
from tagwood.neural.set_words import label_table, word_table
from tagwood.neural.threads import flushed_denormals, torch_threads
from tagwood.neural.training import History, train
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

_MOST_WORDS = 500_000  # of the vocabulary, as in the paper
_ROWS = 128  # texts in a batch of predictions


@storable("SetGenerator")
class SetGenerator(SetParams):
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
    epochs, batch_size, learning_rate, patience, device
        Of the training: Adam with a cosine schedule; see `Training`.
    seed, threads
        Same seed and number of threads (default all cores), same model bits on the CPU.

    Attributes
    ----------
    module_ : SetNetwork
    words_ : WordSequences
    n_steps_ : int, steps of the decoder
    n_labels_ : int
    history_ : History of the training; None in a loaded model

    Examples
    --------
    >>> texts = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
    >>> sets = [[0, 1], [1], [0], [2], [2], [2]] * 5
    >>> model = SetGenerator(hidden=32, epochs=30, batch_size=6, learning_rate=0.01, threads=1).fit(texts, sets)
    >>> model.predict(["oak and ash", "salt and sea"]).toarray().tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    takes = "texts"
    _learned = "module_"
    module_: SetNetwork
    words_: WordSequences
    candidates_: CandidateTree | None
    history_: History | None

    def fit(
        self,
        texts: Iterable[str],
        Y: Any,
        *,
        label_texts: Sequence[str] | None = None,
        evaluate: Callable[[Self], float] | None = None,
        folder: str | Path | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        texts
            One text per row.
        Y
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
        rows, labels = check_set_rows(texts, Y)
        names = check_label_texts(label_texts, labels.shape[1])
        threads = check_threads(self.threads)
        words = WordSequences.learn(rows, self.min_count, most=_MOST_WORDS, threads=threads)
        sizes = np.diff(labels.indptr)
        n_steps = int(sizes.max()) if self.steps is None else self.steps
        source, found = self._candidates(rows, labels, threads)
        borders, ids = words.rows(rows, self.max_length, threads)
        data = SetRows(
            borders, ids, labels.shape[1], *ordered_labels(labels, self._order, n_steps), found, self.device
        )
        with torch_threads(self.threads), flushed_denormals():
            module = self._new_module(words, labels.shape[1], names)
            half = type(self)(**self.get_params())
            half._learn(module, words, n_steps, source, None)
            history = train(
                module,
                near_lengths(data.lengths, self.batch_size, self.teacher_epochs if self._blank else 0),
                set_step(data, self._task(sizes, n_steps)),
                self._training(),
                seed=self.seed,
                evaluate=None if evaluate is None else lambda _: evaluate(half),
                folder=folder,
                progress=None if progress is None else in_words(progress),
            )
        self._learn(module, words, n_steps, source, history)
        return self

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets as the decoder generates them."""
        rows, columns = [], []
        n_rows = 0
        for places, made, _ in self._generate(texts):
            n_rows += places.size
            row, step = np.nonzero(made.labels.numpy() >= 0)
            rows.append(places[row])
            columns.append(made.labels.numpy()[row, step])
        row, column = np.concatenate([[], *rows]), np.concatenate([[], *columns])
        ones = np.ones(row.size, dtype=np.float32)
        found = sparse.csr_array(
            (ones, (row.astype(np.int64), column.astype(np.int64))), shape=(n_rows, self.n_labels_)
        )
        found.sort_indices()
        return found

    def rank(self, texts: Iterable[str], k: int = 5) -> Ranking:
        """Return the best `k` labels of each text by step probability.

        A generated label has the probability of its step, another one its best probability in any step.
        """
        self._check_fitted()
        check_int(k, "k", low=1)
        found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
        for places, made, columns in self._generate(texts):
            found.append((places, *best_labels(made, columns, min(k, self.n_labels_), self.n_labels_)))
        return join_places(found, self.n_labels_)

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        arrays = {
            name.replace(".", "_"): np.ascontiguousarray(value.detach().cpu().numpy())
            for name, value in self.module_.state_dict().items()
        }
        params = {"init": self.get_params(), "n_labels": self.n_labels_, "n_steps": self.n_steps_}
        params["dimension"] = self.module_.sizes.dimension
        parts = {"words": self.words_.state()}
        if self.candidates_ is not None:
            parts["candidates"] = self.candidates_.state()
        return State("SetGenerator", params=params, arrays=arrays, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        numbers = [
            check_int(state.param(name, int), name, low=1) for name in ("n_labels", "n_steps", "dimension")
        ]
        n_labels, n_steps, dimension = numbers
        words = WordSequences.from_state(state.part("words"))
        source = CandidateTree.from_state(state.part("candidates")) if "candidates" in state.parts else None
        module = SetNetwork(model._sizes(words.n_words, n_labels, dimension))
        module.load_state_dict(
            {
                name: torch.from_numpy(
                    np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
                )
                for name, value in module.state_dict().items()
            }
        )
        model._learn(module.eval(), words, n_steps, source, None)
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
        self.n_labels_ = module.sizes.n_labels

    def _candidates(
        self, texts: list[str], labels: sparse.csr_array, threads: int
    ) -> tuple[CandidateTree | None, sparse.csr_array | None]:
        if self._output(labels.shape[1]) != "candidates":
            return None, None
        return CandidateTree.fit(texts, labels, self.candidates, seed=self.seed, threads=threads)

    def _new_module(self, words: WordSequences, n_labels: int, names: list[str] | None) -> SetNetwork:
        random = np.random.default_rng(self.seed)
        table, spread = word_table(words, self.dimension, self.word_vectors, random)
        if names is None:
            vectors = random.normal(scale=spread, size=(n_labels, table.shape[1])).astype(np.float32)
        else:
            vectors = label_table(names, words, table, self.word_vectors, random)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            module = SetNetwork(self._sizes(words.n_words, n_labels, table.shape[1]))
        with torch.no_grad():
            module.words.weight.copy_(torch.from_numpy(table))
            module.labels.weight[:n_labels].copy_(torch.from_numpy(vectors))
            module.labels.weight[n_labels:].mul_(spread)
        return module

    def _generate(
        self, texts: Iterable[str], attention: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], Generated, Columns | None]]:
        """Yield rows, what was generated for them, and the candidates that its columns stand for."""
        self._check_fitted()
        rows = list(check_texts(texts))
        threads = check_threads(self.threads)
        source = self.candidates_
        data = SetRows(
            *self.words_.rows(rows, self.max_length, threads),
            self.n_labels_,
            candidates=None if source is None or not rows else source.find(rows),
            device=str(self.module_.score.device),
        )
        training = self.module_.training
        self.module_.eval()
        try:
            with torch_threads(self.threads), torch.no_grad():
                for places in data.by_length(_ROWS):
                    memory, columns = self.module_(data.batch(places)), data.columns(places)
                    made = decode(
                        self.module_, memory, self.n_steps_, blank=self._blank, columns=columns,
                        beam=self.beam, attention=attention,
                    )  # fmt: skip
                    yield places, made, columns
        finally:
            self.module_.train(training)
