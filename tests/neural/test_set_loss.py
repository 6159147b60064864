"""The loss on label sets: value and gradient against autograd, order of labels, candidates, extreme inputs, errors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from tagwood.errors import InputError
from tagwood.neural.otseq2set.loss import (
    SetLossOptions,
    match_labels,
    pad_targets,
    set_loss,
    set_loss_parts,
    transport_plan,
    usual_weight,
)

OPTIONS = [
    SetLossOptions(),
    SetLossOptions(ot_weight=0.0),
    SetLossOptions(scheme="first-n", empty_weight=0.05, divisor=3.0),
    SetLossOptions(steps="matched", beta=1.0, iterations=20),
    SetLossOptions(empty_weight=0.0, ot_weight=1.0),
]
EMPTY = 8


def make_batch(
    seed: int = 0, rows: int = 4, steps: int = 5, outputs: int = 9, dtype: torch.dtype = torch.float64
):
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
        if options.ot_weight:
            moved = p[places >= 0] if options.steps == "matched" else p
            costs = 1 - normalize(moved @ embeddings, dim=1) @ normalize(embeddings[row], dim=1).T
            real = torch.ones(1, len(row), dtype=torch.bool)
            plan = transport_plan(costs[None], real, beta=options.beta, iterations=options.iterations)[0]
            total = total + options.ot_weight * (plan * costs).sum()
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
    want = torch.autograd.grad(3.0 * expected, [logits, embeddings], allow_unused=True)
    torch.testing.assert_close(got[0], want[0], atol=1e-10, rtol=1e-8)
    if options.ot_weight:
        torch.testing.assert_close(got[1], want[1], atol=1e-10, rtol=1e-8)
    else:
        assert got[1] is None


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
    options = SetLossOptions(ot_weight=0.0)
    assert torch.autograd.gradcheck(
        lambda z: set_loss(z, labels, empty=EMPTY, options=options), logits.requires_grad_()
    )


def test_gradient_of_the_transport_is_nearly_that_of_finite_differences():
    """At the optimum the plan may count as constant (envelope theorem)."""
    logits, labels, embeddings = make_batch(seed=3)
    options = SetLossOptions(ot_weight=8.0, iterations=3000)
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
    losses = {
        float(torch.nn.functional.cross_entropy(logits[1], torch.tensor(order))) for order in (row, row[::-1])
    }
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
        padded[row, torch.randperm(9, generator=torch.Generator().manual_seed(row))[: len(some)]] = (
            torch.tensor(some)
        )
    found = float(set_loss(logits, padded, embeddings, empty=EMPTY))
    assert found == pytest.approx(float(set_loss(logits, labels, embeddings, empty=EMPTY)), abs=1e-12)


def test_parts_add_up_and_are_divided():
    logits, labels, embeddings = make_batch()
    options = SetLossOptions(divisor=4.0)
    matching, transport = set_loss_parts(logits, labels, embeddings, empty=EMPTY, options=options)
    whole = float(set_loss(logits, labels, embeddings, empty=EMPTY, options=options))
    assert whole == pytest.approx(matching + 8.0 * transport)
    undivided, same = set_loss_parts(logits, labels, embeddings, empty=EMPTY)
    assert (undivided, same) == (pytest.approx(4 * matching), pytest.approx(transport))
    assert 0.0 <= transport <= 2.0


def test_candidates_equal_an_output_over_those_labels():
    logits, labels, embeddings = make_batch()
    big = torch.randn(100, 3, dtype=torch.float64)
    candidates = torch.randperm(100, generator=torch.Generator().manual_seed(5))[:9]
    big[candidates] = embeddings
    names = [candidates[row].tolist() for row in labels]
    one, two = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    big.requires_grad_()
    direct = set_loss(one, labels, embeddings, empty=EMPTY)
    named = set_loss(two, names, big, empty=int(candidates[EMPTY]), candidates=candidates)
    torch.testing.assert_close(direct, named, atol=1e-12, rtol=0)
    (direct + named).backward()
    torch.testing.assert_close(one.grad, two.grad)
    others = torch.ones(100, dtype=torch.bool)
    others[candidates] = False
    assert big.grad[others].abs().sum() == 0 < big.grad[candidates].abs().sum()


@pytest.mark.parametrize("scale", [1e4, 1e30])
@pytest.mark.parametrize("options", OPTIONS)
def test_extreme_logits_and_embeddings_stay_finite(scale, options):
    logits, labels, embeddings = make_batch(rows=6, dtype=torch.float32)
    embeddings[0] = 0.0  # a label without a direction
    embeddings[1] = 1e-20
    embeddings[2] = 1e15
    logits = (logits * scale).requires_grad_()
    embeddings.requires_grad_()
    loss = set_loss(logits, labels, embeddings, empty=EMPTY, options=options)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()
    assert embeddings.grad is None or torch.isfinite(embeddings.grad).all()


def test_sure_mistakes_cost_their_whole_distance():
    """Where float32 has p = 0, ln p comes from the logits."""
    logits = torch.zeros(1, 1, 3)
    logits[0, 0, 0] = 1000.0
    options = SetLossOptions(ot_weight=0.0)
    assert float(set_loss(logits, [[1]], empty=2, options=options)) == pytest.approx(1000.0)


def test_many_random_steps_never_give_nan():
    """Small problems of all sizes, with numbers from very small to very large."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, steps, outputs = (int(rng.integers(1, top)) for top in (5, 7, 12))
        outputs += steps
        logits = torch.from_numpy(
            rng.standard_normal((rows, steps, outputs)) * 10 ** rng.uniform(-30, 8)
        ).float()
        embeddings = torch.from_numpy(
            rng.standard_normal((outputs, 4)) * 10 ** rng.uniform(-12, 12, (outputs, 1))
        )
        labels = [rng.permutation(outputs - 1)[: rng.integers(1, steps + 1)] for _ in range(rows)]
        logits.requires_grad_()
        loss = set_loss(logits, pad_targets(labels), embeddings.float(), empty=outputs - 1)
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(logits.grad).all()


