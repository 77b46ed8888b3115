"""Aligned text, and a hostile name."""

from berth_client.cli.tables import table


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
