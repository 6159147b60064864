"""A real service: several processes, a model replaced under load, killed workers, a graceful shutdown."""

import asyncio
import errno
import fcntl
import gc
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from library import make_library
from services import Service, ask

from tagwood import LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.errors import StorageError
from tagwood.service import processes
from tagwood.service import state as state_module
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.problems import ProblemError
from tagwood.service.settings import ServedModel, ServiceSettings
from tagwood.service.state import LoadedModel, ModelHolder, ServiceState


@pytest.fixture(scope="module")
def models():
    texts, labels = make_library(200)
    return [Tagger(model=LinearTree(threads=1), seed=seed).fit(texts, labels) for seed in (0, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service") / "model"


@pytest.fixture(scope="module")
def running(models, folder):
    models[0].save(folder)
    service = Service(folder, "--workers", "2", "--reload-seconds", "0.1")
    yield service
    service.stop()


@pytest.fixture
def service(running):
    """The service that most tests share, with the log of this test only."""
    running.lines.clear()
    return running


class Load:
    """Asks without a pause in some threads; `answers` are (status, model)."""

    def __init__(self, service, threads=4):
        self.answers = []
        self._going = True
        self._pool = ThreadPoolExecutor(threads)
        self._done = [self._pool.submit(self._ask, service.address) for _ in range(threads)]

    def _ask(self, address):
        while self._going:
            status, content = ask(address, "/v1/suggest", {"texts": "oak and sea", "k": 2})
            self.answers.append((status, json.loads(content)["model"]))

    def stop(self):
        self._going = False
        self._pool.shutdown()
        for one in self._done:
            one.result()


def test_a_model_replaced_twenty_times_under_load_fails_no_request(service, models, folder):
    load = Load(service)
    for number in range(1, 21):
        before = len(load.answers)
        models[number % 2].save(folder, overwrite=True)
        service.wait_for(lambda: len(service.events("model")) >= 2 * number)  # noqa: B023
        service.wait_for(lambda: len(load.answers) > before)  # noqa: B023
    load.stop()
    assert {status for status, _ in load.answers} == {200}
    assert len({model for _, model in load.answers}) > 2  # every saved folder has a hash of its own
    assert "tagwood_reload_failures_total 0" in ask(service.address, "/metrics")[1].decode()


def test_a_broken_model_leaves_the_old_one_in_use(service, folder):
    before = json.loads(ask(service.address, "/ready")[1])
    right = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_text("{}")
    service.wait_for(lambda: len(service.events("model not loaded")) >= 2)
    assert json.loads(ask(service.address, "/ready")[1]) == before
    assert ask(service.address, "/v1/suggest", {"texts": "oak"})[0] == 200
    (folder / "manifest.json").write_bytes(right)
    service.wait_for(lambda: len(service.events("model")) >= 2)


def test_a_killed_worker_comes_back_and_no_acknowledged_feedback_is_lost(service, folder):
    acknowledged, going, lock = [], True, threading.Lock()

    def say(number):
        while going:
            try:
                status, content = ask(
                    service.address, "/v1/feedback", {"text": f"text {number}", "accepted": ["trees"]}
                )
            except (OSError, HTTPException):
                continue  # its worker was killed in the middle of the answer, or before: nothing was promised
            assert status == 201
            with lock:
                acknowledged.append(json.loads(content)["id"])

    with ThreadPoolExecutor(4) as pool:
        saying = [pool.submit(say, number) for number in range(4)]
        try:
            for killed in range(1, 3):
                count = len(acknowledged)
                service.wait_for(lambda: len(acknowledged) > count + 5)  # noqa: B023
                os.kill(service.worker_pids()[0], signal.SIGKILL)
                service.wait_for(lambda: len(service.events("ready")) == killed)  # noqa: B023
        finally:
            going = False
        for one in saying:
            one.result()
    lines = folder.with_name("model.feedback.jsonl").read_text().splitlines()
    stored = {json.loads(line)["id"] for line in lines}
    assert set(acknowledged) <= stored
    assert len(service.worker_pids()) == 2


def test_open_requests_are_answered_when_the_service_ends(models, tmp_path):
    models[0].save(tmp_path / "model")
    service = Service(tmp_path / "model", "--max", "text_chars=10000")
    with ThreadPoolExecutor(8) as pool:
        texts = ["oak sea sun granite " * 400] * 900
        working = [pool.submit(ask, service.address, "/v1/suggest", {"texts": texts}) for _ in range(4)]

        def arrived():
            counted = ask(service.address, "/metrics")[1].decode().rpartition("_in_flight ")[2].partition("\n")[0]
            return int(float(counted)) + sum(one.done() for one in working) >= 5  # with this one

        service.wait_for(arrived)
        assert service.stop() == 0
        for one in working:
            status, content = one.result()
            assert status == 200
            assert len(json.loads(content)["results"]) == 900


def test_counts_are_those_of_all_workers(service):
    def texts():
        found = ask(service.address, "/metrics")[1].decode().partition("\ntagwood_texts_total ")[2]
        return int(float(found.partition("\n")[0]))

    before = texts()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ask(service.address, "/v1/suggest", {"texts": "oak"}), range(40)))
    assert texts() == before + 40
    assert {line["worker"] for line in service.events("request")} <= {0, 1}