def test_usual_weight_makes_a_mean_over_steps():
    """Equal logits everywhere: each step costs ln V, so the divided sum is ln V."""
    sizes, steps = [1, 3], 4
    options = SetLossOptions(ot_weight=0.0, divisor=usual_weight(sizes, steps))
    loss = set_loss(torch.zeros(2, steps, 7), [[0], [1, 2, 3]], empty=6, options=options)
    assert float(loss) == pytest.approx(np.log(7))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"labels": [[0], [], [1], [2]]},
            "every row must have from 1 to 5 labels, the number of steps; got rows with 0",
        ),
        ({"labels": [[0], [0, 1, 2, 3, 4, 5], [1], [2]]}, "got rows with 1 to 6"),
        ({"labels": [[0], [1]]}, "targets must have 4 rows"),
        ({"labels": [[0], [1], [2], [9]]}, "targets must be numbers below 9 other than ∅"),
        ({"labels": [[0], [1], [2], [8]]}, "other than ∅"),
        ({"embeddings": None}, "embeddings must be given where ot_weight is above 0"),
        ({"embeddings": torch.zeros(4, 3)}, "embeddings must have 9 rows, one per output; got 4"),
        ({"empty": 9}, "empty must be a whole number from 0 to 8"),
        ({"options": SetLossOptions(scheme="fist-n")}, "Did you mean 'first-n'"),
        ({"options": SetLossOptions(beta=0.0)}, "beta must be a number of at least 0.05"),
        ({"options": SetLossOptions(divisor=0.0)}, "divisor must be a number greater than 0"),
        (
            {"candidates": torch.arange(9) + 1},
            "candidates must hold ∅ and all labels of the rows; got none for 0",
        ),
    ],
)
def test_misuse_is_named(change, text):
    logits, labels, embeddings = make_batch()
    given = {"labels": labels, "embeddings": embeddings, "empty": EMPTY, "options": None, "candidates": None}
    given |= change
    if "candidates" in change:
        given["labels"], given["embeddings"] = [[0], [1], [2], [3]], torch.zeros(20, 3, dtype=torch.float64)
    with pytest.raises(InputError, match=text.replace("(", r"\(")):
        set_loss(
            logits,
            given["labels"],
            given["embeddings"],
            empty=given["empty"],
            options=given["options"],
            candidates=given["candidates"],
        )


def test_rows_may_have_embeddings_of_their_own():
    random = torch.Generator().manual_seed(5)
    logits = torch.randn(3, 4, 6, generator=random, dtype=torch.float64, requires_grad=True)
    table = torch.randn(6, 2, generator=random, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 3, -1], [0, -1, -1], [4, 2, 1]])
    order = torch.stack([torch.randperm(5, generator=random) for _ in range(3)])
    order = torch.cat([order, torch.full((3, 1), 5)], dim=1)  # ∅ stays the last column
    places = torch.argsort(order, dim=1)
    own = torch.where(targets >= 0, places.gather(1, targets.clamp_min(0)), -1)
    moved = logits.gather(2, order[:, None].expand(-1, 4, -1))
    one = set_loss(logits, targets, table, empty=5)
    other = set_loss(moved, own, table[order], empty=5)
    torch.testing.assert_close(other, one)
    grads = [torch.autograd.grad(loss, (logits, table), retain_graph=True) for loss in (one, other)]
    for found, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(found, wanted)
    with pytest.raises(InputError, match="embeddings must have 6 rows"):
        set_loss(logits, targets, table[order][:, :5], empty=5)
