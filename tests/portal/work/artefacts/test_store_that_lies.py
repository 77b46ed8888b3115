"""A store whose answers are wrong, endless or no S3: what is read is never more than asked for, and the failure has its name."""

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from portal.work.artefacts import remote

KEY, NAME = "k" * 20, "0" * 32
GARBAGE = (
    b"",
    b"<html>",
    b"{}",
    b"\xff\xfe\0",
    b'<?xml version="1.0"?><ListBucketResult><Contents/></ListBucketResult>',
)
BILLION = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "%s">' % (b"ha" * 2048)
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 20) for n in range(9))
    + b"]><ListBucketResult><Name>&j;</Name></ListBucketResult>"
)
"""A name of 20^9 times 4 KiB: a parser stops after some MiB of it, which few long pieces make sooner than many short ones."""
DATED = b"<ListBucketResult><Contents><Key>kk/%s/%s</Key><LastModified>%s</LastModified></Contents></ListBucketResult>"


@pytest.fixture(scope="module")
def serving():
    """The server's answer, and boto3's client of it, which takes a quarter of a second to make."""
    told = SimpleNamespace(status=200, headers={}, chunks=(), sent=0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                for chunk in told.chunks:
                    self.wfile.write(chunk)
                    told.sent += len(chunk)

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - as above

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "NO_PROXY": "127.0.0.1"}
    settings |= {"BERTH_S3_URL": "s3://bucket", "BERTH_S3_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in settings.items():
            patch.setenv(key, value)
        remote._client.cache_clear()
        yield told
    server.shutdown()
    server.server_close()
    remote._client.cache_clear()
    remote._rests_until[0] = 0.0


@pytest.fixture
def liar(serving):
    """`says(status, headers, chunks)`: the answer to each request from now on."""

    def says(status=200, headers=(), chunks=()):
        serving.status, serving.headers, serving.chunks, serving.sent = status, dict(headers), chunks, 0
        remote._rests_until[0] = 0.0
        return serving

    says()
    return says


def read(start, stop):
    return b"".join(remote.pieces(KEY, NAME, start=start, stop=stop))


def listed():
    return [each for page in remote.listing() for each in page]


def test_more_than_was_asked_for_is_not_read(liar):
    told = liar(206, {"Content-Range": "bytes 5-14/15"}, (b"x" * 65536 for _ in range(3000)))
    assert read(5, 15) == b"x" * 10
    assert told.sent < 50 * 2**20


def test_another_part_than_was_asked_for_is_not_taken_for_it(liar):
    for answer in ((200, {}), (206, {"Content-Range": "bytes 0-9/15"}), (206, {})):
        liar(*answer, [b"0123456789"])
        with pytest.raises(remote.StoreAway, match="") as told:
            read(5, 15)
        assert "another part" in told.value.why
    liar(200, {}, [b"0123456789"])
    assert read(0, 10) == b"0123456789"  # all of it is its beginning too


@pytest.mark.parametrize("body", [*GARBAGE, BILLION, DATED % (KEY.encode(), NAME.encode(), b"yesterday")])
def test_what_is_no_answer_of_s3_is_the_store_away_or_nothing(liar, body):
    for status in (200, 400) if body is BILLION else (200, 400, 500):  # after 500 it is asked, and read, twice
        for ask in (listed, remote.unfinished_drop, remote.try_out, lambda: remote.drop([(KEY, NAME)])):
            liar(status, {"Content-Type": "application/xml"}, [body])
            with suppress(remote.StoreAway):
                assert not ask()


def test_a_whole_content_whose_arrival_is_not_told_is_not_taken_to_be_there(liar, tmp_path):
    path = tmp_path / "content"
    path.write_bytes(b"abc")
    for headers in ({}, {"Content-Length": "many"}, {"Content-Length": "-3"}):
        liar(200, headers)
        with pytest.raises(remote.StoreAway):
            remote.send(KEY, NAME, path)
