"""The corruption matrix: every damaged folder is refused with the named error, by the plain `load`."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tagwood.storage import load, save

FILES = ["manifest.json", "arrays.safetensors", "golden.safetensors"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_at_any_place_is_refused(saved, copy_of, name, refused):
    size = (saved / name).stat().st_size
    for end in np.linspace(0, size - 1, 10).astype(int):
        folder = copy_of(saved)
        os.truncate(folder / name, end)
        assert name in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_at_any_place_is_refused(saved, copy_of, name, refused):
    raw = (saved / name).read_bytes()
    rng = np.random.default_rng(3)
    for place in np.linspace(0, len(raw) - 1, 50).astype(int):
        folder = copy_of(saved)
        changed = bytearray(raw)
        changed[place] ^= int(rng.integers(1, 256))
        (folder / name).write_bytes(changed)
        assert name in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_flip_in_the_saved_folder_itself_is_refused_in_spite_of_its_stamp(saved, name, refused):
    load(saved)
    for place in (0, 9, 100, (saved / name).stat().st_size - 1):
        path = saved / name
        times = path.stat()
        raw = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([raw[place] ^ 1]))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # ctime still tells
        refused(saved)
        path.write_bytes(raw)
        load(saved)


@pytest.mark.parametrize("old, new", [(b"  ", b" \t"), (b",\n", b", "), ("ü".encode(), b"\\u00fc"), (b"7", b"07")])
def test_rewriting_the_manifest_with_the_same_meaning_is_refused(saved, old, new, refused):
    raw = (saved / "manifest.json").read_bytes()
    place = raw.rindex(old)
    (saved / "manifest.json").write_bytes(raw[:place] + new + raw[place + len(old) :])
    refused(saved, "edited|damaged")


@pytest.mark.parametrize("name", FILES)
def test_bytes_added_at_the_end_are_refused(saved, name, refused):
    with (saved / name).open("ab") as file:
        file.write(b"\n")
    assert name in refused(saved)


def test_swapped_files_are_refused(saved, copy_of, toys, rows, tmp_path, refused):
    other = save(toys.make(seed=1), tmp_path / "other", golden=rows)
    for name in FILES:
        folder = copy_of(saved)
        (folder / name).write_bytes((other / name).read_bytes())
        refused(folder)
    folder = copy_of(saved)
    for one, two in [(1, 2), (0, 1)]:
        folder = copy_of(saved)
        (folder / FILES[one]).rename(folder / "x")
        (folder / FILES[two]).rename(folder / FILES[one])
        (folder / "x").rename(folder / FILES[two])
        refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_deleted_file_is_refused_by_name(saved, name, refused):
    (saved / name).unlink()
    assert f"{name}: the file is missing" in refused(saved)


@pytest.mark.parametrize("name", FILES)
def test_an_emptied_file_or_a_folder_in_its_place_is_refused(saved, copy_of, name, refused):
    folder = copy_of(saved)
    (folder / name).write_bytes(b"")
    refused(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, "regular file")


@pytest.mark.parametrize("name", FILES)
def test_a_link_is_refused_even_to_the_right_bytes(saved, tmp_path, name, refused):
    outside = (saved / name).rename(tmp_path / "outside")
    (saved / name).symlink_to(outside)
    refused(saved, "not a link")


def test_an_array_file_of_another_model_beside_is_refused_and_other_files_are_not(saved, refused):
    (saved / "README.md").write_text("mine")
    load(saved)
    (saved / "part.safetensors").write_bytes((saved / "arrays.safetensors").read_bytes())
    assert "part.safetensors: the file is not part of this model" in refused(saved)


def another(value):
    if isinstance(value, bool) or value is None:
        return "x"
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return [*value, 1] if isinstance(value, list) else {**value, "x": 1}


def test_an_edit_of_any_field_is_refused(saved, copy_of, toys, refused):
    fields = toys.fields(saved)
    assert len(fields) > 40
    for field in fields:
        folder = copy_of(saved)
        toys.edit_manifest(folder, lambda value, field=field: toys.set_field(value, field, another), new_checksum=False)
        refused(folder, "edited|format|not the manifest")
        folder = copy_of(saved)
        toys.edit_manifest(folder, lambda value, field=field: toys.drop_field(value, field), new_checksum=False)
        refused(folder)


def test_the_message_for_an_edit_says_so_and_what_to_do(saved, toys, refused):
    toys.edit_manifest(saved, lambda value: value.update(notes="better"), new_checksum=False)
    message = refused(saved, "edited or damaged after it was saved")
    assert "save the model again" in message


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"name": "a browser extension"}',
        b'\xef\xbb\xbf{"format": "tagwood model"}',
        b'{"format": "tagwood model", "format": "tagwood model"}',
        b'{"format": "tagwood model", "format_version": NaN}',
        b'{"format": "tagwood model", "format_version": 1e999}',
        b'{"format": "tagwood model", "format_version": 0}',
        b'{"format": "tagwood model", "format_version": 1}',
        b'{"format": "tagwood model", "format_version": true}',
        b'{"format": "tagwood model", "format_version": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_manifest_that_is_no_manifest_is_refused(saved, raw, refused):
    (saved / "manifest.json").write_bytes(raw)
    refused(saved, "manifest.json")


def test_a_huge_manifest_is_refused_without_reading_it(saved, refused):
    os.truncate(saved / "manifest.json", 1 << 40)  # sparse: takes no space
    refused(saved, "67,108,864 are allowed")
