"""`TextEncoder`: vectors, storage, folders of weights, misuse, and the automatic choice of an encoder."""

import json
import pickle
import shutil
import socket

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from prototype_problem import word_pairs
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import tagwood
from tagwood import ConcatEncoder, LinearTree, PrototypeModel, Tagger, TextEncoder, TfidfEncoder
from tagwood.errors import InputError, MissingExtraError, NotFittedError
from tagwood.features.base import Encoder
from tagwood.neural.encoders import text_encoder
from tagwood.neural.encoders.pretrained import PretrainedModule, minilm_folder, read_bert
from tagwood.neural.encoders.text_encoder import suitable_encoder
from tagwood.neural.encoders.tokens import TokenRows, tokenize, train_tokenizer
from tagwood.neural.prime.settings import RATES
from tagwood.storage import State

TEXTS = [
    "fir trees grow slowly",
    "a fir is a tree",
    "salt water of the sea",
    "the sea is salt",
    "an oak is a tree",
    "waves and water",
]
ODD = ["", "   ", "木の本 😀", "\ud800 broken", "ﬁr", "x" * 5000, "\x00\u200b"]


@pytest.fixture(scope="module")
def minilm():
    return TextEncoder("minilm", precision="float32", threads=1).fit([])


@pytest.fixture(scope="module")
def encoders(minilm):
    new = {kind: TextEncoder(kind, dimension=64, layers=2, threads=1).fit(TEXTS) for kind in ("small", "bag")}
    return {**new, "minilm": minilm}


@pytest.fixture(params=["small", "bag", "minilm"])
def encoder(request, encoders):
    return encoders[request.param]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_rows_are_vectors_of_norm_one_and_zeros_for_empty_texts(encoder):
    assert isinstance(encoder, Encoder)
    X = encoder.transform([*TEXTS, *ODD])
    assert X.shape == (len(TEXTS) + len(ODD), encoder.n_features)
    assert X.dtype == np.float32
    norms = np.linalg.norm(X, axis=1)
    assert norms[: len(TEXTS)] == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert (X[len(TEXTS) : len(TEXTS) + 2] == 0).all()
    assert np.all((np.abs(norms - 1) < 1e-5) | (norms == 0))


def test_a_text_has_the_same_vector_alone_and_among_others(encoder):
    many = [*TEXTS, *ODD, " ".join(TEXTS)]
    together = encoder.transform(many)
    alone = np.concatenate([encoder.transform([text]) for text in many])
    np.testing.assert_allclose(together, alone, atol=2e-6)


def test_transform_changes_nothing_and_repeats(encoder):
    before = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    np.testing.assert_array_equal(encoder.transform(TEXTS), encoder.transform(TEXTS))
    assert all(torch.equal(value, before[name]) for name, value in encoder.module.state_dict().items())


def test_the_module_embeds_without_normalisation_and_with_gradients(encoder):
    tokens = encoder.tokens([*TEXTS, ""])
    vectors = encoder.module(tokens)
    assert vectors.shape == (len(TEXTS) + 1, encoder.module.dimension)
    assert torch.all(vectors[-1] == 0)
    scaled = torch.nn.functional.normalize(vectors, dim=1).detach().numpy()
    np.testing.assert_allclose(scaled, encoder.transform([*TEXTS, ""]), atol=2e-6)
    vectors.square().sum().backward()
    missing = [name for name, weight in encoder.module.named_parameters() if weight.grad is None]
    encoder.module.zero_grad()
    assert missing == []


def test_training_mode_survives_transform(encoder):
    encoder.module.train()
    encoder.transform(TEXTS)
    assert encoder.module.training
    encoder.module.eval()


def test_no_rows_give_no_vectors(encoder):
    assert encoder.transform([]).shape == (0, encoder.n_features)
    assert encoder.module(TokenRows.of([])).shape == (0, encoder.n_features)


def test_a_stored_encoder_gives_the_same_vectors(encoder, tmp_path):
    tagwood.save(encoder, tmp_path / "encoder")
    again = tagwood.load(tmp_path / "encoder")
    np.testing.assert_array_equal(again.transform([*TEXTS, *ODD]), encoder.transform([*TEXTS, *ODD]))


def test_likeness_of_meaning_needs_no_training_with_minilm(minilm):
    X = minilm.transform(["a cat sat there", "kittens are sitting", "interest rates of banks"])
    assert X[0] @ X[1] > 0.4 > X[0] @ X[2]


def test_an_untrained_bag_finds_shared_rare_words(encoders):
    X = encoders["bag"].transform(["fir trees", "the fir", "salt sea"])
    assert X[0] @ X[1] > X[0] @ X[2] + 0.2


