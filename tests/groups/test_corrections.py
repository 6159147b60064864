import json

import pytest

from tagwood import Dataset, LabelVocab
from tagwood.cli import app
from tagwood.errors import DataError, InputError
from tagwood.groups.labels import Correction, apply_corrections, read_corrections

VOCAB = LabelVocab.from_names(["oak", "sea", "sun"], uris=["http://x/0", "http://x/1", "http://x/2"])


def grouped():
    return Dataset([[0, 1, 2], [0, 1, 2], [0], [1]], VOCAB, texts=["a", "b", "c", "d"], groups=["x", "x", "y", ""])


def test_a_corrected_row_leaves_its_group_and_keeps_its_labels():
    data, used = apply_corrections(grouped(), [Correction("x", "a", ("http://x/0", "http://x/2"))])
    assert used == 1
    assert data.label_lists() == [[0, 2], [1], [0], [1]]
    assert list(data.groups) == ["", "x", "y", ""]


def test_a_row_may_turn_out_to_have_no_label():
    data, _ = apply_corrections(grouped(), [Correction("x", "a", ())])
    assert data.label_lists()[:2] == [[], [0, 1, 2]]


def test_corrections_of_other_data_are_not_used():
    data, used = apply_corrections(grouped(), [Correction("x", "zzz", ("oak",)), Correction("y", "a", ("oak",))])
    assert used == 0
    assert data.label_lists() == grouped().label_lists()


def test_unknown_labels_and_data_without_groups_are_refused():
    with pytest.raises(InputError, match="'elm'"):
        apply_corrections(grouped(), [Correction("x", "a", ("elm",))])
    with pytest.raises(InputError, match="groups"):
        apply_corrections(Dataset([[0]], texts=["a"]), [])


def test_the_last_correction_of_a_text_counts(tmp_path):
    lines = [
        {"from_group": "x", "text": "a", "labels": [{"label": "oak"}]},
        {"from_group": "x", "text": "a", "labels": [{"label": "sea", "uri": "http://x/1"}, "sun"]},
    ]
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_corrections(path) == [Correction("x", "a", ("http://x/1", "sun"))]


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "a"}', '{"from_group": "x", "text": "a", "labels": [5]}'])
def test_lines_that_are_no_corrections_are_named(tmp_path, line):
    path = tmp_path / "c.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DataError, match="line 1"):
        read_corrections(path)


def test_train_takes_corrections(tmp_path, capsys):
    rows = [
        {
            "text": f"oak tree {row}" if row % 2 else f"salt sea {row}",
            "labels": ["oak", "sea"],
            "group": f"g{row // 2}",
        }
        for row in range(40)
    ]
    data, corrections = tmp_path / "data.jsonl", tmp_path / "c.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corrections.write_text(json.dumps({"from_group": "g0", "text": "oak tree 1", "labels": ["oak"]}) + "\n")
    arguments = ["train", str(data), "-O", str(tmp_path / "model"), "--corrections", str(corrections)]
    assert app.run(arguments) == 0
    assert "1 of 1 corrections used" in " ".join(capsys.readouterr().err.split())
