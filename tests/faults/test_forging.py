"""Forged folders with valid checksums: refused, or answered with known labels and finite scores; never a crash."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tagwood
from tagwood.errors import StorageError
from tests.faults import forging, zoo


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("zoo")
    zoo.make_zoo(place, neural=False)
    return place


def test_forged_folders_of_every_kind_give_an_error_or_a_sane_answer(folders):
    counts, failures = forging.run(folders, 240, first=1_000_000)
    assert failures == []
    assert sum(counts.values()) == 240
    assert counts["StorageError"] > 40
    assert counts["answered"] > 40


@pytest.fixture
def forged(folders, tmp_path, monkeypatch):
    """Return a function that changes arrays of a folder of the zoo, seals it and loads it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def load(name, **changes):
        forging.shutil.copytree(folders / name, tmp_path / name, dirs_exist_ok=True)
        value = json.loads((folders / name / "manifest.json").read_bytes())
        arrays = forging._read(folders / name)
        for key, change in changes.items():
            path = next(path for path in arrays if path.endswith(key))
            arrays[path] = change(arrays[path].copy())
        forging._write(tmp_path / name, value, arrays)
        forging.reseal(tmp_path / name, value)
        return tagwood.load(tmp_path / name)

    return load


def put(place, new):
    def change(array):
        array.reshape(-1)[place] = new
        return array

    return change


HUGE = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "array", "place", "new"),
    [
        ("lineartree", "block_ptr", 0, HUGE),
        ("lineartree", "block_ptr", -1, HUGE),
        *(("lineartree", ptr, 1, HUGE) for ptr in ("entry_ptr", "slot_ptr", "bucket_ptr", "remainder_ptr")),
        ("lineartree", "entry_ptr", slice(1, 3), [HUGE, -2]),
        ("lineartree", "labels", 0, 10**6),
        ("lineartree", "labels", 0, -1),
        ("lineartree", "label_ptr", 1, 2**31 - 1),
        ("lineartree", "scales", 0, np.nan),
        ("lineartree", "bias", 0, np.inf),
        ("lineartree-binary-float32", "weights", 0, np.nan),
        ("softmaxtree", "inputs", 0, np.nan),
        ("softmaxtree", "outputs", 0, -np.inf),
        ("neighbours", "label_ptr", 1, HUGE),
        ("neighbours", "feature_ptr", 1, HUGE),
        ("neighbours", "scale", 0, 1e30),
        ("neighbours", "labels", 0, 10**6),
        ("namematcher", "name_ptr", 1, HUGE),
        ("namematcher", "offsets", 1, HUGE),
        ("tagger", "examples/indptr", 1, -5),
        ("tagger", "examples/labels", 0, 10**6),
        ("tagger", "encoder/offsets", 1, HUGE),
        ("tagger", "encoder/idf", 0, np.nan),
        ("tagger-names", "vocab/names_offsets", 1, HUGE),
        ("tagger-groups", "group_samples/group_ptr", 1, HUGE),
        ("tagger-groups", "group_samples/label_ptr", 1, -1),
        ("tagger-groups", "group_samples/confidence", 0, np.nan),
    ],
)
def test_numbers_that_wrap_around_or_are_not_finite_are_refused_on_load(forged, name, array, place, new):
    with pytest.raises(StorageError, match="the stored values are not a valid"):
        forged(name, **{array: put(place, new)})
