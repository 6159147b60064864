"""Two gloo processes train the same weights as one, with separable and with shared losses, and after a stop."""

from __future__ import annotations

import numpy as np
import torch
from process_group import run_processes
from process_problem import all_weights, trained_weights


def test_two_processes_equal_one_with_the_whole_batch(tmp_path):
    own, shared, resumed = run_processes(2, all_weights, tmp_path)
    with torch.random.fork_rng():
        np.testing.assert_allclose(own, trained_weights(False, None), atol=1e-5)
        np.testing.assert_allclose(shared, trained_weights(True, None), atol=1e-5)
    np.testing.assert_array_equal(resumed, own)
