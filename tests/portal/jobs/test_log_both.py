"""Both streams as one text: nothing lost, nothing doubled, whole lines, whatever the pieces and whenever they are read."""

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.errors import BerthError
from portal.jobs.log_both import BothStreams, Cursor
from portal.jobs.models import LogChunk

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


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(PIECES, st.integers(8, 40), st.data())
def test_each_stream_comes_whole_and_in_order(part, pieces, limit, data):
    """The part is the same one, empty again after each example."""
    with transaction.atomic():
        at, read = Cursor(), []
        for stream, text in pieces:
            part.write(stream, text.encode())
            if data.draw(st.booleans()):
                found, at = part.both.read(at, limit=limit, flush=False)
                assert len(found) <= limit
                read.append(found)
        while True:
            found, at = part.both.read(at, limit=limit, flush=True)
            read.append(found)
            if not found:
                break
        assert at == part.both.end()
        whole = b"".join(read)
        written = {
            name: "".join(text for stream, text in pieces if stream == name).encode() for name in ("stdout", "stderr")
        }
        assert sorted(whole) == sorted(written["stdout"] + written["stderr"])
        whole.decode()  # no character was cut in two by another stream's
        transaction.set_rollback(True)


def test_lines_come_in_the_order_in_which_they_were_ended(part):
    for stream, data in (("stdout", b"one\ntw"), ("stderr", b"warning\n"), ("stdout", b"o\nthree")):
        part.write(stream, data)
    text, at = part.both.read(Cursor(), limit=1000, flush=False)
    assert (text, str(at)) == (b"one\nwarning\ntwo\n", "8.8")
    assert part.both.read(at, limit=1000, flush=False) == (b"", at)
    assert part.both.read(at, limit=1000, flush=True) == (b"three", Cursor(13, 8))


def test_a_piece_that_is_stored_late_is_not_missed(part):
    """Two requests at once: the later one's piece may be seen first. A count over both streams would skip the other."""
    part.write("stderr", b"second\n")
    text, at = part.both.read(Cursor(), limit=1000, flush=False)
    part.write("stdout", b"first\n")
    LogChunk.objects.filter(stream="stdout").update(id=0)
    assert text + part.both.read(at, limit=1000, flush=False)[0] == b"second\nfirst\n"


def test_a_line_longer_than_an_answer_is_not_waited_for(part):
    part.write("stdout", b"x" * 300)
    text, at = part.both.read(Cursor(), limit=100, flush=False)
    assert (text, at) == (b"x" * 100, Cursor(100, 0))


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_long_line_that_ends_within_a_character_waits_for_its_rest(part, missing):
    """A chunk has as many bytes as an answer: such a line is not waited for, but its last character is."""
    smile = "\U0001f600".encode()
    part.write("stdout", b"x" * (96 + missing) + smile[:-missing])
    text, at = part.both.read(Cursor(), limit=100, flush=False)
    assert text == b"x" * (96 + missing)
    part.write("stdout", smile[-missing:] + b"\n")
    assert part.both.read(at, limit=100, flush=False)[0] == smile + b"\n"


def test_a_progress_bar_is_seen_as_it_goes(part):
    part.write("stderr", b"10%\r20%\r30%")
    assert part.both.read(Cursor(), limit=100, flush=False)[0] == b"10%\r20%\r"


def test_the_tail_is_of_both(part):
    for stream, data in (("stdout", b"a\nb\n"), ("stderr", b"c\nd\n"), ("stdout", b"e\n")):
        part.write(stream, data)
    assert part.both.tail(Cursor(), lines=3, limit=100, flush=False) == (b"c\nd\ne\n", Cursor(6, 4))
    assert part.both.tail(Cursor(6, 2), lines=3, limit=100, flush=False)[0] == b"d\n"
    assert part.both.tail(Cursor(), lines=3, limit=5, flush=False)[0] == b"d\ne\n"


@pytest.mark.parametrize("text", ["", "5", "1.2.3", "a.b", "-1.0", "1.2\n", "9" * 20 + ".0"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(BerthError) as error:
        Cursor.of(text)
    assert error.value.field == "cursor"
