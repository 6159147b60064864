import json

import pytest

from tagwood import Tagger
from tagwood import demo as pydocs
from tagwood.cli import app
from tagwood.data import Dataset, LabelVocab

TEXTS = {
    "scipy.signal": ["smooth a noisy signal", "filter a signal that is noisy", "remove noise from a signal"],
    "argparse": ["parse the command line", "parse arguments of a command", "print help for a command line"],
    "numpy.loadtxt": [
        "read numbers from a text file",
        "read a table of numbers",
        "load a file of numbers as text",
    ],
}


@pytest.fixture(autouse=True)
def _small_corpus(monkeypatch):
    """A corpus of nine passages in place of the real one, which other tests build."""
    texts = [text for group in TEXTS.values() for text in group]
    labels = [[number] for number, group in enumerate(TEXTS.values()) for _ in group]
    data = Dataset(labels, LabelVocab.from_names(TEXTS), texts=texts, groups=["g"] * 9)

    def build(packages, *, progress):
        progress(1, 1)
        return data, data

    monkeypatch.setattr(pydocs, "build", build)


def test_demo_answers_three_questions_with_label_names(capsys):
    assert app.run(["demo", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [found["labels"][0][0] for found in result["answers"]] == list(TEXTS)
    assert "noisy" in result["answers"][0]["why"]
    assert result["metrics"]["measures"]["P@1"]["value"] == 1.0
    assert result["data"]["rows"] == 9


def test_demo_offers_to_serve_the_model_it_saved(capsys, tmp_path):
    for _ in range(2):  # a model that is there is replaced
        assert app.run(["demo", "-O", str(tmp_path / "demo")]) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "tagwood serve" in words
    assert Tagger.load(tmp_path / "demo").tag_one("smooth a noisy signal", 1).names == ["scipy.signal"]


def test_demo_prints_tables_on_stdout_and_words_on_stderr(capsys):
    assert app.run(["demo"]) == 0
    captured = capsys.readouterr()
    assert "P@1" in captured.out
    assert "smooth a noisy signal" in captured.out
    assert "Trained" in captured.err
