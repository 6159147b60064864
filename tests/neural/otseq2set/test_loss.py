"""The loss on label sets: value and gradient against autograd, matching, transport plans, extreme inputs, errors."""

from functools import partial
from itertools import permutations

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from tagwood.errors import InputError
from tagwood.neural.otseq2set import loss as set_losses
from tagwood.neural.otseq2set.loss import (
    SetLossOptions,
    choose_scheme,
    match_labels,
    mean_row_weight,
    transport_plan,
)

OPTIONS = [
    SetLossOptions(),
    SetLossOptions(transport=0.0),
    SetLossOptions(scheme="first-n", empty_weight=0.05, divisor=3.0),
    SetLossOptions(transport_steps="matched"),
    SetLossOptions(empty_weight=0.0, transport=1.0),
]
EMPTY = 8


def set_loss(logits, labels, embeddings=None, *, empty=EMPTY, options=OPTIONS[0]):
    """Return the loss of label sets given as a list per row or as a padded array."""
    if not isinstance(labels, torch.Tensor):
        rows = [torch.as_tensor(np.asarray(row, dtype=np.int64)) for row in labels]
        labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    return set_losses.set_loss(logits, labels, embeddings, empty=empty, options=options)


def make_batch(seed: int = 0, rows: int = 4, steps: int = 5, outputs: int = 9, dtype: torch.dtype = torch.float64):
    """Return logits, label sets of all sizes from 1 to the number of steps, and embeddings; ∅ is the last output."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, steps, outputs, generator=random, dtype=dtype)
    embeddings = torch.randn(outputs, 3, generator=random, dtype=dtype)
    sizes = [1, steps, *(1 + i % steps for i in range(1, rows - 1))]
    labels = [torch.randperm(outputs - 1, generator=random)[:size].tolist() for size in sizes]
    return logits, labels, embeddings


def plain_loss(logits, labels, embeddings, options: SetLossOptions) -> torch.Tensor:
    """Follow the paper row by row, for autograd."""
    total = logits.new_zeros(())
    for z, row in zip(logits, labels, strict=True):
        p = torch.softmax(z, dim=1)
        own = p[:, row]
        places = match_labels(own[None], torch.tensor([len(row)]), options.scheme)[0]
        for step, place in enumerate(places.tolist()):
            said, weight = (EMPTY, options.empty_weight) if place < 0 else (row[place], 1.0)
            total = total - weight * torch.log(p[step, said]) / options.divisor
        if options.transport:
            moved = p[places >= 0] if options.transport_steps == "matched" else p
            costs = 1 - normalize(moved @ embeddings, dim=1) @ normalize(embeddings[row], dim=1).T
            real = torch.ones(1, len(row), dtype=torch.bool)
            plan = set_losses.transport_plan(costs[None], real)[0]
            total = total + options.transport * (plan * costs).sum()
    return total / len(labels)


@pytest.mark.parametrize("options", OPTIONS)
def test_value_and_gradients_equal_autograd_on_the_formulas(options):
    logits, labels, embeddings = make_batch()
    logits.requires_grad_(), embeddings.requires_grad_()
    found, expected = (
        set_loss(logits, labels, embeddings, empty=EMPTY, options=options),
        plain_loss(logits, labels, embeddings, options),
    )
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    got = torch.autograd.grad(3.0 * found, [logits, embeddings], allow_unused=True)
    (want,) = torch.autograd.grad(3.0 * expected, [logits])
    torch.testing.assert_close(got[0], want, atol=1e-10, rtol=1e-8)
    assert got[1] is None  # embeddings are constants


def test_gradient_in_float32_is_exact_to_a_few_units():
    logits, labels, embeddings = make_batch(rows=8, dtype=torch.float32)
    logits.requires_grad_()
    doubles = logits.detach().double().requires_grad_()
    set_loss(logits, labels, embeddings, empty=EMPTY).backward()
    set_loss(doubles, labels, embeddings.double(), empty=EMPTY).backward()
    assert float((logits.grad - doubles.grad).abs().max()) < 2e-6


def test_gradient_is_that_of_finite_differences():
    """Without transport the loss is smooth where the matching stays; the plan's own change is left out by design."""
    logits, labels, _ = make_batch(seed=2)
    options = SetLossOptions(transport=0.0)
    assert torch.autograd.gradcheck(
        lambda z: set_loss(z, labels, empty=EMPTY, options=options), logits.requires_grad_()
    )


