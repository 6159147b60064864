"""The options that benchmarks and experiments share: where results go, and which ones are measured again."""

import os

import pytest

from benchmarks import ROOT
from benchmarks.report import Page


@pytest.mark.parametrize(
    "options", [["--publish"], ["--out", "docs/experiments"], ["--out", "build/../docs/experiments"], ["--out", "docs"]]
)
def test_a_quick_run_never_writes_to_the_site(options, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        Page("experiments", "x").parser(None, quick=True).parse_args(["--quick", *options])
    assert "--quick results are not published" in capsys.readouterr().err


def test_a_quick_run_has_a_folder_of_its_own_or_the_one_that_is_named(tmp_path):
    parser = Page("experiments", "x").parser(None, quick=True)
    assert parser.parse_args(["--quick"]).out == ROOT / "build" / "experiments" / "quick"
    assert parser.parse_args(["--quick", "--out", os.fspath(tmp_path)]).out == tmp_path
    assert parser.parse_args(["--publish"]).out == ROOT / "docs" / "experiments"


def test_stored_results_are_measured_again_only_if_asked_for():
    store = {"runs": {"a": 1}}
    page = Page("experiments", "x")
    page.parser(None, keeps=True).parse_args([])
    assert [page.missing(store, "runs", key) for key in ("a", "b")] == [False, True]
    page.parser(None, keeps=True).parse_args(["--fresh"])
    assert [page.missing(store, "runs", key) for key in ("b", "a")] == [True, True]


def test_a_fresh_run_measures_what_several_parts_need_once():
    page = Page("experiments", "x")
    page.parser(None, keeps=True).parse_args(["--fresh"])
    assert page.missing({"a": 1}, "a")
    assert not page.missing({"a": 2}, "a")


def test_pages_that_measure_everything_have_no_option_for_it():
    with pytest.raises(SystemExit):
        Page("experiments", "x").parser(None).parse_args(["--fresh"])
