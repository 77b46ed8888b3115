"""The store has other credentials now, or another server at its address: what the portal keeps of before is given up."""

import os
import threading
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest

from portal.work.artefacts import remote
from tests.portal.work.artefacts.test_remote import KEYS, S3Server, server  # noqa: F401 - a fixture

REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>"
CREDENTIALS = "[default]\naws_access_key_id = {key}\naws_secret_access_key = shown-nowhere\n"


class Door(BaseHTTPRequestHandler):
    """Stands before a real server, keeps connections, and lets in who has the key: all others get `refusal`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        told, body = self.server.told, self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if f"Credential={told['key']}/" not in self.headers.get("Authorization", ""):
            self.answer(told["refusal"], REFUSED)
            return
        connection = HTTPConnection("127.0.0.1", told["port"])
        connection.request(self.command, self.path, body, headers=dict(self.headers))
        answer = connection.getresponse()
        self.answer(answer.status, answer.read(), answer.getheader("Content-Length"))
        connection.close()

    do_HEAD = do_PUT = do_GET  # noqa: N815 - as above

    def answer(self, status, body, length=None):
        self.send_response(status)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def door(server, monkeypatch, tmp_path):  # noqa: F811
    """The door before a server with a bucket, set as the store; the key is kept in a file."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    made.daemon_threads = True
    made.told = {"key": "old", "refusal": 403, "port": server.port}
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bucket_make(server.url, "kept")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    made.file = tmp_path / "credentials"
    made.file.write_text(CREDENTIALS.format(key="old"))
    settings = {"BERTH_S3_URL": "s3://kept", "BERTH_S3_ENDPOINT": f"http://127.0.0.1:{made.server_port}"}
    for name, value in (settings | {"BERTH_S3_CREDENTIALS_FILE": str(made.file)}).items():
        monkeypatch.setenv(name, value)
    forget()
    yield made
    forget()
    made.shutdown()
    made.server_close()


def forget():
    remote._client.cache_clear()
    remote._rests_until[0] = 0.0
    remote._forgot_at[0] = float("-inf")


def bucket_make(url, name):
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    with suppress(client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=name)


def send(folder):
    (folder / "content").write_bytes(b"abc")
    remote.send("k" * 20, "0" * 32, folder / "content")


@pytest.mark.parametrize("ask", [lambda _: remote.try_out(), lambda _: list(remote.listing()), send])
def test_keys_that_were_changed_in_their_file_are_read_anew_after_a_refusal(door, tmp_path, ask):
    ask(tmp_path)
    door.told["key"] = "new"
    door.file.write_text(CREDENTIALS.format(key="new"))
    with pytest.raises(remote.StoreAway):
        ask(tmp_path)
    ask(tmp_path)


def test_another_server_at_the_address_is_found_after_a_refusal(door):
    remote.try_out()
    door.told |= {"key": "nobody", "refusal": 503}  # the server of before says this on the connection that is kept
    door.shutdown()
    door.socket.close()
    now = S3Server(door.server_port)
    try:
        bucket_make(now.url, "kept")
        with pytest.raises(remote.StoreAway):
            remote.try_out()
        remote.try_out()
    finally:
        now.end()


def test_a_client_is_not_made_anew_at_each_refusal(door):
    door.told["key"] = "nobody"
    made = []
    for _ in range(4):
        with pytest.raises(remote.StoreAway):
            remote.try_out()
        made.append(remote._client(os.getpid()))
    assert len({id(each) for each in made}) == 1
