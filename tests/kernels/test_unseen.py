"""Matching of unseen rows: against the twin, for any number of threads, blind to a row's own labels."""

import numpy as np
import pytest
from reference import unseen as reference
from scipy import sparse

from tagwood import _kernels
from tagwood._sparse import csr_parts
from tagwood.trees.label_tree import LabelTree

NESTED = [[[0, 1], [2, 3], [4]], [[5, 6], [7, 8]], [9, 10]]  # leaves on two levels
WIDE = [[label] for label in range(40)]  # more children than lanes
NO_WEIGHTS = np.empty(0, dtype=np.float32)


class Problem:
    def __init__(self, nested, seed=0, n_rows=60, n_features=12, weights=False, loss=0):
        rng = np.random.default_rng(seed)
        self.tree = LabelTree.from_nested(nested)
        n_labels = self.tree.n_labels
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.6)
        self.X = csr_parts(sparse.csr_array(X.astype(np.float32)))
        self.Y = np.zeros((n_rows, n_labels), dtype=np.float32)
        self.Y[np.arange(n_rows), rng.integers(0, n_labels, n_rows)] = 1
        self.Y[rng.random(self.Y.shape) < 0.05] = 1
        self.second_half = (rng.permutation(n_rows) % 2).astype(np.uint8)
        self.entry_weights = rng.uniform(0.5, 2, self.Y.shape).astype(np.float32) if weights else None
        self.row_weights = rng.uniform(0.5, 2, n_rows).astype(np.float32) if weights else NO_WEIGHTS
        self.loss = loss

    def arguments(self, width, followed=None):
        Y = self.Y if self.entry_weights is None else self.Y * self.entry_weights
        labels = csr_parts(sparse.csr_array(Y.T))
        tree = self.tree
        ptr, rows, weights = _kernels.node_rows(
            *labels[:3], self.X.n_rows, tree.parent, tree.label_ptr, tree.labels, 1
        )
        weights = NO_WEIGHTS if self.entry_weights is None else weights
        halves = (self.second_half, width, followed or width, 3 if self.loss == 0 else 0, self.loss, 1.0, 1.0)
        return (*self.X, ptr, rows, weights, self.row_weights, tree.child_ptr, *halves)

    def match(self, width=3, followed=None, threads=1, seed=0):
        found = _kernels.match_unseen(*self.arguments(width, followed), 1e-5, 3000, seed, threads)
        return found.reshape(-1, width)


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("width, followed", [(1, 1), (3, 3), (3, 1), (20, 20), (20, 2)])
def test_rows_are_matched_as_by_the_twin(width, followed, weights, loss):
    problem = Problem(NESTED, weights=weights, loss=loss)
    twin = reference.match_unseen(*problem.arguments(width, followed)).reshape(-1, width)
    np.testing.assert_array_equal(problem.match(width, followed), twin)


def test_first_places_are_those_of_a_beam_as_wide_as_is_followed():
    # In a tree whose leaves are all at the same depth.
    problem = Problem([[[3 * i + j], [12 + 3 * i + j]] for i in range(4) for j in range(3)], n_rows=200)
    np.testing.assert_array_equal(problem.match(5, followed=2)[:, :2], problem.match(2))
    assert (problem.match(5, followed=2)[:, 2:] != problem.match(5)[:, 2:]).any()


def test_more_children_than_lanes_are_matched_as_by_the_twin():
    # One row of each label in each half: no two children are alike, and there is no tie to break.
    problem = Problem(WIDE, n_rows=80)
    problem.Y = np.tile(np.eye(40, dtype=np.float32), (2, 1))
    problem.second_half = np.repeat([0, 1], 40).astype(np.uint8)
    twin = reference.match_unseen(*problem.arguments(5)).reshape(-1, 5)
    np.testing.assert_array_equal(problem.match(5), twin)


@pytest.mark.parametrize("nested", [NESTED, WIDE])
def test_threads_do_not_matter(nested):
    problem = Problem(nested, n_rows=200)
    for threads in (2, 5):
        np.testing.assert_array_equal(problem.match(threads=threads), problem.match())


def test_a_rows_own_labels_do_not_matter_to_it_but_to_the_other_half():
    problem = Problem(NESTED)
    before = problem.match()
    others_changed = 0
    for row in range(0, 60, 5):
        own = problem.Y[row].copy()
        problem.Y[row] = np.roll(own, 4)
        after = problem.match()
        same_half = problem.second_half == problem.second_half[row]
        np.testing.assert_array_equal(after[same_half], before[same_half])
        others_changed += int((after[~same_half] != before[~same_half]).any())
        problem.Y[row] = own
    assert others_changed > 6


def test_large_nodes_learn_enough_from_a_sample_of_their_rows():
    labels = np.random.default_rng(0).integers(0, 4, 100_000)  # 50,000 in each half, 32,768 are looked at
    problem = Problem([[0], [1], [2], [3]], n_rows=4)
    problem.X = csr_parts(sparse.csr_array(np.eye(4, dtype=np.float32)[labels]))
    problem.Y = np.eye(4, dtype=np.float32)[labels]
    problem.second_half = (np.arange(labels.size) % 2).astype(np.uint8)
    np.testing.assert_array_equal(problem.match(width=1)[:, 0], problem.tree.leaves[labels])


def test_arrays_that_do_not_fit_are_refused():
    problem = Problem(NESTED)
    problem.second_half = problem.second_half[:-1]
    with pytest.raises(ValueError, match="one entry per node"):
        problem.match()
