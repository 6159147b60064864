"""What an operator sees: traffic and drift, a candidate beside the model in use, dead workers, missing models."""

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest
from library import make_library
from services import Service, ask
from starlette.testclient import TestClient

from tagwood import LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.service.app import create_app
from tagwood.service.settings import Candidate, ServedModel, ServiceSettings
from tagwood.tagger.drift import count_words, frequency_bands


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two models with different answers."""
    root = tmp_path_factory.mktemp("operation")
    texts, labels = make_library(200)
    Tagger(model=LinearTree(threads=1)).fit(texts, labels).save(root / "current")
    Tagger(model=LinearTree(threads=1)).fit(texts, labels[::-1]).save(root / "candidate")
    return root


def counts(text):
    """The samples of a text of metrics, by name and labels."""
    return {key: float(value) for key, value in re.findall(r"^(tagwood_\S+) (\S+)$", text, flags=re.M)}


def suggest(client, texts, **headers):
    answer = client.post("/v1/suggest", json={"texts": texts, "k": 2}, headers=headers)
    assert answer.status_code == 200
    return answer.json()


def test_texts_and_answers_are_counted(tagger, settings):
    with TestClient(create_app(tagger, settings), base_url="http://localhost") as client:
        for _ in range(17):  # the words of the 1st and the 17th request are looked up
            suggest(client, ["oak zzzz"])
        found = counts(client.get("/metrics").text)
        facts = client.get("/v1/model").json()["traffic"]
    assert found['tagwood_top_score_count{project="model"}'] == facts["texts"] == 17
    assert found['tagwood_unknown_words_total{project="model"}'] == 2
    assert facts["unknown_words"] == pytest.approx(2 / found['tagwood_words_total{project="model"}'])
    assert 0 < facts["mean_top_score"] <= 1
    assert 0 <= facts["label_drift"] <= 0.9
    assert found['tagwood_stage_seconds_count{stage="tag"}'] == 17


def test_figures_of_now_stand_beside_those_of_training(folders, settings):
    texts, _ = make_library(200)
    tagger = Tagger.load(folders / "current")
    figures = tagger.figures_
    assert 0 <= figures.unknown_words < 0.5
    assert 0 < figures.mean_top_score <= 1
    assert 0 <= figures.label_drift <= 0.9
    with TestClient(create_app(folders / "current", settings), base_url="http://localhost") as client:
        suggest(client, texts[:4])
        found = counts(client.get("/metrics").text)
        facts = client.get("/v1/model").json()["traffic"]
    assert facts["training"] == pytest.approx(figures._asdict())
    for name, value in figures._asdict().items():
        assert found[f'tagwood_training_texts{{figure="{name}",project="current"}}'] == pytest.approx(value)


def test_models_without_figures_of_training_have_none_in_metrics(folders, settings, tmp_path):
    tagger = Tagger.load(folders / "current")
    tagger.figures_ = None  # as models of older versions
    tagger.save(tmp_path / "old")
    with TestClient(create_app(tmp_path / "old", settings), base_url="http://localhost") as client:
        suggest(client, ["oak"])
        assert "tagwood_training_texts{" not in client.get("/metrics").text
        assert set(client.get("/v1/model").json()["traffic"]["training"].values()) == {None}


def test_the_size_of_a_model_is_that_of_all_its_files(folders, settings):
    with TestClient(create_app(folders / "current", settings), base_url="http://localhost") as client:
        size = client.get("/v1/model").json()["passport"]["bytes"]
    assert size == sum(file.stat().st_size for file in (folders / "current").iterdir())


def test_bands_have_equally_many_positives():
    counts = np.random.default_rng(0).integers(0, 30, 2000)
    mass = np.bincount(frequency_bands(counts), counts, minlength=10)
    assert np.abs(mass / counts.sum() - 0.1).max() < 0.01


def test_encoders_without_words_count_none():
    assert count_words(object(), ["oak"]) == (0, 0)


@pytest.mark.parametrize("shadow", [True, False])
def test_a_candidate_answers_its_share_and_both_answers_are_compared(folders, shadow):
    served = ServedModel(folders / "current", candidate=Candidate(folders / "candidate", 0.5, shadow))
    with TestClient(create_app({"books": served}, ServiceSettings()), base_url="http://localhost") as client:
        used = [suggest(client, ["oak and sea"], **{"x-request-id": str(number)})["model"] for number in range(40)]
        again = [suggest(client, ["oak and sea"], **{"x-request-id": str(number)})["model"] for number in range(40)]
        state = client.app.state.projects["books"]
        names = (state.holder.current.name, state.candidate_holder.current.name)
    found = state.traffic.facts()  # all comparisons have ended
    share = used.count(names[1]) / 40
    assert used == again  # the id of a request decides
    assert share == 0 if shadow else 0.2 < share < 0.8
    assert 20 < found["compared"] < 60
    assert 0 <= found["agreement"] < 1


def test_a_killed_worker_and_its_cause_are_counted_and_probes_are_not_logged(folders):
    service = Service(folders / "current", "--workers", "2")
    try:
        for _ in range(3):
            assert ask(service.address, "/ready")[0] == 200
        killed = service.worker_pids()[0]
        os.kill(killed, signal.SIGKILL)
        service.wait_for(lambda: len(service.events("ready")) == 3)
        found = counts(ask(service.address, "/metrics")[1].decode())
        assert found['tagwood_worker_deaths_total{cause="SIGKILL"}'] == 1
        assert [event["reason"][:7] for event in service.events("worker ended")] == ["SIGKILL"]
        assert not service.events("request")
    finally:
        service.stop()


def test_a_service_waits_for_its_model(folders, tmp_path):
    service = Service(tmp_path / "model", "--wait-for-model", "--reload-seconds", "0.05")
    try:
        assert ask(service.address, "/health")[0] == 200
        assert ask(service.address, "/ready")[0] == 503
        status, content = ask(service.address, "/v1/suggest", {"texts": "oak"})
        assert status == 503
        assert json.loads(content)["detail"] == "There is no model in the folder yet. Try again in a moment."
        (reason,) = [event["reason"] for event in service.events("model not loaded")]
        assert "there must be a model" in reason
        metrics = counts(ask(service.address, "/metrics")[1].decode())
        assert metrics["tagwood_reload_failures_total"] == 1
        shutil.copytree(folders / "current", tmp_path / "model")
        service.wait_for(lambda: ask(service.address, "/ready")[0] == 200)
        assert ask(service.address, "/v1/suggest", {"texts": "oak"})[0] == 200
    finally:
        service.stop()


def test_a_model_folder_that_is_deleted_is_logged_once_and_the_model_stays_in_use(folders, tmp_path):
    folder = shutil.copytree(folders / "current", tmp_path / "model")
    app = create_app(folder, ServiceSettings(reload_seconds=0))
    with TestClient(app, base_url="http://localhost") as client:
        state = client.app.state.projects["model"]
        before = suggest(client, ["oak and sea"])
        kept = folder.rename(tmp_path / "kept")
        for _ in range(2):
            client.portal.call(state.refresh)
        assert suggest(client, ["oak and sea"]) == before
        assert counts(client.get("/metrics").text)["tagwood_reload_failures_total"] == 1
        kept.rename(folder)
        client.portal.call(state.refresh)
        assert counts(client.get("/metrics").text)["tagwood_reload_failures_total"] == 1


def test_readiness_says_that_the_model_cannot_be_loaded(folders, tmp_path):
    folder = shutil.copytree(folders / "current", tmp_path / "model")
    (folder / "manifest.json").write_text("{")
    with TestClient(create_app(folder, ServiceSettings()), base_url="http://localhost") as client:
        answer = client.get("/ready")
    assert answer.status_code == 503
    assert "The model could not be loaded; the log of the service says why." in answer.json()["detail"]
    assert str(tmp_path) not in answer.text


def test_a_model_overwritten_in_place_is_refused_and_a_restarted_worker_answers_that_it_is_not_ready(folders, tmp_path):
    shutil.copytree(folders / "current", tmp_path / "model")
    service = Service(tmp_path / "model", "--reload-seconds", "0.05")
    try:
        (arrays,) = (tmp_path / "model").glob("arrays*.safetensors")
        with arrays.open("r+b") as file:
            file.truncate(arrays.stat().st_size // 2)
        service.wait_for(lambda: ask(service.address, "/ready")[0] == 503)
        service.wait_for(lambda: service.events("model not loaded"))
        os.kill(service.worker_pids()[0], signal.SIGKILL)
        service.wait_for(lambda: len(service.events("ready")) >= 2)
        assert ask(service.address, "/health")[0] == 200
        assert ask(service.address, "/ready")[0] == 503
        texts, labels = make_library(200)
        Tagger(model=LinearTree(threads=1)).fit(texts, labels).save(tmp_path / "model", overwrite=True)
        service.wait_for(lambda: ask(service.address, "/ready")[0] == 200)
    finally:
        service.stop()


def test_no_answer_comes_from_files_that_were_overwritten(folders, tmp_path):
    folder = shutil.copytree(folders / "current", tmp_path / "model")
    (arrays,) = folder.glob("arrays*.safetensors")
    right, written = arrays.read_bytes(), arrays.stat()
    app = create_app(folder, ServiceSettings(reload_seconds=0))  # nobody checks the folder
    with TestClient(app, base_url="http://localhost") as client:
        before = suggest(client, ["oak and sea"])
        with arrays.open("r+b") as file:
            file.truncate(len(right) // 2)
        answer = client.post("/v1/suggest", json={"texts": "oak"})
        assert answer.status_code == client.get("/ready").status_code == 503
        assert "overwritten while it was in use" in answer.json()["detail"]
        with arrays.open("r+b") as file:
            file.write(right)
        os.utime(arrays, ns=(written.st_atime_ns, written.st_mtime_ns))
        assert suggest(client, ["oak and sea"]) == before

        def overwritten_meanwhile(*given):
            os.utime(arrays)
            return []

        client.app.state.projects["model"].batcher._tag = overwritten_meanwhile
        assert client.post("/v1/suggest", json={"texts": "oak"}).status_code == 503


def noise(folder):
    """Overwrite the arrays of a model in place."""
    (arrays,) = folder.glob("arrays*.safetensors")
    with arrays.open("r+b") as file:
        file.write(b"\x7f" * arrays.stat().st_size)


@pytest.mark.parametrize("shadow", [True, False])
def test_a_candidate_that_is_overwritten_is_left_out(folders, tmp_path, shadow):
    candidate = shutil.copytree(folders / "candidate", tmp_path / "candidate")
    served = ServedModel(folders / "current", candidate=Candidate(candidate, 1.0, shadow))
    app = create_app({"books": served}, ServiceSettings(reload_seconds=0))
    with TestClient(app, base_url="http://localhost") as client:
        state = client.app.state.projects["books"]
        tag, answered = state.batcher._tag, []

        def overwritten_meanwhile(tagger, texts, options):
            answered.append(tagger)
            if tagger is state.candidate_holder.current_or_none.tagger:
                os.utime(next(candidate.glob("arrays*.safetensors")))
            return tag(tagger, texts, options)

        main = state.holder.current
        if not shadow:
            state.batcher._tag = overwritten_meanwhile
            assert suggest(client, ["oak and sea"])["model"] == main.name
            assert len(answered) == 2
        noise(candidate)
        for _ in range(3):
            assert suggest(client, ["oak and sea"])["model"] == main.name
    assert state.traffic.facts()["compared"] == 0


@pytest.fixture
def two_orders(tmp_path):
    """A service that sends the answers of a candidate, whose label table has another order; and both names."""
    texts, labels = make_library(200)
    for name, step in (("current", 1), ("candidate", -1)):
        Tagger(model=LinearTree(threads=1)).fit(texts[::step], labels[::step]).save(tmp_path / name)
    served = ServedModel(
        tmp_path / "current", tmp_path / "said.jsonl", candidate=Candidate(tmp_path / "candidate", 1.0, shadow=False)
    )
    with TestClient(create_app({"books": served}, ServiceSettings()), base_url="http://localhost") as client:
        state = client.app.state.projects["books"]
        yield client, state.holder.current.name, state.candidate_holder.current.name


def test_feedback_and_explanations_are_about_the_model_that_answered(two_orders, tmp_path):
    client, main, candidate = two_orders
    answer = suggest(client, ["oak and elm bark"])
    best = answer["results"][0]["labels"][0]
    assert answer["model"] == candidate

    def send(path, **body):
        return client.post(f"/v1/{path}", json={"text": "oak and elm bark", **body})

    assert send("feedback", accepted=[best["id"]], model=candidate).status_code == 201
    assert send("feedback", accepted=[best["name"]]).status_code == 201
    found = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [one["accepted"][0]["label"] for one in found] == [best["name"]] * 2
    assert [one["model"] for one in found] == [candidate, main]
    why = send("explain", label=best["id"], model=candidate).json()
    assert (why["name"], why["model"]) == (best["name"], candidate)
    assert send("explain", label=best["name"]).json()["model"] == main
    for refused in (send("feedback", untouched=[best["id"]]), send("explain", label=best["id"])):
        assert refused.status_code == 409
        assert "Send the 'model' of the answer" in refused.json()["detail"]
    gone = send("feedback", accepted=[best["id"]], model="0123456789ab")
    assert (gone.status_code, gone.json()["errors"][0]["pointer"]) == (409, "#/model")


def test_rows_in_a_request_are_those_of_the_model_in_use_though_the_candidate_answers(two_orders):
    client, _, candidate = two_orders
    shown = client.get("/v1/labels").json()["labels"][0]
    answer = client.post("/v1/suggest", json={"texts": "oak", "restrict": [shown["id"]]}).json()
    assert answer["model"] == candidate
    assert [one["name"] for one in answer["results"][0]["labels"]] == [shown["name"]]


def test_a_candidate_needs_one_model(folders, capsys):
    models = [str(folders / "current"), str(folders / "candidate")]
    assert run(["serve", *models, "--candidate", models[1]]) == 2
    assert "--candidate is compared with one model; got 2 models" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--send-candidate"], ["--candidate-share", "0.5"]])
def test_options_of_a_candidate_need_one(folders, capsys, options):
    assert run(["serve", str(folders / "current"), *options]) == 2
    assert f"{options[0]} needs a second model; got none. Name it: --candidate MODEL." in capsys.readouterr().err
