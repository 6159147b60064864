"""MimlNetwork: gradients, padding, attention, learning from groups, storage, misuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import tagwood
from tagwood.errors import InputError, NotFittedError
from tagwood.neural.miml import GroupBatch, GroupRows, MimlModule, MimlNetwork
from tagwood.neural.training import Training

QUICK = Training(epochs=20, batch_size=16, learning_rate=0.02)


def make_module(attention=True, hidden=5, sharpness=3.0):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        vectors = torch.nn.functional.normalize(torch.randn(4, 6, generator=torch.Generator().manual_seed(5)))
        vectors = vectors if attention else None
        return MimlModule(6, hidden, 3, 4, spread=2.0, embeddings=vectors, sharpness=sharpness)


def make_batch(sizes=(3, 1, 4), dtype=torch.float32):
    rows = torch.randn(len(sizes), max(sizes), 6, generator=torch.Generator().manual_seed(2), dtype=dtype)
    real = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
    return GroupBatch(torch.nn.functional.normalize(rows, dim=2) * real[:, :, None], real)


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("hidden", [0, 5])
def test_gradients_agree_with_finite_differences(attention, hidden):
    module, batch = make_module(attention, hidden).double(), make_batch(dtype=torch.float64)
    wanted = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [1, 1, 0, 0]], dtype=torch.float64)
    names = [name for name, _ in module.named_parameters()]

    def loss(*weights):
        logits = torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (batch,))
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    given = [weight.detach().clone().requires_grad_() for weight in module.parameters()]
    assert torch.autograd.gradcheck(loss, given, eps=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 4), st.booleans())
def test_padding_changes_nothing(sizes, more, attention):
    sizes = [*sizes, 2]
    module, batch = make_module(attention), make_batch(tuple(sizes))
    noise = torch.full((len(sizes), more, 6), 7.0)
    wider = GroupBatch(
        torch.cat([batch.rows, noise], dim=1),
        torch.cat([batch.real, torch.zeros(len(sizes), more, dtype=torch.bool)], dim=1),
    )
    with torch.no_grad():
        expected = module(batch)
        torch.testing.assert_close(module(wider), expected)
        for place, size in enumerate(sizes):
            alone = GroupBatch(batch.rows[[place], : max(1, size)], batch.real[[place], : max(1, size)])
            torch.testing.assert_close(module(alone), expected[[place]])


def test_padding_gets_no_gradient():
    module, batch = make_module(), make_batch()
    rows = batch.rows.clone().requires_grad_()
    module(GroupBatch(rows, batch.real)).sum().backward()
    assert torch.count_nonzero(rows.grad[~batch.real]) == 0
    assert torch.count_nonzero(rows.grad[batch.real]) > 0


def test_order_of_rows_in_a_group_does_not_matter():
    module, batch = make_module(), make_batch((4, 4))
    with torch.no_grad():
        turned = module(GroupBatch(batch.rows.flip(1), batch.real))
        torch.testing.assert_close(turned, module(batch))


def test_the_mask_is_the_papers():
    module, batch = make_module(sharpness=2.0), make_batch((3,))
    affinity = 2.0 * batch.rows[0] @ module.embeddings.T
    mask = 3 * torch.exp(affinity) / torch.exp(affinity).sum(dim=0)
    torch.testing.assert_close(module.log_mask(batch)[0], torch.log(mask))


def test_the_closest_row_wins_also_where_all_logits_are_negative():
    module = MimlModule(2, 0, 1, 1, embeddings=torch.tensor([[1.0, 0.0]]), sharpness=10.0)
    batch = GroupBatch(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]), torch.ones(1, 2, dtype=torch.bool))
    with torch.no_grad():
        module.aspects.weight.copy_(torch.tensor([[-5.5, -0.5]]))  # logits -5 and -1
        module.aspects.bias.zero_()
        logits = module.row_logits(batch.rows)[0, :, 0]
        found, mask = module(batch), module.log_mask(batch)[0, :, 0]
    assert logits.tolist() == pytest.approx([-5.0, -1.0])
    assert float(found) == pytest.approx(float(logits[0] + mask[0]))


def test_sharpness_zero_and_single_rows_are_deep_miml():
    plain, batch = make_module(attention=False), make_batch()
    with torch.no_grad():
        torch.testing.assert_close(make_module(sharpness=0.0)(batch), plain(batch))
        single = GroupBatch(batch.rows[:, :1], batch.real[:, :1])
        torch.testing.assert_close(make_module(sharpness=9.0)(single), plain(single))


@pytest.fixture(scope="module")
def boxes():
    """400 rows of four kinds and a common part; groups of 4 by chance, labels of the kinds in them."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 4, 400)
    X = np.hstack([2.0 * np.eye(4)[kinds], np.ones((400, 1))]) + 0.2 * random.random((400, 5))
    groups = sparse.csr_array(np.kron(np.eye(100), np.ones((4, 1))))
    return X, kinds, groups, (groups.T @ np.eye(4)[kinds] > 0).astype(float)


