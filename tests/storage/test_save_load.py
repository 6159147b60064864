"""Saving and loading: what comes back, what the manifest tells, and what `save` refuses to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tagwood.errors import InputError, StorageError
from tagwood.storage import State, load, read_manifest, save, storable


def test_a_model_comes_back_of_its_class_with_read_only_arrays(saved, model, rows):
    loaded = load(saved)
    assert type(loaded) is type(model)
    assert loaded.bias == model.bias
    np.testing.assert_array_equal(loaded.weights, model.weights)
    assert not loaded.weights.flags.writeable
    assert loaded.rank(rows) == model.rank(rows)


def test_arrays_are_maps_of_the_file_and_outlive_it(saved, model):
    weights = load(saved).weights
    assert not weights.flags.owndata
    for path in saved.iterdir():
        path.unlink()
    np.testing.assert_array_equal(weights, model.weights)


def test_nested_models_come_back_through_a_container_that_does_not_know_them(tmp_path, toys, model):
    tagger = toys.Tagger(model, ["fir", "öl"])
    loaded = load(save(tagger, tmp_path / "tagger", golden=["a text", "another"]), verify=True)
    assert loaded.names == ["fir", "öl"]
    assert type(loaded.model) is toys.Linear
    np.testing.assert_array_equal(loaded.model.weights, model.weights)


def test_deep_trees_and_equal_names_in_different_parts_stay_apart(tmp_path):
    @storable("ToyRaw")
    class Raw:
        def __init__(self, state):
            self.kept = state

        def state(self):
            return self.kept

        @classmethod
        def from_state(cls, state):
            return cls(state)

    def node(depth):
        parts = {"a": node(depth - 1), "b": node(depth - 1)} if depth else {}
        return State("ToyRaw", {"depth": depth}, {"x": np.arange(depth + 1)}, parts)

    state = node(3)
    loaded = load(save(Raw(state), tmp_path / "tree")).kept
    assert loaded.parts["b"].parts["a"].parts["b"].params == {"depth": 0}
    np.testing.assert_array_equal(loaded.parts["b"].arrays["x"], np.arange(3))
    empty = load(save(Raw(State("ToyRaw")), tmp_path / "empty")).kept
    assert (empty.params, empty.arrays, empty.parts) == ({}, {}, {})


def test_the_manifest_tells_where_a_model_comes_from(saved):
    manifest = read_manifest(saved)
    assert (manifest.notes, manifest.seed, manifest.fingerprint) == ("für später", 7, None)
    assert manifest.versions.keys() == {"tagwood", "python", "numpy", "scipy"}
    assert manifest.versions["numpy"] == np.__version__
    assert manifest.created.endswith("+00:00")
    assert manifest.model.kind == "ToyLinear"
    assert manifest.model.params == {"bias": 0.25}
    weights = manifest.model.arrays["weights"]
    assert (weights.file, weights.dtype, weights.shape) == ("arrays.safetensors", "float32", (6, 9))
    assert manifest.files.keys() == {"arrays.safetensors", "golden.safetensors"}
    assert manifest.files["arrays.safetensors"].bytes == (saved / "arrays.safetensors").stat().st_size


def test_the_hashes_are_those_that_sha256sum_prints(saved):
    lines = [f"{file.digest.sha256}  {name}\n" for name, file in read_manifest(saved).files.items()]
    command = ["sha256sum", "--check", "--strict"]
    subprocess.run(command, input="".join(lines), cwd=saved, text=True, check=True, capture_output=True)


def test_seed_and_training_time_are_taken_from_the_model(tmp_path, model):
    model.seed, model.training_seconds_ = 11, 2.5
    manifest = read_manifest(save(model, tmp_path / "m", fingerprint="sha256:abc"))
    assert (manifest.seed, manifest.training_seconds, manifest.fingerprint) == (11, 2.5, "sha256:abc")


def test_a_model_is_loaded_in_a_new_process_without_importing_its_module(tmp_path):
    from tagwood.features.tfidf import TfidfEncoder

    encoder = TfidfEncoder().fit(["a fir in the wood", "an oak in the wood"])
    save(encoder, tmp_path / "encoder")
    code = f"import tagwood.storage as s; print(type(s.load({str(tmp_path / 'encoder')!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "TfidfEncoder\n"


def test_no_file_is_a_pickle(saved):
    for path in saved.iterdir():
        assert not path.read_bytes().startswith(b"\x80")
        assert path.suffix in (".json", ".safetensors")


def test_a_folder_in_use_is_replaced_only_on_request(saved, toys):
    other = toys.make(seed=5)
    with pytest.raises(StorageError, match="pass overwrite=True to replace it"):
        save(other, saved)
    before = load(saved)
    save(other, saved, overwrite=True)
    np.testing.assert_array_equal(load(saved).weights, other.weights)
    assert not (saved / "golden.safetensors").exists()
    assert before.weights[0, 0] == toys.make().weights[0, 0]  # the old model stays usable while it is mapped
    save(before, saved, overwrite=True)  # and may be saved over itself
    np.testing.assert_array_equal(load(saved).weights, toys.make().weights)


def test_new_and_empty_folders_are_taken(tmp_path, model):
    (tmp_path / "empty").mkdir()
    load(save(model, tmp_path / "empty"))
    load(save(model, tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "empty").stat().st_mode == (tmp_path / "a").stat().st_mode


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_not_a_model_is_never_replaced(tmp_path, saved, model, overwrite):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "manifest.json").write_text('{"name": "an extension"}')
    with pytest.raises(StorageError, match="it is not a tagwood model"):
        save(model, photos, overwrite=overwrite)
    (saved / "README.md").write_text("mine")
    with pytest.raises(StorageError, match=r"it also contains 'README.md'"):
        save(model, saved, overwrite=overwrite)
    (saved / "README.md").unlink()
    (saved / "part.safetensors").mkdir()
    with pytest.raises(StorageError, match=r"it also contains 'part.safetensors'"):
        save(model, saved, overwrite=overwrite)
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(StorageError, match="a file has this name"):
        save(model, file, overwrite=overwrite)
    assert file.read_text() == "text"


def test_a_damaged_model_may_be_replaced(saved, model):
    raw = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(raw[: len(raw) // 2])
    save(model, saved, overwrite=True)
    load(saved)


def test_a_link_to_a_model_folder_is_followed(tmp_path, saved, toys):
    link = tmp_path / "current"
    link.symlink_to(saved)
    load(link)
    save(toys.make(seed=2), link, overwrite=True)
    assert link.is_symlink()
    np.testing.assert_array_equal(load(saved).weights, toys.make(seed=2).weights)


def test_a_relative_path_works(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save(model, "here") == Path("here")
    load("here")


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"notes": 3}, "notes must be a str; got 3"),
        ({"notes": "\ud800"}, "notes must be"),
        ({"fingerprint": b"x"}, "fingerprint must be a str"),
        ({"threads": 0}, "threads must be"),
        ({"golden": 3}, "golden must be a matrix or a list of texts; got a int"),
        ({"golden": [1, 2]}, "golden must be a matrix or a list of texts"),
        ({"golden": []}, "golden must be 1 to 1,000 rows; got 0"),
        ({"golden": sparse.csr_array((1001, 6))}, "golden must be 1 to 1,000 rows; got 1,001"),
    ],
)
def test_a_wrong_argument_is_refused_and_nothing_is_written(tmp_path, model, options, reason):
    with pytest.raises(InputError, match=reason):
        save(model, tmp_path / "m", **options)
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def test_only_registered_classes_are_saved(tmp_path, toys):
    with pytest.raises(InputError, match="save takes a model of a class registered with storable; got a dict"):
        save({}, tmp_path / "m")

    class Child(toys.Linear):
        pass

    with pytest.raises(InputError, match=r"state\(\) of Child must return a State of its class's registered kind"):
        save(Child(np.zeros((1, 1), dtype=np.float32)), tmp_path / "m")


def test_a_missing_folder_or_a_file_is_refused_by_name(tmp_path, saved):
    with pytest.raises(StorageError, match="nowhere: there is no such model folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="no such model folder"):
        load(tmp_path / "no" / "where")
    with pytest.raises(StorageError, match="Give its folder"):
        load(saved / "manifest.json")
    with pytest.raises(StorageError, match=r"manifest.json: the file is missing"):
        load(tmp_path)
