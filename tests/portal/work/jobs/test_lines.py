"""What a line is: the same for the page, REST, the command line, tails and patterns, whatever pieces an output comes in."""

from itertools import pairwise

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from portal.pages.dashboard.jobs.log import log_page
from portal.work.jobs.api.logs import Asked, piece_next
from portal.work.jobs.log_reading import LogPart, last_line, lines_of_tail
from portal.work.jobs.models import Attempt, LogChunk
from portal.work.jobs.output.lines import CODE_BYTES, LINE_BYTES, Cutter, line_shown
from portal.work.notifications.patterns import Tail, lines_find

TEXTS = {
    b"plain": "plain",
    b"\r 10%\r 20%": " 20%",
    b"abcdef\rxy": "xycdef",
    b"long text\r\x1b[Kok": "ok",
    b"long text\x1b[2K\x1b[1Gok": "ok",
    b"abc\x1b[2Dxy": "axy",
    b"a\x1b[5Cb": "a b",
    b"a\x1b[99999Cb": "ab",
    b"1/9\b\b\b2/9": "2/9",
    b"\x1b[31mERROR\x1b[0m broke": "ERROR broke",
    b"\x1b[38;2;1;2;3mERROR\x1b[m": "ERROR",
    b"\x1b]0;title\x07shown": "shown",
    b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\.": "link.",
    b"\x1bP1$r\x1b\\a\x1b_x\x1b\\b\x1b(Bc\x1b7d\x1b=": "abcd",
    b"half \x1b[3": "half ",
    b"half \x1b]0;tit": "half ",
    b"half \x1b": "half ",
    b"\x1b[\x1b[\x1b[x\x1b[31": "",
    b"windows\r": "windows",
    b"\xef\xbb\xbfmarked": "marked",
    "h\u00e9 \x00\x9b\x85!".encode() + b"\xff": "h\u00e9 !\ufffd",
    "a\u2028b\vc\fd\te": "a\u2028bcd\te",
    "\u202eturned\u2069".encode(): "turned",
}
PARTS = [
    b"a",
    b"ERROR",
    b" ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\b",
    b"\x1b",
    b"\x1b[",
    b"\x1b[31m",
    b"\x1b[K",
    b"\x1b[2K",
    b"\x1b[G",
]
PARTS += [b"\x1b]0;t", b"\x07", b"\x1b\\", b"\x00", b"\xff", b"\xc3", b"\xa9", b"\v", b"\f"]
PARTS += [each.encode() for each in "\u00e9\U0001f600\x85\u2028\ufeff\u202e"]
OUTPUT = st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=4)), max_size=30).map(b"".join)


def test_a_line_is_what_a_terminal_leaves(subtests):
    for data, shown in TEXTS.items():
        with subtests.test(data=data):
            assert line_shown(data if isinstance(data, bytes) else data.encode()) == shown


@given(OUTPUT)
def test_no_bytes_leave_a_control_character(data):
    assert not any((char < " " and char not in "\t\n") or "\x7f" <= char <= "\x9f" for char in line_shown(data))


@given(OUTPUT, st.lists(st.integers(0, 120), max_size=6), st.integers(4, 40))
def test_any_pieces_are_cut_into_the_same_lines(data, cuts, most):
    def cut_up(places):
        cutter = Cutter(most)
        bounds = [0, *sorted(places), len(data)]
        found = [each for begin, end in pairwise(bounds) for each in cutter.cut(data[begin:end])]
        return found, cutter.rest

    whole, rest = cut_up([])
    assert cut_up(cuts) == (whole, rest)
    assert b"".join(each.data + b"\n" * each.ended for each in whole) + rest == data
    assert all(len(each.data) <= most for each in whole)
    assert len(rest) <= most


@pytest.mark.parametrize("size", [LINE_BYTES - 3, LINE_BYTES, LINE_BYTES + 1])
def test_a_long_line_is_cut_before_a_code(size):
    cutter = Cutter()
    line = b"x" * size + b"\x1b[31mred\n"
    cuts = [*cutter.cut(line)]
    assert "".join(line_shown(each.data) for each in cuts) == "x" * size + "red"
    assert all(len(each.data) >= LINE_BYTES - CODE_BYTES for each in cuts[:-1])


# ---- all readers -----------------------------------------------------------------------------------------------------


def of_the_page(job):
    lines, cursor, ended = [], "", False
    while not ended:
        page = log_page(job=job, attempt=None, rank=0, stream="", cursor=cursor)
        lines += [line["text"] for line in page["lines"]]
        cursor, ended = page["next"], page["ended"]
    return lines


def of_rest(job):
    asked = Asked(job, None, False, 0, None, None, None, None)
    text, complete = "", False
    while not complete:
        piece, _, asked = piece_next(asked)
        text += piece["text"]
        complete = piece["complete"]
    return text


@pytest.fixture
def running(cluster):
    return cluster.running()


@pytest.mark.slow
@pytest.mark.django_db
@settings(
    max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
@given(OUTPUT, st.lists(st.integers(0, 120), max_size=6))
@example(b"\x1b[3" + b"1mERROR\x1b[0m\r\nNa\xc3\xa9me? ", [3, 22, 23])
def test_all_readers_see_the_same_lines(running, data, cuts):
    with transaction.atomic():
        attempt = Attempt.objects.get(pk=running.pk)
        bounds = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
        tail, matches = Tail(), 0
        for begin, end in pairwise(bounds):
            piece = {"offset": begin, "length": end - begin, "data": data[begin:end], "at": timezone.now()}
            LogChunk.objects.create(attempt=attempt, rank=0, stream="stdout", **piece)
            found, tail = lines_find(["ERROR"], tail, data[begin:end])
            matches += sum(each.lines for each in found)
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now(), state="COMPLETED")
        meant = [line_shown(line) for line in data.split(b"\n")]
        lines = meant if data and not data.endswith(b"\n") else meant[:-1]
        assert of_the_page(attempt.job) == lines
        assert of_rest(attempt.job) == "\n".join(meant)
        assert lines_of_tail(LogPart(attempt, 0, "stdout"), limit=1000) == meant
        said = [line.strip() for line in lines if line.strip()]
        assert last_line(job=attempt.job) == (said[-1][:200] if said else None)
        assert matches >= sum("ERROR" in line for line in lines[: data.count(b"\n")])
        transaction.set_rollback(True)
