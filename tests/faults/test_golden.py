"""Formats that last: folders stored in format 1 load, and give the answers that were stored with them.

The folders in tests/golden are never made again; a new kind of model, or a new format, adds folders with
``python -m tests.faults.zoo tests/golden/format-1``, which leaves those that exist as they are.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from model_factories import CASES

import tagwood
from tagwood.errors import StorageError
from tests.faults import forging

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
NEURAL = ("miml", "setgenerator", "prototype")
FOLDERS = [
    pytest.param(path, id=path.name, marks=[pytest.mark.neural] if path.name.startswith(NEURAL) else [])
    for path in sorted(GOLDEN.iterdir())
]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_format_1_gives_the_stored_answers(folder):
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["format_version"] == 1
    assert manifest["golden"] is not None
    tagwood.load(folder, verify=True)  # compares labels and scores of the golden rows


def test_every_kind_of_model_has_a_golden_folder():
    missing = [name for name in CASES if not (GOLDEN / name.lower().replace(", ", "-").replace(" ", "-")).is_dir()]
    assert missing == []
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*")) < 1_000_000


def test_a_folder_whose_rows_were_filled_up_with_labels_of_score_0_gives_the_stored_answers(tmp_path):
    """Linear trees once returned labels without training rows; folders of that time are still verified."""
    shutil.copytree(GOLDEN / "tagger-names", tmp_path / "model")
    path = tmp_path / "model" / "golden.safetensors"
    raw = path.read_bytes()
    arrays = {name: forging.map_tensor(raw, tensor).copy() for name, tensor in forging.read_header(raw).items()}
    rows = arrays["expected_indptr"].size - 1
    arrays["expected_indptr"] = 5 * np.arange(rows + 1)
    for name, last in (("labels", 4), ("scores", 0)):
        full = np.insert(arrays[f"expected_{name}"].reshape(rows, 4), 4, last, axis=1)
        arrays[f"expected_{name}"] = full.ravel()
    path.unlink()
    forging.write_tensors(path, arrays)
    value = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    for name, record in value["golden"]["arrays"].items():
        record["shape"] = list(arrays[name].shape)
    forging.reseal(tmp_path / "model", value)
    assert tagwood.load(tmp_path / "model", verify=True).vocab_.name(4) == "never used"


def test_other_answers_and_later_formats_are_refused_with_the_right_sentence(tmp_path):
    shutil.copytree(GOLDEN / "lineartree", tmp_path / "model")
    value = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    arrays = forging._read(tmp_path / "model")
    name = next(name for name in arrays if name.endswith("bias"))
    arrays[name] += 0.5
    forging._write(tmp_path / "model", value, arrays)
    forging.reseal(tmp_path / "model", value)
    with pytest.raises(StorageError, match="gives other results than when it was saved"):
        tagwood.load(tmp_path / "model", verify=True)
    forging.reseal(tmp_path / "model", {**value, "format_version": 2})
    with pytest.raises(StorageError, match=r"saved by tagwood .* in format 2; this tagwood reads formats up to 1"):
        tagwood.load(tmp_path / "model")
