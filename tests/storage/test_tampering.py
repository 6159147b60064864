"""Tampering with knowledge: edits with updated checksums, so that the other checks must find them."""

from __future__ import annotations

import pytest

# Texts, times and numbers that nothing else depends on may be changed under a new checksum: it proves that
# nothing happened to the file, not who wrote it.
WRONG = {"a truth value": True, "a list": [[]], "an object": {"x": "y"}, "a negative float": -1.5}
TAKES_IT = {("an object", "params"), ("an object", "versions"), ("a negative float", "training_seconds")}


@pytest.mark.parametrize("what", WRONG)
def test_a_field_of_the_wrong_type_is_refused_under_a_new_checksum(saved, copy_of, toys, what, refused):
    fields = toys.fields(saved)
    tried = 0
    for field in fields:
        if field == ("checksum",) or "params" in field[:-1] or (what, field[-1]) in TAKES_IT:
            continue
        folder = copy_of(saved)
        toys.edit_manifest(
            folder,
            lambda value, at=field: toys.set_field(value, at, lambda _: WRONG[what]),
            new_checksum=True,
        )
        refused(folder)
        tried += 1
    assert tried > 40


def test_another_text_where_it_matters_is_refused_under_a_new_checksum(saved, copy_of, toys, refused):
    for field in toys.fields(saved):
        if field[0] not in ("format", "model", "golden", "files") or "params" in field[:-1]:
            continue
        folder = copy_of(saved)
        toys.edit_manifest(
            folder, lambda value, at=field: toys.set_field(value, at, lambda _: "odd"), new_checksum=True
        )
        refused(folder)


def test_a_missing_or_unknown_field_is_refused_under_a_new_checksum(saved, copy_of, toys, refused):
    fields = toys.fields(saved)
    for field in fields:
        if field[0] in ("format", "checksum") or "versions" in field[:-1] or field[0] == "golden":
            continue
        folder = copy_of(saved)
        toys.edit_manifest(folder, lambda value, field=field: toys.drop_field(value, field), new_checksum=True)
        refused(folder)
    toys.edit_manifest(saved, lambda value: value.update(extra=1), new_checksum=True)
    refused(saved, "may not have the field 'extra'")


@pytest.mark.parametrize(
    "name",
    ["../arrays.safetensors", "/etc/passwd", "a/b.safetensors", ".hidden.safetensors", "..", "arrays.pickle",
     "", "arrays.safetensors\n", "a\\b.safetensors", "a\x00.safetensors"],
)  # fmt: skip
def test_a_file_name_that_could_leave_the_folder_is_refused(saved, toys, name, refused):
    def change(value):
        value["files"][name] = value["files"].pop("arrays.safetensors")
        value["model"]["arrays"]["weights"]["file"] = name

    toys.edit_manifest(saved, change, new_checksum=True)
    refused(saved, "inside the model folder")


@pytest.mark.parametrize("field, new", [("dtype", "int32"), ("shape", [9, 6]), ("shape", [54]), ("shape", [6, 9, 1])])
def test_a_manifest_whose_dtype_or_shape_differs_from_the_file_is_refused(saved, toys, field, new, refused):
    toys.edit_manifest(saved, lambda value: value["model"]["arrays"]["weights"].update({field: new}), new_checksum=True)
    refused(saved, "but .* in the manifest")


@pytest.mark.parametrize("dtype, shape", [("float64", [6, 9]), ("complex64", [6, 9]), ("float32", [-6, 9])])
def test_an_impossible_dtype_or_shape_is_refused(saved, toys, dtype, shape, refused):
    toys.edit_manifest(
        saved,
        lambda value: value["model"]["arrays"]["weights"].update(dtype=dtype, shape=shape),
        new_checksum=True,
    )
    refused(saved)


@pytest.mark.parametrize(
    "old, new",
    [
        (b'"F32"', b'"I32"'),
        (b'"F32"', b'"F8 "'),
        (b"[6,9]", b"[9,6]"),
        (b"[6,9]", b"[6,8]"),
        (b"[6,9]", b"[6.9]"),
        (b"[0,216]", b"[0,212]"),
        (b"[0,216]", b"[8,216]"),
        (b'"weights"', b'"weightz"'),
        (b'"shape"', b'"shapf"'),
        (b'{"w', b'["w'),
    ],
)
def test_an_edited_array_header_is_refused_under_new_checksums(saved, toys, old, new, refused):
    path = saved / "arrays.safetensors"
    raw = path.read_bytes()
    assert raw.count(old) == 1
    path.write_bytes(raw.replace(old, new))
    toys.rehash(saved, path.name)
    refused(saved, "arrays.safetensors")


@pytest.mark.parametrize("length", [0, 1, 2**20, 2**63, 2**64 - 1])
def test_a_wrong_header_length_is_refused_under_new_checksums(saved, toys, length, refused):
    path = saved / "arrays.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    toys.rehash(saved, path.name)
    refused(saved, "arrays.safetensors: the file is damaged")


def test_values_that_do_not_make_a_model_are_refused(saved, copy_of, toys, refused):
    folder = copy_of(saved)
    toys.edit_manifest(folder, lambda value: value["model"].update(params={}), new_checksum=True)
    refused(folder, "are not a valid ToyLinear .*needs the parameter 'bias'")
    toys.edit_manifest(saved, lambda value: value["model"].update(kind="NoSuchKind"), new_checksum=True)
    refused(saved, "unknown kind of model: 'NoSuchKind'")


@pytest.mark.parametrize("kind", ["os.system", "builtins:eval", "tagwood.storage", "../x", ""])
def test_a_kind_never_names_a_module_to_import(saved, toys, kind, refused):
    toys.edit_manifest(saved, lambda value: value["model"].update(kind=kind), new_checksum=True)
    refused(saved)


def test_a_newer_format_names_its_writer_and_the_remedy(saved, toys, refused):
    def change(value):
        value["format_version"] = 2
        value["versions"]["tagwood"] = "9.1"
        value["something_new"] = {}

    toys.edit_manifest(saved, change, new_checksum=True)
    assert "by tagwood 9.1 in format 2" in refused(saved, "pip install --upgrade tagwood")


def test_params_nested_too_deeply_are_refused_under_a_new_checksum(saved, toys, refused):
    deep: list = []
    for _ in range(50):
        deep = [deep]
    toys.edit_manifest(saved, lambda value: value["model"]["params"].update(deep=deep), new_checksum=True)
    refused(saved, "at most 16 deep")


def test_parts_nested_too_deeply_are_refused_under_a_new_checksum(saved, toys, refused):
    def change(value):
        for _ in range(50):
            value["model"] = {"kind": "ToyLinear", "params": {}, "arrays": {}, "parts": {"x": value["model"]}}

    toys.edit_manifest(saved, change, new_checksum=True)
    refused(saved, "nested too deeply")
