"""A body without end fills neither memory nor disk, whoever sends it and wherever to."""

import asyncio
import json

import pytest
from channels.db import database_sync_to_async

from portal import bodies
from portal.bodies import LONG, MOST_BYTES
from portal.people.tenants.services import token_create
from tests.portal import given

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
    ["/login", "/", "/api/v1/jobs", "/jobs/new", "/api/agent/v1/register", "/nothing", "/livez", "/healthz"],
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
    assert pieces <= MOST_BYTES // len(PIECE) + 1
    if path.startswith("/api/"):
        assert json.loads(answer[1]["body"])["error"]["code"] == "too_large"


async def sent(application, path, *headers, pieces=20, last=None):
    """Send so many MiB; return the answer's status and body, and how many were taken. `last`: what is sent in the end."""
    taken, answer = 0, []

    async def receive():
        nonlocal taken
        taken += 1
        if taken > pieces + (last is not None):
            await asyncio.Event().wait()
        if taken <= pieces:
            return {"type": "http.request", "body": PIECE, "more_body": taken < pieces or last is not None}
        return {"type": "http.request", "body": await last, "more_body": False}

    async def send(message):
        answer.append(message)

    await application(scope(path, *headers), receive, send)
    return answer[0]["status"], b"".join(each.get("body", b"") for each in answer), taken


@pytest.mark.parametrize("path", LONG)
@pytest.mark.parametrize("header", [None, (b"authorization", b"Bearer wrong"), (b"cookie", b"sessionid=wrong")])
async def test_who_is_not_signed_in_sends_no_long_body(application, path, header):
    status, body, taken = await sent(application, path, *[header] * (header is not None))
    assert status == 401
    assert (b"token" if header and header[0] == b"authorization" else b"Sign in") in body
    assert taken <= MOST_BYTES // len(PIECE) + 1


@pytest.mark.parametrize("by", ["token", "session"])
async def test_who_is_signed_in_does(application, by, client):
    header = await database_sync_to_async(signed_in_header)(by, client)
    path = "/api/v1/simulations/traces" if by == "token" else "/laboratory/traces/"
    status, *_ = await sent(application, path, header)
    assert status not in {401, 413}
    status, _, taken = await sent(application, path, header, pieces=300)
    assert (status, taken) == (413, LONG[path] // len(PIECE) + 1)


def signed_in_header(by, client):
    user = given.operator()
    if by == "token":
        secret = token_create(user=user, name="ci", scopes=["jobs:read"], actor=user)[1]
        return b"authorization", f"Bearer {secret}".encode()
    client.force_login(user)
    return b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()


async def test_unfinished_bodies_of_one_address_fill_no_disk(application, monkeypatch):
    monkeypatch.setattr(bodies, "OF_ONE_BYTES", 30 * 2**20, raising=False)
    last = asyncio.get_running_loop().create_future()
    waiting = [asyncio.ensure_future(sent(application, "/nothing", pieces=7, last=last)) for _ in range(6)]
    done, still = await asyncio.wait(waiting, timeout=2)
    assert [each.result()[0] for each in done] == [503] * 2
    small = asyncio.get_running_loop().create_future()
    small.set_result(b"x" * 60_000)
    assert (await sent(application, "/nothing", pieces=0, last=small))[0] != 503, "a page's form still gets in"
    last.set_result(b"")
    await asyncio.gather(*still)
    assert not bodies._held