def test_same_seed_same_vectors_and_another_seed_others():
    first, second, other = (
        TextEncoder("small", dimension=32, layers=1, seed=seed, threads=1).fit(TEXTS) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.transform(TEXTS), second.transform(TEXTS))
    assert not np.allclose(first.transform(TEXTS), other.transform(TEXTS))


def test_texts_are_cut_at_max_length():
    encoder = TextEncoder("bag", dimension=32, max_length=3, threads=1).fit(TEXTS)
    assert encoder.tokens(["fir fir fir fir sea", "sea"]).lengths.tolist() == [3, 1]
    np.testing.assert_allclose(encoder.transform(["fir fir fir fir"]), encoder.transform(["fir fir fir"]))


def test_bfloat16_changes_vectors_little(minilm):
    half = TextEncoder("minilm", precision="bfloat16", threads=1).fit([])
    X, Z = minilm.transform(TEXTS), half.transform(TEXTS)
    assert Z.dtype == np.float32
    assert np.sum(X * Z, axis=1).min() > 0.99
    assert not np.array_equal(X, Z)


@pytest.mark.parametrize("has_bfloat16", [False, True])
def test_minilm_computes_in_bfloat16_where_the_cpu_does(has_bfloat16, minilm, monkeypatch):
    monkeypatch.setattr("tagwood.neural.encoders.text_encoder.cpu_has_bfloat16", lambda: has_bfloat16)
    auto = TextEncoder("minilm", threads=1).fit([])
    X, Z = minilm.transform(TEXTS), auto.transform(TEXTS)
    assert np.array_equal(X, Z) is not has_bfloat16
    assert np.sum(X * Z, axis=1).min() > 0.999
    alone = np.concatenate([auto.transform([text]) for text in TEXTS])
    assert np.sum(alone * Z, axis=1).min() > 0.9999


