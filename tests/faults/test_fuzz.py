"""A quick cut of the fuzzing of readers; ``make fuzz`` runs all of it."""

from __future__ import annotations

import pytest

from tests.faults import fuzz


@pytest.fixture
def fuzzer(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fuzz, "FINDINGS", tmp_path / "findings")
    (tmp_path / "stage").mkdir()
    return fuzz.Fuzzer(tmp_path)


def test_past_findings_and_mutated_files_of_every_kind_are_read_or_refused(fuzzer):
    assert fuzzer.replay() == len(list(fuzz.CORPUS.glob("*/*")))
    for name in fuzzer.kinds:
        fuzzer.run(name, 12, start=7)
    assert fuzzer.findings == {}
    assert 0 < fuzzer.refused.total() < fuzzer.counts.total()


def test_a_reader_that_fails_is_found_and_its_file_kept_as_small_as_possible(fuzzer, tmp_path):
    def read(folder):
        if (folder / "recipe.toml").read_bytes() != fuzzer.kinds["recipe"].files["recipe.toml"]:
            raise KeyError("planted")

    fuzzer.kinds["recipe"] = fuzzer.kinds["recipe"]._replace(read=read)
    fuzzer.run("recipe", 20, start=1)
    ((where, wrong),) = fuzzer.findings.items()
    assert "KeyError: 'planted'" in wrong
    assert (tmp_path / "findings" / "recipe").iterdir().__next__().name in where