def test_gradient_of_the_transport_is_nearly_that_of_finite_differences(monkeypatch):
    """At the optimum the plan may count as constant (envelope theorem)."""
    monkeypatch.setattr(set_losses, "transport_plan", partial(transport_plan, iterations=3000))
    logits, labels, embeddings = make_batch(seed=3)
    options = SetLossOptions(transport=8.0)
    logits.requires_grad_()
    set_loss(logits, labels, embeddings, empty=EMPTY, options=options).backward()
    direction = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1), dtype=logits.dtype)
    values = [
        float(set_loss(logits.detach() + h * direction, labels, embeddings, empty=EMPTY, options=options))
        for h in (1e-5, -1e-5)
    ]
    slope = (values[0] - values[1]) / 2e-5
    assert slope == pytest.approx(float((logits.grad * direction).sum()), rel=1e-3)


@given(seed=st.integers(0, 10_000), options=st.sampled_from(OPTIONS), steps=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_order_of_labels_changes_nothing(seed, options, steps):
    logits, labels, embeddings = make_batch(seed, steps=steps)
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(row).tolist() for row in labels]
    results = []
    for some in (labels, shuffled):
        z = logits.clone().requires_grad_()
        loss = set_loss(z, some, embeddings, empty=EMPTY, options=options)
        loss.backward()
        results.append((loss.detach(), z.grad))
    torch.testing.assert_close(results[0], results[1], atol=1e-9, rtol=1e-9)


def test_order_of_labels_changes_the_loss_of_a_sequence():
    """What the set loss is for: cross-entropy in a given order prefers one order."""
    logits, labels, _ = make_batch()
    row = labels[1]
    losses = {float(torch.nn.functional.cross_entropy(logits[1], torch.tensor(order))) for order in (row, row[::-1])}
    assert len(losses) == 2


def test_rows_do_not_see_each_other():
    logits, labels, embeddings = make_batch(rows=6)
    together = float(set_loss(logits, labels, embeddings, empty=EMPTY))
    alone = [float(set_loss(logits[i : i + 1], labels[i : i + 1], embeddings, empty=EMPTY)) for i in range(6)]
    assert together == pytest.approx(np.mean(alone), abs=1e-10)


def test_padding_may_be_wider_and_stand_anywhere():
    logits, labels, embeddings = make_batch()
    padded = torch.full((4, 9), -1)
    for row, some in enumerate(labels):
        padded[row, torch.randperm(9, generator=torch.Generator().manual_seed(row))[: len(some)]] = torch.tensor(some)
    found = float(set_loss(logits, padded, embeddings, empty=EMPTY))
    assert found == pytest.approx(float(set_loss(logits, labels, embeddings, empty=EMPTY)), abs=1e-12)


def test_matching_is_divided_and_transport_is_added():
    logits, labels, embeddings = make_batch()

    def loss(**options):
        return float(set_loss(logits, labels, embeddings, empty=EMPTY, options=SetLossOptions(**options)))

    matching = loss(transport=0.0)
    assert loss(transport=0.0, divisor=4.0) == pytest.approx(matching / 4)
    transport = loss(transport=1.0) - matching
    assert 0.0 <= transport <= 2.0
    assert loss(divisor=4.0) == pytest.approx(matching / 4 + 8.0 * transport)


@pytest.mark.parametrize("scale", [1e4, 1e30])
@pytest.mark.parametrize("options", OPTIONS)
def test_extreme_logits_and_embeddings_stay_finite(scale, options):
    logits, labels, embeddings = make_batch(rows=6, dtype=torch.float32)
    embeddings[0] = 0.0  # a label without a direction
    embeddings[1] = 1e-20
    embeddings[2] = 1e15
    logits = (logits * scale).requires_grad_()
    loss = set_loss(logits, labels, embeddings, empty=EMPTY, options=options)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_sure_mistakes_cost_their_whole_distance():
    """Where float32 has p = 0, ln p comes from the logits."""
    logits = torch.zeros(1, 1, 3)
    logits[0, 0, 0] = 1000.0
    options = SetLossOptions(transport=0.0)
    assert float(set_loss(logits, [[1]], empty=2, options=options)) == pytest.approx(1000.0)