def test_the_log_has_ids_but_no_texts(service):
    ask(service.address, "/v1/suggest", {"texts": "verysecret oak"})
    service.wait_for(lambda: any(line["route"] == "/v1/suggest" for line in service.events("request")))
    assert "verysecret" not in json.dumps(service.lines)
    assert all(line["id"] for line in service.events("request"))


def test_workers_end_within_five_seconds_of_the_supervisor_and_leave_nothing(models, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    models[0].save(tmp_path / "model")
    service = Service(tmp_path / "model", "--workers", "2", "--max", "text_chars=100000")
    assert len(list(temporary.iterdir())) == 1
    with ThreadPoolExecutor(4) as pool:
        body = {"texts": ["oak sea sun granite " * 4000] * 900}
        for _ in range(4):
            pool.submit(ask, service.address, "/v1/suggest", body)
        time.sleep(1)  # the workers are busy for longer than they have
        pids = service.worker_pids()
        service.stop(signal.SIGKILL)
        service.wait_for(lambda: not any(map(_runs, pids)), seconds=5)
    assert list(temporary.iterdir()) == []


def test_ctrl_c_prints_one_line_and_leaves_nothing(models, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    models[0].save(tmp_path / "model")
    service = Service(tmp_path / "model", "--quiet")
    service.wait_for(lambda: any("stops it" in line for line in service.words))
    said = len(service.words)
    assert service.stop(signal.SIGINT) == 0
    assert service.words[said:] == ["stopped"]
    assert list(temporary.iterdir()) == []


def test_new_connections_are_refused_while_open_requests_are_answered(models, tmp_path):
    models[0].save(tmp_path / "model")
    service = Service(tmp_path / "model", "--workers", "2")
    try:
        host, port = service.address.removeprefix("http://").rstrip("/").split(":")
        body = b'{"texts": "oak"}'
        slow = HTTPConnection(host, int(port), timeout=30)
        slow.putrequest("POST", "/v1/suggest")
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", str(len(body)))
        slow.endheaders(body[:-1])  # the last byte is missing

        def refused():
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except ConnectionRefusedError:
                return True
            return False

        service.wait_for(lambda: "tagwood_in_flight 2.0" in ask(service.address, "/metrics")[1].decode())
        os.kill(service.process.pid, signal.SIGTERM)
        service.wait_for(refused, seconds=10)
        slow.send(body[-1:])
        assert slow.getresponse().status == 200
        slow.close()
    finally:
        assert service.stop() == 0


def test_run_folders_of_killed_services_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, used = tmp_path / "tagwood-serve-old", tmp_path / "tagwood-serve-used"
    for folder in (old, used):
        (folder / "labels").mkdir(parents=True)
        os.utime(folder, (time.time() - 60,) * 2)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new = processes._run_folder()
    os.close(lock)
    assert sorted(tmp_path.iterdir()) == sorted([used, new])


@pytest.mark.parametrize("way", ["the process", "its imports", "its memory", "its threads"])
def test_workers_that_cannot_start_end_the_service_with_the_reason(models, tmp_path, monkeypatch, way, capfd):
    models[0].save(tmp_path / "model")
    if way == "the process":

        def popen(*_, **__):
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

        monkeypatch.setattr(subprocess, "Popen", popen)
    elif way == "its imports":
        monkeypatch.setattr(processes, "_WORKER", "import sys; sys.modules['uvicorn'] = None\n" + processes._WORKER)
    elif way == "its threads":  # one of them died before it told the others that it runs
        monkeypatch.setattr(processes, "_WORKER", "import threading; threading.Event().wait()")
        monkeypatch.setattr(processes, "_STUCK", 0.5)
    else:
        load = "from tagwood.service.state import ModelHolder\ndef fail(self): raise MemoryError('no memory left')\n"
        monkeypatch.setattr(processes, "_WORKER", load + "ModelHolder.refresh = fail\n" + processes._WORKER)
    assert run(["serve", str(tmp_path / "model"), "--port", "0"]) == 1
    said = capfd.readouterr().err
    reasons = {
        "the process": "Resource temporarily unavailable",
        "its imports": "import of uvicorn halted",
        "its memory": "MemoryError: no memory left",
        "its threads": "it hangs while it starts, perhaps because memory ran out",
    }
    assert said.splitlines()[-1].startswith("error: the workers of the service could not be started; got ")
    assert reasons[way] in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_worker_killed_before_it_reads_its_job_is_replaced(models, tmp_path, monkeypatch):
    """Its job is still in the buffer of the pipe; closing the pipe must not end the supervisor."""
    models[0].save(tmp_path / "model")
    start, started = subprocess.Popen, []

    def popen(*args, **options):
        started.append(start(*args, **options))
        if len(started) == 1:
            started[0].kill()
            started[0].wait()
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    sock = processes.open_socket("127.0.0.1", 0)
    served = {"model": ServedModel(tmp_path / "model")}
    supervisor = processes.Supervisor(
        served, ServiceSettings(), sock, log_requests=False, on_ready=lambda: os.kill(os.getpid(), signal.SIGTERM)
    )
    with sock:
        assert supervisor.run()
    assert len(started) == 2


def replace_manifest(folder, content):
    """Replace the manifest in one step, so that it is read once before and once after."""
    (folder.parent / "new.json").write_bytes(content)
    (folder.parent / "new.json").replace(folder / "manifest.json")


def test_a_worker_restarted_beside_a_damaged_folder_leaves_requests_to_the_others(models, tmp_path):
    folder = tmp_path / "model"
    models[0].save(folder)
    service = Service(folder, "--workers", "2", "--reload-seconds", "0.05")
    try:
        right = (folder / "manifest.json").read_bytes()
        replace_manifest(folder, right[:-30])
        service.wait_for(lambda: len(service.events("model not loaded")) == 2)
        os.kill(service.worker_pids()[0], signal.SIGKILL)
        service.wait_for(lambda: len(service.events("model not loaded")) == 3)
        answers = [ask(service.address, "/v1/suggest", {"texts": "oak"})[0] for _ in range(40)]
        assert set(answers) == {200}
        assert len(service.events("ready")) == 2  # those of the beginning
        assert "tagwood_ready_workers 1.0" in ask(service.address, "/metrics")[1].decode()
        replace_manifest(folder, right)
        service.wait_for(lambda: len(service.events("ready")) == 3)
        assert service.events("ready")[-1]["models"] != [None]
    finally:
        assert service.stop() == 0


def test_the_only_worker_restarted_beside_a_damaged_folder_waits_for_the_right_one(models, tmp_path):
    folder = tmp_path / "model"
    models[0].save(folder)
    service = Service(folder, "--reload-seconds", "0.05")
    try:
        right = (folder / "manifest.json").read_bytes()
        replace_manifest(folder, right[:-30])
        os.kill(service.worker_pids()[0], signal.SIGKILL)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask, service.address, "/v1/suggest", {"texts": "oak"})
            service.wait_for(lambda: service.events("model not loaded"))
            replace_manifest(folder, right)
            assert waiting.result()[0] == 200
        replace_manifest(folder, right[:-30])
        os.kill(service.worker_pids()[0], signal.SIGKILL)
        status, said = ask(service.address, "/v1/suggest", {"texts": "oak"})  # after the worker's patience
        assert (status, json.loads(said)["title"]) == (503, "No model is loaded yet")
    finally:
        assert service.stop() == 0


def test_file_numbers_used_again_are_not_taken_for_files_overwritten_in_place(models, tmp_path, monkeypatch):
    """A model replaced while it was loaded has files of unknown numbers; its answers stay right."""
    folder = tmp_path / "model"
    models[0].save(folder)
    files = {"manifest.json": (1, 1, 9), "arrays": (2, 1, 9)}
    monkeypatch.setattr(state_module, "_identity", lambda folder: dict(files))
    loaded = LoadedModel.of(models[0])

    def load(path):
        if files["arrays"] == (2, 3, 9):
            raise StorageError("damaged", path=folder)
        files.update({"manifest.json": (3, 2, 9), "arrays": (4, 2, 9)})  # replaced, and these are loaded
        return loaded

    holder = ModelHolder(load, folder)
    assert holder.refresh()
    files.update({"manifest.json": (5, 3, 9), "arrays": (2, 3, 9)})
    with pytest.raises(StorageError, match="damaged"):
        holder.refresh()
    assert holder.current is loaded


def test_a_model_that_is_overwritten_while_it_is_loaded_is_not_put_into_use(models, tmp_path):
    folder = tmp_path / "model"
    models[0].save(folder)
    overwritten = [True]

    def load(path):
        loaded = LoadedModel.of(*Tagger.load_with_manifest(path))
        if overwritten.pop():
            (folder / "arrays.safetensors").touch()
        return loaded

    holder = ModelHolder(load, folder)
    with pytest.raises(StorageError, match="overwritten while they were read"):
        holder.refresh()
    assert holder.current_or_none is None
    overwritten.append(False)
    assert holder.refresh()  # tried again, because the folder changed
    assert holder.current.name


def test_a_file_that_no_array_is_mapped_from_may_have_the_number_of_a_former_one(models, tmp_path):
    folder = tmp_path / "model"
    models[0].save(folder)
    holder = ModelHolder(lambda path: LoadedModel.of(*Tagger.load_with_manifest(path)), folder)
    assert holder.refresh()
    loaded = holder.current
    (folder / "golden.safetensors").touch()  # as if another model were saved, and its file had the same number
    assert holder.current is loaded
    (folder / "arrays.safetensors").touch()
    with pytest.raises(ProblemError, match="overwritten"):
        _ = holder.current


def test_a_replaced_model_closes_its_files_at_once(models, tmp_path):
    """Without waiting for the garbage collector: a cycle would keep the files of many models open."""

    def load(path):
        tagger, manifest = Tagger.load_with_manifest(path)
        return LoadedModel.of(tagger, manifest, run_folder=tmp_path / "run")

    holder = ModelHolder(load, tmp_path / "model")
    gc.collect()
    gc.disable()
    try:
        open_files = []
        for number in range(4):
            models[number % 2].save(tmp_path / "model", overwrite=True)
            assert holder.refresh()
            assert holder.current.names.search("tree", 3)
            open_files.append(len(list(Path("/proc/self/fd").iterdir())))
    finally:
        gc.enable()
    assert len(set(open_files)) == 1


def test_any_failure_of_a_reload_is_logged_and_counted_and_the_watch_goes_on(models, tmp_path):
    folder = tmp_path / "model"
    models[0].save(folder)
    failures = [OSError(errno.ENOSPC, "No space left on device"), MemoryError("none"), RuntimeError("no thread")]

    def load(path):
        if state.holder.current_or_none is not None and failures:
            raise failures.pop(0)
        tagger, manifest = Tagger.load_with_manifest(path)
        return LoadedModel.of(tagger, manifest)

    log = tmp_path / "log"
    with log.open("wb") as file:
        metrics = ServiceMetrics.in_memory(["model"])
        state = ServiceState(
            ServiceSettings(reload_seconds=0.01), ModelHolder(load, folder), metrics, EventLog(0, file.fileno())
        )
        state.open()

        async def watch():
            await state.refresh()
            models[1].save(folder, overwrite=True)
            watching = asyncio.create_task(state.watch())
            while metrics.text().count(b"tagwood_reloads_total 2.0") == 0:
                await asyncio.sleep(0.01)
            watching.cancel()

        asyncio.run(asyncio.wait_for(watch(), 30))
        state.close()
    text = metrics.text().decode()
    assert "tagwood_reload_failures_total 3.0" in text
    assert float(text.partition("\ntagwood_model_age_seconds ")[2].partition("\n")[0]) < 60
    reasons = [json.loads(line)["reason"] for line in log.read_text().splitlines() if "not loaded" in line]
    assert [reason.partition(":")[0] for reason in reasons] == ["OSError", "MemoryError", "RuntimeError"]


def test_name_manifest_arrays_and_index_are_of_one_model_while_the_folder_is_replaced(models, tmp_path):
    """A save in the middle of a load must not give one model the name or the labels of another."""
    folder, run_folder = tmp_path / "model", tmp_path / "run"
    names = {}
    answers = [model.tag(["oak and sea"], 2)[0] for model in models]
    going = threading.Event()

    def swap():
        while not going.is_set():
            for number, model in enumerate(models):
                model.save(folder, overwrite=True, notes=str(number))

    models[0].save(folder, notes="0")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            tagger, manifest = Tagger.load_with_manifest(folder)
            loaded = LoadedModel.of(tagger, manifest, run_folder=run_folder)
            number = int(loaded.manifest.notes)
            assert tagger.seed == number
            assert loaded.tagger.tag(["oak and sea"], 2)[0] == answers[number]
            assert names.setdefault(loaded.name, number) == number
    finally:
        going.set()
        thread.join()
    assert set(names.values()) == {0, 1}


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False
