"""A slice of the fuzzer; ``python -m tests.support.fuzzing`` runs 10,000 cases and names the ones that go wrong."""

import pytest
from fuzzing.running import judge
from fuzzing.stage import make_stage

FIRST, CASES, PORTIONS = 50_000, 300, 6


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    return make_stage(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_malformed_input_ends_with_a_message_and_leaves_nothing_behind(stage, portion):
    size = CASES // PORTIONS
    found = [judge(stage, number) for number in range(FIRST + portion * size, FIRST + (portion + 1) * size)]
    wrong = [(case.kind, case.arguments, said) for case, _, said in found if said is not None]
    assert wrong == []
    assert {code for _, code, _ in found} >= {0, 2}
