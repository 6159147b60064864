import asyncio
import contextlib
import gc
import json
import multiprocessing
import os
import weakref
from pathlib import Path

import pytest

from tagwood.service import journal
from tagwood.service.journal import Journal, append_lines
from tagwood.service.problems import ProblemError


def append_all(path, records):
    async def work():
        book = Journal(path)
        await asyncio.gather(*(book.append([record]) for record in records))
        book.close()

    asyncio.run(work())


def test_records_are_lines(tmp_path):
    path = tmp_path / "new" / "book.jsonl"
    append_all(path, [{"text": "a\nb"}, {"text": "木"}])
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["a\nb", "木"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_cut_short_by_a_crash_is_ended(tmp_path):
    path = tmp_path / "book.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2, "te')
    append_lines(path, b'{"n": 3}\n')
    assert path.read_bytes() == b'{"n": 1}\n{"n": 2, "te\n{"n": 3}\n'


def test_only_whole_lines_are_read(tmp_path):
    path = tmp_path / "book.jsonl"
    assert Journal(path).read() == b""
    path.write_bytes(b'{"n": 1}\n{"n": 2, "te')
    assert Journal(path).read() == b'{"n": 1}\n'


def _write(path, worker):
    for number in range(50):
        append_lines(path, b'{"worker": %d, "number": %d, "text": "%s"}\n' % (worker, number, b"x" * 5000))


def test_several_processes_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "book.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(path, worker)) for worker in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
        assert one.exitcode == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["worker"], line["number"]) for line in lines) == [(w, n) for w in range(2) for n in range(50)]


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = tmp_path / "book.jsonl"
    append_all(path, [{"n": 1}])
    real = os.write

    def full(file, data):
        real(file, bytes(data)[:4])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(ProblemError, match="try again later"):
        append_all(path, [{"n": 2}])
    monkeypatch.undo()
    assert path.read_text() == '{"n":1}\n'
    append_all(path, [{"n": 3}])
    assert path.read_text() == '{"n":1}\n{"n":3}\n'


def test_a_refused_record_does_not_keep_its_request_until_the_garbage_collector_runs():
    class Model:
        pass

    async def request(book, model):
        await book.append([{"n": 1}])

    async def work():
        book, model = Journal(Path("/dev/full")), Model()
        with contextlib.suppress(ProblemError):
            await request(book, model)
        book.close()
        return weakref.ref(model)

    gc.disable()
    try:
        assert asyncio.run(work())() is None
    finally:
        gc.enable()


def test_records_that_arrive_during_a_write_is_written_together(tmp_path, monkeypatch):
    calls = []
    real = journal.append_lines
    monkeypatch.setattr(journal, "append_lines", lambda path, lines: calls.append(lines) or real(path, lines))
    append_all(tmp_path / "book.jsonl", [{"n": number} for number in range(40)])
    assert b"".join(calls).count(b"\n") == 40
    assert len(calls) <= 3
