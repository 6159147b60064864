"""`ExampleTexts`: a sample of the training texts, kept to show what a label's texts look like.

In: texts and their labels. Out: those most like a given text. Texts are cut to a few lines, so that the model folder
stays small; none are kept where the user asked for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import normalize_rows
from tagwood.data.dataset import Dataset
from tagwood.data.strings import StringTable
from tagwood.features.encoder import Encoder
from tagwood.storage import State

_LONGEST = 400


class Example(NamedTuple):
    """A training text, its labels and its cosine with the text asked about."""

    text: str
    labels: list[int]
    similarity: float


@dataclass(frozen=True, eq=False)
class ExampleTexts:
    """Some training texts with their label ids."""

    texts: StringTable
    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    encoder: Encoder

    @classmethod
    def draw(cls, data: Dataset, n: int, seed: int, encoder: Encoder) -> ExampleTexts:
        """Draw `n` rows: first one for as many labels as possible, then others by chance."""
        random = np.random.default_rng(seed)
        order = random.permutation(data.n_rows)
        shuffled = data.labels[order]
        first = np.unique(np.unique(shuffled.indices, return_index=True)[1])
        rows = np.unique(np.searchsorted(shuffled.indptr, first, side="right") - 1)
        random.shuffle(rows)
        others = np.setdiff1d(np.arange(data.n_rows), rows)
        chosen = np.sort(order[np.concatenate([rows, others])[:n]])
        sample = data.rows(chosen)
        return cls(
            StringTable.from_strings(text[:_LONGEST] for text in sample.texts or ()),
            sample.labels.indptr.astype(np.int64),
            sample.labels.indices.astype(np.int32),
            encoder,
        )

    @cached_property
    def _features(self) -> Any:
        return sparse.csr_array(self.encoder.transform(list(self.texts)))

    def similar(self, text: str, label: int | None, n: int) -> list[Example]:
        """Return the `n` texts most like `text`, of those with `label` if it is given."""
        query = normalize_rows(sparse.csr_array(self.encoder.transform([text])))
        likeness = (self._features @ query.T).toarray().ravel()
        if label is not None:
            has = np.zeros(likeness.size, dtype=np.bool_)
            rows = np.repeat(np.arange(likeness.size), np.diff(self.indptr))
            has[rows[self.labels == label]] = True
            likeness[~has] = -1.0
        best = [int(row) for row in np.argsort(-likeness, kind="stable")[:n] if likeness[row] > 0]
        return [
            Example(
                self.texts[row],
                self.labels[self.indptr[row] : self.indptr[row + 1]].tolist(),
                float(likeness[row]),
            )
            for row in best
        ]

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "blob": np.asarray(self.texts.blob),
            "offsets": np.asarray(self.texts.offsets),
        }
        return State("ExampleTexts", arrays={**arrays, "indptr": self.indptr, "labels": self.labels})

    @classmethod
    def from_state(cls, state: State, encoder: Encoder) -> ExampleTexts:
        """Rebuild from the stored form and the encoder of the same model."""
        texts = StringTable(state.array("blob", np.uint8, (None,)), state.array("offsets", np.int64, (None,)))
        indptr = state.array("indptr", np.int64, (len(texts) + 1,))
        return cls(texts, indptr, state.array("labels", np.int32, (None,)), encoder)