def test_nothing_is_downloaded(no_network, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(minilm_folder(), folder)
    encoder = TextEncoder(str(folder), threads=1).fit([])
    again = TextEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(again.transform(TEXTS), encoder.transform(TEXTS))
    with pytest.raises(InputError, match=r"or a folder with weights; got 'bert-base-uncased'\. Nothing is down"):
        TextEncoder("bert-base-uncased").fit(TEXTS)


def test_our_transformer_computes_what_the_transformers_library_does(minilm):
    theirs, ours = PretrainedModule.read(minilm_folder()).eval(), read_bert(minilm_folder())
    tokens = minilm.tokens([*TEXTS, "", "salt " * 80])
    with torch.inference_mode():
        torch.testing.assert_close(ours.eval()(tokens), theirs(tokens), atol=5e-6, rtol=0)


@pytest.mark.parametrize("change", [{"hidden_act": "relu"}, {"model_type": "electra"}])
def test_networks_that_compute_something_else_are_left_to_the_library(change, tmp_path):
    config = json.loads((minilm_folder() / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    (tmp_path / "model.safetensors").symlink_to(minilm_folder() / "model.safetensors")
    assert read_bert(tmp_path) is None


def test_weights_that_do_not_fit_the_configuration_are_named(tmp_path):
    shutil.copytree(minilm_folder(), tmp_path / "copy")
    for change, words in (
        ({"num_hidden_layers": 7}, "encoder.layer.6"),
        ({"vocab_size": 9}, "size mismatch|Error"),
    ):
        config = json.loads((minilm_folder() / "config.json").read_text())
        (tmp_path / "copy" / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(InputError, match=rf"the weights cannot be read: .*({words})"):
            TextEncoder(str(tmp_path / "copy")).fit([])
    (tmp_path / "copy" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="the weights cannot be read"):
        TextEncoder(str(tmp_path / "copy")).fit([])


def test_a_folder_of_another_kind_of_network_is_read(tmp_path):
    import transformers

    config = transformers.DistilBertConfig(
        vocab_size=400, dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=80
    )
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    train_tokenizer(TEXTS, 400, 64).save(str(tmp_path / "tokenizer.json"))
    encoder = TextEncoder(str(tmp_path), threads=1).fit([])
    assert encoder.n_features == 32
    again = TextEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(again.transform(TEXTS), encoder.transform(TEXTS))


def test_a_trained_encoder_is_used_as_it_is(encoders, tmp_path):
    before = encoders["bag"]
    tagwood.save(before, tmp_path / "encoder")
    tagger = Tagger(TextEncoder(str(tmp_path / "encoder"), threads=1), LinearTree(threads=1))
    tagger.fit(TEXTS * 3, [["tree"], ["tree"], ["sea"], ["sea"], ["tree"], ["sea"]] * 3)
    np.testing.assert_array_equal(tagger.encoder_.transform(TEXTS), before.transform(TEXTS))
    tagger.save(tmp_path / "tagger")
    shutil.rmtree(tmp_path / "encoder")
    np.testing.assert_array_equal(tagwood.load(tmp_path / "tagger").encoder_.transform(TEXTS), before.transform(TEXTS))
    again = TextEncoder(str(tmp_path / "tagger"), threads=1).fit([])
    np.testing.assert_array_equal(again.transform(TEXTS), before.transform(TEXTS))
    tagwood.save(LinearTree(threads=1).fit(np.eye(3), [[0], [1], [2]]), tmp_path / "tree")
    with pytest.raises(InputError, match="must hold a TextEncoder or a model with one; got LinearTree"):
        TextEncoder(str(tmp_path / "tree")).fit([])


def test_broken_folders_are_named(tmp_path):
    with pytest.raises(InputError, match=r"must hold tokenizer\.json"):
        TextEncoder(str(tmp_path)).fit(TEXTS)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="a tokenizer must be JSON of the tokenizers library"):
        TextEncoder(str(tmp_path)).fit(TEXTS)
    train_tokenizer(TEXTS, 300, 64).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"must hold config\.json"):
        TextEncoder(str(tmp_path)).fit(TEXTS)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(InputError, match="the weights cannot be read"):
        TextEncoder(str(tmp_path)).fit(TEXTS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoder": 3}, "encoder must be a name or a path"),
        ({"dimension": 40}, "dimension must be a multiple of 32"),
        ({"layers": 0}, "layers must be"),
        ({"max_length": 2}, "max_length must be"),
        ({"vocabulary": 10}, "vocabulary must be"),
        ({"precision": "float8"}, "precision must be one of"),
        ({"seed": -1}, "seed must be"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_settings_that_do_not_fit_are_named(options, words):
    with pytest.raises(InputError, match=words):
        TextEncoder(**{"encoder": "bag", **options}).fit(TEXTS)


def test_misuse_is_named():
    with pytest.raises(InputError, match="max_length must be a whole number of at most 512; got 600"):
        TextEncoder("minilm", max_length=600).fit([])
    with pytest.raises(NotFittedError, match="must be fitted first"):
        TextEncoder("bag").transform(TEXTS)
    with pytest.raises(InputError, match="str only; got NoneType at position 1"):
        TextEncoder("bag").fit(["oak", None])
    with pytest.raises(InputError, match="Wrap it"):
        TextEncoder("bag").fit("oak")


def test_forged_states_are_refused(encoders):
    state = encoders["small"].state()
    wrong = {**state.arrays, "weight_0": np.zeros((2, 2), np.float32)}
    with pytest.raises(InputError, match="weight_0"):
        TextEncoder.from_state(State(state.kind, state.params, wrong))
    with pytest.raises(InputError, match="those of the encoder's network"):
        TextEncoder.from_state(State(state.kind, {**state.params, "names": ["x"]}, state.arrays))
    sizes = {**state.params["shape"], "heads": 3}
    with pytest.raises(InputError, match="heads must divide"):
        TextEncoder.from_state(State(state.kind, {**state.params, "shape": sizes}, state.arrays))
    with pytest.raises(InputError, match="must have its sizes"):
        TextEncoder.from_state(State(state.kind, {**state.params, "shape": {}}, state.arrays))
    huge = {**state.params["shape"], "n_tokens": 1 << 24, "dimension": 1 << 20, "heads": 1}
    with pytest.raises(InputError, match="weight_0"):
        TextEncoder.from_state(State(state.kind, {**state.params, "shape": huge}, state.arrays))
    with pytest.raises(InputError, match="kind that transformers knows"):
        PretrainedModule.of_config('{"model_type": "evil"}')


@pytest.mark.parametrize(
    ("number", "words"), [(np.nan, "weights of a stored encoder must hold finite"), (3e38, "vectors of an encoder")]
)
def test_weights_that_are_not_finite_or_give_no_finite_vectors_are_refused(encoders, number, words):
    state = encoders["bag"].state()
    name = max(state.arrays, key=lambda one: state.arrays[one].size)
    forged = {**state.arrays, name: np.full_like(state.arrays[name], number)}
    with pytest.raises(InputError, match=words):
        TextEncoder.from_state(State(state.kind, state.params, forged)).transform(TEXTS)


@given(st.lists(st.text(max_size=30), max_size=8))
@settings(max_examples=50, deadline=None)
def test_any_text_has_tokens_the_tokenizer_knows(encoders, texts):
    for encoder in encoders.values():
        rows = tokenize(encoder.tokenizer_, texts)
        assert len(rows) == len(texts)
        assert rows.ids.size == 0 or rows.ids.max() < encoder.tokenizer_.get_vocab_size()
        assert (rows.lengths <= encoder.max_length).all()


@pytest.mark.parametrize("both", [False, True])
def test_a_linear_tree_learns_from_vectors_alone_and_beside_tfidf(both, tmp_path):
    vectors = TextEncoder("bag", dimension=64, threads=1)
    encoder = ConcatEncoder([TfidfEncoder(min_df=1, threads=1), vectors], weights=[2, 1]) if both else vectors
    labels = [["tree"], ["tree"], ["sea"], ["sea"], ["tree"], ["sea"]]
    tagger = Tagger(encoder, LinearTree(threads=1)).fit(TEXTS * 3, labels * 3)
    assert not hasattr(vectors, "tokenizer_")
    assert tagger.tag_one("fir trees", k=1).names == ["tree"]
    assert tagger.tag_one("salt water", k=1).names == ["sea"]
    again = tagwood.load(tagger.save(tmp_path / "model"), verify=True)
    assert again.tag(TEXTS) == tagger.tag(TEXTS)
    words = dict(tagger.explain("fir trees", "tree").words)
    assert "[text vector]" in words
    assert ("trees" in words) is both


ENGLISH = ["How do I keep bread from going stale?", "A reader on the history of the early church", ""]
OTHERS = [
    "Die Förderung erneuerbarer Energien in ländlichen Gemeinden",
    "Le gouvernement propose une loi pour soutenir les énergies renouvelables",
    "Hallitus päätti uudesta laista, jolla tuetaan uusiutuvaa energiaa",
    "政府周三宣布了一项新法律，从明年开始支持可再生能源",
    "Правительство объявило о новом законе",
]


def test_english_texts_are_for_minilm_and_others_for_the_bag():
    assert suitable_encoder(ENGLISH) == "minilm"
    assert [suitable_encoder([text]) for text in OTHERS] == ["bag"] * len(OTHERS)


def test_a_large_set_is_judged_by_texts_from_all_over_it():
    assert suitable_encoder([ENGLISH[0]] * 900 + [OTHERS[2]] * 100) == "minilm"
    assert suitable_encoder([ENGLISH[0]] * 300 + [OTHERS[2]] * 700) == "bag"


@pytest.mark.parametrize("texts", [[], [""], ["12 + 34"]])
def test_texts_without_words_are_for_the_bag(texts):
    assert suitable_encoder(texts) == "bag"


def test_without_its_package_minilm_is_not_taken(monkeypatch):
    def missing():
        raise MissingExtraError("the encoder 'minilm'", extra="neural")

    monkeypatch.setattr(text_encoder, "minilm_folder", missing)
    assert suitable_encoder(ENGLISH) == "bag"


def test_a_model_takes_the_suitable_encoder_and_its_rate():
    texts, labels, _ = word_pairs(4)
    model = PrototypeModel(epochs=1, centroids="momentum", threads=1)
    assert model.encoder == "auto"
    foreign = [f"{text} {OTHERS[2]}" for text in texts]
    model.fit(foreign, labels, label_texts=[OTHERS[0]] * 45)
    assert model.encoder_.encoder == "bag"
    assert model.settings_.training.learning_rate == 3e-3
    english = [f"{text} and the history of bread" for text in texts[:60]]
    model.fit(english, labels[:60], label_texts=["the history of bread"] * (1 + max(map(max, labels[:60]))))
    assert (model.encoder_.encoder, model.encoder_.trained) == ("minilm", "head")
    assert model.settings_.training.learning_rate == RATES["head"]


@pytest.mark.parametrize("kind", ["small", "bag", "minilm"])
def test_encoders_are_pickled_and_cloned(kind, encoders):
    fitted = encoders[kind]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(TEXTS), fitted.transform(TEXTS))
    assert not hasattr(pickle.loads(pickle.dumps(TextEncoder(kind))), "tokenizer_")
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "tokenizer_")


def test_encoders_work_in_a_pipeline():
    pipeline = make_pipeline(TextEncoder("bag", dimension=64, threads=1), LinearTree(threads=1))
    assert pipeline.fit(TEXTS * 3, [[0], [0], [1], [1], [0], [1]] * 3).score(TEXTS, [[0], [0], [1], [1], [0], [1]]) == 1
    assert clone(pipeline).set_params(textencoder__dimension=32)[0].dimension == 32
