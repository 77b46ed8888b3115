"""The log page: what has not ended is shown as it stands, and a look costs the same whatever the log is."""

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from portal.dashboard.jobs import log
from portal.jobs.log_reading import LINE_BYTES, line_shown
from portal.jobs.models import LogChunk

TEXTS = {
    b"\r 10%\r 20%": " 20%",
    b"abcdef\rxy": "xycdef",
    b"long text\r\x1b[Kok": "ok",
    b"1/9\b\b\b2/9": "2/9",
    b"\x1b[31mERROR\x1b[0m broke": "ERROR broke",
    b"\x1b]0;title\x07shown": "shown",
    b"half \x1b[3": "half ",
    b"windows\r": "windows",
    "h\u00e9 \x00\x9b!".encode() + b"\xff": "h\u00e9 !\ufffd",
}


@pytest.mark.parametrize("data", TEXTS)
def test_a_line_is_what_a_terminal_leaves(data):
    assert line_shown(data) == TEXTS[data]


@given(st.binary(max_size=400))
def test_no_bytes_leave_a_control_character(data):
    assert not any(char < " " and char not in "\t\n" for char in line_shown(data))


@pytest.fixture
def look(cluster):
    """Write pieces, then look on from where the last look ended."""
    attempt = cluster.running()
    at = {"offset": 0, "next": ""}

    def write(*pieces):
        for data in pieces:
            LogChunk.objects.create(
                attempt=attempt,
                rank=0,
                stream="stdout",
                offset=at["offset"],
                length=len(data),
                data=data,
                at=timezone.now(),
            )
            at["offset"] += len(data)
        page = log.log_page(job=attempt.job, attempt=None, rank=0, stream="", cursor=at["next"])
        at["next"] = page["next"]
        return [[line["text"] for line in page[name]] for name in ("lines", "open")], page

    return write


@pytest.mark.django_db
def test_a_bar_and_a_prompt_are_seen_while_they_stand(look):
    assert look(b"begun\n\r 10%", b"\r 20%")[0] == [["begun"], [" 20%"]]
    assert look(b"\r 30%")[0] == [[], [" 30%"]]
    assert look(b"\nName? \xc3")[0] == [[" 30%"], ["Name? "]]
    assert look(b"\xa9\n")[0] == [["Name? \u00e9"], []]


@pytest.mark.django_db
def test_a_colour_hides_no_level_also_where_a_piece_cuts_it(look):
    (lines, _), page = look(b"\x1b[3", b"1mERROR\x1b[0m broke\n")
    assert (lines, page["lines"][0]["level"]) == (["ERROR broke"], "ERROR")


@pytest.mark.django_db
@pytest.mark.parametrize("unit", [b"x", b"\r", b"\x1b[1m", b"\xff", b"\r 10%"])
def test_a_line_without_end_is_not_read_again(look, unit):
    piece = unit * (256 * 1024 // len(unit))
    look(*[piece] * 3)
    (_, unended), page = look()
    assert 3 * len(piece) - int(page["next"].split(".")[1]) <= LINE_BYTES
    assert all(len(text) <= log.LINE_CHARS for text in unended)
