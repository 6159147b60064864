"""What a fitted `SetGenerator` answers: label sets, rankings and explanations. In: texts. Out: labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_int, check_threads
from tagwood.errors import NotFittedError
from tagwood.features.texts import check_texts
from tagwood.features.word_sequences import WordSequences
from tagwood.models.tree_inputs import allowed_labels
from tagwood.neural.set_beam import decode_beam
from tagwood.neural.set_candidates import CandidateTree
from tagwood.neural.set_decoding import Generated, decode_greedy
from tagwood.neural.set_explanation import label_attention, sum_words, text_pieces
from tagwood.neural.set_inputs import check_set_rows
from tagwood.neural.set_network import SetNetwork
from tagwood.neural.set_output import Columns
from tagwood.neural.set_params import SetParams
from tagwood.neural.set_ranking import best_labels, generated_cells, join_cells, join_places, sized_cells
from tagwood.neural.set_rows import SetRows
from tagwood.neural.set_sizes import learn_size_cuts, sizes_by_cuts
from tagwood.neural.threads import torch_threads
from tagwood.ranking import Ranking

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
