"""Centroids against their definitions, and the prototype network: sources, masks, the start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn
from torch.nn.functional import normalize

from tagwood._sparse import check_labels
from tagwood.neural.prime.network import PrototypeModule, PrototypeNetwork, QueryMemory
from tagwood.neural.prime.settings import Prototype
from tagwood.neural.prime.training import new_prototypes

Y = check_labels(sparse.csr_array(np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], dtype=np.float32)))


def unit(n, d=5, seed=0):
    return normalize(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_momentum_centroids_follow_the_rule():
    memory, start, new = QueryMemory(Y, 5, "momentum"), unit(4), unit(2, seed=1)
    memory.start(start)
    dense = torch.from_numpy(Y.toarray())
    means = (dense.T @ start) / dense.sum(dim=0).clamp(min=1)[:, None]
    assert torch.allclose(memory.of(torch.arange(4))[0], means, atol=1e-6)
    memory.update(np.array([3, 0]), new)  # row 3 has label 2, row 0 labels 0 and 2
    found, known = memory.of(torch.arange(4))
    assert torch.allclose(found[0], 0.95 * means[0] + 0.05 * new[1], atol=1e-6)
    assert torch.allclose(found[1], means[1], atol=1e-6)
    assert torch.allclose(found[2], 0.9025 * means[2] + 0.0975 * new.mean(dim=0), atol=1e-6)
    assert known.tolist() == [True, True, True, False]


def test_centroids_without_a_query_are_those_of_the_others():
    memory = QueryMemory(Y, 5, "leave-one-out")
    memory.start(unit(4))
    for seed in range(3):
        memory.update(np.array([2, 0]), unit(2, seed=seed + 5))
    now = memory.queries
    found, known = memory.without(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]))
    assert torch.allclose(found[0], now[1] + now[2], atol=1e-5)
    assert torch.allclose(found[1], now[0] + now[2], atol=1e-5)
    assert known.tolist() == [True, True, False]
    assert torch.equal(found[2], torch.zeros(5))
    everything, _ = memory.of(torch.arange(4))
    assert torch.allclose(everything, torch.from_numpy(Y.toarray()).T @ now, atol=1e-5)


def module_of(settings, bank=None, how=None):
    torch.manual_seed(0)
    memory = None
    if settings.centroids != "none":
        memory = QueryMemory(Y, 5, how or settings.centroids)
        memory.start(unit(4, seed=3))
    vector_of = None if bank is None else torch.tensor([0, 0, 1, 1])
    return PrototypeModule(nn.Identity(), 5, settings, memory=memory, bank=bank, vector_of=vector_of).eval()


def test_training_starts_exactly_from_the_mean_of_text_and_centroid():
    network, tokens = PrototypeNetwork(5, share=0.75), unit(6).view(2, 3, 5)
    present = torch.tensor([[True, True, True], [True, False, True]])
    found = network.eval()(tokens, present)
    expected = normalize(0.25 * tokens[0, 0] + 0.75 * tokens[0, 1], dim=-1)
    assert torch.allclose(found[0], expected, atol=1e-6)
    assert torch.allclose(found[1], tokens[1, 0], atol=1e-6)


def test_networks_of_earlier_versions_have_no_mean():
    network, tokens = PrototypeNetwork(5, share=None), unit(6).view(2, 3, 5)
    found = network.eval()(tokens, torch.ones(2, 3, dtype=torch.bool))
    expected = normalize(nn.functional.layer_norm(tokens * 5**0.5, (5,)).mean(dim=1), dim=-1)
    assert torch.allclose(found, expected, atol=1e-3)


def test_what_a_label_lacks_changes_nothing():
    network = PrototypeNetwork(5).eval()
    nn.init.normal_(network.mix.weight)
    nn.init.normal_(network.narrow.weight)
    nn.init.normal_(network.change.weight)
    tokens = unit(6).view(2, 3, 5)
    present = torch.tensor([[True, False, True], [True, True, True]])
    other = tokens.clone()
    other[0, 1] = 100.0
    assert torch.allclose(network(tokens, present), network(other, present))
    other[0, 2] = -other[0, 2]
    assert not torch.allclose(network(tokens, present)[0], network(other, present)[0])


@pytest.mark.parametrize("source", ["centroids", "free vectors"])
def test_each_source_can_be_switched_off(source):
    settings = Prototype(
        centroids="none" if source == "centroids" else "momentum",
        free_vectors=0 if source == "free vectors" else 2,
    )
    bank = None if source == "free vectors" else unit(2, seed=8)
    module, texts, labels = module_of(settings, bank), unit(4, seed=9), torch.arange(4)
    before = module.prototypes(texts, labels)
    assert before.shape == (4, 5)
    assert torch.allclose(before.norm(dim=1), torch.ones(4), atol=1e-5)
    assert not torch.equal(module.prototypes(-texts, labels), before)
    if module.memory is not None:
        module.memory.centroids.neg_()
        assert not torch.equal(module.prototypes(texts, labels), before)


def test_a_hidden_label_is_a_new_label():
    module, texts = (
        module_of(Prototype(centroids="momentum", free_vectors=2), unit(2, seed=8)),
        unit(4, seed=9),
    )
    hidden = torch.tensor([True, False, True, False])
    found = module.prototypes(texts, torch.arange(4), hidden=hidden)
    new = torch.from_numpy(new_prototypes(module.network, texts.numpy()))
    full = module.prototypes(texts, torch.arange(4))
    assert torch.allclose(found[hidden], new[hidden], atol=1e-6)
    assert torch.allclose(found[~hidden], full[~hidden], atol=1e-6)
    assert not torch.allclose(new, full)


def test_labels_are_hidden_in_training_only():
    module = module_of(Prototype(centroids="momentum", free_vectors=0))
    assert module.draw_hidden(100, torch.device("cpu")) is None
    share = module.train().draw_hidden(1000, torch.device("cpu")).float().mean()
    assert 0.05 < share < 0.15


def test_text_alone_is_a_plain_dual_encoder():
    module, texts = module_of(Prototype(centroids="none", free_vectors=0)), unit(4)
    assert module.network is None
    assert module.prototypes(texts, torch.arange(4)) is texts
