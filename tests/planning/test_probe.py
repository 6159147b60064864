"""The speed of this machine: measured once, stored, and measured again where it no longer holds."""

import json

import pytest

from tagwood import Tagger
from tagwood.planning import machine_speed
from tagwood.planning.forecast import read_coefficients
from tagwood.planning.probe import Speed, measure_probe, probe_training

REFERENCE = read_coefficients().probe


class Machine:
    """A clock that stands still but for the work, whose runs take the given seconds in turn."""

    def __init__(self, *seconds):
        self.seconds, self.runs, self.time = seconds, 0, 0.0

    def clock(self):
        return self.time

    def work(self):
        self.time += self.seconds[self.runs % len(self.seconds)]
        self.runs += 1


def speed(machine, folder, **options):
    return machine_speed(clock=machine.clock, work=machine.work, folder=folder, **options)


def test_the_shortest_of_several_runs_counts_and_is_stored(tmp_path):
    machine = Machine(3 * REFERENCE, 2 * REFERENCE, 4 * REFERENCE)
    first = speed(machine, tmp_path)
    assert (first.factor, first.source) == (pytest.approx(2), "measured")
    runs = machine.runs
    assert speed(machine, tmp_path) == Speed(pytest.approx(2), "stored")
    assert machine.runs == runs
    slower = Machine(5 * REFERENCE)
    assert speed(slower, tmp_path, again=True) == Speed(pytest.approx(5), "measured")
    assert speed(machine, tmp_path).factor == pytest.approx(5)


def test_long_runs_stop_after_ten_seconds():
    long, short = Machine(4.0), Machine(0.001)
    measure_probe(long.clock, long.work)
    measure_probe(short.clock, short.work)
    assert (long.runs, short.runs) == (3, 7)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seconds": "x"}', '{"seconds": 1.0}', "\ud800"])
def test_a_damaged_or_foreign_file_is_measured_anew(tmp_path, content):
    (tmp_path / "speed.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert speed(Machine(REFERENCE), tmp_path) == Speed(pytest.approx(1), "measured")


def test_another_processor_is_measured_anew(tmp_path):
    speed(Machine(REFERENCE), tmp_path)
    path = tmp_path / "speed.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"processor": "another"}))
    assert speed(Machine(2 * REFERENCE), tmp_path).source == "measured"


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert speed(Machine(REFERENCE), blocked / "below").source == "measured"


def test_the_result_is_in_the_cache_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = Machine(REFERENCE)
    assert machine_speed(clock=machine.clock, work=machine.work).source == "measured"
    assert (tmp_path / "tagwood" / "planning" / "speed.json").exists()


def test_the_probe_trains_the_same_model_every_time():
    train = probe_training()
    one, other = train(), train()
    assert isinstance(one, Tagger)
    assert one.tag_one("w1 w2 l7") == other.tag_one("w1 w2 l7")
