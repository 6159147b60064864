"""Names of metrics: valid ones, and errors for unknown ones."""

import pytest

from tagwood.errors import InputError
from tagwood.metrics.measures import AT_K, SETS, parse_metric, parse_metrics


@pytest.mark.parametrize("family", AT_K)
def test_metrics_of_the_first_k_are_known_in_any_case(family):
    for text in (f"{family}@5", f"{family.lower()}@5", f" {family.upper()}@5 "):
        assert str(parse_metric(text)) == f"{family}@5"


@pytest.mark.parametrize("family", SETS)
def test_metrics_of_sets_are_known_with_and_without_k(family):
    assert str(parse_metric(family)) == family
    assert str(parse_metric(f"{family}@3")) == f"{family}@3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC@3", "unknown metric 'nDGC@3'. Did you mean 'nDCG@3'?"),
        ("mirco-F1", "unknown metric 'mirco-F1'. Did you mean 'micro-F1'?"),
        ("micro-f", "Did you mean 'micro-"),
        ("exactness", "Known metrics: P@k, R@k"),
        ("P", "metric P requires a number of labels of 1 or more; got 'P'. For example 'P@5'."),
        ("P@0", "1 or more; got 'P@0'"),
        ("P@-1", "unknown metric"),
        ("P@1.5", "unknown metric 'P@1.5'. Did you mean 'P@5'?"),
        ("P@5@5", "unknown metric"),
        ("", "Known metrics:"),
        (5, "unknown metric 5. Known metrics:"),
        (None, "unknown metric None"),
    ],
)
def test_unknown_names_get_the_nearest_one(text, message):
    with pytest.raises(InputError) as error:
        parse_metric(text)
    assert message in str(error.value)


def test_a_list_keeps_its_order_and_names_each_metric_once():
    assert list(map(str, parse_metrics(["P@5", "R@1", "p@5"]))) == ["P@5", "R@1"]
    assert list(map(str, parse_metrics("P@5"))) == ["P@5"]
    with pytest.raises(InputError, match="at least one metric"):
        parse_metrics([])
