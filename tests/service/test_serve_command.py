import json
import socket

import pytest

from tagwood import LinearTree, save
from tagwood.cli import app
from tagwood.cli.serve import accepted_hosts, is_loopback, parse_limits, read_token
from tagwood.errors import InputError
from tagwood.service.processes import open_socket
from tagwood.service.settings import RequestLimits, ServiceSettings


def fails(capsys, *arguments):
    assert app.run(["serve", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_a_folder_without_a_model_is_refused(capsys, tmp_path):
    assert "manifest.json" in fails(capsys, tmp_path)


def test_a_model_without_names_is_refused(capsys, tmp_path):
    model = LinearTree(threads=1).fit([[1.0, 0.0], [0.0, 1.0]], [[0], [1]])
    save(model, tmp_path / "model")
    assert "must hold a Tagger; got a LinearTree" in fails(capsys, tmp_path / "model")


def test_a_taken_port_is_named(capsys, tmp_path, tagger):
    tagger.save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = fails(capsys, tmp_path / "model", "--port", taken.getsockname()[1])
    assert "must be free" in said
    assert "--port" in said


def test_a_model_that_cannot_be_loaded_ends_the_service(capfd, tmp_path, tagger):
    tagger.save(tmp_path / "model")
    arrays = next((tmp_path / "model").glob("arrays*"))
    arrays.write_bytes(arrays.read_bytes()[:-8])
    assert app.run(["serve", str(tmp_path / "model"), "--port", "0"]) == 2
    said = capfd.readouterr().err
    assert "cut short" in said
    assert "must be a model that can be loaded" in said


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_file_in_place_of_the_folder_of_filters_is_refused(capsys, tmp_path, tagger, inside):
    tagger.save(tmp_path / "model")
    (tmp_path / "p.jsonl").touch()
    said = fails(capsys, tmp_path / "model", "--filters", tmp_path / "p.jsonl" / inside)
    assert "--filters must be a folder; got the file" in " ".join(said.split())
    assert "a model that can be loaded" not in said


def test_limits_are_read_by_name():
    assert parse_limits(["texts=5", "body_seconds=1.5"]) == RequestLimits(texts=5, body_seconds=1.5)
    for wrong in ("texts", "texts=x", "nothing=5", "texts=0"):
        with pytest.raises(InputError):
            parse_limits([wrong])


def test_tokens_come_from_files_and_must_be_long(tmp_path):
    (tmp_path / "token").write_text("  secret-token \nnot this\n")
    assert read_token(tmp_path / "token") == "secret-token"
    (tmp_path / "token").write_text("\n")
    with pytest.raises(InputError, match="first line"):
        read_token(tmp_path / "token")
    with pytest.raises(InputError, match="8 printable"):
        ServiceSettings(token="short")


@pytest.mark.parametrize("origin", ["library.example", "https://library.example/path", "*", "null"])
def test_origins_are_schemes_and_hosts(origin):
    with pytest.raises(InputError, match="origin"):
        ServiceSettings(origins=(origin,))


def test_settings_can_be_sent_to_a_worker(tmp_path):
    settings = ServiceSettings(
        limits=RequestLimits(k=7),
        token="long-enough",
        origins=("https://a.example",),
        hosts=("b",),
        feedback=tmp_path / "f",
    )
    assert ServiceSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_loopback_addresses_are_known():
    assert all(map(is_loopback, ["127.0.0.1", "localhost", "::1", "127.1.2.3"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "example.org", "10.0.0.1"]))


def test_a_socket_is_bound_before_workers_start():
    with open_socket("127.0.0.1", 0) as sock:
        assert sock.getsockname()[1] > 0
    with pytest.raises(InputError, match="on this machine"):
        open_socket("192.0.2.1", 80)


def test_allowed_hosts_hold_on_every_address():
    assert "tags.example" in accepted_hosts("127.0.0.1", ["tags.example"])
    assert accepted_hosts("0.0.0.0", ["tags.example"]) == ("localhost", "127.0.0.1", "[::1]", "tags.example")
    assert "[fd00::1]" in accepted_hosts("fd00::1", ["tags.example"])
    assert accepted_hosts("0.0.0.0", []) == ()
