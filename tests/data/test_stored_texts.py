"""Texts in a file: the same sequence and the same dataset as in memory."""

from __future__ import annotations

import json
from os import pread as os_pread

import numpy as np
import pytest

from tagwood.data import Dataset, read_dataset, stored_texts
from tagwood.data.stored_texts import TextWriter
from tagwood.errors import DataError, StorageError

TEXTS = ["oak", "", "élan\nvital", "\ud800", "x" * 3000, *(f"text {row}" for row in range(3000))]


@pytest.fixture
def texts(tmp_path):
    writer = TextWriter(tmp_path)
    for text in TEXTS:
        writer.append(text)
    return writer.finish()


def test_texts_are_read_as_they_were_written(texts):
    assert list(texts) == TEXTS
    assert texts[-1] == TEXTS[-1]
    assert texts[1:8:2] == TEXTS[1:8:2]
    with pytest.raises(IndexError):
        texts[len(TEXTS)]


@pytest.mark.parametrize("most", [1, 500, 4 << 20])
def test_blocks_hold_few_bytes_and_change_nothing(texts, monkeypatch, most):
    read = []
    monkeypatch.setattr(stored_texts, "_BLOCK_BYTES", most)
    monkeypatch.setattr(stored_texts.os, "pread", lambda fd, size, at: read.append(size) or os_pread(fd, size, at))
    assert list(texts) == TEXTS
    assert max(read) <= max(most, 3000)
    rows = np.arange(0, len(TEXTS), 50)
    assert list(texts.pick(rows)) == [TEXTS[row] for row in rows]


@pytest.mark.parametrize("step", [1, 2, 700])
def test_some_texts_are_read_from_the_same_file(texts, step):
    rows = np.arange(3, len(TEXTS), step)
    some = texts.pick(rows)
    assert list(some) == [TEXTS[row] for row in rows]
    assert some.fingerprint != texts.fingerprint
    assert list(some.pick(np.array([1, 2]))) == [TEXTS[rows[1]], TEXTS[rows[2]]]
    assert texts.pick(np.array([2, 0])) == [TEXTS[2], TEXTS[0]]


def test_a_dataset_is_that_of_memory(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {row}", "labels": [f"l{row % 7}"]}) + "\n" for row in range(50)))
    here, there = read_dataset(path), read_dataset(path, writer=TextWriter(tmp_path))
    assert there.fingerprint() == here.fingerprint()
    parts = zip(here.split(0.3), there.split(0.3), strict=True)
    assert all(isinstance(other, Dataset) and list(other.texts) == one.texts for one, other in parts)


def test_groups_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "labels": ["b"], "group": "c"}) + "\n")
    with pytest.raises(DataError, match="groups need all texts in memory"):
        read_dataset(path, writer=TextWriter(tmp_path))


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file: it could not be written"):
        TextWriter(tmp_path / "file")
