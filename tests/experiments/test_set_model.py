"""The set model over candidates: it starts at their probabilities, ignores their order, learns what goes together."""

import numpy as np
import pytest
import torch

from experiments.set_model.__main__ import by_choice, by_rule
from experiments.set_model.candidates import Candidates, K
from experiments.set_model.network import Batch, Options, SetAttention, SetDecoder, fit, targets
from experiments.statistics import micro_f1
from tagwood.probabilities.sets import fit_set_rule

N_LABELS = 2 * K


def pairs_problem(n_rows=300, seed=0):
    """Labels 2i and 2i + 1 are true together; all candidates have probabilities that tell little."""
    random = np.random.default_rng(seed)
    labels = np.tile(np.arange(K), (n_rows, 1))
    right = np.zeros((n_rows, K), dtype=bool)
    strong = random.integers(0, K // 2, n_rows)
    right[np.arange(n_rows), 2 * strong] = right[np.arange(n_rows), 2 * strong + 1] = True
    p = np.full((n_rows, K), 0.05, dtype=np.float32)
    p[np.arange(n_rows), 2 * strong] = 0.9  # one of the pair is sure, the other is like any
    order = np.argsort(-p, axis=1, kind="stable")
    labels, right, p = (np.take_along_axis(part, order, axis=1) for part in (labels, right, p))
    together = np.zeros((n_rows, K, K), dtype=np.float32)
    together[(labels[:, :, None] // 2 == labels[:, None, :] // 2) & (labels[:, :, None] != labels[:, None, :])] = 1.0
    zeros = np.zeros((n_rows, K), dtype=np.float32)
    vectors = random.normal(size=(N_LABELS, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    n_true = np.full(n_rows, 3)  # one true label of each row is no candidate
    return Candidates(labels, p, zeros[:, :, None], zeros, together, right, n_true, vectors)


def test_an_untrained_network_returns_the_probabilities_of_the_candidates():
    data = pairs_problem(20)
    batch = Batch(data)
    found = SetAttention(batch.inputs.shape[2]).probabilities(batch)
    np.testing.assert_allclose(found, data.probabilities, atol=1e-6)


def test_the_order_of_candidates_does_not_matter():
    data = pairs_problem(4)
    batch = Batch(data)
    torch.manual_seed(0)
    net = SetAttention(batch.inputs.shape[2])
    torch.nn.init.normal_(net.out.weight)
    order = np.random.default_rng(1).permutation(K)
    turned = Batch(data)
    index = torch.from_numpy(order)
    turned.inputs, turned.own, turned.real = turned.inputs[:, index], turned.own[:, index], turned.real[:, index]
    turned.pairs = turned.pairs[:, index][:, :, index]
    np.testing.assert_allclose(net.probabilities(turned), net.probabilities(batch)[:, order], atol=1e-5)  # float32


@pytest.mark.parametrize("transport", [0.0, 1.0])
def test_co_occurrence_completes_sets(transport):
    train, test = pairs_problem(300), pairs_problem(100, seed=1)
    plain = by_rule(fit_set_rule("f1", train.ranking(), train.truth()), test)
    net = fit("attention", Batch(train), Options(epochs=6, rate=3e-3, transport=transport))
    p = net.probabilities(Batch(train))
    found = by_rule(fit_set_rule("f1", train.ranking(p), train.truth()), test, net.probabilities(Batch(test)))
    assert micro_f1(plain) == pytest.approx(50.0, abs=1)  # the sure label: 1 of 1 right, 1 of 3 found
    assert micro_f1(found) > 75


def test_the_decoder_generates_candidates_once():
    train, test = pairs_problem(300), pairs_problem(100, seed=1)
    net = fit("decoder", Batch(train), Options(epochs=4, rate=3e-3, empty_weight=0.2, steps=4))
    assert isinstance(net, SetDecoder)
    counts = by_choice(net.chosen(Batch(test)), test)
    assert counts[:, 1].max() <= 4
    assert micro_f1(counts) >= 50


def test_rows_without_a_true_candidate_have_one_target():
    data = pairs_problem(2)
    batch = Batch(data)
    batch.right[0] = False
    wanted = targets(batch)
    assert wanted[0].tolist().count(-1) == K
    assert (wanted >= 0).sum(dim=1).tolist() == [1, 3]