@pytest.fixture(scope="module")
def model(boxes):
    X, _, groups, Y = boxes
    return MimlNetwork(training=QUICK, threads=1).fit(X, Y, groups=groups)


@pytest.mark.parametrize("attention", ["eagle", "eagle-0", "none"])
def test_labels_of_groups_teach_labels_of_rows(boxes, attention):
    X, kinds, groups, Y = boxes
    model = MimlNetwork(attention=attention, training=QUICK, threads=1).fit(X, Y, groups=groups)
    assert np.mean(model.rank(X, k=1).labels == kinds) > 0.95
    assert np.mean((model.predict(X, groups=groups).toarray() > 0) == (Y > 0)) > 0.95


def test_default_settings_learn_from_a_hundred_groups(boxes):
    X, kinds, groups, Y = boxes
    model = MimlNetwork(threads=1).fit(X, Y, groups=groups)
    assert np.mean(model.rank(X, k=1).labels == kinds) > 0.99


def test_groups_and_rows_are_ranked_alike(model, boxes):
    X, _, groups, _ = boxes
    rows, whole = model.rank(X, k=4), model.rank(X, k=4, groups=groups)
    assert (rows.n_rows, whole.n_rows) == (400, 100)
    single = model.rank(X, k=4, groups=sparse.eye_array(400, format="csr"))
    np.testing.assert_array_equal(single.labels, rows.labels)
    np.testing.assert_allclose(single.scores, rows.scores, atol=1e-6)


def test_a_batch_equals_its_rows_one_by_one(model, boxes):
    together = model.rank(boxes[0][:20], k=4).to_csr().toarray()
    for row in range(20):
        alone = model.rank(boxes[0][[row]], k=4).to_csr().toarray()[0]
        np.testing.assert_allclose(alone, together[row], atol=1e-6)


def test_groups_without_rows_get_no_labels_and_empty_rows_do(model):
    ranking = model.rank(np.zeros((2, 5)), k=2, groups=np.array([[1, 0, 0], [0, 0, 1]]))
    assert np.diff(ranking.indptr).tolist() == [2, 0, 2]
    assert ranking[0] == ranking[2]
    assert model.rank(np.zeros((0, 5))).n_rows == 0


def test_without_groups_it_learns_from_rows(boxes):
    X, kinds, _, _ = boxes
    model = MimlNetwork(training=QUICK, threads=1).fit(X, kinds[:, None].tolist())
    assert np.mean(model.rank(X, k=1).labels == kinds) > 0.99


def test_same_seed_same_bits(model, boxes):
    X, _, groups, Y = boxes
    again = MimlNetwork(training=QUICK, threads=1).fit(X, Y, groups=groups)
    other = MimlNetwork(training=QUICK, threads=1, seed=1).fit(X, Y, groups=groups)
    for name, array in model.state().arrays.items():
        assert array.tobytes() == again.state().arrays[name].tobytes()
    assert other.state().arrays["aspects_weight"].tobytes() != model.state().arrays["aspects_weight"].tobytes()


