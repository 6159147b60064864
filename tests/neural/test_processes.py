"""Two gloo processes against one: the same weights, with separable and with shared losses, and after a stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from process_problem import all_weights, fail, trained_weights

from tagwood.errors import TagwoodError
from tagwood.neural.training import run_processes


def test_two_processes_equal_one_with_the_whole_batch(tmp_path):
    own, shared, resumed = run_processes(2, all_weights, tmp_path)
    with torch.random.fork_rng():
        np.testing.assert_allclose(own, trained_weights(False, None), atol=1e-5)
        np.testing.assert_allclose(shared, trained_weights(True, None), atol=1e-5)
    np.testing.assert_array_equal(resumed, own)


def test_a_process_that_fails_is_named():
    with pytest.raises(TagwoodError, match="1 of 1 failed") as caught:
        run_processes(1, fail)
    assert "no such thing" in str(caught.value)
