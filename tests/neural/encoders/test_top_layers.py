"""Training of the last layers only: the same vectors, gradients where they belong, states computed once; devices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from prototype_problem import word_pairs

import tagwood
from tagwood import PrototypeModel, TextEncoder
from tagwood.errors import InputError
from tagwood.neural.encoders.modules import TokenStates, TopModule
from tagwood.neural.torch_state import mixed_precision
from tagwood.neural.training import Training

TEXTS = ["oak and ash", "", "the salt of the sea", "oak and ash"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small transformer on disk: it stands for one with weights of others."""
    path = tmp_path_factory.mktemp("encoder") / "small"
    texts, _, names = word_pairs(4)
    small = TextEncoder("small", dimension=64, layers=3, vocabulary=400, threads=1)
    tagwood.save(small.fit([*texts, *names]), path)
    return str(path)


@pytest.fixture
def encoder(folder):
    return TextEncoder(folder, trained="top", threads=1).fit([])


def test_states_of_the_lower_layers_give_the_same_vectors(folder, encoder):
    plain = TextEncoder(folder, threads=1).fit([])
    np.testing.assert_allclose(encoder.transform(TEXTS), plain.transform(TEXTS), atol=1e-6)
    states = encoder.inputs(TEXTS)
    assert isinstance(states, TokenStates)
    assert states.states.dtype == np.float16
    np.testing.assert_allclose(encoder.embed(states), plain.transform(TEXTS), atol=2e-3)
    some = encoder.embed(states.take([2, 0, 2, 1]))
    np.testing.assert_allclose(some, encoder.embed(states)[[2, 0, 2, 1]], atol=1e-6)


def test_only_the_last_two_layers_are_trained(encoder):
    module = encoder.module
    assert isinstance(module, TopModule)
    module.train()
    assert [layer.training for layer in module.network.layers] == [False, True, True]
    module(encoder.inputs(TEXTS)).square().sum().backward()
    trained = {name for name, weight in module.named_parameters() if weight.grad is not None}
    assert {name.split(".")[2] for name in trained if ".layers." in name} == {"1", "2"}
    assert all(".layers." in name or name.startswith("network.norm.") for name in trained)


def test_training_embeds_lower_layers_once(folder):
    texts, labels, names = word_pairs(4)
    encoder = TextEncoder(folder, trained="top", threads=1)
    model = PrototypeModel(encoder=encoder, centroids="leave-one-out", epochs=2, batch_size=64, threads=1)
    seen = []
    lower = TopModule._lower
    try:
        TopModule._lower = lambda self, tokens: seen.append(len(tokens)) or lower(self, tokens)
        model.fit(texts, labels, label_texts=names, evaluate=lambda half: 0.0)
    finally:
        TopModule._lower = lower
    assert sum(seen) == len(texts) + len(names)


def test_a_model_with_trained_layers_is_stored(folder, tmp_path):
    texts, labels, names = word_pairs(8)
    encoder = TextEncoder(folder, trained="top", threads=1)
    model = PrototypeModel(
        encoder=encoder, centroids="leave-one-out", epochs=4, batch_size=64, learning_rate=1e-3, threads=1
    ).fit(texts, labels, label_texts=names)
    tagwood.save(model, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert isinstance(again.encoder_.module, TopModule)
    assert again.rank(texts[:20], k=3) == model.rank(texts[:20], k=3)
    assert again.encoder_.device == "cpu"


def test_top_layers_need_a_bert_model(tmp_path):
    bag = TextEncoder("bag", dimension=64, vocabulary=400, threads=1).fit(TEXTS)
    tagwood.save(bag, tmp_path / "bag")
    with pytest.raises(InputError, match="needs the weights of a BERT model"):
        TextEncoder(str(tmp_path / "bag"), trained="top").fit([])
    with pytest.raises(InputError, match="trained='top' needs an encoder with pretrained weights"):
        TextEncoder("small", trained="top").fit(TEXTS)


def test_a_device_must_exist():
    with pytest.raises(InputError, match="device must be available to torch"):
        TextEncoder("bag", device="no such device").fit(TEXTS)
    with pytest.raises(InputError, match="precision must be one of"):
        Training(precision="float8").check()


def test_the_frozen_pass_runs_on_the_device_of_the_training(folder, monkeypatch):
    moved = []
    monkeypatch.setattr("tagwood.neural.encoders.text_encoder.check_device", lambda device: device)
    monkeypatch.setattr("tagwood.neural.training.check_device", lambda device: device)
    move = torch.nn.Module.to
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, where: moved.append(where) or move(self, "cpu"))
    encoder = TextEncoder(folder, trained="head", device="cuda:7", threads=1).fit([])
    assert encoder.transform(["oak"]).shape == (1, 64)
    assert moved == ["cuda:7"]
    assert "device" not in encoder.state().params["init"]


def test_training_in_mixed_precision_gives_float32_weights(folder):
    texts, labels, names = word_pairs(4)
    encoder = TextEncoder(folder, trained="head", threads=1)
    training = Training(epochs=1, batch_size=64, learning_rate=1e-3, precision="bfloat16")
    model = PrototypeModel(encoder=encoder, centroids="leave-one-out", training=training, threads=1)
    seen = []
    with mixed_precision("cpu", "float32"):
        model.fit(texts, labels, label_texts=names, evaluate=lambda half: float(len(seen)))
    assert model.history_ is not None
    assert np.isfinite(model.history_.losses).all()
    assert all(weight.dtype == torch.float32 for weight in model.encoder_.module.parameters())
