"""Work and memory of detection and readers grow with the file, whatever its content."""

import contextlib
import importlib
import json
import pkgutil
import re
import tracemalloc
import warnings
from re import _constants, _parser
from time import process_time

import numpy as np
import pytest
from scipy import sparse

import tagwood.data
from tagwood.data import FORMATS, BadLines, LabelVocab, detect_format, read_dataset, read_records, write_dataset
from tagwood.errors import DataError, InputError

LINES = {
    "pairs in pairs": "1:" * 30_000,
    "spaces": " " * 60_000 + "x",
    "tabs": "\t" * 60_000 + "x",
    "digits": "1" * 60_000 + "x",
    "commas": "1," * 30_000 + "x",
    "uris": "a\t" + "a:b" * 20_000 + "<",
    "uri list": "a\t" + "a:b " * 15_000 + "<",
    "brackets": "a\t" + "<" * 60_000,
    "quotes": '"' * 60_000,
    "labels": "__label__a " * 5_400,
    "counts": "1 1 1\n" + "1:1:1:1" * 8_000 + " x",
    "two counts": "1 1\n" + "1:1" * 20_000 + " x",
    "json": "[" * 60_000,
    "objects": '{"a":' * 12_000,
    "semicolons": "text;labels\n" + ";" * 60_000,
}


@pytest.mark.parametrize("name", LINES)
def test_detection_of_a_hostile_line_takes_a_moment(name, tmp_path):
    for content in (LINES[name], f"0\t{LINES[name]}\n" * 2):
        path = tmp_path / "a"
        path.write_text(content)
        start = process_time()
        with contextlib.suppress(DataError):
            detect_format(path)
        assert process_time() - start < 2.0  # milliseconds; with patterns that backtrack, minutes


def test_no_pattern_repeats_a_repetition():
    """Nested repetitions are what makes matching exponential."""
    found = []
    for module in pkgutil.walk_packages(tagwood.data.__path__, "tagwood.data."):
        loaded = importlib.import_module(module.name)
        found += [value for value in vars(loaded).values() if isinstance(value, re.Pattern)]
    assert found
    for pattern in found:
        assert not _has_nested_repeat(_parser.parse(pattern.pattern), inside=False), pattern.pattern
    assert _has_nested_repeat(_parser.parse(r"\s*(\d+:\S+\s*)*"), inside=False)


def _has_nested_repeat(parts, inside):
    for operator, argument in parts:
        repeats = operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
        many = repeats and argument[1] > 1000
        if many and inside:
            return True
        children = argument if isinstance(argument, tuple) else (argument,)
        for child in children:
            branches = child if isinstance(child, list) else [child]
            for branch in branches:
                if isinstance(branch, _parser.SubPattern) and _has_nested_repeat(branch, inside or many):
                    return True
    return False


def cpu_seconds(function):
    start = process_time()
    with contextlib.suppress(InputError):
        function()
    return process_time() - start


@pytest.mark.parametrize(
    "content", ["__label__a ", "a;b;", "1,", "1:1 ", '"', "[", "\n", "x\n", "1 1 1\n", "ä", "<a> "]
)
@pytest.mark.parametrize("name", [name for name, chosen in FORMATS.items() if not chosen.folder])
def test_readers_take_time_in_proportion_to_the_file(name, content, tmp_path):
    head = {"csv": "text,labels\n", "tsv": "text\tlabels\n", "repository": "999999999 9 9\n"}.get(name, "")

    def seconds(size):
        (tmp_path / "a").write_text(head + content * (size // len(content)))
        return min(cpu_seconds(lambda: read_dataset(tmp_path / "a", name, skip_bad=BadLines())) for _ in range(2))

    small, large = seconds(20_000), seconds(80_000)
    assert large < max(2.5, 12 * small)  # quadratic: 16 times; work that matters takes many seconds


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("repository", "1 2000000000 2\n0 1:1\n", "declares 2,000,000,000 features, but has only 1 entries"),
        ("repository", "1 2 2000000000\n0 1:1\n", "declares 2,000,000,000 labels, but has only 1 entries"),
        ("repository", "900000000000 2 2\n0 1:1\n", "declares 900,000,000,000 rows, but the file ends after 1"),
    ],
)
def test_headers_do_not_decide_how_much_memory_is_used(name, content, reason, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(content)
    assert reason in refused_in_little_memory(path, name)


def refused_in_little_memory(path, name):
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read_dataset(path, name)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    return str(caught.value)


def test_shapes_of_matrices_do_not_either(tmp_path):
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_array(([1.0], ([0], [1_999_999_999])), shape=(1, 2_000_000_000)))
    assert "2,000,000,000 columns for 1 entries" in refused_in_little_memory(tmp_path, "csr")


def test_sparse_ids_are_compacted_and_come_back_as_given(tmp_path):
    ids = np.sort(np.random.default_rng(0).choice(10**9, 500, replace=False)).tolist()
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"text {i}", "labels": [one, ids[0]]}) + "\n" for i, one in enumerate(ids))
    )
    tracemalloc.start()
    data = read_dataset(path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert data.n_labels == 500
    assert [data.vocab.name(label) for label in data.label_lists()[7]] == [str(ids[0]), str(ids[7])]
    test = tmp_path / "test.jsonl"
    test.write_text(json.dumps({"text": "a", "labels": [ids[3], 17]}) + "\n")
    again = read_dataset(test, vocab=data.vocab, on_unknown="skip")
    assert again.label_lists() == [[3]]
    assert read_dataset(test, vocab=data.vocab, on_unknown="add").n_labels == 501
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_dataset(data, tmp_path / "again.jsonl")
    assert read_dataset(tmp_path / "again.jsonl").vocab == data.vocab


def test_ids_beyond_64_bits_are_refused_and_dense_ones_stay_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "labels": [2**70]}) + "\n")
    with pytest.raises(DataError, match=r"label id 1180591620717411303424 is not from 0 to"):
        read_dataset(path)
    path.write_text(json.dumps({"text": "a", "labels": [90_000]}) + "\n")
    assert read_dataset(path).vocab == LabelVocab.numbered(90_001)
    path.write_text("2000000000\tsome text\n")
    assert read_dataset(path, "pecos").n_labels == 1
    assert [one.labels for one in read_records(path, "pecos")] == [[2_000_000_000]]
