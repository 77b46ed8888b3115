"""The log page: an unfinished line is shown as it stands, and a look costs the same for any log."""

import pytest
from django.utils import timezone

from portal.pages.dashboard.jobs import log
from portal.work.jobs.log_lines import LINE_BYTES
from portal.work.jobs.models import LogChunk


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

    def first():
        at["next"] = ""
        return write()

    write.first = first
    return write


@pytest.mark.django_db
def test_a_bar_and_a_prompt_are_seen_while_they_stand(look):
    assert look(b"begun\n\r 10%", b"\r 20%")[0] == [["begun"], [" 20%"]]
    assert look(b"\r 30%")[0] == [[], [" 30%"]]
    assert look(b"\nName? \xc3")[0] == [[" 30%"], ["Name? "]]
    assert look(b"\xa9\n")[0] == [["Name? \u00e9"], []]


@pytest.mark.django_db
def test_a_colour_is_dropped_also_where_a_piece_cuts_it(look):
    (lines, _), _ = look(b"\x1b[3", b"1mERROR\x1b[0m broke\n")
    assert lines == ["ERROR broke"]


@pytest.mark.django_db
@pytest.mark.parametrize("unit", [b"x", b"\r", b"\x1b[1m", b"\xff", b"\r 10%"])
def test_a_line_without_end_is_not_read_again(look, unit):
    piece = unit * (256 * 1024 // len(unit))
    look(*[piece] * 3)
    (_, unended), page = look()
    assert 3 * len(piece) - int(page["next"].split(".")[1]) <= LINE_BYTES
    assert all(len(text) <= log.LINE_CHARS for text in unended)


@pytest.mark.django_db
def test_of_a_long_log_the_end_is_read_and_its_lines_have_no_numbers(look):
    piece = b"a line of some length\n" * 10_000
    (lines, _), page = look(*[piece] * 6, b"last\n")
    assert (page["cut"], page["lines"][0]["n"], lines[0]) == (True, None, "a line of some length")
    read = len(lines)
    while page["lines"]:
        (lines, _), page = look()
        read += len(lines)
    assert read * 22 <= log.TAIL_BYTES + 22
    assert page["cut"]


@pytest.mark.django_db
@pytest.mark.parametrize("unit", [b"x", b"\r", b"\n", b"x\n"])
def test_a_first_look_is_bounded_whatever_the_log_is(look, unit, django_assert_num_queries):
    look(*[unit * (256 * 1024 // len(unit))] * 8)
    with django_assert_num_queries(12):
        (lines, _), page = look.first()
    assert len(lines) <= log.LINES_A_PAGE
    assert page["cut"]
