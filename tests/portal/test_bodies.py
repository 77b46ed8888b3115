"""A body without end fills neither memory nor disk, whoever sends it and wherever to."""

import json

import pytest

from portal.api.bodies import LONG, MOST_BYTES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
PIECE = b"x" * 2**20


@pytest.fixture
def application(settings):
    settings.SECRET_KEY_PROBLEM = None
    from portal import asgi

    return asgi.application.application_mapping["http"]  # without the threads that serve beside it


def scope(path, *headers):
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"content-type", b"application/json"), *headers],
        "client": ("192.0.2.1", 1),
        "server": ("testserver", 80),
        "scheme": "http",
        "http_version": "1.1",
    }


@pytest.mark.parametrize(
    "path",
    ["/login", "/", "/api/v1/jobs", "/jobs/new", "/api/agent/v1/register", "/nothing", "/livez", "/healthz", *LONG],
)
async def test_a_body_without_end_is_refused(application, path):
    pieces, answer = 0, []

    async def receive():
        nonlocal pieces
        pieces += 1
        assert pieces < 300, "it is read on and on"
        return {"type": "http.request", "body": PIECE, "more_body": True}

    async def send(message):
        answer.append(message)

    await application(scope(path, (b"transfer-encoding", b"chunked")), receive, send)
    assert answer[0]["status"] == 413
    assert (b"connection", b"close") in answer[0]["headers"]
    assert pieces <= LONG.get(path, MOST_BYTES) // len(PIECE) + 1
    if path.startswith("/api/"):
        assert json.loads(answer[1]["body"])["error"]["code"] == "too_large"
