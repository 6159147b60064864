"""Features and counts in files: the same bits as in memory, found again by a later start, refused when altered."""

from __future__ import annotations

import errno
import os
import pickle

import numpy as np
import pytest
from library import make_library

from tagwood import _kernels
from tagwood._sparse import csr_parts
from tagwood.data.stored_texts import TextWriter, WorkFolder
from tagwood.errors import InputError, StorageError
from tagwood.features.base import centroid_parts
from tagwood.features.stored import CountFiles, open_rows, remove_rows, stored_centroids, writing_rows
from tagwood.features.tfidf import TfidfEncoder, encode_to_files
from tagwood.features.words import WordBags
from tagwood.storage.shards import ShardStore

TEXTS = [f"{text}\n{text[:7]}" if row % 3 else text for row, text in enumerate(make_library(400)[0])]


def stored(folder, texts):
    writer = TextWriter(folder)
    for text in texts:
        writer.append(text)
    return writer.finish()


@pytest.mark.parametrize(
    "settings",
    [{}, {"hash_bits": 10}, {"field_weights": (3, 1)}, {"analyzer": "word+char"}, {"min_df": 0.02, "max_features": 50}],
)
def test_an_encoder_gives_the_bits_of_memory(settings, tmp_path):
    texts, work = stored(tmp_path, TEXTS), WorkFolder(tmp_path, 3000)
    there, here = TfidfEncoder(**settings), TfidfEncoder(**settings)
    rows, X = encode_to_files(there, texts, work), csr_parts(here.fit_transform(TEXTS))
    for name, array in X.arrays().items():
        np.testing.assert_array_equal(rows.parts.arrays()[name], array)
    for name, array in here.state().arrays.items():
        np.testing.assert_array_equal(there.state().arrays[name], array)
    assert not (tmp_path / "counts").exists()


def test_a_later_start_finds_features_and_their_encoder(tmp_path, monkeypatch):
    texts, work = stored(tmp_path, TEXTS), WorkFolder(tmp_path, 3000)
    first = TfidfEncoder()
    encode_to_files(first, texts, work)
    monkeypatch.setattr(TfidfEncoder, "fit_to_files", None)
    second = TfidfEncoder(threads=1)
    rows = encode_to_files(second, texts, work)
    assert rows.n_cols == first.n_features
    assert second.feature_names() == first.feature_names()
    with pytest.raises(TypeError):  # other rows of the same file are other texts
        encode_to_files(TfidfEncoder(), texts.pick(np.arange(50)), work)


def test_counts_in_files_are_those_of_memory(tmp_path):
    random = np.random.default_rng(0)
    whole = (np.empty(0, np.uint64), np.empty(0, np.int64))
    with CountFiles(tmp_path / "counts", 70) as files:
        for _ in range(5):
            keys = np.unique(random.integers(0, 1 << 64, 200, dtype=np.uint64) >> np.uint64(random.integers(0, 60)))
            counts = random.integers(1, 4, keys.size)
            files.add(keys, counts)
            whole = _kernels.merge_counts(*whole, keys, counts)
        keys, counts, n_keys = files.merged(2, 5)
    kept = (whole[1] >= 2) & (whole[1] <= 5)
    np.testing.assert_array_equal(keys, whole[0][kept])
    np.testing.assert_array_equal(counts, whole[1][kept])
    assert n_keys == whole[0].size


@pytest.fixture
def matrix(tmp_path):
    X = csr_parts(TfidfEncoder().fit_transform(TEXTS))
    with writing_rows(tmp_path / "features-1") as writer:
        for begin in range(0, X.n_rows, 150):
            part = X.to_scipy()[begin : begin + 150]
            writer.add(csr_parts(part))
        writer.finish(X.n_cols, "one")
    return X, tmp_path / "features-1"


@pytest.mark.parametrize("most", [1, 100, 10**6])
def test_centroids_of_labels_do_not_depend_on_the_memory(matrix, most):
    X, folder = matrix
    rows = open_rows(folder, most, verify=True)
    random = np.random.default_rng(1)
    by_label = [np.flatnonzero(random.random(X.n_rows) < share).astype(np.int32) for share in (0.5, 0, 0.01, 0.2, 0)]
    indptr = np.cumsum([0, *(own.size for own in by_label)]).astype(np.int64)
    labels = X._replace(indptr=indptr, indices=np.concatenate(by_label), data=np.ones(indptr[-1], np.float32))
    whole = centroid_parts(X, labels, 20, 1)
    for one, other in zip(stored_centroids(rows, labels, 20, 2)[:3], whole[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_processes_get_the_place_of_the_files(matrix):
    rows = open_rows(matrix[1], 10)
    sent = pickle.dumps(rows)
    assert len(sent) < 1000
    assert pickle.loads(sent).fingerprint == "one"


def test_altered_features_are_refused(matrix):
    path = matrix[1] / "data.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"data\.bin: the stored features were altered\. Remove the folder"):
        open_rows(matrix[1], 10, verify=True)
    path.write_bytes(content[:-4])
    with pytest.raises(StorageError, match="altered"):
        open_rows(matrix[1], 10)
    (matrix[1] / "rows.json").write_text("{}")
    with pytest.raises(StorageError, match="cannot be read"):
        open_rows(matrix[1], 10)


def test_a_full_disk_is_one_sentence_and_publishes_nothing(tmp_path, monkeypatch):
    texts = stored(tmp_path, TEXTS)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tagwood.features.stored.RowWriter.add", full)
    with pytest.raises(StorageError, match=r"could not be written \(No space left on device\)\. Free some space"):
        encode_to_files(TfidfEncoder(), texts, WorkFolder(tmp_path, 3000))
    assert [path.name for path in tmp_path.iterdir()] == ["texts.bin"]
    assert len(ShardStore(tmp_path)) == 0


def test_only_tfidf_features_are_written(tmp_path):
    with pytest.raises(InputError, match="features are written to files by a TfidfEncoder; got WordBags"):
        encode_to_files(WordBags.learn(["oak oak"]), stored(tmp_path, TEXTS), WorkFolder(tmp_path, 3000))


def test_stored_rows_are_removed_and_nothing_else(matrix, tmp_path):
    (tmp_path / "features-mine").mkdir()
    remove_rows(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["features-mine"]


def test_no_counts_at_all_are_none(tmp_path):
    with CountFiles(tmp_path / "counts", 70) as files:
        files.add(np.empty(0, np.uint64), np.empty(0, np.int64))
        keys, counts, n_keys = files.merged(1, 9)
    assert keys.size == counts.size == n_keys == 0
