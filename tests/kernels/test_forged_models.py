"""Whatever the long arrays of a model hold, search stays inside them: wrong labels, but never a crash."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_problems import random_rows, random_tree, random_weights

from tagwood import _kernels
from tagwood.models.linear_tree.weights import LINKS, SearchPlan, TreeWeights

LONG = ("buckets", "remainders", "counts", "columns", "weights", "scales", "bias", "labels")


def forge(rng, array):
    kind = rng.integers(3)
    if kind == 0 or array.size == 0:
        return np.frombuffer(rng.bytes(array.nbytes), dtype=array.dtype).copy()
    if kind == 1:
        return np.full_like(array, np.frombuffer(b"\xff" * array.itemsize, dtype=array.dtype)[0])
    return rng.permutation(array)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**9),
    n_labels=st.integers(1, 400),
    n_features=st.sampled_from([1, 5, 300, 70_000]),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    link=st.sampled_from(list(LINKS)),
    changed=st.sets(st.sampled_from(LONG), min_size=1),
    n_copies=st.sampled_from([0, 30]),
)
def test_forged_arrays_never_crash(seed, n_labels, n_features, dtype, link, changed, n_copies):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_labels, n_copies)
    model = random_weights(rng, tree, min(n_features, 300), link, dtype, density=0.1)
    forged = {name: forge(rng, getattr(model.arrays, name)) for name in sorted(changed)}
    arrays = model.arrays._replace(**forged)
    X = random_rows(rng, 5, min(n_features, 300))._replace(n_cols=n_features)
    bad = TreeWeights(tree, arrays, model.link, model.link_power)
    masks = [None, rng.random(n_labels) < 0.5]
    for exact, merge, mask in product((False, True), ("mean", "max"), masks):
        found = bad.search(X, 6, SearchPlan(exact, 7, 0, merge, mask), 1)
        assert not np.isnan(found.scores).any()
        assert np.all((found.found >= 0) & (found.found <= 6))
        used = np.arange(6) < found.found[:, None]
        labels = found.labels.reshape(-1, 6)[used]
        assert np.all((labels >= 0) & (labels < n_labels))
    leaves, _ = bad.leaves(X, 7, 1)
    assert np.all((leaves >= -1) & (leaves < tree.n_nodes))
    first = np.zeros(5, dtype=np.int32)
    assert _kernels.margins(arrays, n_labels, bad.max_outputs, *X, np.arange(6), first, first, 1).size == 5
