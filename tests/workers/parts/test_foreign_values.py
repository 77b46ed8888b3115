"""What a job may have put into a record never reaches the portal in a form that it refuses: one such value would stop all."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.nodes import serializers as shapes
from workers.controls.usage import usage_read
from workers.engines.process import ProcessEngine
from workers.parts.journal import Journal
from workers.parts.part import Part
from workers.parts.problems import Problems
from workers.protocol.names import clean
from workers.system.files import BrokenFileError
from workers.system.procs import boot_id

RESULT = {"reason": "exit", "detail": "", "exit_code": 0, "signal": None, "pid": 5, "ended_at": 1e9, "ran_s": 1.0}


@given(st.text(st.characters(), max_size=3000))
def test_cleaned_texts_are_taken(text):
    report = {"attempt": "a", "epoch": 1, "rank": 0, "sequence": 1, "state": "ended", "detail": clean(text)}
    serializer = shapes.Report(data=json.loads(json.dumps(report)))
    assert serializer.is_valid(), serializer.errors


@pytest.mark.parametrize("text", ["\ud800half", "\udcffname", "a\0b", "x" * 5000, "\x1b[31m"])
def test_texts_that_a_portal_refuses_are_made_good(text):
    assert clean(text).encode()
    assert "\0" not in clean(text)
    assert len(clean(text)) <= 2000


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "because"},
        {"reason": 7},
        {"exit_code": 10**30},
        {"exit_code": -1},
        {"signal": 10**6},
        {"pid": -5},
        {"pid": 2**40},
        {"ended_at": float("nan")},
        {"ended_at": float("inf")},
        {"ended_at": -1},
        {"ended_at": "now"},
        {"detail": None},
        {"exit_code": True, "pid": 1e400},
    ],
)
def test_a_foreign_result_is_none_and_is_told(tmp_path, changes):
    told = []
    engine = ProcessEngine()
    engine.on_broken = told.append
    (tmp_path / "result.json").write_text(json.dumps(RESULT))
    assert engine.result(tmp_path)["exit_code"] == 0
    (tmp_path / "result.json").write_text(json.dumps(RESULT | changes))
    assert engine.result(tmp_path) is None
    assert [error.path for error in told] == [tmp_path / "result.json"]
    assert [p.name.split(".broken-")[0] for p in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("pid", [-1, 2**40, 10**30])
def test_a_foreign_number_of_a_process_is_none_and_is_told(tmp_path, pid):
    """A signal to it would end the agent (OverflowError), or be another's."""
    told = []
    engine = ProcessEngine()
    engine.on_broken = told.append
    (tmp_path / "shim.json").write_text(json.dumps({"pid": pid, "start_ticks": 1, "boot_id": boot_id()}))
    engine.abandon(tmp_path)
    assert [error.path for error in told] == [tmp_path / "shim.json"]


@pytest.mark.parametrize(
    "line", ["1 nan 0 0 0 0 0 1", "1 1e999 0 0 0 0 0 1", "1 -1 0 0 0 0 0 1", "1 5 x 0 0 0 0 1", "1 5 1e300 0 0 0 0 1"]
)
def test_foreign_figures_are_no_usage(tmp_path, line):
    (tmp_path / "usage").write_text(line)
    with pytest.raises(BrokenFileError):
        usage_read(tmp_path / "usage")


def test_problems_are_taken_whatever_they_name(caplog):
    # A test's report with half a character in its log cannot be sent by pytest-xdist, and ends the whole run.
    caplog.set_level(logging.CRITICAL, logger="workers")
    problems = Problems()
    for n in range(50):
        problems.note("file " + "/deep" * 200 + f" {n}", "\udcff\0" * 500)
    problems.note("gone", "x")
    problems.clear("gone")
    told = problems.current()
    assert len(told) == 20
    for each in told:
        serializer = shapes.Problem(data=json.loads(json.dumps(each)))
        assert serializer.is_valid(), serializer.errors


def test_a_detail_with_half_a_character_is_kept_whole_in_the_journal(tmp_path):
    journal = Journal(tmp_path)
    journal.create(part := Part(attempt="1", epoch=1, rank=0, job=1, boot_id="b"))
    journal.report(part, {"state": "ended", "reason": "lost", "detail": "\ud800" * 5000}, phase="ended")
    assert part.reports[0]["detail"] == part.end["detail"] == "?" * 2000
