"""The simulation of training on a cluster."""

import numpy as np
import pytest

from benchmarks.scale.simulation import Cluster, forecast_tasks, simulate

CALM = Cluster(nodes=4, cpus=2, straggler_share=0, failures=0, overhead=0)


def test_without_trouble_equal_tasks_take_their_share_of_the_time():
    assert simulate(np.full(80, 3.0), CALM) == (30.0, 0.0, 0)


def test_a_run_is_never_shorter_than_its_longest_task():
    assert simulate(np.array([100.0, 1.0, 1.0]), CALM).seconds == 100.0


def test_stragglers_and_failures_cost_time_and_every_task_is_done_all_the_same():
    tasks = np.full(400, 60.0)
    calm = simulate(tasks, CALM)
    slow = simulate(tasks, Cluster(nodes=4, cpus=2, straggler_share=0.2, failures=0))
    failing = simulate(tasks, Cluster(nodes=4, cpus=2, straggler_share=0, failures=48, repair=60))
    assert slow.seconds > calm.seconds
    assert failing.failures > 0
    assert failing.seconds > calm.seconds
    assert 0 < failing.lost <= failing.failures * 2 * 60.0


def test_forecast_tasks_add_up_to_the_work_of_all_levels():
    tasks = forecast_tasks(1e6, 64 * 70, 1e-6, spread=3.0)
    work = 1e6 * (64 + 8) + 3e6 * (70 + 8)
    assert tasks.sum() == pytest.approx(1e-6 * work, rel=0.01)
    assert tasks[0] == pytest.approx(72.0)  # the root is one task
