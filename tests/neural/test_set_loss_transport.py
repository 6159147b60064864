"""Transport plans: marginals, nearness to the linear program, masks, batch against loop, extreme costs."""

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.neural.otseq2set.loss import transport_plan


def cosine_costs(rng: np.random.Generator, n_steps: int, n_labels: int, dims: int) -> torch.Tensor:
    steps, labels = rng.standard_normal((n_steps, dims)), rng.standard_normal((n_labels, dims))
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    return torch.from_numpy(1.0 - steps @ labels.T).float()


def exact_cost(costs: torch.Tensor) -> float:
    n_steps, n_labels = costs.shape
    return float(
        ot.emd2(
            np.full(n_steps, 1 / n_steps), np.full(n_labels, 1 / n_labels), costs.numpy().astype(np.float64)
        )
    )


def plain_ipot(costs: torch.Tensor, beta: float, iterations: int) -> torch.Tensor:
    """Follow the published algorithm for one row, in float64."""
    n_steps, n_labels = costs.shape
    kernel = torch.exp(-costs.double() / beta)
    plan, by_label = torch.ones_like(kernel), torch.full((n_labels,), 1.0 / n_labels, dtype=torch.float64)
    for _ in range(iterations):
        q = kernel * plan
        by_step = 1.0 / (n_steps * (q @ by_label))
        by_label = 1.0 / (n_labels * (q.T @ by_step))
        plan = by_step[:, None] * q * by_label
    return plan


@given(
    n_steps=st.integers(1, 57),
    n_labels=st.integers(1, 57),
    dims=st.sampled_from([16, 100, 300]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_plan_has_its_marginals_and_costs_at_most_one_percent_more_than_the_optimum(
    n_steps, n_labels, dims, seed
):
    costs = cosine_costs(np.random.default_rng(seed), n_steps, n_labels, dims)
    plan = transport_plan(costs[None], torch.ones(1, n_labels, dtype=torch.bool))[0]
    assert plan.min() >= 0
    torch.testing.assert_close(plan.sum(1), torch.full((n_steps,), 1 / n_steps), atol=1e-6, rtol=0)
    torch.testing.assert_close(plan.sum(0), torch.full((n_labels,), 1 / n_labels), atol=1e-6, rtol=0)
    best = exact_cost(costs)
    assert best - 1e-5 <= float((plan * costs).sum()) <= 1.01 * best + 1e-6


def test_hard_costs_need_more_iterations_for_one_percent():
    """Independent uniform costs have a tiny optimum: 50 iterations are then some percent off, 1,000 are not."""
    rng = np.random.default_rng(3)
    few, many = [], []
    for size in (10, 30, 57):
        costs = torch.from_numpy(rng.random((size, size))).float()
        real = torch.ones(1, size, dtype=torch.bool)
        for found, iterations in ((few, 50), (many, 1000)):
            cost = float((transport_plan(costs[None], real, iterations=iterations)[0] * costs).sum())
            found.append(cost / exact_cost(costs) - 1.0)
    assert max(many) < 0.01 < max(few)


def test_first_iterates_are_those_of_the_published_algorithm():
    costs = cosine_costs(np.random.default_rng(0), 6, 4, 8)
    expected = plain_ipot(costs, beta=0.5, iterations=50)
    plan = transport_plan(costs[None], torch.ones(1, 4, dtype=torch.bool), beta=0.5, iterations=50)[0]
    # The rounding moves what the marginals of the plain iterate are off by.
    off = float((expected.sum(1) - 1 / 6).abs().sum())
    assert float((plan - expected).abs().sum()) <= 2 * off + 1e-5


@given(seed=st.integers(0, 10_000), n_steps=st.integers(1, 24))
@settings(max_examples=25, deadline=None)
def test_batch_equals_loop_over_rows(seed, n_steps):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, n_steps + 1, 7)
    steps = rng.integers(1, n_steps + 1, 7)
    costs = torch.stack([cosine_costs(rng, n_steps, n_steps, 16) for _ in sizes])
    real_labels = torch.arange(n_steps)[None] < torch.from_numpy(sizes)[:, None]
    real_steps = torch.arange(n_steps)[None] < torch.from_numpy(steps)[:, None]
    batch = transport_plan(costs, real_labels, real_steps)
    for row, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        alone = transport_plan(costs[row : row + 1, :step, :size], torch.ones(1, size, dtype=torch.bool))[0]
        torch.testing.assert_close(batch[row, :step, :size], alone, atol=1e-6, rtol=0)
        assert batch[row, step:].abs().sum() == 0
        assert batch[row, :, size:].abs().sum() == 0


def test_padding_may_stand_anywhere():
    costs = cosine_costs(np.random.default_rng(1), 5, 4, 8)[None]
    real = torch.tensor([[True, False, True, True]])
    plan = transport_plan(costs, real)[0]
    expected = transport_plan(costs[:, :, [0, 2, 3]], torch.ones(1, 3, dtype=torch.bool))[0]
    torch.testing.assert_close(plan[:, [0, 2, 3]], expected, atol=1e-6, rtol=0)
    assert plan[:, 1].abs().sum() == 0


@pytest.mark.parametrize("beta", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("kind", ["zero", "two", "one cheap step", "one dear label", "blocks"])
def test_extreme_costs_give_a_plan_with_its_marginals(beta, kind):
    costs = torch.zeros(1, 24, 24)
    if kind == "two":
        costs += 2.0
    elif kind == "one cheap step":
        costs += 2.0
        costs[:, 3] = 0.0
    elif kind == "one dear label":
        costs[:, :, 5] = 2.0
    elif kind == "blocks":
        costs[:, :4, :20] = 2.0
    plan = transport_plan(costs, torch.ones(1, 24, dtype=torch.bool), beta=beta, iterations=200)
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(2), torch.full((1, 24), 1 / 24), atol=1e-6, rtol=0)
    torch.testing.assert_close(plan.sum(1), torch.full((1, 24), 1 / 24), atol=1e-6, rtol=0)


def test_plan_carries_no_gradient():
    costs = torch.rand(2, 3, 2, requires_grad=True)
    assert not transport_plan(costs, torch.ones(2, 2, dtype=torch.bool)).requires_grad
