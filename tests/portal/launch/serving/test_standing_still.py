"""A connection that sends or reads nothing more is closed; one that is slow but goes on, or waits for an answer, is not."""

import socket
import threading
import time

import pytest

from portal.foundation.layout import Layout
from portal.launch.tls import certificate_ensure
from tests.portal.launch.serving.standing import (
    GET,
    KEY,
    POST,
    UPGRADE,
    body_of,
    dropped,
    everything,
    is_closed,
    serving,
    until,
)

pytestmark = pytest.mark.impure  # processes of their own

SHORT = {"stand_s": 0.4, "look_s": 0.05}
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
# What was sent, and what then comes by drops
SENT = {
    "nothing": (b"", b""),
    "a head": (b"GET / HTTP/1.1\r\nHo", b""),
    "a head by drops": (b"GET / HTTP/1.1\r\nX: ", b"x"),
    "empty lines before a head": (b"", b"\r\n"),
    "half a WebSocket handshake": (UPGRADE, b""),
    "a WebSocket handshake by drops": (UPGRADE + b"X: ", b"x"),
    "a body": (POST % (b"/", 100), b""),
    "a body by drops": (POST % (b"/", 100_000), b"x"),
    "a body whose answer came": (POST % (b"/unread", 100_000), b"x"),
    "no chunk": (CHUNKED, b""),
    "chunks by drops": (CHUNKED, b"1\r\nx\r\n"),
    "a chunk's extension by drops": (CHUNKED + b"1;x=", b"x"),
    "trailers by drops": (CHUNKED + b"0\r\nX: ", b"x"),
    "nothing after an answer": (GET % b"/", b""),
    "empty lines after an answer": (GET % b"/", b"\r\n"),
    "a second head by drops": (GET % b"/" + b"GET / HTTP/1.1\r\nX: ", b"x"),
    "a second head by drops before the answer": (GET % b"/wait?600" + b"GET / HTTP/1.1\r\nX: ", b"x"),
}


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def server(request):
    with serving(limits=SHORT, loop=request.param) as found:
        yield found


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def encrypted(request, tmp_path_factory):
    tls = certificate_ensure(Layout(tmp_path_factory.mktemp("keys")), "127.0.0.1")
    with serving(limits=SHORT, loop=request.param, certificate=str(tls.certificate), key=str(tls.key)) as found:
        yield found


@pytest.mark.parametrize("what", SENT)
def test_who_sends_no_more_than_this_is_closed(server, what):
    sent, drop = SENT[what]
    with server.connect(sent) as plug:
        dropped(plug, drop)


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02\x00\x01", GET % b"/"], ids=["silent", "half a hello", "no TLS"]
)
def test_a_handshake_that_does_not_end_is_closed(encrypted, sent):
    with encrypted.connect(sent, plain=True) as plug:
        until(lambda: is_closed(plug))
    encrypted.until_held(0)


@pytest.mark.parametrize("what", ["nothing", "a head by drops", "a body by drops", "a WebSocket handshake by drops"])
def test_the_same_holds_behind_a_handshake(encrypted, what):
    sent, drop = SENT[what]
    with encrypted.connect(sent) as plug:
        dropped(plug, drop)


LONG = {
    "pieces": GET % b"/pieces?1000",
    "one large piece": GET % b"/lump?500",
    "one large piece, then the end": (GET % b"/lump?500").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    "two answers": GET % b"/pieces?1000" + GET % b"/pieces?1000",
    "what a WebSocket tells": UPGRADE + KEY,
}


def unread(server, what):
    with server.connect(LONG[what]) as plug:
        if "WebSocket" in what:
            assert b"101" in plug.recv(1000)
            plug.sendall(b"\x81\x84\0\0\0\x001000")  # a masked text of four letters
        time.sleep(0.1)  # it has begun to answer
        server.until_held(0)


@pytest.mark.parametrize("what", LONG)
def test_who_does_not_read_an_answer_is_closed(server, what):
    unread(server, what)


@pytest.mark.parametrize("what", ["pieces", "one large piece", "what a WebSocket tells"])
def test_who_does_not_read_an_encrypted_answer_is_closed(encrypted, what):
    unread(encrypted, what)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(encrypted):
    assert encrypted.get("/") == b"0 from 127.0.0.1"


LASTS_S = 5


def by_pieces(server):
    with server.connect(POST % (b"/", 5_000)) as plug:
        for _ in range(10):
            plug.sendall(b"x" * 500)
            time.sleep(LASTS_S / 10)
        return plug.recv(1000) + plug.recv(1000)


def read_slowly(path, count):
    def read(server):
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that it is the server that waits
        plug.connect(("127.0.0.1", server.port))
        plug.sendall((GET % path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        found = b""
        for _ in range(20):
            found += plug.recv(10_000)
            time.sleep(LASTS_S / 20)
        with plug:
            return b"%d read" % (len(body_of(found + everything(plug))) // 65_536 - count)

    return read


def talk_late(server):
    with server.connect(UPGRADE + KEY) as plug:
        assert b"101" in plug.recv(1000)
        time.sleep(LASTS_S)
        plug.sendall(b"\x81\x81\0\0\0\x000")
        return plug.recv(1000)


def ask(sent):
    def asking(server):
        with server.connect(sent) as plug:
            return plug.recv(1000) + plug.recv(1000)

    return asking


def invited_late(server):
    head = (POST % (b"/late?%d" % LASTS_S, 5)).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    with server.connect(head) as plug:
        assert b"100 Continue" in plug.recv(1000)
        plug.sendall(b"hello")
        return plug.recv(1000) + plug.recv(1000)


SLOW = {
    "a body in pieces": (by_pieces, b"5000 from"),
    "an answer in pieces": (read_slowly(b"/pieces?100", 100), b"0 read"),
    "an answer in one piece": (read_slowly(b"/lump?100", 100), b"0 read"),
    "an answer that takes long": (ask(GET % b"/wait?%d" % LASTS_S), b"0 from"),
    "a body that the server does not read": (
        ask(POST % (b"/late?%d" % LASTS_S, 3_000_000) + b"x" * 3_000_000),
        b"3000000",
    ),
    "a body that the server does not yet invite": (invited_late, b"5 from"),
    "a WebSocket where nobody says anything": (talk_late, b"\x81\x010"),
}


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_who_is_slow_but_goes_on_is_served(loop):
    """All at once, for more than twice as long as one may stand still."""
    with serving(limits={"stand_s": 2, "look_s": 0.1, "piece": 1000}, loop=loop) as server:
        found = {}

        def note(what, client):
            found[what] = client(server)

        threads = [threading.Thread(target=note, args=(what, client)) for what, (client, _) in SLOW.items()]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    wrong = {what: found.get(what) for what, (_, wanted) in SLOW.items() if wanted not in found.get(what, b"")}
    assert not wrong
