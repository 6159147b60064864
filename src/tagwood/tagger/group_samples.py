"""`GroupSamples`: some training groups with their texts and the labels worked out for each, kept for a person's review.

In: the training data and what imputation found. Out: groups that the service shows. As many whole groups are kept as
have together no more texts than `Tagger.keep_texts`; none where that is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.data.strings import StringTable
from tagwood.groups.imputed import Imputed
from tagwood.storage import State

LONGEST = 4000  # characters of a text


@dataclass(frozen=True, eq=False)
class GroupSamples:
    """Groups, their samples and the imputed labels.

    Parameters
    ----------
    names
        Name of each group.
    group_ptr
        (n_groups + 1,) the samples of group g are ``group_ptr[g]:group_ptr[g + 1]``.
    rows
        (n_samples,) row of each sample in the training data.
    texts
        Text of each sample, cut to 4,000 characters.
    label_ptr, labels, similarity, confidence
        Imputed labels of each sample, how close the sample is to each, and its share of the label: 1 where no other
        sample of the group is nearly as close.
    n_in_training
        Number of groups that the model was trained from.
    """

    names: StringTable
    group_ptr: NDArray[np.int64]
    rows: NDArray[np.int64]
    texts: StringTable
    label_ptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    similarity: NDArray[np.float32]
    confidence: NDArray[np.float32]
    n_in_training: int

    @classmethod
    def draw(cls, data: Dataset, found: Imputed, n: int, seed: int) -> GroupSamples:
        """Keep groups of two samples or more, by chance, up to `n` samples in all.

        Examples
        --------
        >>> from tagwood.data.vocab import LabelVocab
        >>> data = Dataset([[0], [1], []], LabelVocab.numbered(2), texts=["a", "b", "c"], groups=["x", "x", ""])
        >>> one = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32))
        >>> kept = GroupSamples.draw(data, Imputed(one, one, one / 2), 10, 0)
        >>> list(kept.names), list(kept.texts), kept.rows.tolist(), kept.labels.tolist(), kept.confidence.tolist()
        (['x'], ['a', 'b'], [0, 1], [0, 1], [0.5, 0.5])
        """
        members: dict[str, list[int]] = {}
        for row, name in enumerate(data.groups or ()):
            if name:
                members.setdefault(name, []).append(row)
        names = [name for name, rows in members.items() if len(rows) > 1]
        order = np.random.default_rng(seed).permutation(len(names))
        sizes = np.cumsum([len(members[names[place]]) for place in order])
        chosen = sorted(int(place) for place in order[: np.searchsorted(sizes, n, side="right")])
        rows = np.array([row for place in chosen for row in members[names[place]]], dtype=np.int64)
        ends = np.cumsum([0, *(len(members[names[place]]) for place in chosen)]).astype(np.int64)
        labels, similarity, share = (
            sparse.csr_array(part[rows]) for part in (found.labels, found.similarity, found.weights)
        )
        texts = data.texts or ()
        return cls(
            StringTable.from_strings(names[place] for place in chosen),
            ends,
            rows,
            StringTable.from_strings(texts[row][:LONGEST] for row in rows),
            labels.indptr.astype(np.int64),
            labels.indices.astype(np.int32),
            similarity.data.astype(np.float32),
            share.data.astype(np.float32),
            len(members),
        )

    def __len__(self) -> int:
        """Return the number of kept groups."""
        return len(self.names)

    def samples(self, group: int) -> range:
        """Return the numbers of a group's samples."""
        return range(int(self.group_ptr[group]), int(self.group_ptr[group + 1]))

    def labels_of(self, sample: int) -> slice:
        """Return where the labels of a sample stand."""
        return slice(int(self.label_ptr[sample]), int(self.label_ptr[sample + 1]))

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "names_blob": np.asarray(self.names.blob),
            "names_offsets": np.asarray(self.names.offsets),
            "texts_blob": np.asarray(self.texts.blob),
            "texts_offsets": np.asarray(self.texts.offsets),
        }
        for name in ("group_ptr", "rows", "label_ptr", "labels", "similarity", "confidence"):
            arrays[name] = getattr(self, name)
        return State("GroupSamples", params={"n_in_training": self.n_in_training}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> GroupSamples:
        """Rebuild from the stored form."""
        group_ptr = state.array("group_ptr", np.int64, (None,))
        rows = state.array("rows", np.int64, (None,))
        labels = state.array("labels", np.int32, (None,))
        names = state.array("names_offsets", np.int64, (group_ptr.size,))
        texts = state.array("texts_offsets", np.int64, (rows.size + 1,))
        return cls(
            StringTable(state.array("names_blob", np.uint8, (None,)), names),
            group_ptr,
            rows,
            StringTable(state.array("texts_blob", np.uint8, (None,)), texts),
            state.array("label_ptr", np.int64, (rows.size + 1,)),
            labels,
            state.array("similarity", np.float32, (labels.size,)),
            state.array("confidence", np.float32, (labels.size,)),
            state.param("n_in_training", int),
        )
