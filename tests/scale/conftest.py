"""One Ray cluster of two nodes for each module of tests; every test is bounded in time."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest

SECONDS = 240
STORE = 120 << 20


@pytest.fixture(autouse=True)
def bounded():
    """Fail a test that waits for Ray without an end."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"a test on Ray took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def address():
    """Address of a cluster of two nodes with one CPU each, on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tagwood[scale]'")
    from tagwood.scale.cluster import load_ray

    load_ray()
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    with (
        tempfile.TemporaryDirectory(prefix="tw-", ignore_cleanup_errors=True) as folder,  # sockets need short paths
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent / "support"))  # tasks that workers import
        (Path(folder) / "ray").mkdir()
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
        yield cluster.address
        cluster.shutdown()


@pytest.fixture(scope="module")
def connected(address):
    """This process, connected to the cluster."""
    from tagwood.scale import connect

    with connect(address):
        yield
