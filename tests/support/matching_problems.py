"""A small tree, and rows with labels of it that arrive at some of its leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from tagwood.trees.label_tree import LabelTree

TREE = LabelTree.from_nested([[[0, 1], [2, 3]], [4, 5]])


@st.composite
def matching_problems(draw):
    """Label sets of some rows, and the leaves each arrives at; -1 is none."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_rows = draw(st.integers(1, 40))
    Y = sparse.csr_array((rng.random((n_rows, 6)) < 0.3).astype(np.float32))
    matched = rng.permuted(np.tile(TREE.leaves, (n_rows, 1)), axis=1)[:, : draw(st.integers(1, 3))]
    matched[rng.random(matched.shape) < 0.2] = -1
    return Y, matched