@pytest.mark.parametrize("attention", ["eagle", "none"])
def test_a_saved_model_gives_equal_rankings(boxes, attention, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    X, _, groups, Y = boxes
    short = Training(epochs=2)
    model = MimlNetwork(attention=attention, training=short, threads=1).fit(X, Y, groups=groups)
    loaded = tagwood.load(tagwood.save(model, tmp_path / "model"))
    assert repr(loaded) == repr(model)
    assert loaded.rank(X, k=3) == model.rank(X, k=3)
    assert loaded.rank(X, k=3, groups=groups) == model.rank(X, k=3, groups=groups)


def test_models_can_be_pickled_cloned_and_scored(model, boxes):
    X, kinds, _, _ = boxes
    again = pickle.loads(pickle.dumps(model))
    assert again.rank(X, k=3) == model.rank(X, k=3)
    assert again.score(X, kinds[:, None].tolist()) > 0.95
    fresh = clone(model).set_params(training__epochs=1)
    assert repr(pickle.loads(pickle.dumps(fresh))) == repr(fresh)
    assert (fresh.training.epochs, model.training.epochs) == (1, QUICK.epochs)


def test_the_best_epoch_is_kept_and_progress_is_told(boxes):
    X, kinds, groups, Y = boxes
    lines = []

    def accuracy(half):
        return float(np.mean(half.rank(X, k=1).labels == kinds))

    model = MimlNetwork(training=Training(epochs=3), threads=1)
    model.fit(X, Y, groups=groups, evaluate=accuracy, progress=lambda line, share: lines.append((line, share)))
    assert model.history_.measures[model.history_.best_epoch] == max(model.history_.measures)
    assert accuracy(model) == max(model.history_.measures)
    assert lines[-1][1] == 1.0
    assert lines[-1][0].startswith("network: epoch 3, loss ")


def test_batches_put_like_sizes_together():
    groups = sparse.csr_array(np.repeat(np.eye(4), [1, 5, 1, 3], axis=0))
    data = GroupRows(sparse.csr_array(np.eye(10, dtype=np.float32)), groups)
    assert [batch.tolist() for batch in data.by_size(6)] == [[0, 2], [3], [1]]
    assert sorted(np.concatenate(data.by_size(1)).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attention": "eagel"}, "Did you mean 'eagle'"),
        ({"sharpness": -1}, "sharpness must be a number of at least 0.0; got -1"),
        ({"concepts": 0}, "concepts must be a whole number of at least 1"),
        ({"training": 3}, "training must be a Training; got int"),
        ({"training": Training(epochs=0)}, "epochs must be a whole number of at least 1"),
    ],
)
def test_misuse_of_settings_is_named(boxes, change, words):
    X, _, groups, Y = boxes
    with pytest.raises(InputError, match=words):
        MimlNetwork(**change).fit(X, Y, groups=groups)


def test_misuse_of_data_is_named(model, boxes):
    X, _, groups, Y = boxes
    fresh = MimlNetwork(threads=1)
    with pytest.raises(InputError, match="groups must have one row for each of the 399 rows of X; got 400"):
        fresh.fit(X[1:], Y, groups=groups)
    with pytest.raises(InputError, match="groups with rows, and groups with labels; got 400 rows in 100 groups, 0"):
        fresh.fit(X, 0 * Y, groups=groups)
    with pytest.raises(NotFittedError):
        fresh.rank(X)
    with pytest.raises(InputError, match="X must have the 5 features this model was fitted with; got 4"):
        model.rank(X[:, 1:])
    with pytest.raises(InputError, match="groups must have one row for each of the 2 rows of X; got 400"):
        model.rank(X[:2], groups=groups)
