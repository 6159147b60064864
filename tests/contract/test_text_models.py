"""What every model that reads texts must do: the contract of `LabelModel` with texts instead of features."""

import copy
import pickle

import numpy as np
import pytest
from prototype_problem import word_pairs
from sklearn.base import clone

import tagwood
from tagwood import PrototypeModel, SetGenerator, TextEncoder
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import LabelModel, takes_texts
from tagwood.neural.otseq2set.settings import NetworkSettings, SetTraining
from tagwood.neural.prime.classifiers import PrototypeClassifiers
from tagwood.neural.prime.settings import PrototypeSettings
from tagwood.ranking import Ranking

pytestmark = pytest.mark.neural

TEXTS, LABELS, NAMES = word_pairs(7)
TEST, TEST_LABELS = TEXTS[:45], LABELS[:45]
TRAIN = (TEXTS[45:], LABELS[45:])
N_LABELS = len(NAMES)
ENCODER = TextEncoder("bag", dimension=32, vocabulary=400, threads=1)
FIXED = clone(ENCODER).fit([*TEXTS, *NAMES])

# Name -> how to make a fresh, unfitted model.
MODELS = {
    "PrototypeModel": lambda: PrototypeModel(
        encoder=ENCODER, centroids="momentum", epochs=6, batch_size=64, threads=1
    ),
    "PrototypeModel, dual encoder": lambda: PrototypeModel(
        preset=PrototypeSettings().with_centroids("none"), encoder=ENCODER, epochs=6, batch_size=64, threads=1
    ),
    "PrototypeClassifiers": lambda: PrototypeClassifiers(FIXED),
    "SetGenerator": lambda: SetGenerator(
        network=NetworkSettings(hidden=32),
        training=SetTraining(epochs=12, batch_size=32, learning_rate=0.02),
        threads=1,
    ),
}
PRECISE = [name for name in MODELS if name != "SetGenerator"]  # learn these few texts to the last one


def fitted(model, texts=TRAIN[0], labels=TRAIN[1]):
    options = {} if isinstance(model, PrototypeClassifiers) else {"label_texts": NAMES}
    return model.fit(texts, labels, **options)


@pytest.fixture(params=list(MODELS))
def make(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def models():
    return {name: fitted(make()) for name, make in MODELS.items()}


@pytest.fixture(params=list(MODELS))
def model(request, models):
    """A fitted model, shared by tests: prediction changes nothing."""
    return models[request.param]


def bits(state, prefix=""):
    """Every parameter and the bytes of every array of a state, by name."""
    own = {prefix + name: array.tobytes() for name, array in state.arrays.items()}
    own[prefix + "params"] = repr(state.params)
    for name, part in state.parts.items():
        own |= bits(part, f"{prefix}{name}/")
    return own


def test_it_is_a_label_model_with_few_parameters(make):
    model = make()
    assert isinstance(model, LabelModel)
    assert takes_texts(model)
    assert len(model.get_params(deep=False)) <= 10


@pytest.mark.parametrize("name", PRECISE)
def test_it_learns_and_scores(name, models):
    model = models[name]
    first = model.rank(TEST, k=1).labels
    assert np.mean(first == np.ravel(TEST_LABELS)) > 0.9
    assert model.score(TEST, [*TEST_LABELS[:-1], [N_LABELS - 1]]) > 0.9


def test_fit_returns_the_model_and_stores_parameters_only_by_name(make):
    model = make()
    assert set(vars(model)) == set(model.get_params(deep=False))
    before = {name: copy.deepcopy(value) for name, value in model.get_params(deep=False).items()}
    assert fitted(model) is model
    assert repr(model.get_params(deep=False)) == repr(before)
    assert all(name in before or name.endswith("_") for name in vars(model))


def test_fit_forgets_earlier_fits_and_the_seed_decides(make, models, request):
    name = request.node.callspec.params["make"]
    again = fitted(fitted(make(), TRAIN[0][:90], TRAIN[1][:90]))
    assert bits(again.state()) == bits(models[name].state())


def test_a_batch_equals_its_rows_one_by_one(model):
    together = model.rank(TEST[:8], k=3)
    for row in range(8):
        alone = model.rank([TEST[row]], k=3)
        np.testing.assert_array_equal(alone.labels, together.rows([row]).labels)
        np.testing.assert_allclose(alone.scores, together.rows([row]).scores, atol=1e-5)


def test_prediction_changes_nothing(model):
    texts = list(TEST)
    before, attributes = bits(model.state()), set(vars(model))
    assert model.rank(texts, k=3) == model.rank(texts, k=3)
    model.predict(texts)
    assert bits(model.state()) == before
    assert set(vars(model)) == attributes
    assert texts == TEST


def test_saved_and_pickled_models_give_equal_rankings(model, tmp_path):
    for again in (
        tagwood.load(tagwood.save(model, tmp_path / "model"), verify=True),
        pickle.loads(pickle.dumps(model)),
    ):
        assert type(again) is type(model)
        assert bits(again.state()) == bits(model.state())
        assert again.rank(TEST, k=5) == model.rank(TEST, k=5)
        assert (again.predict(TEST) != model.predict(TEST)).nnz == 0


def test_rankings_are_well_formed(model):
    for k in (1, 5, 100):
        ranking = model.rank(TEST, k=k)
        # The constructor checks labels, falling scores and that no label occurs twice.
        checked = Ranking(ranking.indptr, ranking.labels, ranking.scores, ranking.n_labels)
        assert (checked.n_rows, checked.n_labels) == (len(TEST), N_LABELS)
        assert np.diff(checked.indptr).max() <= min(k, N_LABELS)


def test_odd_texts_and_no_texts_are_ranked(model):
    ranking = model.rank(["", "", "樹 \ud800"], k=4)
    assert ranking.n_rows == 3
    assert ranking[0] == ranking[1]
    assert model.rank([]).n_rows == 0
    assert model.predict([]).shape == (0, N_LABELS)


def test_predict_gives_zeros_and_ones(model):
    sets = model.predict(TEST)
    assert sets.shape == (len(TEST), N_LABELS)
    assert set(np.unique(sets.data)) <= {1.0}


def test_parameters_are_cloned(make, model):
    for one in (make(), model):
        twin = clone(one)
        assert repr(twin) == repr(one)
        with pytest.raises(NotFittedError, match="must be fitted first"):
            twin.rank(TEST)
    with pytest.raises(InputError, match="a parameter of"):
        make().set_params(nonsense=1)


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", None])
def test_a_k_that_is_no_positive_whole_number_is_refused(model, k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        model.rank(TEST, k=k)


def test_training_data_that_do_not_fit_are_refused(make):
    for texts, labels, words in (
        ([], [], "texts must hold at least one text"),
        (["oak"], [[0], [1]], "one row for each of the 1 texts"),
        ("oak", [[0]], "Wrap it"),
        (["oak", "ash"], [[], []], "at least one label"),
    ):
        model = make()
        with pytest.raises(InputError, match=words):
            fitted(model, texts, labels)
        with pytest.raises(NotFittedError):
            model.rank(TEST)
