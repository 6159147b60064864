import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagwood.errors import InputError
from tagwood.trees import build_fano_tree, build_huffman_tree

counts = st.lists(st.integers(0, 50), min_size=1, max_size=40)
builders = pytest.mark.parametrize("build", [build_fano_tree, build_huffman_tree])


def expected_depth(tree, frequencies):
    f = np.asarray(frequencies, dtype=float)
    return f @ tree.label_depths() / max(f.sum(), 1)


def optimal_depth(frequencies):
    """The sum of all joins, by the textbook definition of Huffman's code."""
    items, total = sorted(map(float, frequencies)), 0.0
    while len(items) > 1:
        joined = items.pop(0) + items.pop(0)
        total += joined
        items = sorted([*items, joined])
    return total / max(sum(frequencies), 1)


@given(counts)
def test_expected_depths_are_ordered_as_theory_says(frequencies):
    huffman = expected_depth(build_huffman_tree(frequencies), frequencies)
    fano = expected_depth(build_fano_tree(frequencies), frequencies)
    assert huffman <= fano + 1e-9
    assert fano <= huffman + 1 + 1e-9


@given(counts)
def test_huffman_reaches_the_least_expected_depth(frequencies):
    assert expected_depth(build_huffman_tree(frequencies), frequencies) == pytest.approx(optimal_depth(frequencies))


@given(counts)
def test_huffman_lies_between_the_entropy_and_one_more(frequencies):
    f = np.array([c for c in frequencies if c > 0], dtype=float)
    if f.size < 2:
        return
    p = f / f.sum()
    entropy = -(p * np.log2(p)).sum()
    depth = expected_depth(build_huffman_tree(f), f)
    assert entropy - 1e-9 <= depth < entropy + 1


@given(st.lists(st.integers(1, 50), min_size=2, max_size=20))
def test_the_first_cut_of_fano_is_the_most_even_one(frequencies):
    tree = build_fano_tree(frequencies)
    falling = np.sort(frequencies)[::-1]
    uneven = [abs(falling[:cut].sum() - falling[cut:].sum()) for cut in range(1, falling.size)]
    below = np.array([tree.path(int(leaf))[1] for leaf in tree.leaf_of_copy])
    left = np.asarray(frequencies)[tree.labels[below == 1]].sum()
    assert abs(2 * left - sum(frequencies)) == min(uneven)


@builders
@given(frequencies=counts)
def test_every_label_has_a_leaf_of_its_own_in_a_binary_tree(build, frequencies):
    tree = build(frequencies)
    assert sorted(tree.labels.tolist()) == list(range(len(frequencies)))
    assert np.diff(tree.label_ptr)[tree.leaves].tolist() == [1] * len(frequencies)
    assert set(np.diff(tree.child_ptr).tolist()) <= {0, 2}


def test_huffman_puts_no_frequent_label_deeper_than_a_rarer_one():
    frequencies = np.random.default_rng(0).zipf(1.4, 300) % 10_000 + 1
    depths = build_huffman_tree(frequencies).label_depths()
    order = np.argsort(-frequencies)
    rarer = np.diff(frequencies[order]) < 0
    assert (np.diff(depths[order])[rarer] >= 0).all()


@builders
def test_labels_that_never_occur_are_halved_and_make_no_chain(build):
    tree = build([9, *[0] * 64])
    assert tree.label_depths()[0] == 1
    assert tree.depth.max() == 7


@builders
def test_a_deep_chain_is_built(build):
    tree = build(2.0 ** -np.arange(300))
    assert tree.depth.max() == 299


@builders
@pytest.mark.parametrize(
    ("frequencies", "words"),
    [([-1.0, 2], "must not be negative"), ([], "one number per label"), ([np.inf, 1], "finite numbers")],
)
def test_misuse_is_named(build, frequencies, words):
    with pytest.raises(InputError, match=words):
        build(frequencies)
