"""The kernels as processors other than x86-64 get them: they agree with their twins, too."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = ("search", "train", "neighbours", "fusion", "softmax", "text")  # that exist for several instruction sets


@pytest.mark.slow
def test_kernels_without_run_time_instruction_sets_agree_with_their_twins():
    files = [f"tests/kernels/test_{name}.py" for name in PATHS]
    command = ["scripts/with-kernels.sh", "portable", "-m", "pytest", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
