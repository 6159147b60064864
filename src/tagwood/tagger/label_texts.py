"""`LabelTexts`: labels that no training text has, known by a text that describes them and usable at once.

In: label ids and texts. Out: rankings with these labels added; their score is the cosine of text and description. The
next training replaces this stopgap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import normalize_rows
from tagwood.data.strings import StringTable
from tagwood.features.encoder import Encoder
from tagwood.ranking import Ranking
from tagwood.storage import State


@dataclass(frozen=True, eq=False)
class LabelTexts:
    """Descriptions of labels."""

    labels: NDArray[np.int32]
    texts: StringTable
    encoder: Encoder

    @classmethod
    def of(cls, texts: Mapping[int, str], encoder: Encoder) -> LabelTexts:
        """Build from texts by label id."""
        order = sorted(texts)
        labels = np.array(order, dtype=np.int32)
        return cls(labels, StringTable.from_strings(texts[label] for label in order), encoder)

    def to_dict(self) -> dict[int, str]:
        """Return the texts by label id."""
        return dict(zip(self.labels.tolist(), self.texts, strict=True))

    def join(self, ranking: Ranking, texts: list[str], k: int, left_out: Iterable[int]) -> Ranking:
        """Return the best `k` labels of each text among those of a ranking and those described here."""
        likeness = sparse.coo_array(self._unit(texts) @ self._features.T)
        labels = self.labels[likeness.col]
        use = (likeness.data > 0) & ~np.isin(labels, list(left_out))
        shape = (ranking.n_rows, ranking.n_labels)
        cells = (likeness.data[use], (likeness.row[use], labels[use]))
        own = Ranking.from_csr(sparse.csr_array(sparse.coo_array(cells, shape=shape)))
        return Ranking.merge([ranking, own], how="max").top(k)

    @cached_property
    def _features(self) -> sparse.csr_array:
        return self._unit(list(self.texts))

    def _unit(self, texts: list[str]) -> sparse.csr_array:
        return normalize_rows(sparse.csr_array(self.encoder.transform(texts)))

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {"blob": self.texts.blob, "offsets": self.texts.offsets}
        return State("LabelTexts", arrays={**arrays, "labels": self.labels})

    @classmethod
    def from_state(cls, state: State, encoder: Encoder) -> LabelTexts:
        """Rebuild from the stored form and the encoder of the same model."""
        labels = state.array("labels", np.int32, (None,))
        offsets = state.array("offsets", np.int64, (labels.size + 1,))
        return cls(labels, StringTable(state.array("blob", np.uint8, (None,)), offsets), encoder)
