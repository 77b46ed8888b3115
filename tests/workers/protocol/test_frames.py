"""Frames of a channel and one stream's window: what arrives is what was sent, and nobody holds more than was asked for."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.protocol.frames import MOST_DATA, WINDOW, ClosedError, FrameError, Kind, Stream, pack, pack_end, unpack


@given(st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=8))
def test_a_frame_comes_back_as_it_was(kind, number, body):
    body = b"" if kind is Kind.OPENED else body[:4]
    assert unpack(pack(kind, number, body)) == (kind, number, body)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_refused(data):
    try:
        kind, number, body = unpack(data)
        Stream(number, None).take(kind, body)
    except FrameError:
        return
    assert pack(kind, number, body) == data


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b"[" * 4000],
)
def test_a_close_without_its_object_is_refused(body):
    with pytest.raises(FrameError):
        Stream(1, None).take(Kind.CLOSE, body)


def test_what_one_end_may_not_send_is_refused():
    stream = Stream(1, None)
    for _ in range(WINDOW // MOST_DATA):
        stream.take(Kind.DATA, b"x" * MOST_DATA)
    with pytest.raises(FrameError, match="not asked for"):
        stream.take(Kind.DATA, b"x")
    with pytest.raises(FrameError, match="credit"):
        Stream(1, None).take(Kind.CREDIT, (1).to_bytes(4, "big"))
    for columns, rows in ((0, 5), (5, 0), (60000, 5)):
        with pytest.raises(FrameError, match="terminal"):
            Stream(1, None).take(Kind.SIZE, columns.to_bytes(2, "big") + rows.to_bytes(2, "big"))
    with pytest.raises(FrameError):
        unpack(pack(Kind.DATA, 1, b"x" * (MOST_DATA + 1)))


def pair():
    """Two ends of one stream; `under_way` tells how much of the first end's data the second has not read."""
    ends = {}

    async def to(name, frame):
        await asyncio.sleep(0)
        kind, _, body = unpack(frame)
        ends[name].take(kind, body)

    ends["a"], ends["b"] = Stream(1, lambda frame: to("b", frame)), Stream(1, lambda frame: to("a", frame))
    return ends["a"], ends["b"]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=3 * MOST_DATA), max_size=12))
def test_all_of_it_arrives_in_order_however_large_the_pieces(pieces):
    async def both():
        a, b = pair()

        async def write():
            for piece in pieces:
                await a.write(piece)
            b.end("done", "")

        task = asyncio.create_task(write())
        heard = b""
        while data := await b.read():
            heard += data
        await task
        return heard

    assert asyncio.run(asyncio.wait_for(both(), 20)) == b"".join(pieces)


def test_who_does_not_read_stops_the_other_at_the_window():
    async def both():
        a, b = pair()
        task = asyncio.create_task(a.write(b"x" * (4 * WINDOW)))
        await asyncio.sleep(0.05)
        assert not task.done()
        assert (a.moved, b.moved) == (WINDOW, 0)
        await b.read()
        await asyncio.sleep(0.05)
        assert a.moved == WINDOW + MOST_DATA
        a.end("left", "The reader is gone.")
        with pytest.raises(ClosedError, match="gone"):
            await task

    asyncio.run(asyncio.wait_for(both(), 20))


def test_the_end_says_why_once_and_what_came_before_can_be_read():
    async def one():
        stream = Stream(1, lambda _: asyncio.sleep(0))
        stream.take(Kind.DATA, b"last words")
        stream.take(Kind.CLOSE, pack_end("ended", "The shell has ended."))
        stream.end("away", "later")
        assert await stream.read() == b"last words"
        assert await stream.read() == b""
        assert stream.why == ("ended", "The shell has ended.")
        with pytest.raises(ClosedError):
            await stream.opened()

    asyncio.run(one())
