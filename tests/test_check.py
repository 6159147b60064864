"""Input validation: numbers that no arithmetic takes are named like any other wrong number; threads of all parts."""

import numpy as np
import pytest

from tagwood import Centroids, Ensemble, LinearTree, NameMatcher, Tagger, TfidfEncoder
from tagwood._check import check_float, use_threads
from tagwood.errors import InputError


@pytest.mark.parametrize("value", [3, -2.5, np.float32(1.5), np.int8(4), 10**30, -(10**30)])
def test_any_finite_number_is_a_float(value):
    assert check_float(value, "cost") == float(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("-inf"), 10**400, True, "3", None])
def test_other_values_are_named(value):
    with pytest.raises(InputError, match="cost must be a number"):
        check_float(value, "cost")


def test_numbers_outside_the_range_are_named():
    with pytest.raises(InputError, match=r"holdout must be a number from 0.0 to 0.9; got -9+"):
        check_float(-999999999999999999999, "holdout", low=0.0, high=0.9)


def test_all_parts_of_a_loaded_model_get_the_number_of_threads(tmp_path):
    members = [(TfidfEncoder(), LinearTree()), Centroids(), NameMatcher()]
    texts = ["oak wood", "elm wood", "sea water", "salt water"] * 30
    labels = [["tree"], ["tree"], ["sea"], ["sea"]] * 30
    Tagger(model=Ensemble(members, prune=False)).fit(texts, labels).save(tmp_path / "model")
    tagger = Tagger.load(tmp_path / "model")
    use_threads(tagger, 1)
    assert isinstance(tagger.model_, Ensemble)
    used = [tagger.model_, tagger.model_.encoder_]
    used += [part for member in tagger.model_.members_ for part in (member.encoder, member.model)]
    assert [part.threads for part in used if part is not None] == [1] * 6
