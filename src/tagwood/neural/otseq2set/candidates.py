"""`CandidateTree`: the labels a set network may choose from in each text, found by a linear tree.

In: texts. Out: a few candidates for each of them, so that the output layer of tens of thousands of labels is computed
for hundreds only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.linear_tree.model import LinearTree
from tagwood.storage import State


@dataclass(frozen=True, eq=False)
class CandidateTree:
    """TF-IDF features, a tree on them, and how many candidates it gives."""

    encoder: TfidfEncoder
    tree: LinearTree
    count: int

    @classmethod
    def fit(
        cls, texts: Sequence[str], Y: sparse.csr_array, count: int, *, seed: int, threads: int
    ) -> tuple[CandidateTree, sparse.csr_array]:
        """Return the fitted tree, and the candidates of the training rows: what it finds and what they have."""
        encoder = TfidfEncoder(threads=threads)
        X = encoder.fit_transform(list(texts))
        tree = LinearTree(seed=seed, threads=threads).fit(X, Y)
        found = cls(encoder, tree, count)
        own = tree.rank(X, k=min(count, Y.shape[1])).to_sets() + (Y > 0)
        return found, sparse.csr_array(
            (np.ones_like(own.data, dtype=np.int8), own.indices, own.indptr), own.shape
        )

    def find(self, texts: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> sparse.csr_array:
        """Return the (n_texts, n_labels) candidates of texts, of the allowed labels only."""
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
