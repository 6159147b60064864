"""Frozen networks with a head: untrained it changes nothing, it alone is trained, and texts are embedded once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from prototype_problem import word_pairs

import tagwood
from tagwood import PrototypeModel, TextEncoder
from tagwood.errors import InputError
from tagwood.neural.encoders.modules import FrozenRows, HeadModule, StateMemory

TEXTS = ["oak and ash", "", "the salt of the sea", "oak and ash"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small encoder on disk: it stands for one with weights of others."""
    path = tmp_path_factory.mktemp("encoder") / "bag"
    texts, _, names = word_pairs(4)
    tagwood.save(TextEncoder("bag", dimension=64, vocabulary=400, threads=1).fit([*texts, *names]), path)
    return str(path)


@pytest.fixture
def encoder(folder):
    return TextEncoder(folder, trained="head", threads=1).fit([])


def counting(encoder):
    """Count the texts that the frozen part embeds."""
    seen = []
    encoder.module.frozen.register_forward_hook(lambda module, inputs, out: seen.append(len(inputs[0])))
    return seen


def test_an_untrained_head_changes_nothing(folder, encoder):
    assert isinstance(encoder.module, HeadModule)
    plain = TextEncoder(folder, threads=1).fit([])
    np.testing.assert_allclose(encoder.transform(TEXTS), plain.transform(TEXTS), atol=1e-6)


def test_states_give_the_same_vectors_as_tokens(encoder):
    torch.nn.init.normal_(encoder.module.out.weight)
    states = encoder.inputs(TEXTS)
    assert isinstance(states, FrozenRows)
    assert not states.states[1].any()
    np.testing.assert_allclose(encoder.embed(states), encoder.transform(TEXTS), atol=1e-6)
    some = encoder.embed(states.take([2, 0, 2]))
    np.testing.assert_allclose(some, encoder.embed(states)[[2, 0, 2]], atol=1e-6)
    assert not encoder.transform([""]).any()


def test_a_memory_embeds_each_text_once(encoder):
    expected, seen = encoder.transform(TEXTS), counting(encoder)
    encoder.memory = StateMemory()
    np.testing.assert_allclose(encoder.transform(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(encoder.transform(TEXTS[::-1]), expected[::-1], atol=1e-6)
    assert seen == [3]
    assert encoder.inputs([]).states.shape == (0, 64)


def test_only_the_head_is_trained(encoder):
    encoder.module.train()
    assert not encoder.module.frozen.training
    encoder.module(encoder.tokens(TEXTS)).square().sum().backward()
    trained = {name.split(".")[0] for name, weight in encoder.module.named_parameters() if weight.grad is not None}
    assert trained == {"hidden", "out"}


def test_a_prototype_model_trains_the_head_of_a_folder_and_is_stored(folder, tmp_path):
    texts, labels, names = word_pairs(8)
    test, train = slice(0, 45), slice(45, None)
    model = PrototypeModel(encoder=folder, epochs=8, batch_size=64, threads=1)
    model.fit(texts[train], labels[train], label_texts=names)
    assert model.encoder_.memory is None
    assert set(model.trials_) == {"leave-one-out", "momentum", "none", "none, low margin"}
    start = TextEncoder(folder, threads=1).fit([]).module.vectors.weight
    assert torch.equal(model.encoder_.module.frozen.vectors.weight, start)
    found = model.rank(texts[test], k=1)
    assert np.mean(found.labels == [row[0] for row in labels[test]]) > 0.9
    tagwood.save(model, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.rank(texts[test], k=1) == found
    assert not any(weight.requires_grad for weight in again.encoder_.module.frozen.parameters())


def test_trials_and_training_embed_each_text_once(folder):
    texts, labels, names = word_pairs(6)
    encoder = TextEncoder(folder, trained="head", threads=1).fit([])
    encoder.memory = StateMemory()
    model = PrototypeModel(encoder=encoder, epochs=1, batch_size=64, threads=1)
    model.fit(texts, labels, label_texts=names)
    assert len(encoder.memory) <= len({*texts, *names})
    seen = counting(model.encoder_)
    model.rank(texts)
    assert seen == []


def test_heads_need_weights_of_others():
    with pytest.raises(InputError, match=r"needs an encoder with pretrained weights.*Use 'minilm' or a folder"):
        TextEncoder("bag", trained="head").fit(TEXTS)
    with pytest.raises(InputError, match="trained must be one of"):
        TextEncoder("minilm", trained="body").fit(TEXTS)