def test_many_random_steps_never_give_nan():
    """Small problems of all sizes, with numbers from very small to very large."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, steps, outputs = (int(rng.integers(1, top)) for top in (5, 7, 12))
        outputs += steps
        logits = torch.from_numpy(rng.standard_normal((rows, steps, outputs)) * 10 ** rng.uniform(-30, 8)).float()
        embeddings = torch.from_numpy(rng.standard_normal((outputs, 4)) * 10 ** rng.uniform(-12, 12, (outputs, 1)))
        labels = [rng.permutation(outputs - 1)[: rng.integers(1, steps + 1)] for _ in range(rows)]
        logits.requires_grad_()
        loss = set_loss(logits, labels, embeddings.float(), empty=outputs - 1)
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(logits.grad).all()


def test_the_mean_row_weight_makes_a_mean_over_steps():
    """Equal logits everywhere: each step costs ln V, so the divided sum is ln V."""
    sizes, steps = [1, 3], 4
    options = SetLossOptions(transport=0.0, divisor=mean_row_weight(sizes, steps))
    loss = set_loss(torch.zeros(2, steps, 7), [[0], [1, 2, 3]], empty=6, options=options)
    assert float(loss) == pytest.approx(np.log(7))


def test_rows_may_have_embeddings_of_their_own():
    random = torch.Generator().manual_seed(5)
    logits = torch.randn(3, 4, 6, generator=random, dtype=torch.float64, requires_grad=True)
    table = torch.randn(6, 2, generator=random, dtype=torch.float64)
    targets = torch.tensor([[1, 3, -1], [0, -1, -1], [4, 2, 1]])
    order = torch.stack([torch.randperm(5, generator=random) for _ in range(3)])
    order = torch.cat([order, torch.full((3, 1), 5)], dim=1)  # ∅ stays the last column
    places = torch.argsort(order, dim=1)
    own = torch.where(targets >= 0, places.gather(1, targets.clamp_min(0)), -1)
    moved = logits.gather(2, order[:, None].expand(-1, 4, -1))
    one = set_loss(logits, targets, table, empty=5)
    other = set_loss(moved, own, table[order], empty=5)
    torch.testing.assert_close(other, one)
    found, wanted = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (one, other))
    torch.testing.assert_close(found, wanted)


def best_by_trying(p: np.ndarray, steps: int) -> float:
    """Return the largest sum of probabilities over all ways to give each label a step of its own."""
    labels = range(p.shape[1])
    return max(sum(p[s, j] for j, s in enumerate(way)) for way in permutations(range(steps), len(labels)))


@pytest.mark.parametrize("scheme", ["all", "first-n"])
@given(seed=st.integers(0, 10_000), n_steps=st.integers(1, 6), equal=st.booleans())
@settings(max_examples=40, deadline=None)
def test_matching_is_as_good_as_the_best_of_all_ways(scheme, seed, n_steps, equal):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, n_steps + 1, 3)
    p = rng.integers(0, 3, (3, n_steps, n_steps)) / 2 if equal else rng.random((3, n_steps, n_steps))
    found = match_labels(torch.from_numpy(p), torch.from_numpy(sizes), scheme).numpy()
    for row, size in enumerate(sizes):
        steps = n_steps if scheme == "all" else size
        matched = np.flatnonzero(found[row] >= 0)
        assert sorted(found[row, matched]) == list(range(size))
        assert matched.max() < steps
        total = p[row, matched, found[row, matched]].sum()
        assert total == pytest.approx(best_by_trying(p[row, :, :size], steps))


def test_first_n_leaves_later_steps_alone():
    p = torch.tensor([[[0.1], [0.9]]])
    sizes = torch.tensor([1])
    assert match_labels(p, sizes, "all").tolist() == [[-1, 0]]
    assert match_labels(p, sizes, "first-n").tolist() == [[0, -1]]


def test_probabilities_that_are_not_numbers_are_named():
    with pytest.raises(InputError, match="logits must be finite; got NaN or infinity"):
        match_labels(torch.tensor([[[float("nan")]]]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("sizes", "scheme"),
    [
        ([1, 1, 1, 2, 9], "first-n"),  # a long tail of large sets, as in AmazonCat-13K
        ([7, 7, 7, 6, 1], "all"),  # most sets near the largest, as in Amazon-670K
        ([1, 2], "all"),  # half and half
        ([3, 3, 3], "first-n"),  # all at the mean
    ],
)
def test_scheme_follows_the_shape_of_the_set_sizes(sizes, scheme):
    assert choose_scheme(sizes) == scheme


def cosine_costs(rng: np.random.Generator, n_steps: int, n_labels: int, dims: int) -> torch.Tensor:
    steps, labels = rng.standard_normal((n_steps, dims)), rng.standard_normal((n_labels, dims))
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    return torch.from_numpy(1.0 - steps @ labels.T).float()


def exact_cost(costs: torch.Tensor) -> float:
    n_steps, n_labels = costs.shape
    return float(
        ot.emd2(np.full(n_steps, 1 / n_steps), np.full(n_labels, 1 / n_labels), costs.numpy().astype(np.float64))
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
def test_plan_has_its_marginals_and_costs_at_most_one_percent_more_than_the_optimum(n_steps, n_labels, dims, seed):
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
