"""Which rows reach which node, against the NumPy twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import train as reference
from scipy import sparse
from tree_problems import random_tree

from tagwood import _kernels
from tagwood._sparse import csr_parts


def problem(seed, n_rows, n_labels, n_copies):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 3, (n_labels, n_rows)) * (rng.random((n_labels, n_rows)) < 0.3)
    label_rows = csr_parts(sparse.csr_array(weights.astype(np.float32)))
    return label_rows, random_tree(rng, n_labels, n_copies)


def run(kernel, label_rows, tree, threads=1):
    return kernel.node_rows(*label_rows, tree.parent, tree.label_ptr, tree.labels, threads)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 25), st.integers(0, 5))
def test_rows_and_weights_of_nodes_equal_the_twin(seed, n_rows, n_labels, n_copies):
    label_rows, tree = problem(seed, n_rows, n_labels, n_copies)
    for native, twin in zip(run(_kernels, label_rows, tree), run(reference, label_rows, tree), strict=True):
        np.testing.assert_array_equal(native, twin)
        assert native.dtype == twin.dtype


def test_a_node_has_the_rows_of_its_labels_with_the_largest_weight():
    from tagwood.trees.label_tree import LabelTree

    label_rows = csr_parts(sparse.csr_array(np.array([[1, 0, 2], [3, 0, 0], [0, 0, 4]], dtype=np.float32)))
    tree = LabelTree.from_nested([[0, 1], [2]])
    ptr, rows, weights = run(_kernels, label_rows, tree)
    assert ptr.tolist() == [0, 2, 4, 5]
    assert rows.tolist() == [0, 2, 0, 2, 2]
    assert weights.tolist() == [3, 4, 3, 2, 4]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_bit(threads):
    label_rows, tree = problem(0, 500, 200, 20)
    for one, many in zip(
        run(_kernels, label_rows, tree), run(_kernels, label_rows, tree, threads), strict=True
    ):
        np.testing.assert_array_equal(one, many)
