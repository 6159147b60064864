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

from tagwood._check import check_int, check_threads
from tagwood.features.texts import check_texts
from tagwood.features.word_sequences import WordSequences
from tagwood.models.tree_inputs import allowed_labels
from tagwood.neural.set_beam import decode_beam
from tagwood.neural.set_candidates import CandidateTree
from tagwood.neural.set_decoding import Generated, decode_greedy
from tagwood.neural.set_explanation import label_attention, sum_words, text_pieces
from tagwood.neural.set_inputs import check_label_texts, check_set_rows, ordered_labels
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_output import Columns
from tagwood.neural.set_params import SetParams
from tagwood.neural.set_ranking import best_labels, generated_cells, join_cells, join_places
from tagwood.neural.set_rows import SetRows, near_lengths
from tagwood.neural.set_start import start_network
from tagwood.neural.set_state import network_state, restored_network
from tagwood.neural.set_training import set_step
from tagwood.neural.threads import flushed_denormals, torch_threads
from tagwood.neural.training import History, in_words, train
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
    explains_by = "shares of its probability, by where the model looked"
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
                progress=in_words(progress),
            )
        self._learn(module, words, n_steps, source, history)
        return self

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets as the decoder generates them."""
        cells: list[NDArray[np.int64]] = []
        n_rows = self._generate(texts, lambda places, made, _: cells.append(generated_cells(places, made)))
        return join_cells(cells, n_rows, self.n_labels_)

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

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        numbers = {"n_steps": self.n_steps_, "n_labels": self.n_labels_}
        return network_state(self.get_params(), numbers, self.module_, self.words_, self.candidates_)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the model from its stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        module, words, source = restored_network(model, state)
        model._learn(module, words, check_int(state.param("n_steps", int), "n_steps", low=1), source, None)
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
        with torch_threads(self.threads), torch.no_grad():
            for places in data.by_length(_ROWS):
                memory, columns = module(data.batch(places)), data.columns(places)
                options: dict[str, Any] = {"blank": self._blank, "columns": columns, "trace": trace}
                if self.beam == 1 or trace:
                    made = decode_greedy(module, memory, self.n_steps_, **options)
                else:
                    made = decode_beam(module, memory, self.n_steps_, width=self.beam, **options)
                take(places, made, columns)
        return len(rows)
