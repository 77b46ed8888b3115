"""Both streams as one text: nothing lost, nothing doubled, whole lines, whatever the pieces and whenever they are read."""

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.foundation.errors import BerthError
from portal.work.jobs.log_lines import LINE_BYTES, Cutter, line_shown
from portal.work.jobs.log_reading import STREAMS, BothStreams, Cursor, offset_of_tail
from portal.work.jobs.models import LogChunk

pytestmark = pytest.mark.django_db
PIECES = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab\n\r\u00e9", min_size=1, max_size=12)), max_size=12
)


class Part:
    """A part of a running attempt; `write` stores a piece as the agent's sending does."""

    def __init__(self, cluster):
        self.attempt = cluster.running()
        self.both = BothStreams(self.attempt, 0)

    def write(self, stream, data):
        LogChunk.objects.create(
            attempt=self.attempt,
            rank=0,
            stream=stream,
            offset=self.both.end().get(stream),
            length=len(data),
            data=data,
            at=timezone.now(),
        )


@pytest.fixture
def part(cluster):
    return Part(cluster)


def shown(look):
    return look.text(), str(look.end)


def left(look):
    return [(line.stream, line_shown(line.cut.data)) for line in look.open]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(PIECES, st.integers(8, 40), st.data())
def test_each_stream_comes_whole_and_in_order(part, pieces, limit, data):
    """The part is the same one, empty again after each example."""
    with transaction.atomic():
        at, read = Cursor(), dict.fromkeys(STREAMS, b"")

        def look(*, flush):
            found = part.both.read(at, limit=limit, flush=flush)
            for stream, _, cut in found.lines:
                assert len(cut.data) <= limit
                read[stream] += cut.data + b"\n" * cut.ended
            return found.end

        for stream, text in pieces:
            part.write(stream, text.encode())
            if data.draw(st.booleans()):
                at = look(flush=False)
        while (end := look(flush=True)) != at:
            at = end
        assert at == part.both.end()
        assert read == {name: "".join(text for stream, text in pieces if stream == name).encode() for name in STREAMS}
        transaction.set_rollback(True)


def test_lines_come_in_the_order_in_which_they_were_ended(part):
    for stream, data in (("stdout", b"one\ntw"), ("stderr", b"warning\n"), ("stdout", b"o\nthree")):
        part.write(stream, data)
    look = part.both.read(Cursor(), limit=1000, flush=False)
    assert shown(look) == ("one\nwarning\ntwo\n", "8.8.5.0")
    assert left(look) == [("stdout", "three")]
    again = part.both.read(look.end, limit=1000, flush=False)
    assert (again.text(), again.end, left(again)) == ("", look.end, left(look))
    assert shown(part.both.read(look.end, limit=1000, flush=True)) == ("three", "13.8")


def test_a_piece_that_is_stored_late_is_not_missed(part):
    """Two requests at once: the later one's piece may be seen first. A count over both streams would skip the other."""
    part.write("stderr", b"second\n")
    look = part.both.read(Cursor(), limit=1000, flush=False)
    part.write("stdout", b"first\n")
    LogChunk.objects.filter(stream="stdout").update(id=0)
    assert look.text() + part.both.read(look.end, limit=1000, flush=False).text() == "second\nfirst\n"


def test_a_line_longer_than_an_answer_is_not_waited_for(part):
    part.write("stdout", b"x" * 300)
    assert shown(part.both.read(Cursor(), limit=100, flush=False)) == ("x" * 100, "100.0")


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_long_line_that_ends_within_a_character_waits_for_its_rest(part, missing):
    """A chunk has as many bytes as an answer: such a line is not waited for, but its last character is."""
    smile = "\U0001f600".encode()
    part.write("stdout", b"x" * (97 + missing) + smile[:-missing])
    look = part.both.read(Cursor(), limit=100, flush=False)
    assert look.text() == "x" * (97 + missing)
    part.write("stdout", smile[-missing:] + b"\n")
    assert part.both.read(look.end, limit=100, flush=False).text() == "\U0001f600\n"


def test_a_progress_bar_is_seen_as_it_goes(part):
    part.write("stderr", b"10%\r20%\r30%")
    look = part.both.read(Cursor(), limit=100, flush=False)
    assert (look.text(), left(look)) == ("", [("stderr", "30%")])
    part.write("stderr", b"\r40%\n")
    assert part.both.read(look.end, limit=100, flush=False).text() == "40%\n"


def test_the_tail_is_of_both(part):
    for stream, data in (("stdout", b"a\nb\n"), ("stderr", b"c\nd\n"), ("stdout", b"e\n")):
        part.write(stream, data)
    assert shown(part.both.tail(Cursor(), lines=3, limit=100, flush=False)) == ("c\nd\ne\n", "6.4")
    assert part.both.tail(Cursor(6, 2), lines=3, limit=100, flush=False).text() == "d\n"
    assert part.both.tail(Cursor(), lines=3, limit=5, flush=False).text() == "d\ne\n"


@pytest.mark.parametrize("sign", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(part, sign):
    part.write("stdout", f"one\nt{sign}wo\nthree{sign}x\n".encode())
    assert part.both.tail(Cursor(), lines=2, limit=100, flush=False).text().count("\n") == 2
    assert offset_of_tail(part.both.part("stdout"), lines=2, limit=100) == 4


@pytest.mark.parametrize("unit", [b"x", b"\r", b"\x1b[1m", b"\xff", b"x\n", b"\n"])
def test_what_a_look_reads_does_not_grow_with_the_log(part, unit, django_assert_num_queries, monkeypatch):
    """A tail and a look at its end, of 4 MiB."""
    for _ in range(16):
        part.write("stdout", unit * (256 * 1024 // len(unit)))
    read = []
    monkeypatch.setattr("portal.work.jobs.log_reading.Cutter.cut", spied(Cutter.cut, read))
    with django_assert_num_queries(9):
        look = part.both.tail(Cursor(), lines=3, limit=64 * 1024, flush=False)
    assert sum(read) <= 256 * 1024
    assert all(len(line.cut.data) <= LINE_BYTES for line in [*look.lines, *look.open])


def spied(cut, read):
    def spy(self, data):
        read.append(len(data))
        return cut(self, data)

    return spy


@pytest.mark.parametrize("text", ["", "5", "1.2.3", "a.b", "-1.0", "1.2\n", "9" * 20 + ".0"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(BerthError) as error:
        Cursor.of(text)
    assert error.value.field == "cursor"
