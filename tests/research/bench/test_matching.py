"""`./berth bench log-match`: its cases, and that it says no. Times are not asserted."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from research.bench.matching import CASES, matching_measure, matching_report


def test_each_case_is_told():
    figures = matching_measure(repeat=1)
    assert [row["case"] for row in figures["rows"]] == list(CASES)
    assert all(row["piece_ms"] >= 0 for row in figures["rows"])
    assert all(case in matching_report(figures, as_json=False) for case in CASES)


def test_the_command_prints_json_and_refuses_no_runs():
    out = io.StringIO()
    call_command("bench", "log-match", "--repeat", "1", "--json", stdout=out)
    assert len(json.loads(out.getvalue())["rows"]) == len(CASES)
    with pytest.raises(CommandError, match="--repeat must be at least 1"):
        call_command("bench", "log-match", "--repeat", "0")
