"""Rankings on disk: round trips, the forms that are understood, and what is said about the rest."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from tagwood import Ranking
from tagwood.data import LabelVocab
from tagwood.data.predictions import read_ranking, write_ranking
from tagwood.errors import DataError, InputError

VOCAB = LabelVocab.from_names(["ash", "oak", "elm tree", "Bäume"], uris=["", "http://x/oak", "", ""])
RANKING = Ranking.from_lists([[(2, 0.75), (0, 0.5)], [], [(3, 0.1), (1, 0.1), (0, -2.5)]], n_labels=4)


def lines(tmp_path, *rows, name="r.jsonl"):
    path = tmp_path / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.npz", "r.txt"])
@pytest.mark.parametrize("vocab", [VOCAB, LabelVocab.numbered(4), None])
def test_round_trip_keeps_order_and_scores(tmp_path, name, vocab):
    write_ranking(RANKING, tmp_path / name, vocab)
    found = read_ranking(tmp_path / name, vocab if vocab is not None else LabelVocab.numbered(4))
    assert found.ranking == RANKING
    assert len(found.vocab) == 4


def test_names_are_written_and_gzip_is_real(tmp_path):
    write_ranking(RANKING, tmp_path / "r.gz", VOCAB)
    first = gzip.decompress((tmp_path / "r.gz").read_bytes()).splitlines()[0]
    assert json.loads(first) == {"labels": ["elm tree", "ash"], "scores": [0.75, 0.5]}


def test_npz_is_read_by_scipy_and_scipys_by_us(tmp_path):
    write_ranking(RANKING, tmp_path / "r.npz")
    np.testing.assert_array_equal(sparse.load_npz(tmp_path / "r.npz").toarray(), RANKING.to_csr().toarray())
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array([[0.0, 0.25, 0.5], [1.0, 1.0, 0.0]]))
    found = read_ranking(tmp_path / "s.npz")
    assert list(found.ranking) == [[(2, 0.5), (1, 0.25)], [(0, 1.0), (1, 1.0)]]
    assert found.vocab == LabelVocab.numbered(3)


@pytest.mark.parametrize(
    "row",
    [
        {"labels": ["oak", "ash"], "scores": [0.9, 0.5]},
        {"labels": ["ash", "oak"], "scores": [0.5, 0.9]},
        {"labels": ["http://x/oak", "ash"], "scores": [0.9, 0.5]},
        {"labels": [1, 0], "scores": [0.9, 0.5]},
        {"labels": [{"label": "oak", "score": 0.9}, {"label": "ash", "score": 0.5}], "text": "x"},
        [{"label": "ash", "score": 0.5}, {"label": "Quercus", "uri": "http://x/oak", "score": 0.9}],
        [{"label": 1, "score": 0.9}, {"label": 0, "score": 0.5}],
    ],
)
def test_all_forms_of_a_row_say_the_same(tmp_path, row):
    assert list(read_ranking(lines(tmp_path, row), VOCAB).ranking) == [[(1, 0.9), (0, 0.5)]]


def test_without_scores_the_order_counts(tmp_path):
    path = lines(tmp_path, {"labels": ["oak", "ash"]}, ["ash", "oak"])
    assert list(read_ranking(path, VOCAB).ranking) == [[(1, 1.0), (0, 0.5)], [(0, 1.0), (1, 0.5)]]


def test_without_vocabulary_the_file_names_the_labels(tmp_path):
    found = read_ranking(lines(tmp_path, ["yew", "fir"], ["fir"]))
    assert found.vocab.keys() == ["yew", "fir"]
    assert found.ranking[1] == [(1, 1.0)]
    found = read_ranking(lines(tmp_path, [7, 3]))
    assert found.ranking.n_labels == len(found.vocab) == 8


def test_unknown_labels_are_refused_skipped_or_added(tmp_path):
    path = lines(tmp_path, {"labels": ["oak", "yew", "ash"], "scores": [0.9, 0.8, 0.7]})
    with pytest.raises(DataError, match=r"r.jsonl, line 1: label 'yew' is not in the vocabulary. Allow"):
        read_ranking(path, VOCAB)
    assert read_ranking(path, VOCAB, on_unknown="skip").ranking[0] == [(1, 0.9), (0, 0.7)]
    found = read_ranking(path, VOCAB, on_unknown="add")
    assert found.ranking[0] == [(1, 0.9), (4, 0.8), (0, 0.7)]
    assert found.vocab.name(4) == "yew"
    with pytest.raises(InputError, match="on_unknown must be one of"):
        read_ranking(path, VOCAB, on_unknown="ad")


def test_unknown_numbers_come_after_the_known_ones_however_large(tmp_path):
    found = read_ranking(lines(tmp_path, [1, 2_000_000_000], [2]), LabelVocab.numbered(3), on_unknown="add")
    assert len(found.vocab) == found.ranking.n_labels == 4
    assert found.ranking.labels.tolist() == [1, 3, 2]
    assert found.vocab.name(3) == "2000000000"
    assert len(read_ranking(lines(tmp_path, ["1"]), LabelVocab.numbered(3), on_unknown="add").vocab) == 3
    path = lines(tmp_path, ["oak"])
    with pytest.raises(DataError, match="line 1: label 'oak' is a name, but the label table has no names"):
        read_ranking(path, LabelVocab.numbered(3), on_unknown="add")


def test_wider_matrices_are_refused_cut_or_added(tmp_path):
    write_ranking(RANKING, tmp_path / "r.npz")
    small = LabelVocab.from_names(["ash", "oak"])
    with pytest.raises(DataError, match="has 4 labels, the vocabulary 2"):
        read_ranking(tmp_path / "r.npz", small)
    assert read_ranking(tmp_path / "r.npz", small, on_unknown="skip").ranking[0] == [(0, 0.5)]
    for vocab in (small, LabelVocab.numbered(2)):
        found = read_ranking(tmp_path / "r.npz", vocab, on_unknown="add")
        assert (found.ranking, len(found.vocab)) == (RANKING, 4)
    assert read_ranking(tmp_path / "r.npz", LabelVocab.numbered(9)).ranking.n_labels == 9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "line 2: is not JSON"),
        ("{", "line 2: is not JSON"),
        ("5", "neither an object with 'labels' nor a list"),
        ("{}", 'A row without labels is {"labels": []}'),
        ('{"labels": "ash"}', "neither an object with 'labels' nor a list"),
        ('{"labels": ["ash"], "scores": []}', "has 1 labels, but not as many scores"),
        ('{"labels": ["ash"], "scores": 1}', "not as many scores"),
        ('{"labels": ["ash"], "scores": ["a"]}', "'a' is not a score. Scores are finite numbers."),
        ('{"labels": ["ash"], "scores": [NaN]}', "nan is not a score"),
        ('{"labels": ["ash"], "scores": [1e39]}', "1e+39 is not a score"),
        ('{"labels": ["ash"], "scores": [true]}', "True is not a score"),
        ('[{"label": "ash", "score": 1}, "oak"]', "None is not a score"),
        ("[true]", "True is not a label"),
        ('[""]', "'' is not a label"),
        ("[[1]]", "[1] is not a label"),
        ("[4]", "label id 4 is not from 0 to 3"),
        ("[-1]", "label id -1"),
        ('["ash", "ash"]', "contains a label twice"),
        ('["oak", "http://x/oak"]', "contains a label twice"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_broken_lines_are_named(tmp_path, line, message):
    with pytest.raises(DataError) as error:
        read_ranking(lines(tmp_path, {"labels": []}, line), VOCAB)
    assert message in str(error.value)
    assert error.value.line == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.one_of(st.binary(max_size=80), st.text(alphabet='{}[]":,labelscor01.-e \n', max_size=60).map(str.encode)))
def test_any_bytes_give_a_ranking_or_a_named_error(tmp_path, content):
    for name in ("any.jsonl", "any.npz"):
        (tmp_path / name).write_bytes(content)
        try:
            found = read_ranking(tmp_path / name, VOCAB)
        except DataError as error:
            found = error
        assert isinstance(found, tuple) or name in str(found)


@pytest.mark.parametrize("name", ["no.jsonl", "no.npz"])
def test_missing_files_are_named(tmp_path, name):
    with pytest.raises(DataError, match="there is no such file"):
        read_ranking(tmp_path / name)


def test_matrices_without_order_or_with_repeated_labels_are_refused(tmp_path):
    for score in (np.nan, np.inf, 1e39):
        sparse.save_npz(tmp_path / "odd.npz", sparse.csr_array([[score, 1.0]]))
        with pytest.raises(DataError, match=r"odd.npz: scores must be finite"):
            read_ranking(tmp_path / "odd.npz")
    twice = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    sparse.save_npz(tmp_path / "twice.npz", twice)
    with pytest.raises(DataError, match="at most once"):
        read_ranking(tmp_path / "twice.npz")


def test_vocabulary_must_fit_the_ranking(tmp_path):
    with pytest.raises(InputError, match="the 4 labels of the ranking; got 3"):
        write_ranking(RANKING, tmp_path / "r.jsonl", LabelVocab.numbered(3))
