"""What a training records about itself, in its own process: sums, rows, bounded files, and nothing without Berth."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.workers.conftest import ROOT
from workers.instrument import berth_instrument
from workers.instrument.berth_instrument import FIRST_S, PARTS, ROWS, SEGMENTS_KEPT, WARM_UP, Recorder


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by one hundredth of a second a step of the test's own."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(berth_instrument, "time", clock)
    return clock


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTH_RECORDS_DIR", str(tmp_path))
    monkeypatch.setenv("BERTH_GPUS_TOTAL", "4")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return tmp_path


def lines(directory):
    paths = sorted(directory.iterdir(), key=lambda path: int(path.name))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def iterate(recorder, clock, count, *, each_s=0.1):
    for _ in range(count):
        with recorder.time("data"):
            clock.now += each_s / 4
        recorder.add("forward", each_s / 2)
        clock.now += each_s * 3 / 4
        recorder.step()


def test_a_record_holds_the_sums_and_rows_of_what_was_timed(directory, clock):
    recorder = Recorder(batch_per_gpu=64, total=10_000, done=256, parameters=1000)
    iterate(recorder, clock, WARM_UP + 10)
    recorder.close()
    first, last = lines(directory)
    assert first["iterations"] + last["iterations"] == 10  # the first record came after a second
    assert last["samples"] == last["iterations"] * 64 * 4
    assert first["seconds"] == pytest.approx(0.1 * first["iterations"], abs=1e-6)
    assert last["done"] == 256 + (WARM_UP + 10) * 256
    assert (last["total"], last["batch"], last["world"], last["parameters"]) == (10_000, 64, 4, 1000)
    assert first["rows"][0] == pytest.approx([0.025, None, None, None, None, None, 0.1], abs=1e-6)
    assert len(first["rows"][0]) == len(PARTS) + 1


def test_many_iterations_leave_a_fair_choice_of_rows(directory, clock):
    recorder = Recorder(batch_per_gpu=1)
    recorder._random.seed(1)
    iterate(recorder, clock, WARM_UP + 900, each_s=0.001)
    recorder.close()
    record = lines(directory)[-1]
    assert record["iterations"] == 900
    assert len(record["rows"]) == ROWS


def test_the_files_stay_bounded_however_long_it_runs(directory, clock, monkeypatch):
    monkeypatch.setattr(berth_instrument, "SEGMENT_BYTES", 4000)
    recorder = Recorder(batch_per_gpu=1)
    for _ in range(400):
        iterate(recorder, clock, 1, each_s=40.0)  # a record each
    names = sorted(int(path.name) for path in directory.iterdir())
    assert len(names) == SEGMENTS_KEPT
    assert names[0] > 5
    assert all(path.stat().st_size <= 4000 for path in directory.iterdir())
    again = Recorder(batch_per_gpu=1)  # a second process of the same attempt goes on where the first was
    iterate(again, clock, 3, each_s=40.0)
    assert max(int(path.name) for path in directory.iterdir()) >= names[1]


def test_a_full_disk_or_a_missing_directory_never_stops_the_training(directory, clock, capsys):
    recorder = Recorder(batch_per_gpu=1)
    directory.rmdir()
    iterate(recorder, clock, 5, each_s=2.0)
    recorder.close()
    assert recorder.done == 5 * 4
    assert capsys.readouterr().err.count("recorded no more") == 1


@pytest.mark.parametrize("without", [{"BERTH_RECORDS_DIR": None}, {"LOCAL_RANK": "1"}])
def test_without_berth_and_in_other_ranks_it_writes_nothing(directory, clock, monkeypatch, without):
    for name, value in without.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    recorder = Recorder(batch_per_gpu=1)
    iterate(recorder, clock, 50)
    recorder.close()
    assert lines(directory) == []


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="'dta' is no part"):
        Recorder().add("dta", 1.0)


def test_it_needs_nothing_but_the_standard_library_and_costs_microseconds(tmp_path):
    code = (
        "import sys, time; sys.path.append(sys.argv[1]); from berth_instrument import Recorder\n"
        "r = Recorder(batch_per_gpu=2)\n"
        "b = time.process_time()\n"
        "for _ in range(20000):\n    r.add('data', 0.1); r.step()\n"
        "print((time.process_time() - b) / 20000)\n"
    )
    command = [sys.executable, "-I", "-c", code, str(ROOT / "workers/instrument")]
    env = {"BERTH_RECORDS_DIR": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30)
    assert float(done.stdout) < 100e-6
    assert lines(tmp_path)[-1]["done"] == 40_000


class TestModes:
    """Hops 3.2: two modes; BERTH_PROFILE=1 measures every part of 10 to 50 iterations and ends."""

    @staticmethod
    def iterate(recorder, clock, count, each_s=0.1):
        for _ in range(count):
            for part in PARTS:
                recorder.add(part, each_s / len(PARTS))
            clock.now += each_s
            recorder.step()

    def test_section_2_while_it_runs_only_data_communication_wait_and_the_whole_are_recorded(self, directory, clock):
        recorder = Recorder(batch_per_gpu=8, gpus=2)
        self.iterate(recorder, clock, WARM_UP + 3)
        recorder.close()
        (record,) = lines(directory)
        assert (self.told(record), recorder.profiling) == ({"data", "communication", "wait"}, False)

    @staticmethod
    def told(record):
        return {part for row in record["rows"] for part, value in zip(PARTS, row, strict=False) if value is not None}

    def test_on_one_gpu_its_first_minute_tells_what_a_profile_would(self, directory, clock):
        """Where GPUs are never idle no job is profiled, and theory would have nothing to go by."""
        recorder = Recorder(batch_per_gpu=8, gpus=1)
        self.iterate(recorder, clock, WARM_UP + 3)
        recorder.close()
        clock.now += FIRST_S
        self.iterate(recorder, clock, 3)
        recorder.close()
        first, *later = lines(directory)
        assert self.told(first) == set(PARTS)
        assert [self.told(record) for record in later] == [{"data", "communication", "wait"}] * len(later) != []

    @pytest.mark.parametrize(("each_s", "iterations"), [(0.001, 50), (0.5, 38), (1.9, 10), (3.0, 10)])
    def test_section_2_a_profile_times_every_part_of_10_to_50_iterations_and_ends_with_success(
        self, directory, clock, monkeypatch, each_s, iterations
    ):
        monkeypatch.setenv("BERTH_PROFILE", "1")
        recorder = Recorder(batch_per_gpu=8)
        with pytest.raises(SystemExit) as ended:
            self.iterate(recorder, clock, 1000, each_s)
        assert ended.value.code == 0
        records = lines(directory)
        assert sum(record["iterations"] for record in records) == iterations
        rows = [row for record in records for row in record["rows"]]
        assert len(rows) == iterations, "each iteration is kept: they are few"
        assert all(None not in row for row in rows)

    def test_a_profile_of_a_program_in_its_own_process_ends_by_itself(self, tmp_path):
        code = (
            "import sys, time; sys.path.append(sys.argv[1]); from berth_instrument import Recorder\n"
            "r = Recorder(batch_per_gpu=2)\n"
            "while True:\n"
            "    try:\n        r.add('data', 0.001); r.step()\n"
            "    except Exception:\n        pass\n"
        )
        command = [sys.executable, "-I", "-c", code, str(ROOT / "workers/instrument")]
        env = {"BERTH_RECORDS_DIR": str(tmp_path), "BERTH_PROFILE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30)
        assert "50 iterations profiled" in done.stdout
        assert sum(record["iterations"] for record in lines(tmp_path)) == 50


def test_a_checkpoint_is_told_at_once_and_stays_told(directory, clock):
    recorder = Recorder(batch_per_gpu=8, done=32)
    recorder.step()
    assert lines(directory) == []  # no second has gone by
    recorder.saved()
    recorder.step()
    recorder.close()
    told = [(each["done"], each["saved"]) for each in lines(directory)]
    assert told == [(64.0, 64.0), (96.0, 64.0)]
    recorder.saved(80)
    assert lines(directory)[-1]["saved"] == 80.0


LISTENS = """
import os, signal, sys, threading
from berth_instrument import Recorder
own = []
signal.signal(signal.SIGTERM, lambda number, frame: own.append(number))
recorder = Recorder()
thread = threading.Thread(target=lambda: Recorder().should_stop())
thread.start(), thread.join()                    # says that it cannot hear, and goes on
before = recorder.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
print(before, recorder.should_stop(), own == [signal.SIGTERM])
"""


def test_the_signal_to_end_is_a_question_from_the_first_time_it_is_asked():
    run = lambda script: subprocess.run(  # noqa: E731
        [sys.executable, "-c", script], cwd=ROOT / "workers/instrument", capture_output=True, text=True, timeout=60
    )
    told = run(LISTENS)
    assert told.stdout.split() == ["False", "True", "True"]
    assert "SIGTERM cannot be heard here" in told.stderr
    never = run(
        "import os, signal\nfrom berth_instrument import Recorder\nRecorder()\nos.kill(os.getpid(), signal.SIGTERM)"
    )
    assert never.returncode == -15  # who does not ask is ended by it, as ever


def test_the_learning_rate_for_the_size_is_the_jobs_own_rules(monkeypatch):
    assert Recorder().learning_rate is None
    monkeypatch.setenv("BERTH_LEARNING_RATE", "0.0004")
    assert Recorder().learning_rate == 0.0004


def test_other_cores_are_recorded_apart_and_each_second_again(clock, directory, tmp_path, monkeypatch):
    """Core tuning compares numbers of cores, so no record may hold iterations of two of them for long."""
    told = directory / "cores"
    monkeypatch.setenv("BERTH_RECORDS_DIR", str(tmp_path / "records"))
    monkeypatch.setenv("BERTH_CORES_FILE", str(told))
    (tmp_path / "records").mkdir()
    told.write_text("4\n")
    recorder = Recorder(batch_per_gpu=1, gpus=1)

    def run(seconds):
        """The records of so long, an iteration each tenth of a second."""
        before = len(lines(tmp_path / "records"))
        for _ in range(round(10 * seconds)):
            clock.now += 0.1
            recorder.step()
        return [each["iterations"] for each in lines(tmp_path / "records")[before:]]

    run(700)
    assert run(90) == [pytest.approx(300, abs=2)] * 3, "each half minute, after ten minutes"
    run(10)
    told.write_text("5\n")
    os.utime(told, ns=(1, 1))
    first, *others = run(8)
    assert first < 290, "what was recorded of four cores is written at once"
    assert len(others) >= 6
    assert max(others) <= 11
