"""The client's two-way WebSocket against a server that says byte for byte what a test wants, the wrong things too."""

import select
import time

import pytest

from berth_client.websocket import BrokenError, Duplex
from tests.client.test_websocket import SMILE, Server, frame


def receive(server, *, until_s=10):
    """All messages until the server closes, or the words of the break."""
    found, end = [], time.monotonic() + until_s
    talk = Duplex(server.url, headers={"Authorization": "Bearer x"}, tls=None)
    try:
        while not talk.is_over and time.monotonic() < end:
            select.select([talk], [], [], 1)
            found += talk.take()[0]
        talk.flush()
    except BrokenError as error:
        return found, str(error), talk
    return found, None, talk


def unmasked(data):
    """Kinds and contents of the frames that a client sent."""
    found = []
    while data:
        length, at = data[1] & 0x7F, 2
        assert data[1] & 0x80, "masked, as section 5.3 wants it"
        if length > 125:
            at += 2 if length == 126 else 8
            length = int.from_bytes(data[2:at], "big")
        mask, body = data[at : at + 4], data[at + 4 : at + 4 + length]
        found.append((data[0] & 0x0F, bytes(each ^ mask[place % 4] for place, each in enumerate(body))))
        data = data[at + 4 + length :]
    return found


def test_texts_and_bytes_in_one_frame_or_several_with_a_ping_between_them():
    said = frame(b"\xff\x00", kind=2) + frame(SMILE[:2], last=False) + frame(b"?", kind=9) + frame(SMILE[2:], kind=0)
    server = Server(said + frame(b"y" * 70_000, kind=2) + frame(b"", kind=10) + frame(b"\x03\xe8", kind=8))
    found, why, talk = receive(server)
    assert (found, why) == ([b"\xff\x00", SMILE.decode(), b"y" * 70_000], None)
    talk.close()
    server.thread.join(5)
    assert unmasked(server.heard) == [(10, b"?"), (8, b"\x03\xe8")]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 300_001])
def test_what_is_sent_arrives(size):
    server = Server(b"")
    talk = Duplex(server.url, headers={}, tls=None)
    talk.send(b"\xa5" * size)
    talk.send("text")
    while talk.waiting:
        select.select([], [talk], [], 1)
        talk.flush()
    talk.close()
    server.thread.join(5)
    assert unmasked(server.heard) == [(2, b"\xa5" * size), (1, b"text"), (8, b"\x03\xe8")]


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 10])
def test_of_a_message_that_was_cut_nothing_comes(cut):
    found, why, _ = receive(Server(frame(b"whole") + frame(b"y" * 300)[:cut]))
    assert (found, why) == (["whole"], "The connection ended.")


@pytest.mark.parametrize(
    "wrong",
    [
        frame(b"continued", kind=0),
        frame(b"a", last=False) + frame(b"b"),
        frame(b"\xff"),
        frame(b"a", kind=3),
        frame(b"a", first=0x40),
        frame(b"a", second=0x80),
        b"\x82\x7f" + (1 << 40).to_bytes(8, "big"),
    ],
)
def test_what_no_portal_sends_ends_it(wrong):
    found, why, _ = receive(Server(wrong))
    assert found == []
    assert why.startswith("This is no ")


def test_where_none_opens_it_says_so():
    with pytest.raises(BrokenError, match="No WebSocket is opened there"):
        Duplex(Server(b"", answer="HTTP/1.1 403 Forbidden\r\n\r\n{}").url, headers={}, tls=None)
    with pytest.raises(BrokenError, match="does not answer"):
        Duplex("http://127.0.0.1:1/", headers={}, tls=None)
