"""Links between margins and scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import search as reference_search

from tagwood.errors import InputError
from tagwood.models.linear_tree.weights import LINKS, link_power, log_probability


@given(st.sampled_from(list(LINKS)), st.lists(st.floats(-50, 50), min_size=2, max_size=20))
def test_scores_are_at_most_1_and_rise_with_the_margin(link, margins):
    z = np.sort(np.array(margins))
    log_p = log_probability(z, link)
    assert log_p.max() <= 0
    assert np.all(np.diff(log_p) >= 0)
    np.testing.assert_allclose(log_p, reference_search.log_link(z, link_power(link)))


@pytest.mark.parametrize(
    "link, p",
    [("sigmoid", 0.5), ("l1-hinge", np.exp(-1)), ("l2-hinge", np.exp(-1)), ("l4-hinge", np.exp(-1))],
)
def test_the_score_of_a_margin_of_0(link, p):
    assert np.exp(log_probability(np.zeros(1), link))[0] == pytest.approx(p)


def test_the_power_of_the_hinge_is_the_number_in_its_name():
    for power in (1, 2, 3, 4):
        assert log_probability(np.array([-1.0]), f"l{power}-hinge")[0] == -(2.0**power)


def test_an_unknown_link_is_refused():
    with pytest.raises(InputError, match=r"link must be one of .* Did you mean 'l3-hinge'"):
        link_power("l3hinge")
