"""The training loop: steps as written out by hand, resuming bit for bit, early stopping, progress, misuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.neural.training import Training, make_optimizer, rate_factor, shuffled, train


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Problem:
    """Regression with dropout, so that random numbers matter."""

    def __init__(self, n_rows=50, dropout=0.2):
        random = torch.Generator().manual_seed(3)
        self.x = torch.randn(n_rows, 4, generator=random)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
        self.dropout = dropout

    def module(self):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(self.dropout), nn.Linear(8, 1))

    def step(self, module, rows):
        return nn.functional.mse_loss(module(self.x[rows]), self.y[rows])

    def loss(self, module):
        return nn.functional.mse_loss(module(self.x), self.y).item()


def weights_of(module):
    return torch.cat([weight.detach().reshape(-1) for weight in module.parameters()])


def test_learns():
    problem, settings = Problem(dropout=0.0), Training(epochs=60, batch_size=10, learning_rate=0.03)
    module = problem.module()
    before = problem.loss(module)
    history = train(module, shuffled(50, 10), problem.step, settings)
    assert problem.loss(module) < 0.02 * before
    assert history.steps == 300
    assert len(history.losses) == 60
    assert history.losses[-1] < 0.1 * history.losses[0]
    assert not module.training


def test_equals_the_loop_written_out():
    problem = Problem(dropout=0.0)
    settings = Training(epochs=2, batch_size=20, learning_rate=0.01, warm_up=0.5, clip=0.5)
    module, twin = problem.module(), problem.module()
    train(module, shuffled(50, 20), problem.step, settings, seed=4)
    decayed = [w for n, w in twin.named_parameters() if "weight" in n]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": [twin[0].bias, twin[3].bias], "weight_decay": 0.0}],
        weight_decay=0.01,
    )
    for epoch in range(2):
        for place, rows in enumerate(shuffled(50, 20)(epoch, np.random.default_rng([4, epoch]))):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * rate_factor(3 * epoch + place, 6, 0.5, "linear")
            optimizer.zero_grad()
            problem.step(twin, rows).backward()
            nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
            optimizer.step()
    assert torch.allclose(weights_of(module), weights_of(twin), atol=1e-7)


def test_same_seed_same_weights_and_the_callers_random_numbers_stay():
    problem, settings = Problem(), Training(epochs=2, batch_size=16)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(99)
        module = problem.module()
        train(module, shuffled(50, 16), problem.step, settings, seed=seed)
        found.append(weights_of(module))
        assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(99))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


class StopError(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 4, 7])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, stop_at):
    problem = Problem()
    settings = Training(epochs=3, batch_size=16, checkpoint_minutes=0.0)
    options = {"seed": 5, "evaluate": lambda module: -problem.loss(module)}
    whole = problem.module()
    expected = train(whole, shuffled(50, 16), problem.step, settings, **options)

    def stop(line, share):
        if round(share * expected.steps) == stop_at:
            raise StopError

    first = problem.module()
    with pytest.raises(StopError):
        train(first, shuffled(50, 16), problem.step, settings, folder=tmp_path, progress=stop, **options)
    assert (tmp_path / "checkpoint.pt").exists()
    second = problem.module()
    plans = []

    def watched(epoch, random):
        plans.append(epoch)
        return shuffled(50, 16)(epoch, random)

    history = train(second, watched, problem.step, settings, folder=tmp_path, **options)
    assert torch.equal(weights_of(second), weights_of(whole))
    assert (history.losses, history.measures, history.steps) == (expected.losses, expected.measures, 12)
    assert plans == list(range((stop_at + 3) // 4, 3))  # the plan of the epoch it stopped in came from the file
    assert not (tmp_path / "checkpoint.pt").exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    problem, settings = Problem(), Training(epochs=2, batch_size=16, checkpoint_minutes=0.0)

    def stop(line, share):
        raise StopError

    with pytest.raises(StopError):
        train(problem.module(), shuffled(50, 16), problem.step, settings, folder=tmp_path, progress=stop)
    other = Training(epochs=2, batch_size=25, checkpoint_minutes=0.0)
    with pytest.raises(InputError, match=r"checkpoint.pt must belong to this training run"):
        train(problem.module(), shuffled(50, 25), problem.step, other, folder=tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.raises(StorageError, match=r"not a readable checkpoint .* Delete it"):
        train(problem.module(), shuffled(50, 16), problem.step, settings, folder=tmp_path)


def test_early_stopping_keeps_the_best_weights():
    problem, settings = Problem(), Training(epochs=20, batch_size=16, patience=2)
    measures, seen = iter([0.1, 0.5, 0.4, 0.3, 0.9]), []

    def evaluate(module):
        assert not module.training
        seen.append(weights_of(module))
        return next(measures)

    module = problem.module()
    history = train(module, shuffled(50, 16), problem.step, settings, evaluate=evaluate)
    assert history.measures == [0.1, 0.5, 0.4, 0.3]
    assert history.best_epoch == 1
    assert torch.equal(weights_of(module), seen[1])


def test_progress_says_where_the_run_is():
    problem, settings, reports = Problem(), Training(epochs=2, batch_size=25), []
    train(problem.module(), shuffled(50, 25), problem.step, settings, progress=lambda *one: reports.append(one))
    lines, shares = zip(*reports, strict=True)
    assert shares == (0.25, 0.5, 0.75, 1.0)
    assert lines[0].startswith("network: epoch 1, loss ")
    assert lines[-1].startswith("network: epoch 2, loss ")
    assert lines[-1].endswith(" rows/s, 0:00 left")


def test_weights_are_grouped_by_decay():
    module = nn.ModuleDict({"head": nn.Linear(2, 2), "bank": nn.Embedding(3, 2), "old": nn.Linear(2, 2)})
    module["old"].requires_grad_(False)
    groups = make_optimizer(module, 0.1, 0.01, no_decay=("bank",)).param_groups
    found = {name: (group["lr"], group["weight_decay"]) for group in groups for name in group["names"]}
    assert found == {"bank.weight": (0.1, 0.0), "head.weight": (0.1, 0.01), "head.bias": (0.1, 0.0)}


@pytest.mark.parametrize("decay", ["linear", "cosine", "constant"])
def test_rates_rise_and_fall(decay):
    factors = [rate_factor(step, 100, 0.1, decay) for step in range(100)]
    assert np.all(np.diff(factors[:10]) > 0)
    assert factors[10] == pytest.approx(1.0)
    assert np.all(np.diff(factors[10:]) <= 0)
    assert factors[-1] == pytest.approx(1.0 if decay == "constant" else 0.0, abs=0.02)


def test_a_loss_that_is_not_finite_ends_the_run():
    def step(module, rows):
        return module.weight.sum() * float("nan")

    with pytest.raises(TagwoodError, match=r"the loss must stay finite; it is nan at step 1.*learning_rate"):
        train(nn.Linear(1, 1), shuffled(4, 2), step, Training(epochs=1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1; got 0"),
        ({"decay": "linaer"}, "Did you mean 'linear'"),
        ({"device": "abacus"}, r"device must be available to torch; got 'abacus'.*device='cpu'"),
        ({"warm_up": 2}, "warm_up must be a number from 0.0 to 1.0; got 2"),
        ({"learning_rate": 0}, "learning_rate must be a number greater than 0.0"),
    ],
)
def test_misuse_is_named(change, words):
    with pytest.raises(InputError, match=words):
        Training(**change).check()
