"""Golden inputs: stored with their ranking, and ranked again on request."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.errors import InputError, StorageError
from tagwood.storage import State, load, read_manifest, save, storable
from tagwood.storage.save_load import find_deviation, record_golden


@pytest.mark.parametrize("form", ["csr_array", "csr_matrix", "columns", "dense", "float64"])
def test_matrices_of_any_form_are_stored_and_checked(tmp_path, model, rows, form):
    inputs = {
        "csr_array": rows,
        "csr_matrix": sparse.csr_matrix(rows),
        "columns": rows.tocsc(),
        "dense": rows.toarray(),
        "float64": rows.astype(np.float64),
    }[form]
    load(save(model, tmp_path / "m", golden=inputs), verify=True)


def test_texts_are_stored_and_checked(tmp_path, toys, model):
    save(toys.Tagger(model, []), tmp_path / "m", golden=("fir", "", "öl"))
    assert read_manifest(tmp_path / "m").golden.params == {"form": "texts", "k": 5}
    load(tmp_path / "m", verify=True)


def test_a_model_that_gives_other_results_is_refused_only_when_verified(saved, monkeypatch, toys):
    other = toys.make(seed=9).rank(np.eye(4, 6, dtype=np.float32))
    monkeypatch.setattr(toys.Linear, "rank", lambda self, X, k: other)
    load(saved)
    with pytest.raises(StorageError, match=r"gives other results than when it was saved: golden row 0"):
        load(saved, verify=True)


def test_a_model_that_fails_on_its_golden_rows_is_refused(saved, monkeypatch, toys):
    monkeypatch.setattr(toys.Linear, "rank", lambda self, X, k: 1 / 0)
    with pytest.raises(StorageError, match=r"ranking the golden inputs failed .*ZeroDivisionError"):
        load(saved, verify=True)


def test_verifying_a_model_without_golden_rows_checks_its_files(tmp_path, model):
    load(save(model, tmp_path / "m"), verify=True)
    assert read_manifest(tmp_path / "m").golden is None


def test_the_model_may_offer_its_own_rows(tmp_path, model, rows):
    model.golden_inputs = lambda: rows
    assert read_manifest(save(model, tmp_path / "m")).golden.params["shape"] == [4, 6]


def test_a_model_that_cannot_rank_takes_no_golden_rows(tmp_path):
    @storable("ToyRankless")
    class Rankless:
        def state(self):
            return State("ToyRankless")

        @classmethod
        def from_state(cls, state):
            return cls()

    with pytest.raises(InputError, match="need a model with a rank method; got Rankless"):
        save(Rankless(), tmp_path / "m", golden=["a"])


class Fixed:
    """Ranks whatever it is given as told."""

    def __init__(self, *rows):
        self.ranking = Ranking.from_lists(list(rows), n_labels=20)

    def rank(self, X, k):
        return self.ranking


FULL = [(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.2), (5, 0.1)]


@pytest.mark.parametrize(
    "now, fault",
    [
        (FULL, None),
        ([(1, 0.90005), (2, 0.5), (3, 0.5), (4, 0.2), (5, 0.1)], None),
        ([(1, 0.9), (3, 0.5), (2, 0.5), (4, 0.2), (5, 0.1)], None),
        ([(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.2), (6, 0.1)], None),
        ([(1, 0.91), (2, 0.5), (3, 0.5), (4, 0.2), (5, 0.1)], "scores"),
        ([(6, 0.9), (2, 0.5), (3, 0.5), (4, 0.2), (5, 0.1)], "labels"),
        ([(1, 0.9), (6, 0.5), (3, 0.5), (4, 0.2), (5, 0.1)], "labels"),
        ([(1, 0.9), (2, 0.5), (4, 0.5), (3, 0.2), (5, 0.1)], "labels"),
        (FULL[:4], "4 labels instead of 5"),
        ([*FULL[:4], (5, 0.0), (6, 0.0)], "4 labels instead of 5"),
        ([*FULL, (6, 0.0)], None),
        ([], "0 labels instead of 5"),
    ],
)
def test_labels_may_differ_by_ties_only_and_scores_by_1e_4(now, fault):
    golden = record_golden(Fixed(FULL), ["x"])
    found = find_deviation(Fixed(now), golden)
    assert (found is None) if fault is None else fault in found


def test_a_tie_at_the_end_of_a_short_row_was_not_cut_and_must_be_the_same():
    golden = record_golden(Fixed([(1, 0.9), (2, 0.5)]), ["x"])
    assert "labels" in find_deviation(Fixed([(1, 0.9), (3, 0.5)]), golden)


def test_large_scores_are_compared_relatively_and_rows_counted():
    golden = record_golden(Fixed([(1, 90_000.0)], []), ["x", "y"])
    assert find_deviation(Fixed([(1, 90_001.0)], []), golden) is None
    assert "scores" in find_deviation(Fixed([(1, 90_100.0)], []), golden)
    assert "1 rows instead of 2" in find_deviation(Fixed([(1, 90_000.0)]), golden)
