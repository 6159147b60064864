"""The wheel: built by the project's script, portable, and complete in an environment that has nothing else."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="manylinux wheels are built on Linux"),
]


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=900, **options).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    dist = tmp_path_factory.mktemp("dist")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    run("scripts/build-wheels.sh", cwd=ROOT, env={**os.environ, "VERSIONS": version, "DIST": str(dist)})
    (found,) = dist.glob("*.whl")
    assert list(dist.glob("*.tar.gz"))  # which the wheel was built from
    return found


def test_the_wheel_is_portable_and_typed(wheel):
    oldest = re.search(r"manylinux_2_(\d+)_", wheel.name)
    assert oldest is not None
    assert int(oldest[1]) <= 34, "RHEL 9 and Amazon Linux 2023 have glibc 2.34"
    names = zipfile.ZipFile(wheel).namelist()
    assert {"tagwood/py.typed", "tagwood/_kernels/_native.pyi"} <= set(names)
    assert any(name.startswith("tagwood/service/static/") for name in names)


def test_the_wheel_works_in_a_bare_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    command = tmp_path / "venv/bin/tagwood"
    run(command, "train", ROOT / "docs/examples/library.csv", "-O", tmp_path / "model", cwd=tmp_path)
    assert run(command, "predict", tmp_path / "model", "honey from the hives", cwd=tmp_path).strip()
