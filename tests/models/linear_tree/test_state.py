"""Stored trees that were altered with a new checksum: refused, or at worst wrong labels, but never a crash."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_problems import planted_problem

import tagwood
from tagwood import LinearTree
from tagwood.errors import InputError, StorageError
from tagwood.storage import State

SHORT = ("parent", "label_ptr", "block_ptr", "bucket_ptr", "slot_ptr", "remainder_ptr", "entry_ptr")


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=60)


@pytest.fixture(scope="module")
def model(problem):
    return LinearTree(arity=2, max_leaf_size=4, threads=1).fit(*problem)


def altered(model, params=None, **arrays):
    """The state of a model with other parameters, or other arrays in its tree (None: without that array)."""
    state = model.state()
    tree = state.part("tree_0")
    kept = {name: array for name, array in {**tree.arrays, **arrays}.items() if array is not None}
    return State(state.kind, {**state.params, **(params or {})}, parts={"tree_0": State(tree.kind, tree.params, kept)})


def save_forged(state, folder):
    """Save a state as it is, with a correct checksum."""
    forged = LinearTree()
    forged.state = lambda: state
    return tagwood.save(forged, folder)


def test_the_state_rebuilds_the_model(model, problem):
    again = LinearTree.from_state(altered(model))
    assert again.rank(problem[0]) == model.rank(problem[0])
    assert again.get_params(deep=False) == model.get_params(deep=False)


def changes(model):
    """Ways to break the arrays of a stored tree: what is done, and the arrays after it."""
    arrays = model.state().part("tree_0").arrays
    for name, array in arrays.items():
        yield f"{name} is missing", {name: None}
        yield f"{name} has another type", {name: array.astype(np.float64)}
        yield f"{name} has two dimensions", {name: array.reshape(1, -1)}
        yield f"{name} is longer", {name: np.append(array, array[-1:])}
        if array.size:
            yield f"{name} is shorter", {name: array[:-1]}
            yield f"{name} is empty", {name: array[:0]}
    for name in ("bucket_ptr", "slot_ptr", "entry_ptr", "label_ptr"):
        for what, place, value in (
            ("starts late", 0, 1),
            ("ends late", -1, arrays[name][-1] + 1),
            ("falls", 1, -5),
        ):
            bad = arrays[name].copy()
            bad[place] = value
            yield f"{name} {what}", {name: bad}
    for what, value in (
        ("negative", -1),
        ("behind the last block", arrays["scales"].size),
        ("huge", 1 << 62),
    ):
        bad = arrays["block_ptr"].copy()
        bad[0] = value
        yield f"block_ptr is {what}", {"block_ptr": bad}
    tables = arrays["bucket_ptr"].copy()
    tables[1] += 1  # the tables of two blocks no longer have a power of two of buckets
    yield "bucket_ptr cuts odd tables", {"bucket_ptr": tables}
    for what, place, value in (
        ("no root", 0, 0),
        ("a node above itself", 1, 1),
        ("no breadth-first order", 1, 5),
    ):
        bad = arrays["parent"].copy()
        bad[place] = value
        yield f"parent has {what}", {"parent": bad}


def test_arrays_that_do_not_fit_together_are_refused(model):
    kept = []
    for what, arrays in changes(model):
        try:
            LinearTree.from_state(altered(model, **arrays))
        except InputError:
            continue
        kept.append(what)
    assert kept == []
    assert sum(1 for _ in changes(model)) > 80


def test_a_folder_with_broken_arrays_and_correct_checksums_is_refused_by_name(model, tmp_path):
    entry_ptr = model.trees_[0].arrays.entry_ptr.copy()
    entry_ptr[1] = entry_ptr[-1] + 7
    folder = save_forged(altered(model, entry_ptr=entry_ptr), tmp_path / "model")
    with pytest.raises(
        StorageError, match=r"the stored values are not a valid LinearTree .*must fit together"
    ) as caught:
        tagwood.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [
        {"n_labels": 0},
        {"n_labels": 1 << 40},
        {"n_labels": 2.5},
        {"n_features": 0},
        {"n_features": 1 << 40},
        {"n_features": "40"},
        {"init": None},
        {"init": {}},
        {"init": {"arity": 2}},
    ],
)
def test_parameters_that_do_not_fit_are_refused(model, tmp_path, params):
    folder = save_forged(altered(model, params), tmp_path / "model")
    with pytest.raises(StorageError, match="the stored values are not a valid LinearTree"):
        tagwood.load(folder)


@pytest.mark.parametrize(
    "change", [{"solver": {"link": "none"}}, {"n_trees": 2}, {"n_trees": 0}, {"solver": {"loss": "x"}}, {"solver": 3},
               {"new": 1}, {"C": -1}, {"threads": "all"}]
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(model, tmp_path, change):
    init = {**model.state().params["init"], **change}
    folder = save_forged(altered(model, {"init": init}), tmp_path / "model")
    with pytest.raises(StorageError, match="the stored values are not a valid LinearTree"):
        tagwood.load(folder)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_altered_number_is_refused_or_harmless(model, problem, data):
    arrays = model.state().part("tree_0").arrays
    name = data.draw(st.sampled_from([*SHORT, *SHORT, *sorted(arrays)]))
    bad = arrays[name].copy()
    raw = bad.view(np.uint8)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, bad.size - 1))
        if bad.dtype.kind in "iu" and data.draw(st.booleans()):
            bad[place] = bad[data.draw(st.integers(0, bad.size - 1))]
        else:
            raw[place * bad.itemsize + data.draw(st.integers(0, bad.itemsize - 1))] = data.draw(st.integers(0, 255))
    try:
        forged = LinearTree.from_state(altered(model, **{name: bad}))
    except InputError:
        return
    X = problem[0][:7]
    for options in ({}, {"search": "exact"}):
        ranking = forged.rank(X, k=6, **options)
        assert np.all((ranking.labels >= 0) & (ranking.labels < 20))
        assert not np.isnan(ranking.scores).any()
