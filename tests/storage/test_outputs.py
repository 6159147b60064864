"""Every file and folder that a command writes: the old content or the new one, flushed to disk, and no litter."""

from __future__ import annotations

import errno
import os
import time

import pytest

from tagwood.data import read_dataset
from tagwood.errors import DataError, InputError, StorageError
from tagwood.storage import publish
from tagwood.storage.publish import replace_path, write_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_folder(path, content, **options):
    with replace_path(path, folder=True, companions=("X", "Y"), **options) as place:
        place.mkdir()
        for name, text in content.items():
            (place / name).write_text(text)


def write_pair(path, text):
    with replace_path(path, overwrite=True, companions=(f"{path.name}.labels.tsv",)) as place:
        place.write_text(text)
        place.with_name(f"{path.name}.labels.tsv").write_text(text)


def test_a_file_is_replaced_only_when_asked_and_only_if_no_error_occurs(tmp_path):
    path = tmp_path / "new" / "a.txt"
    write_file(path, "one", overwrite=False)
    with pytest.raises(InputError, match="exists already"):
        write_file(path, "two", overwrite=False)
    with pytest.raises(UnicodeEncodeError), replace_path(path, overwrite=True) as place:
        place.write_text("half \ud800", encoding="utf-8")
    assert path.read_text() == "one"
    write_file(path, b"two")
    assert path.read_text() == "two"
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.ENOMEM])
@pytest.mark.parametrize("call", ["fsync", "open", "replace"])
def test_a_failing_disk_gives_one_sentence_with_the_path_and_leaves_the_old_file(tmp_path, monkeypatch, call, code):
    path = tmp_path / "a.txt"
    path.write_text("old")
    place = publish.Path if call == "replace" else os

    real = getattr(place, call)

    def fail_once(*_, **__):
        monkeypatch.setattr(place, call, real)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(place, call, fail_once)
    with pytest.raises(StorageError) as caught:
        write_file(path, "new")
    assert str(caught.value).startswith(f"{path}: it could not be written ({os.strerror(code)}). ")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_new_name_that_the_disk_does_not_confirm_is_an_error_that_says_so(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    real = publish.sync_folder

    def fail(folder):
        if folder == tmp_path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(folder)

    monkeypatch.setattr(publish, "sync_folder", fail)
    with pytest.raises(StorageError, match=r"it was written, but the disk did not confirm that it is stored") as caught:
        write_file(path, "new")
    assert "unchanged" not in str(caught.value)
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_everything_is_flushed_before_it_is_renamed(tmp_path, monkeypatch):
    events = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(str(publish.Path(f"/proc/self/fd/{fd}").readlink())), real(fd))
    )
    exchange = publish._exchange
    monkeypatch.setattr(publish, "_exchange", lambda *pair: (events.append("exchange"), exchange(*pair))[1])
    write_folder(tmp_path / "f", {"X": "1", "Y": "1"})
    events.clear()
    write_folder(tmp_path / "f", {"X": "2", "Y": "2"}, overwrite=True)
    before, after = events[: events.index("exchange")], events[events.index("exchange") + 1 :]
    assert {path.rpartition("/")[2] for path in before} >= {"X", "Y", "f"}
    assert str(tmp_path) in after


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced_as_a_whole_and_keeps_the_files_of_others(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(publish, "_exchange", lambda one, other: False)
    folder = tmp_path / "f"
    write_folder(folder, {"X": "old", "Y": "old"})
    (folder / "notes.txt").write_text("mine")
    (folder / "link").symlink_to("notes.txt")
    write_folder(folder, {"X": "new"}, overwrite=True)
    assert names(folder) == ["X", "link", "notes.txt"]
    assert (folder / "link").read_text() == "mine"
    assert names(tmp_path) == ["f"]
    (folder / "inner").mkdir()
    with pytest.raises(InputError, match="must not contain folders; got 'inner'"):
        write_folder(folder, {"X": "newer"}, overwrite=True)
    assert (folder / "X").read_text() == "new"


def test_a_data_file_never_stands_beside_a_table_of_other_data(tmp_path, monkeypatch):
    """At every step of the replacement: both old, both new, or no data file."""
    path, table = tmp_path / "d.tsv", tmp_path / "d.tsv.labels.tsv"
    path.write_text("old")
    table.write_text("old")
    seen = set()
    real = publish.Path.rename

    def rename(self, target):
        result = real(self, target)
        seen.add((path.read_text() if path.exists() else None, table.read_text() if table.exists() else None))
        return result

    monkeypatch.setattr(publish.Path, "rename", rename)
    write_pair(path, "new")
    assert seen == {(None, "old"), (None, None), (None, "new"), ("new", "new")}
    with replace_path(path, overwrite=True, companions=(table.name,)) as place:
        place.write_text("newer")
    assert names(tmp_path) == ["d.tsv"]


@pytest.mark.parametrize("step", range(4))
def test_a_failure_between_file_and_table_brings_both_back(tmp_path, monkeypatch, step):
    path, table = tmp_path / "d.tsv", tmp_path / "d.tsv.labels.tsv"
    path.write_text("old")
    table.write_text("old")
    real, calls = publish.Path.rename, []

    def rename(self, target):
        calls.append(self)
        if len(calls) == step + 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(publish.Path, "rename", rename)
    with pytest.raises(StorageError, match="Input/output error"):
        write_pair(path, "new")
    assert (path.read_text(), table.read_text()) == ("old", "old")
    assert names(tmp_path) == ["d.tsv", "d.tsv.labels.tsv"]


def test_leftovers_of_killed_writers_are_removed_and_an_interrupted_pair_is_named(tmp_path):
    old = tmp_path / f"{publish.PART}0123456789ab"
    mine = tmp_path / f"{publish.PART}mine"
    aside = tmp_path / f"{publish.ASIDE}d.jsonl-0123456789ab"
    for folder in (old, mine, aside):
        folder.mkdir()
        (folder / "d.jsonl").write_text("half")
        os.utime(folder, (time.time() - 60,) * 2)
    with pytest.raises(DataError, match=f"Writing was interrupted; the older data are in {aside}"):
        read_dataset(tmp_path / "d.jsonl")
    write_file(tmp_path / "d.jsonl", "{}")
    assert names(tmp_path) == [mine.name, "d.jsonl"]


def test_links_are_followed_and_devices_are_refused(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_file(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="must be a file or folder; got a device or pipe"):
        write_file(tmp_path / "pipe", "new")
