"""The client's WebSocket against a server that says byte for byte what a test wants, the wrong things too."""

import base64
import contextlib
import hashlib
import socket
import threading

import pytest

from berth_client import websocket
from berth_client.websocket import BrokenError, Duplex, proxied, texts

ACCEPTED = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n"
)
SMILE = "\U0001f600".encode()


def frame(data, kind=1, last=True, first=0, second=0):
    length = len(data)
    code, size = (length, 0) if length < 126 else (126, 2) if length < 1 << 16 else (127, 8)
    small = bytes([code]) + (length.to_bytes(size, "big") if size else b"")
    return bytes([kind | (0x80 if last else 0) | first]) + bytes([small[0] | second]) + small[1:] + data


class Server:
    """Answers one handshake with `answer` and then sends `said`; `heard` is what the client sent after it."""

    def __init__(self, said, answer=ACCEPTED):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/berth/ws?tail=1"
        self.said, self.answer, self.request, self.heard = said, answer, b"", b""
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        with self.listening, self.listening.accept()[0] as talk:
            talk.settimeout(5)
            while b"\r\n\r\n" not in self.request:
                self.request += talk.recv(4096)
            key = self.request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
            accept = base64.b64encode(hashlib.sha1(key + websocket.MARK.encode()).digest()).decode()
            talk.sendall(self.answer.format(accept).encode() + self.said)
            talk.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):  # the client left in the middle
                while data := talk.recv(4096):
                    self.heard += data

    def texts(self):
        found = []
        try:
            found.extend(texts(Duplex(self.url, headers={"Authorization": "Bearer x"}, tls=None)))
        except BrokenError as error:
            return found, str(error)
        self.thread.join(5)
        return found, None


def test_messages_in_one_frame_or_several_with_pings_between_them():
    said = frame(b"one") + frame(SMILE[:2], last=False) + frame(b"?", kind=9) + frame(SMILE[2:], kind=0)
    long = [b"x" * 200, b"y" * 70_000]
    server = Server(said + b"".join(map(frame, long)) + frame(b"", kind=10) + frame(b"\x03\xe8", kind=8))
    assert server.texts() == (["one", SMILE.decode(), *(each.decode() for each in long)], None)
    assert server.request.startswith(b"GET /berth/ws?tail=1 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer x\r\n" in server.request
    pong, close = server.heard[:7], server.heard[7:]
    assert (pong[:2], pong[6] ^ pong[2]) == (b"\x8a\x81", ord("?")), "masked, as section 5.3 wants it"
    assert close[:2] == b"\x88\x82"


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 10])
def test_of_a_message_that_was_cut_nothing_is_yielded(cut):
    assert Server(frame(b"whole") + frame(b"y" * 300)[:cut]).texts() == (["whole"], "The connection ended.")


@pytest.mark.parametrize(
    "wrong",
    [
        frame(b"binary", kind=2),
        frame(b"continued", kind=0),
        frame(b"a", last=False) + frame(b"b"),
        frame(b"masked", second=0x80),
        frame(b"squeezed", first=0x40),
        b"\x81\x7f" + (1 << 62).to_bytes(8, "big"),
        frame(b"\xff\xfe"),
    ],
)
def test_what_is_no_text_of_the_portals_breaks_it(wrong):
    told, why = Server(frame(b"first") + wrong + frame(b"late")).texts()
    assert (told, bool(why)) == (["first"], True)


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 403 Forbidden\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n<html>",
        ACCEPTED.replace("{}", "AAAA"),
        "SSH-2.0-x\r\n",
        "",
        "HTTP/1.1 101 x\r\n" + "a: b\r\n" * 300,
    ],
)
def test_where_no_socket_opens_it_says_so(answer):
    assert Server(b"", answer).texts()[1] is not None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://127.0.0.1:99999/x", "http://[::1/x", "http:///x"])
def test_an_address_that_nobody_is_at_breaks_it(url):
    with pytest.raises(BrokenError):
        Duplex(url, headers={}, tls=None)


def test_a_silent_portal_is_gone(monkeypatch):
    monkeypatch.setattr(websocket, "SILENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(BrokenError):
        Duplex(f"http://127.0.0.1:{listening.getsockname()[1]}/", headers={}, tls=None)


def test_a_proxy_of_the_environment_is_respected(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert not proxied("http://berth.example.org")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    assert (proxied("http://berth.example.org"), proxied("http://localhost:8000")) == (True, False)
