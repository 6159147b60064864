"""Training of prototypes: goes on bit for bit after a stop, learns, decays what it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from process_group import run_processes
from prototype_problem import SETTINGS, numbers_of, trained_module, trained_numbers
from torch import nn

from tagwood._sparse import check_labels
from tagwood.neural.encoders.modules import FrozenRows
from tagwood.neural.prime import network, training
from tagwood.neural.prime.batches import Positives
from tagwood.neural.prime.network import PrototypeModule, QueryMemory
from tagwood.neural.prime.settings import Prototype, PrototypeLoss
from tagwood.neural.prime.training import PrototypeData, PrototypeStep


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def with_centroids(how):
    return replace(SETTINGS, prototype=replace(SETTINGS.prototype, centroids=how))


@pytest.mark.parametrize(("how", "stop_at"), [("momentum", 3), ("leave-one-out", 7)])
def test_a_stopped_training_goes_on_bit_for_bit(tmp_path, how, stop_at):
    settings = with_centroids(how)
    whole = numbers_of(trained_module(settings, dropout=True))
    parts = numbers_of(trained_module(settings, folder=tmp_path, stop_at=stop_at, dropout=True))
    np.testing.assert_array_equal(parts, whole)


def test_two_processes_equal_one_with_the_whole_batch(monkeypatch):
    # 135 rows in batches of 32: the last has 7, which two processes cannot share evenly. The rate is small, because
    # Adam makes whole steps of gradients that are rounding errors.
    monkeypatch.setattr(network, "HIDE", 0.0)
    settings = replace(SETTINGS, training=replace(SETTINGS.training, learning_rate=1e-3))
    both, alone = run_processes(2, trained_numbers, settings), trained_numbers(settings)
    np.testing.assert_allclose(both, alone, atol=1e-5)
    still = replace(SETTINGS, training=replace(SETTINGS.training, learning_rate=1e-12))
    assert np.abs(alone - trained_numbers(still)).max() > 5e-3


def test_free_vectors_and_norms_are_not_decayed():
    heavy = replace(SETTINGS.training, weight_decay=1e6, learning_rate=1e-9)
    module = trained_module(replace(SETTINGS, training=heavy))
    start = trained_module(replace(SETTINGS, training=replace(heavy, weight_decay=0.0)))
    assert torch.allclose(module.bank, start.bank, atol=1e-5)
    assert torch.allclose(module.network.norm_out.weight, start.network.norm_out.weight, atol=1e-5)
    assert not torch.allclose(module.network.project.weight, start.network.project.weight, atol=1e-5)


def test_every_weight_of_a_prototype_is_trained():
    begin = trained_module(replace(SETTINGS, training=replace(SETTINGS.training, learning_rate=1e-12)))
    module = trained_module()
    for (name, weight), other in zip(module.named_parameters(), begin.parameters(), strict=True):
        assert not torch.allclose(weight, other, atol=1e-6), name


SHOWN = TEXT, TEXT_AND_VECTOR, ALL = 1, 5, 7  # sources of a prototype: text 1, centroid 2, free vector 4


class SourcesNetwork(nn.Module):
    """In the place of a `PrototypeNetwork`: the cosine of any query and a prototype says which sources it shows."""

    def forward(self, tokens, present):
        sources = (present * torch.tensor([1.0, 2.0, 4.0])).sum(dim=1)
        return sources[:, None] * tokens[:, 0]


class SameVector(nn.Module):
    def forward(self, tokens):
        return torch.from_numpy(tokens.states)


@pytest.fixture
def sources_of_a_step(monkeypatch):
    """The sources that labels show in one step: as positives, as negatives of the batch and of the softmax.

    The first 200 labels have one row, the others two; the batch holds one row of each label.
    """
    n = 400
    Y = check_labels([[label] for label in [*range(n), *range(n // 2, n)]])
    states = np.tile(np.eye(1, 5, dtype=np.float32), (Y.shape[0], 1))
    data = PrototypeData(FrozenRows(states), FrozenRows(states[:n]), Y, [""] * Y.shape[0])
    memory = QueryMemory(Y, 5, "leave-one-out")
    memory.start(torch.from_numpy(states))
    torch.manual_seed(0)
    module = PrototypeModule(
        SameVector(),
        5,
        Prototype(centroids="leave-one-out"),
        memory=memory,
        bank=torch.from_numpy(states[: n // 2]),
        vector_of=torch.arange(n) // 2,
    ).train()
    module.network = SourcesNetwork()
    seen = []
    monkeypatch.setattr(training, "prototype_loss", lambda *parts: (seen.append(parts), torch.zeros(()))[1])
    step = PrototypeStep(data, Positives(Y, 1), PrototypeLoss(softmax=1.0))
    step(module, np.arange(n))
    ((scores, pairs, _),) = seen
    assert pairs.label.tolist() == list(range(n))
    return scores.own, scores.prototypes[0], step.everything[:, 0]


def test_positives_and_negatives_show_the_same_sources_equally_often(sources_of_a_step):
    positive, *negatives = ([float((one == code).float().mean()) for code in SHOWN] for one in sources_of_a_step)
    assert positive == pytest.approx([0.1, 0.45, 0.45], abs=0.05)
    for negative in negatives:
        assert negative == pytest.approx(positive, abs=0.05)


def test_a_label_shows_the_same_sources_as_a_positive_and_as_a_negative(sources_of_a_step):
    for one in sources_of_a_step:
        assert set(one[:200].tolist()) == {TEXT, TEXT_AND_VECTOR}
        assert set(one[200:].tolist()) == {TEXT, ALL}
