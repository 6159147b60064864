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

from tagwood._check import check_int, check_threads
from tagwood.features.word_sequences import WordSequences
from tagwood.neural.set_answers import SetAnswers
from tagwood.neural.set_candidates import CandidateTree
from tagwood.neural.set_inputs import check_label_texts, check_set_rows, ordered_labels
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_rows import SetRows, near_lengths
from tagwood.neural.set_start import start_network
from tagwood.neural.set_state import network_state, restored_cuts, restored_network
from tagwood.neural.set_training import set_step
from tagwood.neural.threads import flushed_denormals, torch_threads
from tagwood.neural.training import History, in_words, train
from tagwood.storage import State, storable

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

    def state(self) -> State:
        """Return the stored form of the model."""
        self._check_fitted()
        numbers = {"n_steps": self.n_steps_, "n_labels": self.n_labels_}
        return network_state(
            self.get_params(), numbers, self.module_, self.words_, self.candidates_, self.size_cuts_
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
