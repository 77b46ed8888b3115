"""HTTP with a job's server: the head of a request is written, an answer is read.

llhttp reads it, as it reads the requests of browsers: in C, and in a time that grows only with the bytes. A regular expression
of h11 took the square of a line's spaces, seconds for one line, and let through answers that the web server could not send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from portal.pages.dashboard.ports.headers import MOST_HEADERS, to_job

if TYPE_CHECKING:
    from portal.pages.dashboard.ports.headers import Headers, Origin

MOST_HEAD = 32 * 1024
"""Bytes of an answer without a byte of its body among them: heads, early answers, lengths of chunks and trailers."""
EARLY, STATUSES = {100, 102, 103}, range(200, 600)


class Stopped(Exception):
    """The answer cannot be given, or not to its end. The text says why."""


def head_of(scope: dict[str, Any], origin: Origin) -> bytes:
    """Return a request's head. Its lines and body were framed by the web server, which lets through none that are ambiguous."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = to_job(scope["headers"], origin)
    if is_chunked(scope):  # it has come off, and is put on again
        headers = [each for each in headers if each[0].lower() != b"content-length"]
        headers.append((b"transfer-encoding", b"chunked"))
    lines = [b"%b: %b\r\n" % each for each in [*headers, (b"connection", b"close")]]
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (scope["method"].encode(), target, b"".join(lines))


def is_chunked(scope: dict[str, Any]) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])


def body_of(piece: bytes, *, chunked: bool, last: bool) -> bytes:
    """Return a piece of a request's body as it goes on the wire."""
    if not chunked:
        return piece
    return (b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"") + (b"0\r\n\r\n" if last else b"")


class Answer:
    """An answer as it comes. `head` is whole once `status` is none of an early one; `is_whole` once the body has ended."""

    def __init__(self, method: str) -> None:
        self.status = 0
        self.headers: Headers = []
        self.is_whole = False
        self._pieces: list[bytes] = []
        self._events, self._bare, self._is_head = 0, 0, method == "HEAD"
        self._llhttp = HttpResponseParser(self)
        self._llhttp.set_dangerous_leniencies(  # as browsers take it
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def take(self, data: bytes) -> tuple[bytes, int]:
        """Read more of it; return its part of the body, and the number of pieces of that part. Raises Stopped."""
        self._pieces, self._events = [], 0
        self._bare += len(data)
        try:
            self._llhttp.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.is_whole:  # more after its end is none of it
                raise Stopped(f"The job's server gave an answer that is no HTTP: {_why(error)}.") from None
        if self._bare > MOST_HEAD and not self.is_whole:
            raise Stopped(f"The job's server sent {MOST_HEAD} bytes of headers and no answer.")
        return b"".join(self._pieces), self._events

    def end(self, *, cut: str) -> None:
        """Take the end of the connection. Raises Stopped where the answer was to have more. `cut`: why, where it broke off."""
        names = {name.lower() for name, _ in self.headers}
        if not self.is_whole and (cut or not self.status or names & {b"content-length", b"transfer-encoding"}):
            raise Stopped(cut or "The job's server closed the connection before its answer was whole.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not (self.is_whole or self.status):  # after it come trailers
            self.headers.append((name, value))
            if len(self.headers) > MOST_HEADERS:
                raise ValueError(f"it has more than {MOST_HEADERS} headers")

    def on_headers_complete(self) -> None:
        status = self._llhttp.get_status_code()
        if self.is_whole:
            return
        if status in EARLY:
            self.headers = []
        elif status in STATUSES:
            self.status, self.is_whole = status, self._is_head
        else:
            raise ValueError(f"its status is {status}")

    def on_body(self, piece: bytes) -> None:
        self._events += 1
        if not self.is_whole:
            self._bare = 0
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self.is_whole = self.status > 0


def _why(error: Exception) -> str:
    """Return llhttp's words, or our own where `Answer` found it."""
    return str(error.__context__ if isinstance(error.__context__, ValueError) else error) or "it breaks off"
