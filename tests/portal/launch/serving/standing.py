"""Starts the stand-in server, and talks to it as clients that stop somewhere do."""

import contextlib
import functools
import json
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass

from portal.foundation.layout import SOURCE

PATIENCE_S = 60
GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"


@functools.cache
def anybody():
    """A context that trusts each server. One that would check certificates loads a hundred first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@dataclass
class Server:
    port: int
    process: subprocess.Popen
    tls: bool

    def connect(self, sent=b"", *, plain=False):
        """A new connection, which has sent this; with TLS where the server has it, unless it is to be plain."""
        plug = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        if self.tls and not plain:
            plug = anybody().wrap_socket(plug)
        plug.sendall(sent)
        return plug

    def get(self, path):
        """Body of an answer, on a connection of its own."""
        with self.connect((GET % path.encode()).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as plug:
            return body_of(everything(plug))

    def until_held(self, count):
        """Wait until the server has this number of connections beside the asker's. An asker may be too slow for a busy machine."""

        def held():
            with contextlib.suppress(OSError, ValueError):
                return int(self.get("/held")) == count + 1
            return False

        until(held)


@contextlib.contextmanager
def serving(**asked):
    words = [sys.executable, "-m", "tests.portal.launch.serving.stand_in", json.dumps({"limits": {}} | asked)]
    process = subprocess.Popen(words, cwd=SOURCE, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(int(process.stdout.readline()), process, "certificate" in asked)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def until(true):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def everything(plug):
    """All bytes until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        while piece := plug.recv(1 << 20):
            found += piece
    return found


def body_of(answer):
    """An answer's body, chunked or not."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


def is_closed(plug):
    """Whether the server has closed it; earlier bytes are read and lost."""
    plug.setblocking(False)
    try:
        while plug.recv(1 << 20):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True


def dropped(plug, drop):
    """Send a drop again and again until the server closes the connection."""

    def closed():
        with contextlib.suppress(OSError):
            plug.setblocking(True)
            plug.sendall(drop)
        return is_closed(plug)

    until(closed)
