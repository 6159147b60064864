"""SetGenerator: every kind learns, storage, resuming, candidates, rankings, set sizes, extreme rows, misuse."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone

import tagwood
from tagwood import SetGenerator
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import LabelModel
from tagwood.neural.otseq2set.model import CandidateTree, ordered_labels
from tagwood.neural.otseq2set.settings import LossSettings
from tagwood.neural.training import Training

TEXTS = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 4
SETS = [[0, 1], [1], [0], [2], [2], [2]] * 4
KINDS = ("otseq2set", "seq2seq", "mlc2seq", "sgm")


def make(**options):
    quick = {
        "network__hidden": 16,
        "network__layers": 1,
        "network__dimension": 12,
        "training__epochs": 20,
        "training__batch_size": 8,
        "training__learning_rate": 0.02,
    }
    return SetGenerator(threads=1).set_params(**{**quick, **options})


@pytest.fixture(scope="module")
def fitted():
    return make().fit(TEXTS, SETS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", ["full", "bottleneck", "candidates"])
def test_every_kind_learns_sets_of_different_sizes(kind, output):
    light_conv = output != "bottleneck"
    model = make(
        kind=kind,
        decoding__output=output,
        network__light_conv=light_conv,
        decoding__bottleneck=16,
        decoding__candidates=2,
        decoding__beam_width=2,
    )
    model.fit(TEXTS, SETS)
    wanted = [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert model.predict([TEXTS[0], TEXTS[1], TEXTS[4]]).toarray().tolist() == wanted


def test_it_is_a_label_model_that_takes_texts(fitted):
    assert isinstance(fitted, LabelModel)
    assert fitted.takes == "texts"
    assert repr(clone(fitted)) == repr(make())
    assert not hasattr(clone(fitted), "module_")
    assert (fitted.n_labels_, fitted.n_steps_) == (3, 2)


def test_generated_labels_have_the_probability_of_their_step(fitted):
    ranking = fitted.rank(["oak and ash", "", "sea"], k=9)
    assert np.diff(ranking.indptr).tolist() == [3, 3, 3]
    assert {label for label, _ in ranking[0][:2]} == {0, 1}
    assert fitted.rank(["oak and ash"], k=1)[0] == ranking[0][:1]
    assert 0 < ranking[0][2][1] < 0.2


def test_rows_are_answered_alike_alone_and_together(fitted):
    texts = [*TEXTS[:6], "", "oak " * 40, "water"]
    together, sets = fitted.rank(texts, k=3), fitted.predict(texts)
    for row, text in enumerate(texts):
        alone = fitted.rank([text], k=3)[0]
        assert [label for label, _ in alone] == [label for label, _ in together[row]]
        assert [score for _, score in alone] == pytest.approx([s for _, s in together[row]], abs=1e-5)
        assert fitted.predict([text]).toarray().tolist() == sets[[row]].toarray().tolist()


def test_no_texts_give_an_empty_answer(fitted):
    assert fitted.rank([]).n_rows == 0
    assert fitted.predict([]).shape == (0, 3)


@pytest.mark.parametrize("output", ["full", "candidates"])
def test_a_saved_model_answers_alike(tmp_path, output):
    model = make(decoding__output=output, decoding__candidates=2, training__epochs=3).fit(TEXTS, SETS)
    again = tagwood.load(tagwood.save(model, tmp_path / "model"), verify=True)
    assert again.rank(TEXTS[:6], k=3) == model.rank(TEXTS[:6], k=3)
    assert again.get_params() == model.get_params()
    assert again.history_ is None


def test_models_can_be_pickled(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.rank(TEXTS[:6], k=3) == fitted.rank(TEXTS[:6], k=3)
    assert repr(pickle.loads(pickle.dumps(make()))) == repr(make())


def test_score_is_the_ndcg_of_the_ranking(fitted):
    assert fitted.score(TEXTS, SETS) == pytest.approx(1.0, abs=0.02)
    assert fitted.score(TEXTS, [[2], [2], [2], [0], [0], [0]] * 4) < 0.7


def test_settings_have_nested_names(fitted):
    assert fitted.get_params()["network__hidden"] == 16
    changed = clone(fitted).set_params(loss__transport=2.0, training__clip=1.0)
    assert (changed.loss, changed.training.clip) == (LossSettings(transport=2.0), 1.0)
    with pytest.raises(InputError, match="training must be a SetTraining; got Training"):
        SetGenerator(training=Training()).fit(TEXTS, SETS)


def test_the_same_seed_gives_the_same_model(fitted):
    again = make().fit(TEXTS, SETS).state()
    for name, array in fitted.state().arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    other = make(seed=1).fit(TEXTS, SETS).state()
    assert any(not np.array_equal(array, other.arrays[name]) for name, array in again.arrays.items())


def test_the_embedding_of_empty_starts_at_zero_and_is_trained():
    model = make(decoding__steps=4).fit(TEXTS, SETS)
    end = model.n_labels_
    start = model._new_network(model.words_, end, None).labels.weight
    assert torch.count_nonzero(start[end]) == 0
    assert torch.count_nonzero(start[end + 1]) > 0
    assert torch.count_nonzero(model.module_.labels.weight[end]) > 0


def test_stored_convolutions_with_shared_kernels_are_refused(fitted):
    state = fitted.state()
    arrays = {**state.arrays, "conv_kernels_0": np.zeros((8, 3), dtype=np.float32)}
    with pytest.raises(InputError, match="light convolutions of an earlier version"):
        SetGenerator.from_state(replace(state, arrays=arrays))


def test_candidates_of_training_rows_come_from_trees_that_have_not_seen_them():
    # Each text has one word of its own and one label of its own: only a tree that has seen a row finds its label.
    random = np.random.default_rng(0)
    texts = [f"own{row} " + " ".join(random.choice(["oak", "ash", "sea"], 2)) for row in range(60)]
    Y = sparse.csr_array(np.eye(60, dtype=np.float32))
    tree, found = CandidateTree.fit(texts, Y, 5, seed=0, threads=1)
    assert (found.diagonal() > 0).all()  # the labels to learn are always candidates
    seen = tree.find(texts) + sparse.eye_array(60)
    assert np.diff(seen.indptr).mean() < np.diff(found.indptr).mean() - 0.5  # it finds the row's own label itself


class StopError(Exception):
    pass


@pytest.mark.parametrize("kind, stop", [("otseq2set", 4), ("otseq2set", 8), ("sgm", 5)])
def test_training_goes_on_after_an_interrupt_with_equal_result(tmp_path, kind, stop):
    options = {
        "kind": kind,
        "training__epochs": 4,
        "loss__teacher_epochs": 2,
        "training__checkpoint_minutes": 0.0,
    }
    whole = make(**options).fit(TEXTS, SETS)
    calls = []

    def progress(line, share):
        calls.append(share)
        if len(calls) == stop:
            raise StopError

    with pytest.raises(StopError):
        make(**options).fit(TEXTS, SETS, folder=tmp_path, progress=progress)
    assert (tmp_path / "checkpoint.pt").exists()
    resumed = make(**options).fit(TEXTS, SETS, folder=tmp_path)
    assert resumed.history_.losses == whole.history_.losses
    for name, array in whole.state().arrays.items():
        np.testing.assert_array_equal(array, resumed.state().arrays[name])


def test_the_best_epoch_on_held_out_rows_is_kept():
    seen = []

    def evaluate(model):
        seen.append(model.predict(TEXTS[:3]).toarray())
        return -abs(len(seen) - 2)  # the second epoch is the best

    model = make(training__epochs=9, training__patience=2).fit(TEXTS, SETS, evaluate=evaluate)
    assert model.history_.best_epoch == 1
    assert len(seen) == 4
    np.testing.assert_array_equal(model.predict(TEXTS[:3]).toarray(), seen[1])


def test_label_texts_and_word_vectors_are_what_training_starts_from(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("oak 1 0 0\nash 0 1 0\nsea 0 0 1\nwater 0 0 2\n")
    options = {"network__word_vectors": str(path), "training__epochs": 1, "training__learning_rate": 1e-12}
    model = make(**options).fit(TEXTS, SETS, label_texts=["oak", "ash", "water sea"])
    vectors = model.module_.labels.weight.detach().numpy()
    np.testing.assert_allclose(vectors[:3], [[1, 0, 0], [0, 1, 0], [0, 0, 1.5]], atol=1e-6)
    assert model.module_.words.embedding_dim == 3


def test_sets_larger_than_the_steps_keep_their_frequent_labels():
    model = make(decoding__steps=1, training__epochs=30).fit(TEXTS, [[0, 1], [1], [1], [2], [2], [2]] * 4)
    assert model.n_steps_ == 1
    assert model.predict(["oak and ash"]).toarray().tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("order, wanted", [("given", [0, 1, 2, 1]), ("frequency", [1, 0, 2, 1])])
def test_labels_are_ordered_as_the_kind_wants(order, wanted):
    borders, labels = ordered_labels(sparse.csr_array([[1, 1, 1], [0, 1, 0]]), order, 3)
    assert borders.tolist() == [0, 3, 4]
    assert labels.tolist() == wanted


EXTREME = [
    ("", [0]),
    ("x", [1, 2]),
    ("oak", [0, 1, 2, 3, 4]),  # as many labels as steps
    ("oak " * 700, [3]),
    ("\ud800 \x00 東京", [4]),
    ("never seen " * 3, [0, 4]),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {"loss__transport_empty": "free"},
        {"loss__scheme": "first-n", "training__learning_rate": 1.0},
        {"decoding__output": "candidates", "loss__transport_empty": "free"},
    ],
)
def test_extreme_rows_leave_all_weights_finite(kind, options):
    rng = np.random.default_rng(0)
    rows = [EXTREME[i] for i in rng.integers(0, len(EXTREME), 24)] + EXTREME
    texts, sets = [text for text, _ in rows], [labels for _, labels in rows]
    model = make(
        kind=kind,
        training__epochs=3,
        training__batch_size=3,
        decoding__candidates=2,
        network__max_length=60,
        **options,
    ).fit(texts, sets)
    assert all(bool(torch.isfinite(weight).all()) for weight in model.module_.parameters())
    assert np.isfinite(model.history_.losses).all()
    assert np.isfinite(model.rank(texts, k=5).scores).all()


def test_rows_without_labels_are_refused():
    with pytest.raises(InputError, match=r"at least one label.*got 2 rows without labels, the first is row 1"):
        make().fit(["oak", "ash", "sea"], [[0], [], []])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "set2seq"}, "kind must be one of 'otseq2set'"),
        ({"network__hidden": 20}, "hidden must be a multiple of 16; got 20. Use 32"),
        ({"loss__scheme": "last-n"}, "scheme must be one of 'auto'"),
        ({"decoding__output": "tree"}, "output must be one of"),
        ({"decoding__steps": 0}, "steps must be"),
        ({"network__light_conv": 1}, "light_conv must be True or False"),
        ({"loss__transport": -1.0}, "transport must be"),
        ({"loss__transport_empty": "none"}, "transport_empty must be one of 'label', 'free'"),
        ({"network__word_vectors": 3}, "word_vectors must be the path"),
        ({"network__word_vectors": "nowhere.txt"}, "word_vectors must be a file"),
        ({"training__learning_rate": 0.0}, "learning_rate must be"),
        ({"training__device": "abacus"}, "device must be available"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        make(**options).fit(TEXTS, SETS)


def test_data_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="one row for each of the 24 texts"):
        make().fit(TEXTS, SETS[:3])
    with pytest.raises(InputError, match="at least one text"):
        make().fit([], [])
    with pytest.raises(InputError, match="one text for each of the 3 labels; got 1"):
        make().fit(TEXTS, SETS, label_texts=["a"])
    with pytest.raises(InputError, match="at least one word must occur in 2 texts or more; got none"):
        make().fit(["oak", "ash", ""], [[0], [1], [2]])
    with pytest.raises(NotFittedError):
        make().rank(["oak"])


@pytest.mark.parametrize("output", ["full", "candidates"])
def test_labels_can_be_restricted_and_excluded(output):
    model = make(decoding__output=output, decoding__candidates=2, training__epochs=5).fit(TEXTS, SETS)
    ranking = model.rank(TEXTS[:6], k=3, exclude=[1])
    assert not np.isin(1, ranking.labels)
    assert np.diff(ranking.indptr).min() >= 1
    assert set(model.rank(TEXTS[:6], k=3, restrict=[2]).labels.tolist()) == {2}
    assert model.rank(TEXTS[:2], k=3, restrict=[]).labels.size == 0
    with pytest.raises(InputError, match="exclude must hold label ids from 0 to 2"):
        model.rank(TEXTS[:6], exclude=[3])


def test_explanations_name_the_words_a_step_looked_at(fitted):
    words = fitted.explain_text("The oak, and ASH and so on!", 0)
    assert [word for word, _ in words] == ["The", "oak", "and", "ASH", "so", "on"]
    score = dict(fitted.rank(["The oak, and ASH and so on!"], k=3)[0])[0]
    assert sum(weight for _, weight in words) == pytest.approx(score, rel=1e-3)
    assert fitted.explain_text("", 1) == []
    assert [word for word, _ in fitted.explain_text("oak " * 400, 0)] == ["oak"]
    with pytest.raises(InputError, match="label must be"):
        fitted.explain_text("oak", 3)


def test_a_label_that_is_no_candidate_has_no_weight():
    model = make(decoding__output="candidates", decoding__candidates=1, training__epochs=5).fit(TEXTS, SETS)
    found = [model.explain_text("sea salt", label) for label in range(3)]
    totals = [sum(weight for _, weight in words) for words in found]
    assert sum(total > 0 for total in totals) == 1


@pytest.fixture(scope="module", params=["otseq2set", "mlc2seq"])
def sized(request):
    return make(kind=request.param, training__epochs=30).fit(TEXTS, SETS)


def test_expected_sizes_follow_the_number_of_labels(sized):
    expected = sized.expected_sizes(TEXTS[:6])
    assert int(np.argmax(expected)) == 0
    assert expected == pytest.approx([2, 1, 1, 1, 1, 1], abs=0.4)
    assert sized.expected_sizes([]).shape == (0,)


def test_learned_sizes_are_those_of_the_rows_they_come_from(sized):
    texts, sets = TEXTS[:6], [[0, 1], [0, 1], [0, 1], [2], [2], [2]]
    sized.learn_sizes(texts, sets)
    sizes = np.diff(sized.predict(texts, sizes="learned").indptr)
    wrong = np.abs(sizes - [2, 2, 2, 1, 1, 1]).sum()
    assert wrong <= min(3, np.abs(np.diff(sized.predict(texts).indptr) - [2, 2, 2, 1, 1, 1]).sum())


def test_labels_of_a_learned_size_are_the_first_of_the_ranking(sized):
    sized.learn_sizes(TEXTS[:2], [[0, 1], [0, 1]])  # every text has two labels, the most there can be
    found = sized.predict(TEXTS[:6], sizes="learned").toarray()
    ranking = sized.rank(TEXTS[:6], k=2)
    for row in range(6):
        assert np.flatnonzero(found[row]).tolist() == sorted(label for label, _ in ranking[row])


def test_learned_sizes_are_stored_and_dropped_by_a_new_fit(tmp_path):
    model = make(decoding__output="candidates", decoding__candidates=2).fit(TEXTS, SETS)
    plain = tagwood.load(tagwood.save(model, tmp_path / "plain"))
    assert plain.size_cuts_ is None
    model.learn_sizes(TEXTS[:6], SETS[:6])
    again = tagwood.load(tagwood.save(model, tmp_path / "model"), verify=True)
    np.testing.assert_array_equal(again.size_cuts_, model.size_cuts_)
    wanted = model.predict(TEXTS[:6], sizes="learned").toarray()
    np.testing.assert_array_equal(again.predict(TEXTS[:6], sizes="learned").toarray(), wanted)
    assert model.fit(TEXTS, SETS).size_cuts_ is None


def test_sizes_that_were_not_learned_are_refused():
    model = make(training__epochs=1).fit(TEXTS, SETS)
    with pytest.raises(NotFittedError, match=r"needs learned sizes.*learn_sizes"):
        model.predict(TEXTS, sizes="learned")
    with pytest.raises(InputError, match="sizes must be one of 'generated'"):
        model.predict(TEXTS, sizes="expected")
    with pytest.raises(InputError, match="at least one label"):
        model.learn_sizes(TEXTS[:2], [[], [1]])
    with pytest.raises(NotFittedError):
        SetGenerator().learn_sizes(TEXTS, SETS)
