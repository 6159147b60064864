"""Commands under test: `plan` takes a fixed speed of the machine, which is not stored."""

import pytest

from tagwood.planning.forecast import read_coefficients


@pytest.fixture(autouse=True)
def fixed_speed(monkeypatch, tmp_path):
    monkeypatch.setattr("tagwood.planning.probe.cache_folder", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr("tagwood.planning.probe.measure_probe", lambda *_: 2 * read_coefficients().probe)
