"""The journal after a kill at any instruction: the old record or the new one, and no sequence twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.conftest import ROOT, wait_until
from workers.parts.journal import Journal
from workers.parts.part import Part
from workers.system.files import read_json, write_atomic


def part(**fields):
    return Part(**{"attempt": "1", "epoch": 1, "rank": 0, "job": 1, "boot_id": "b", **fields})


def test_a_record_is_read_back_as_it_was(tmp_path):
    journal = Journal(tmp_path)
    journal.create(one := part(gpus=[1, 2], lease_s=10.0))
    journal.report(one, {"state": "running", "pid": 7}, phase="running")
    again = Journal(tmp_path).parts
    assert again == journal.parts
    assert [(r["sequence"], r["state"], r["pid"]) for r in again[one.key].reports] == [(1, "running", 7)]


def test_a_settled_report_is_not_sent_again_and_its_number_not_used_again(tmp_path):
    journal = Journal(tmp_path)
    journal.create(one := part())
    journal.report(one, {"state": "running"}, phase="running")
    journal.settle(one, 1)
    one = Journal(tmp_path).parts[one.key]
    assert one.reports == []
    journal = Journal(tmp_path)
    journal.report(journal.parts[one.key], {"state": "ended"}, phase="ended")
    assert [r["sequence"] for r in Journal(tmp_path).parts[one.key].reports] == [2]


def test_a_dropped_part_reports_nothing(tmp_path):
    journal = Journal(tmp_path)
    journal.create(one := part(dropped=True))
    journal.report(one, {"state": "ended"}, phase="ended")
    assert one.reports == []


def test_a_directory_without_a_record_is_swept(tmp_path):
    journal = Journal(tmp_path)
    journal.create(part())
    for room in ("parts", "jobs"):
        (tmp_path / room / "2-1-0").mkdir()
        (tmp_path / room / "2-1-0/half").write_text("x")
    journal = Journal(tmp_path)
    assert journal.sweep() == []
    assert [p.name for p in (tmp_path / "parts").iterdir()] == ["1-1-0"]
    assert list((tmp_path / "jobs").iterdir()) == []


steps = st.lists(st.sampled_from(["report", "settle", "reopen"]), max_size=12)


@given(steps)
@settings(max_examples=40, deadline=None)
def test_whatever_happens_memory_and_disk_agree_and_sequences_only_grow(tmp_path_factory, moves):
    root = tmp_path_factory.mktemp("journal")
    journal = Journal(root)
    journal.create(part())
    seen = [0]
    for move in moves:
        one = journal.parts["1-1-0"]
        if move == "report":
            journal.report(one, {"state": "running"}, phase="running")
            assert one.reports[-1]["sequence"] == seen[-1] + 1
            seen.append(one.reports[-1]["sequence"])
        elif move == "settle" and one.reports:
            journal.settle(one, one.reports[0]["sequence"])
        elif move == "reopen":
            journal = Journal(root)
        assert Journal(root).parts == journal.parts


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    path = tmp_path / "record.json"
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path; from workers.system.files import write_json\n"
        "n = 0\n"
        f"while True: n += 1; write_json(Path({str(path)!r}), [n] * 5000, durable=False)\n"
    )
    for round_ in range(8):
        path.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", program], cwd=ROOT)
        wait_until(lambda: (read_json(path) or [0])[0] > 1)  # it writes; from now on a kill may come at any instruction
        time.sleep(0.013 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        value = read_json(path)
        assert len(value) == 5000
        assert len(set(value)) == 1


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_atomic(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


def test_records_are_private(tmp_path):
    journal = Journal(tmp_path)
    journal.create(one := part())
    assert (journal.directory(one) / "part.json").stat().st_mode & 0o077 == 0
    assert journal.directory(one).stat().st_mode & 0o077 == 0
    assert json.loads((journal.directory(one) / "part.json").read_text())["phase"] == "claimed"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"attempt": "1"}',
        b'{"attempt": [], "epoch": {}}',
        pytest.param(None, id="another part's"),
    ],
)
def test_a_broken_record_is_kept_apart_and_the_others_are_read(tmp_path, broken):
    journal = Journal(tmp_path)
    journal.create(part())
    journal.create(part(attempt="2"))
    record = tmp_path / "parts/2-1-0/part.json"
    record.write_bytes(broken if broken is not None else (tmp_path / "parts/1-1-0/part.json").read_bytes())
    journal = Journal(tmp_path)
    assert list(journal.parts) == ["1-1-0"]
    assert list(journal.broken) == ["2-1-0"]
    assert journal.sweep() == []
    kept = journal.set_aside("2-1-0")
    assert (kept / "part.json").exists()
    assert Journal(tmp_path).broken == {}


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda p: p.symlink_to("/dev/zero")], ids=["fifo", "dir", "link"])
def test_what_is_no_file_is_no_record(tmp_path, put):
    journal = Journal(tmp_path)
    journal.create(one := part())
    record = journal.directory(one) / "part.json"
    record.unlink()
    put(record)
    assert list(Journal(tmp_path).broken) == ["1-1-0"]


def test_a_record_whose_directory_was_removed_is_written_again(tmp_path):
    journal = Journal(tmp_path)
    journal.create(one := part())
    (journal.directory(one) / "part.json").unlink()
    journal.directory(one).rmdir()
    journal.report(one, {"state": "running"}, phase="running")
    assert Journal(tmp_path).parts == journal.parts
