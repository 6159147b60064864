"""A real service: several processes, a model replaced under load, killed workers, a graceful shutdown."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest
from library import make_library
from services import Service, ask

from tagwood import LinearTree, Tagger


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
            return int(float(counted)) + sum(one.done() for one in working) >= 4

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


def test_workers_end_when_the_supervisor_is_killed(models, tmp_path):
    models[0].save(tmp_path / "model")
    service = Service(tmp_path / "model", "--workers", "2")
    pids = service.worker_pids()
    service.stop(signal.SIGKILL)
    service.wait_for(lambda: not any(map(_runs, pids)))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False
