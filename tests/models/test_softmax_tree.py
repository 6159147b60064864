"""`SoftmaxTree`: learns topics from words, on any binary tree; exact, repeatable, stored and loaded."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from softmax_problems import random_binary_tree, topic_texts

import tagwood
from tagwood import SoftmaxTree
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import takes_texts
from tagwood.metrics import evaluate
from tagwood.models.base import LabelModel
from tagwood.models.softmax_tree import label_paths, number_decisions
from tagwood.trees import LabelTree, build_balanced_tree, build_huffman_tree


def small(**options):
    return SoftmaxTree(**{"dimension": 16, "epochs": 30, "min_count": 1, "threads": 1, **options})


@pytest.fixture(scope="module")
def problem():
    return topic_texts()


@pytest.fixture(scope="module")
def model(problem):
    return small().fit(*problem)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stored_bits(model):
    state = model.state()
    return {name: array.tobytes() for name, array in state.arrays.items()} | {"params": repr(state.params)}


@pytest.mark.parametrize("tree", ["interpolated", "balanced", "fano", "huffman"])
@pytest.mark.parametrize("positives", ["sample", "sum"])
@pytest.mark.parametrize("ngrams", [1, 2])
def test_topics_are_learned_on_every_tree(problem, tree, positives, ngrams):
    texts, labels = topic_texts(200, seed=1)
    fitted = small(tree=tree, positives=positives, ngrams=ngrams).fit(*problem)
    Y = sparse.lil_array((len(texts), 12))
    for row, ids in enumerate(labels):
        Y[row, ids] = 1
    assert evaluate(Y.tocsr(), fitted.rank(texts, k=1), metrics=["P@1"])["P@1"] > 0.95


def test_it_is_a_label_model_that_takes_texts(model):
    assert isinstance(model, LabelModel)
    assert takes_texts(model)
    assert {"threads", "seed"} <= set(model.get_params())
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="this SoftmaxTree must be fitted first"):
        clone(model).rank(["t0w1"])


def test_one_thread_gives_the_same_bits_and_forgets_earlier_fits(problem, model):
    again = small().fit(*topic_texts(50, 5, seed=3)).fit(*problem)
    assert stored_bits(again) == stored_bits(model)
    assert stored_bits(small(seed=1).fit(*problem)) != stored_bits(model)


def test_several_threads_learn_as_well(problem):
    texts, labels = topic_texts(200, seed=1)
    found = small(threads=2).fit(*problem).rank(texts, k=1)
    assert np.mean([label in ids for label, ids in zip(found.labels, labels, strict=True)]) > 0.95


def test_scores_are_probabilities_that_sum_to_one_and_fall(model):
    texts, _ = topic_texts(40, seed=2)
    ranking = model.rank([*texts, "", "words never seen"], k=100)
    scores = ranking.scores.reshape(-1, 12)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-5)
    assert np.all(np.diff(scores, axis=1) <= 0)
    assert np.all(np.sort(ranking.labels.reshape(-1, 12), axis=1) == np.arange(12))


def test_a_batch_equals_its_rows_and_fewer_labels_are_the_first_of_more(model):
    texts, _ = topic_texts(80, seed=2)
    together = model.rank(texts, k=7)
    for row in (0, 33, 79):
        assert model.rank([texts[row]], k=7) == together.rows([row])
    assert model.rank(texts, k=3) == together.top(3)
    many = small(threads=3)
    many.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    assert many.rank(texts, k=7) == together


def test_given_labels_are_scored_as_in_the_ranking(model):
    texts, _ = topic_texts(9, seed=2)
    ranking = model.rank(texts, k=12)
    rows = np.repeat(np.arange(9), 12)
    order = np.random.default_rng(0).permutation(rows.size)
    pairs = np.stack([rows, ranking.labels], axis=1)[order]
    np.testing.assert_allclose(model.score_labels(texts, pairs), ranking.scores[order], rtol=1e-5)
    assert model.score_labels(texts, []).size == 0
    with pytest.raises(InputError, match="pairs must name rows below 9 and labels below 12"):
        model.score_labels(texts, [[9, 0]])


def test_only_allowed_labels_are_returned(model):
    texts, _ = topic_texts(20, seed=2)
    everything = model.rank(texts, k=12)
    for row, found in enumerate(model.rank(texts, k=12, restrict=[3, 5, 7], exclude=[5])):
        wanted = [pair for pair in everything[row] if pair[0] in (3, 7)]
        assert found == wanted
    assert model.rank(texts, restrict=[]).labels.size == 0


def test_predict_keeps_labels_with_half_the_share_of_a_usual_row(model):
    texts, labels = topic_texts(100, seed=2)
    sets = model.predict(texts)
    assert sets.shape == (100, 12)
    right = [set(sets[[row]].indices.tolist()) == set(ids) for row, ids in enumerate(labels)]
    assert np.mean(right) > 0.8


def test_the_search_takes_no_more_decisions_than_there_are(model, problem):
    effort = model.search_effort(problem[0], k=1)
    assert effort.min() >= 1
    assert effort.max() <= 11
    assert np.all(model.search_effort(problem[0], k=12) == 11)


def test_labels_without_rows_come_last_and_move_nothing(problem):
    texts, labels = problem
    Y = sparse.lil_array((len(texts), 15))
    for row, ids in enumerate(labels):
        Y[row, [label + 1 if label > 4 else label for label in ids]] = 1  # 5, 13 and 14 have no rows
    fitted = small(tree="huffman").fit(texts, Y.tocsr())
    ranking = fitted.rank([*texts[:20], ""], k=15)
    last = ranking.labels.reshape(-1, 15)[:, -3:]
    assert np.all(np.sort(last, axis=1) == [5, 13, 14])
    assert ranking.scores.reshape(-1, 15)[:, -3:].max() < 1e-9
    assert fitted.arrays_.outputs.size == 11 * 16


def test_rows_without_labels_take_no_part_in_training(problem):
    texts, labels = problem
    alone = small(tree="huffman").fit(texts[:100], labels[:100])
    padded = small(tree="huffman").fit(texts[:100] + texts[:10], [*labels[:100], *([[]] * 10)])
    assert padded.arrays_.outputs.size == alone.arrays_.outputs.size
    assert padded.labels_per_row_ == alone.labels_per_row_


def test_one_label_is_certain():
    fitted = small().fit(["oak", "ash"], [[0], [0]])
    assert fitted.rank(["elm"], k=3)[0] == [(0, 1.0)]
    assert fitted.predict(["elm"]).nnz == 1


def test_the_tree_is_given_or_built_by_its_name(problem):
    texts, labels = problem
    tree = random_binary_tree(np.random.default_rng(0), 12)
    assert small().fit(texts, labels, tree=tree).tree_ is tree
    counts = np.bincount([label for ids in labels for label in ids])
    found = small(tree="huffman", lam=1.7).fit(texts, labels).tree_.label_depths()
    assert found.tolist() == build_huffman_tree(counts).label_depths().tolist()
    for shape in ({"tree": "balanced", "lam": 1.7}, {"tree": "interpolated", "lam": 0}):
        assert set(small(**shape).fit(texts, labels).tree_.label_depths().tolist()) == {3, 4}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (build_balanced_tree(np.eye(12), max_leaf_size=2), "must be binary, with every label in a leaf"),
        (
            build_balanced_tree(np.eye(12), arity=4, max_leaf_size=1),
            "Build it with arity=2 and max_leaf_size=1",
        ),
        (LabelTree.from_nested([[0], [1]]), "the tree must be over the 12 labels of Y; got 2 labels"),
    ],
)
def test_trees_that_do_not_fit_are_refused(problem, tree, message):
    with pytest.raises(InputError, match=message):
        small().fit(*problem, tree=tree)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree": "auto"}, "tree must be one of 'interpolated', 'balanced', 'fano', 'huffman'"),
        ({"lam": 3}, "lam must be a number from 0.0 to 2.0; got 3"),
        ({"dimension": 100}, "dimension must be a multiple of 8; got 100. Use 104."),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"learning_rate": 0}, "learning_rate must be a number greater than 0.0"),
        ({"min_count": 0}, "min_count must be a whole number of at least 1"),
        ({"ngrams": 6}, "ngrams must be a whole number from 1 to 5"),
        ({"positives": "mean"}, "positives must be one of 'sample', 'sum'"),
    ],
)
def test_settings_that_do_not_fit_are_named(problem, options, message):
    with pytest.raises(InputError, match=message):
        small(**options).fit(*problem)


@pytest.mark.parametrize(
    ("texts", "Y", "message"),
    [
        ("oak", [[0]], r"texts must be a list of texts; got one text. Wrap it: \[text\]"),
        ([], [], "texts must hold at least one text"),
        (["oak", None], [[0], [1]], "texts must contain str only; got NoneType at position 1"),
        (["oak", "ash"], [[0]], "Y must have one row for each of the 2 texts; got 1 rows"),
        (["oak", "ash"], [[], []], "Y must hold at least one label"),
        (["-", "a"], [[0], [1]], "at least one word must occur in 1 texts or more"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_the_model_stays_unfitted(texts, Y, message):
    model = small(tree="huffman")
    with pytest.raises(InputError, match=message):
        model.fit(texts, Y)
    with pytest.raises(NotFittedError):
        model.rank(["oak"])


def test_training_that_runs_away_says_so(problem):
    with pytest.raises(InputError, match=r"learning_rate must be small enough.*got 1e\+30"):
        small(learning_rate=1e30).fit(*problem)


def test_no_texts_give_an_empty_ranking(model):
    assert model.rank([]).n_rows == 0
    assert model.predict([]).shape == (0, 12)


def test_a_saved_model_is_mapped_and_gives_equal_rankings(model, tmp_path):
    texts, _ = topic_texts(30, seed=5)
    folder = tagwood.save(model, tmp_path / "model", golden=texts[:4])
    loaded = tagwood.load(folder, verify=True)
    assert repr(loaded) == repr(model)
    assert stored_bits(loaded) == stored_bits(model)
    assert loaded.rank(texts) == model.rank(texts)
    assert not loaded.arrays_.inputs.flags.owndata
    assert not loaded.arrays_.inputs.flags.writeable
    assert loaded.fit(*topic_texts(40, 4)).n_labels_ == 4


@pytest.mark.parametrize("name", ["inputs", "outputs", "decision", "parent", "label_ptr", "labels"])
def test_stored_arrays_that_do_not_fit_are_refused(model, name):
    state = model.state()
    broken = {**state.arrays, name: state.arrays[name][:-1].copy()}
    if name == "outputs":
        broken[name] = broken[name][:, :-1].copy()
    with pytest.raises(InputError):
        SoftmaxTree.from_state(tagwood.storage.State(state.kind, state.params, broken, state.parts))


def test_stored_bags_that_do_not_fit_are_refused(model):
    state = model.state()
    bags = state.part("bags")
    arrays = {**bags.arrays, "slots": bags.arrays["slots"][:-1].copy()}
    part = tagwood.storage.State(bags.kind, bags.params, arrays)
    with pytest.raises(InputError, match="stored word bags must fit together"):
        SoftmaxTree.from_state(tagwood.storage.State(state.kind, state.params, state.arrays, {"bags": part}))


def test_paths_lead_from_the_root_to_every_label():
    rng = np.random.default_rng(4)
    for n_labels in (1, 2, 7, 30):
        tree = random_binary_tree(rng, n_labels)
        decision = number_decisions(tree, np.ones(n_labels, dtype=bool))
        paths = label_paths(tree, decision)
        assert paths.steps.size == tree.label_depths().sum()
        for label in range(n_labels):
            node = 0
            for step in paths.steps[paths.ptr[label] : paths.ptr[label + 1]].tolist():
                assert decision[node] == step >> 1
                node = int(tree.child_ptr[node]) + (step & 1)
            assert tree.leaf_labels(node).tolist() == [label]
