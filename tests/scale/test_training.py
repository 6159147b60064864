"""Training on a Ray cluster: the bits of one machine, killed workers, resumed drivers, and clear refusals."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from cluster_tasks import kill_a_worker, slow_square
from library import make_library
from tree_problems import planted_problem

from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError, StorageError
from tagwood.features.stored import open_rows, writing_rows
from tagwood.models.centroids import Centroids
from tagwood.models.disentangled import Disentangled
from tagwood.models.ensemble import Ensemble
from tagwood.models.linear_tree import LinearTree, training
from tagwood.models.tasks import Job, LocalRunner
from tagwood.scale import RayRunner, cluster, connect
from tagwood.storage import save
from tagwood.storage.publish import STAGING
from tagwood.storage.shards import ShardStore
from tagwood.storage.state import State
from tagwood.tagger.fitting import training_data
from tagwood.tuning import tune
from tagwood.tuning.study import parse_ranges

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {"max_leaf_size": 4, "arity": 4, "threads": 1}
MODELS = [
    LinearTree(**SMALL, n_trees=2),
    Disentangled(LinearTree(**SMALL), threads=1),
    Ensemble([LinearTree(**SMALL), Disentangled(LinearTree(**SMALL), threads=1), Centroids(threads=1)], threads=1),
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(training, "_LEAST_PART", 3000)


def arrays_of(model, folder: Path) -> bytes:
    return (save(model, folder) / "arrays.safetensors").read_bytes()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_trained_on_the_cluster_has_the_bits_of_one_machine(model, connected, tmp_path):
    X, Y = planted_problem(0, n_rows=400, n_labels=60, n_features=120)
    fitted = [
        type(model)(**model.get_params(deep=False)).fit(X, Y, runner=runner)
        for runner in (None, RayRunner(), RayRunner(ShardStore(tmp_path / "parts")))
    ]
    files = [arrays_of(one, tmp_path / str(number)) for number, one in enumerate(fitted)]
    assert files[0] == files[1] == files[2]


def test_trials_of_a_search_are_the_same_here_and_on_the_cluster(connected, tmp_path):
    pytest.importorskip("optuna")
    texts, labels = make_library(300)
    data = training_data(texts, labels, None, None)
    options = {"max_trials": 5, "minutes": 5, "seed": 3, "ranges": parse_ranges("[model]\nC = [0.1, 1.0, 3.0]")}
    found = [
        tune(data, tmp_path / str(number), runner=runner, **options)
        for number, runner in enumerate([LocalRunner(threads=2), RayRunner()])
    ]
    one, other = ([trial._replace(seconds=0) for trial in tuned.trials] for tuned in found)
    assert len(one) == 5
    assert one == other
    assert not found[1].failures
    assert (tmp_path / "1" / "best.toml").exists()


def test_members_of_folds_are_tasks_and_trees_of_large_data_are_cut(monkeypatch):
    class Recorder(LocalRunner):
        def run(self, job, progress=None):
            jobs.append((job.name, len(job.parts)))
            return super().run(job, progress)

    jobs: list[tuple[str, int]] = []
    X, Y = planted_problem(0, n_rows=400, n_labels=60, n_features=120)
    ensemble = Ensemble([LinearTree(**SMALL), Centroids(threads=1)], threads=1, prune=False)
    ensemble.fit(X, Y, runner=Recorder(threads=2))
    assert jobs[0] == ("members", 10)  # two members in each of five rounds
    assert jobs[1] == ("members", 1)  # on all rows, the tree is trained in parts
    assert "training" in [name for name, _ in jobs]


def test_features_in_files_are_mapped_by_the_workers(connected, tmp_path):
    X, Y = planted_problem(0, n_rows=400, n_labels=60, n_features=120)
    rows = csr_parts(check_features(X))
    with writing_rows(tmp_path / "features-1") as writer:
        writer.add(rows)
        writer.finish(rows.n_cols, "planted")
    here = LinearTree(**SMALL).fit(X, Y)
    there = LinearTree(**SMALL).fit(open_rows(tmp_path / "features-1", 2000), Y, runner=RayRunner())
    assert arrays_of(here, tmp_path / "here") == arrays_of(there, tmp_path / "there")


def test_workers_that_see_other_features_are_refused_in_one_sentence(connected, tmp_path):
    rows = [csr_parts(check_features(planted_problem(seed, n_rows=400, n_labels=60)[0])) for seed in (0, 1)]
    for number, part in enumerate(rows):
        with writing_rows(tmp_path / str(number)) as writer:
            writer.add(part)
            writer.finish(part.n_cols, f"planted {number}")
    mine = open_rows(tmp_path / "0", 2000)
    (tmp_path / "0").rename(tmp_path / "away")
    _, Y = planted_problem(0, n_rows=400, n_labels=60)
    expected = "all machines of the cluster must see the same features in .*0; got "
    with pytest.raises(InputError, match=expected + "the stored features cannot be read"):
        LinearTree(**SMALL).fit(mine, Y, runner=RayRunner())
    (tmp_path / "1").rename(tmp_path / "0")
    with pytest.raises(InputError, match=expected + "features of other data. Name a --work-dir on storage that all"):
        LinearTree(**SMALL).fit(mine, Y, runner=RayRunner())


def test_killed_workers_cost_their_tasks_and_nothing_else(connected, tmp_path):
    running = tmp_path / "running"
    running.mkdir()
    job = Job("squares", slow_square, running, list(range(30)))
    stop, killed, chance = threading.Event(), [], random.Random(0)

    def kill_now_and_then() -> None:
        while not stop.wait(chance.uniform(0.1, 0.5)) and len(killed) < 4:
            if kill_a_worker(running, chance):
                killed.append(time.time())

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        results = RayRunner(ShardStore(tmp_path / "parts")).run(job)
    finally:
        stop.set()
        killer.join()
    assert len(killed) >= 2
    assert [result.param("square", int) for result in results] == [part * part for part in range(30)]
    assert len(ShardStore(tmp_path / "parts")) == 30


def test_a_driver_that_was_killed_goes_on_with_what_is_missing(address, connected, tmp_path):
    running = tmp_path / "running"
    running.mkdir()
    parts = tmp_path / "parts"
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "support")!r})
from pathlib import Path
from cluster_tasks import slow_square
from tagwood.models.tasks import Job
from tagwood.scale import RayRunner, connect
from tagwood.storage.shards import ShardStore
with connect({address!r}):
    job = Job("squares", slow_square, Path({str(running)!r}), list(range(20)))
    RayRunner(ShardStore(Path({str(parts)!r}))).run(job)
"""
    driver = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    store = ShardStore(parts)
    deadline = time.monotonic() + 60
    while len(store) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    kept = len(store)
    assert 3 <= kept < 20
    job = Job("squares", slow_square, running, list(range(20)))
    computed: list[float] = []
    results = RayRunner(store).run(job, lambda _, share: computed.append(share))
    assert [result.param("square", int) for result in results] == [part * part for part in range(20)]
    assert len(computed) <= 20 - kept


