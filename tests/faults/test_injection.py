"""A quick cut of the injected faults; ``make faults`` runs all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="the shim needs LD_PRELOAD and /proc")
def test_faults_leave_the_old_state_or_the_new_one_and_one_sentence():
    command = [sys.executable, "-m", "tests.faults.injection", "--quick", "--memory", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failures" in done.stdout
