"""The border guard: numbers that no arithmetic takes are named like any other wrong number."""

import numpy as np
import pytest

from tagwood._check import check_float
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