def test_a_worker_with_another_build_of_tagwood_is_refused(connected, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "build_signature", lambda: "tagwood 9.9, kernels 123")
    with pytest.raises(InputError, match=r"must have the tagwood 9\.9, kernels 123 of the driver; got tagwood \d"):
        RayRunner(ShardStore(tmp_path)).run(Job("squares", slow_square, tmp_path, [1]))
    assert len(ShardStore(tmp_path)) == 0


def test_a_worker_that_cannot_import_a_task_is_one_sentence(connected, tmp_path, monkeypatch):
    gone = ModuleType("not_there")
    exec("def task(shared, part, threads): pass", gone.__dict__)
    gone.task.__module__ = "not_there"
    monkeypatch.setitem(sys.modules, "not_there", gone)
    with pytest.raises(
        InputError, match="must be able to import tagwood and its plugins; got No module named 'not_there'"
    ):
        RayRunner().run(Job("squares", gone.task, None, [1]))


def test_a_part_that_is_being_written_is_not_finished(tmp_path):
    store = ShardStore(tmp_path)
    store.write("a1", State("Sum", params={"sum": 3}))
    shutil.copytree(tmp_path / "a1", tmp_path / f"{STAGING}b")
    assert len(store) == 1


def test_a_full_disk_is_one_sentence_and_keeps_finished_parts(monkeypatch, tmp_path):
    from tagwood.storage import save_load

    write, written = save_load.write_tensors, []

    def full(path, arrays):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        write(path, arrays)

    monkeypatch.setattr(save_load, "write_tensors", full)
    X, Y = planted_problem(0, n_rows=200, n_labels=40)
    store = ShardStore(tmp_path)
    with pytest.raises(StorageError, match=r"the disk is full; what was finished before is kept.*--resume"):
        LinearTree(**SMALL).fit(X, Y, runner=LocalRunner(store, threads=1))
    assert len(store) == 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("wrong", ["somewhere", "127.0.0.1", "127.0.0.1:port", ":6379", "127.0.0.1:99999"])
def test_an_address_is_local_or_host_and_port(wrong):
    with pytest.raises(InputError, match="--cluster must be 'local' or HOST:PORT"):
        cluster.check_address(wrong)


def test_an_address_that_does_not_answer_is_one_sentence():
    pytest.importorskip("ray")
    with (
        pytest.raises(InputError, match=r"a Ray cluster must answer at 127\.0\.0\.1:1; got no answer"),
        connect("127.0.0.1:1"),
    ):
        pass
