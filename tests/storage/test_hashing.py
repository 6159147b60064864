"""Hashes and stamps: big files are hashed by blocks, once, and again after any change."""

from __future__ import annotations

import hashlib
import os
from types import SimpleNamespace

import numpy as np
import pytest

from tagwood.errors import StorageError
from tagwood.storage import folder as hashing
from tagwood.storage import load, read_manifest, save, save_load


@pytest.fixture
def hashed(monkeypatch):
    """Record the sizes of the files that `load` hashes."""
    sizes = []
    real = hashing.find_damage

    def spy(fd, size, expected, threads):
        sizes.append(size)
        return real(fd, size, expected, threads)

    monkeypatch.setattr(save_load, "find_damage", spy)
    return sizes


def settle(folder):
    for path in folder.glob("*.safetensors"):
        assert hashing.wait_until_settled(path.stat())


def test_what_was_just_saved_is_not_hashed_again(saved, cache, hashed):
    assert len(list(cache.iterdir())) == 2
    load(saved)
    assert hashed == []


def test_a_stamp_survives_renaming_the_folder(saved, tmp_path, hashed):
    load(saved.rename(tmp_path / "renamed"))
    assert hashed == []


def test_a_copy_is_hashed_once(saved, copy_of, hashed):
    folder = copy_of(saved)
    settle(folder)
    load(folder)
    load(folder)
    assert len(hashed) == 2


def test_a_file_changed_a_moment_ago_gets_no_stamp(saved, copy_of, hashed, monkeypatch):
    folder = copy_of(saved)
    monkeypatch.setattr(hashing, "_TICK_NS", 10**12)
    load(folder)
    load(folder)
    assert len(hashed) == 4


def test_touching_or_relinking_a_file_hashes_it_again(saved, hashed):
    path = saved / "arrays.safetensors"
    os.utime(path)
    load(saved)
    assert hashed == [path.stat().st_size]


def test_verify_hashes_in_spite_of_a_stamp(saved, copy_of, hashed):
    load(saved, verify=True)
    assert len(hashed) == 2
    # Rot: bytes that changed without a write, which a stamp made afterwards stands for.
    folder = copy_of(saved)
    path = folder / "arrays.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    hashing.write_stamp(path.stat(), read_manifest(folder).files[path.name].digest.key)
    load(folder)
    with pytest.raises(StorageError, match=r"arrays.safetensors: the file was altered"):
        load(folder, verify=True)


@pytest.mark.parametrize("kind", ["unwritable", "a file", "relative", "no home"])
def test_without_a_usable_cache_every_load_hashes(tmp_path, model, rows, hashed, monkeypatch, kind):
    if kind == "relative":
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    elif kind == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(hashing.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("none")))
    else:
        (tmp_path / "blocked").write_text("")
        place = tmp_path / "blocked" if kind == "a file" else "/proc/nothing-can-be-made-here"
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    folder = save(model, tmp_path / "m", golden=rows)
    load(folder)
    assert len(hashed) == (0 if kind == "relative" else 2)
    assert (tmp_path / "home" / ".cache" / "tagwood" / "verified").exists() == (kind == "relative")


def test_old_stamps_are_forgotten_when_there_are_many(saved, cache, monkeypatch):
    monkeypatch.setattr(hashing, "_MAX_STAMPS", 8)
    for place in range(20):
        hashing.write_stamp((saved / "manifest.json").stat(), str(place))
    assert len(list(cache.iterdir())) <= 8


@pytest.mark.parametrize("age_ns, odd_ns, settled", [
    (10**9, 0, False), (3 * 10**9, 0, True), (10**9, 1, True), (10**7, 1, False), (-(10**9), 1, False),
])  # fmt: skip
def test_times_in_whole_seconds_need_two_seconds_to_settle(monkeypatch, age_ns, odd_ns, settled):
    changed = 1_000 * 10**9 + odd_ns
    info = SimpleNamespace(st_mtime_ns=changed, st_ctime_ns=changed)
    monkeypatch.setattr(hashing.time, "time_ns", lambda: changed + age_ns)
    assert hashing.is_settled(info) == settled


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_find_the_first_damaged_range(tmp_path, monkeypatch, size, threads):
    monkeypatch.setattr(hashing, "BLOCK", 1000)
    monkeypatch.setattr(hashing, "_CHUNK", 300)
    raw = np.random.default_rng(size).bytes(size)
    path = tmp_path / "x"
    path.write_bytes(raw)
    with path.open("r+b", buffering=0) as file:
        expected = hashing.hash_file(file.fileno(), size, threads)
        assert expected.sha256 == hashlib.sha256(raw).hexdigest()
        assert len(expected.blocks) == (64 * -(-size // 1000) if size > 1000 else 0)
        assert hashing.find_damage(file.fileno(), size, expected, threads) is None
        for place in range(0, size, 97):
            os.pwrite(file.fileno(), bytes([raw[place] ^ 8]), place)
            begin, end = hashing.find_damage(file.fileno(), size, expected, threads)
            assert begin <= place < end
            os.pwrite(file.fileno(), raw[place : place + 1], place)


def test_a_file_of_several_blocks_loads_and_a_flip_in_its_last_block_is_named(tmp_path, toys):
    model = toys.Linear(np.ones((4, hashing.BLOCK // 16 + 1000), dtype=np.float32))
    folder = save(model, tmp_path / "big")
    file = read_manifest(folder).files["arrays.safetensors"]
    assert len(file.digest.blocks) == 128
    load(folder, verify=True)
    path = folder / "arrays.safetensors"
    with path.open("r+b") as raw:
        raw.seek(-1, os.SEEK_END)
        raw.write(b"\xff")
    with pytest.raises(StorageError, match=f"bytes {hashing.BLOCK:,} to {file.bytes - 1:,} do not have"):
        load(folder)
