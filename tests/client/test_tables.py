"""Aligned text, and a hostile name."""

import time

import pytest

from berth_client.cli.output import sentence, table, when


def test_numbers_stand_to_the_right_and_what_is_not_known_is_a_dash():
    found = table(("policy", "h", "jobs"), [("berth", 1.23456, 10), ("fifo", None, 1234), ("x", 123.4, 5)])
    assert found.splitlines() == [
        "policy     h  jobs",
        "berth   1.23    10",
        "fifo       -  1234",
        "x        123     5",
    ]


def test_a_name_moves_no_cursor():
    assert "\x1b" not in table(("name",), [("\x1b[2Jred",)])


def test_times_within_a_sentence_are_in_the_readers_zone(monkeypatch):
    """`explain` said `by about 2026-11-27T05:48Z` above `expected start 2026-11-27 05:47:46`."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert sentence("Kept until about 2026-11-27T15:48Z.") == "Kept until about 2026-11-28 00:48."
        assert sentence("At 2026-11-27T05:48:09Z, #7 ends.") == "At 2026-11-27 14:48:09, #7 ends."
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_job_at_the_end_of_the_calendar_can_be_shown(monkeypatch, zone, at):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert when(at)
        assert sentence(f"By {at}.").startswith("By ")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_one_long_name_pushes_no_other_line_apart():
    rows = [("short", 1), ("x" * 200, 2), ("y" * 48, 3)]
    lines = table(("name", "jobs"), rows).splitlines()
    assert lines[0] == f"{'name':<48}  jobs"
    assert lines[1] == f"{'short':<48}     1"
    assert lines[2] == f"{'x' * 200}     2", "it is whole"


def test_columns_count_what_a_terminal_shows():
    """A wide letter takes two columns; one that combines with the letter before it takes none."""
    lines = table(("name", "state"), [("训练", "A"), ("e\u0301t\u00e9", "B"), ("four", "C")]).splitlines()
    assert lines == ["name  state", "训练  A", "e\u0301t\u00e9   B", "four  C"]
