import json

import numpy as np
import pytest

from tagwood import storage
from tagwood.cli import app, info


def test_installation_names_versions_kernels_and_hardware(capsys):
    assert app.run(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["cores"] >= 1
    assert facts["memory_bytes"] > 2**28
    assert facts["dependencies"]["numpy"] == np.__version__
    assert "torch" in facts["extras"]["neural"]
    assert "dev" not in facts["extras"]
    assert facts["kernels"]["module"].startswith("_native")


def test_table_has_one_line_per_extra(capsys):
    assert app.run(["info"]) == 0
    out = capsys.readouterr().out
    assert "extra neural" in out
    assert "numpy" in out


def test_missing_extras_are_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(info.metadata, "requires", lambda _: ["surely-not-there>=1; extra == 'neural'"])
    assert info._versions("neural") == {"surely-not-there": None}
    assert info._lines({"extras": {"neural": {"surely-not-there": None}}}) == {
        "extra neural": "surely-not-there not installed"
    }


@pytest.mark.parametrize("flags, name", [("avx2 fma bmi2", "AVX2"), ("sse2", "x86-64")])
def test_instruction_set_follows_the_processor(monkeypatch, tmp_path, flags, name):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(info, "_CPUINFO", cpuinfo)
    monkeypatch.setattr(info.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(info.sys, "platform", "linux")
    assert name in info.instruction_set()


@storage.storable("TestInfoModel")
class Thing:
    def state(self) -> storage.State:
        return storage.State("TestInfoModel", params={"width": 3}, arrays={"weights": np.ones(5, dtype=np.float32)})

    @classmethod
    def from_state(cls, state: storage.State) -> "Thing":
        return cls()


def test_a_model_folder_shows_its_passport(tmp_path, capsys):
    storage.save(Thing(), tmp_path / "model", notes="trained on oak leaves")
    assert app.run(["info", str(tmp_path / "model")]) == 0
    out = capsys.readouterr().out
    assert "TestInfoModel" in out
    assert "trained on oak leaves" in out
    assert app.run(["info", str(tmp_path / "model"), "--json"]) == 0
    passport = json.loads(capsys.readouterr().out)
    assert passport["model"]["params"] == {"width": 3}
    assert passport["bytes"] >= 20


def test_a_folder_without_a_model_is_refused(tmp_path, capsys):
    assert app.run(["info", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}")
