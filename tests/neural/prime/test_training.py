"""Training of prototypes: goes on bit for bit after a stop, learns, decays what it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from process_group import run_processes
from prototype_problem import SETTINGS, numbers_of, trained_module, trained_numbers

from tagwood.neural.prime import network


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
