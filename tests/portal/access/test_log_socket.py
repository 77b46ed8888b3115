"""The socket of a job's output: who may open it, that it resumes to the byte, and that it ends with the right to it."""

import asyncio
import json

import pytest
from django.utils import timezone

from portal.foundation.api.sockets import SIGNED_OUT
from portal.people.tenants.models import ApiToken, Tenant
from portal.people.tenants.services import membership_remove, token_create, token_revoke, user_update
from portal.work.jobs.api import log_socket, logs
from portal.work.jobs.models import Attempt, Job, LogChunk
from tests.portal.access.test_sockets import _apart, asgi, run, world  # noqa: F401 - fixtures
from tests.portal.access.wire import Socket
from tests.portal.access.world import CASTS


def log_of(asgi, bearer, number, query=""):  # noqa: F811
    headers = [(b"host", b"testserver")]
    if bearer:
        headers.append((b"authorization", f"Bearer {bearer}".encode()))
    return Socket(asgi.application, headers, path=f"/ws/jobs/{number}/logs{query}")


async def heard(live):
    """The pieces of a log, until the portal ends it; and the code with which it does."""
    assert await live.open() is None
    pieces = []
    while (said := await live.talk.receive_output(10))["type"] == "websocket.send":
        pieces.append(json.loads(said["text"]))
    return pieces, said["code"]


def write(attempt, data, stream="stdout"):
    held = LogChunk.objects.filter(attempt=attempt, stream=stream)
    offset = sum(held.values_list("length", flat=True))
    LogChunk.objects.create(
        attempt=attempt, rank=0, stream=stream, offset=offset, length=len(data), data=data, at=timezone.now()
    )


def ended(world):  # noqa: F811
    attempt = Attempt.objects.get(job_id=world.names["zebra-name"])
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now(), state="COMPLETED")
    return attempt


def test_it_opens_to_who_may_read_the_job_and_a_wrong_question_opens_nothing(asgi, world):  # noqa: F811
    own, missing = world.names["zebra-name"], world.names["missing"]
    narrow = token_create(user=world.users["owner"], name="x", scopes=["jobs:write"], actor=None)[1]
    cookie = (b"cookie", f"sessionid={world.clients['owner'].cookies['sessionid'].value}".encode())

    async def all_asked():
        found = {}
        for cast in CASTS:
            live = log_of(asgi, world.bearers.get(cast), own)
            found[cast] = await live.open()
            if found[cast] is None:
                await live.close()
        owner = world.bearers["owner"]
        wrong = [
            "?cursor=x",
            "?what=1",
            "?tail=0",
            "?stream=both",
            "?cursor=1.1&offset=3",
            "?attempt=99",
            "?tail=1&tail=2",
        ]
        asked = [log_of(asgi, owner, own, query) for query in wrong]
        asked += [log_of(asgi, owner, number) for number in (missing, "x", "-1", "9" * 30)]
        asked += [log_of(asgi, narrow, own), Socket(asgi.application, [cookie], path=f"/ws/jobs/{own}/logs")]
        return found, {await each.open() for each in asked}

    opened, refused = run(all_asked())
    assert {cast for cast, code in opened.items() if code is None} == {"owner", "teammate", "operator"}
    assert refused == {log_socket.REFUSED} == {code for code in opened.values() if code is not None}


def test_it_goes_on_where_the_last_whole_message_ended(asgi, world, monkeypatch):  # noqa: F811
    """Chunks that cut a character, from both streams, and a connection after each message."""
    monkeypatch.setattr(log_socket, "LOOK_S", 0.05)
    attempt = ended(world)
    umlaut = "\u00fc\U0001f600".encode()
    for data, stream in ((b"one ", "stdout"), (umlaut[:1], "stdout"), (b"error\n", "stderr"), (umlaut[1:4], "stdout")):
        write(attempt, data, stream)
    write(attempt, umlaut[4:] + b" end")
    monkeypatch.setattr(logs, "MAX_ANSWER_BYTES", 8)

    async def piecewise(stream):
        text, query = "", f"?{stream}"
        while True:
            live = log_of(asgi, world.bearers["owner"], world.names["zebra-name"], query)
            assert await live.open() is None
            piece = await live.hear()
            await live.close()
            text += piece["text"]
            if piece["complete"]:
                return text
            query = f"?{stream}&attempt={piece['attempt']}&cursor={piece['next']}"

    async def both():
        whole, code = await heard(log_of(asgi, world.bearers["owner"], world.names["zebra-name"]))
        return await piecewise("stream=stdout"), await piecewise(""), "".join(each["text"] for each in whole), code

    stdout, two, at_once, code = run(both())
    assert stdout == "hello from zebra-command\none \u00fc\U0001f600 end"
    assert sorted(two) == sorted(at_once) == sorted(f"{stdout}error\n")
    assert code == 1000


def _revoke(world):  # noqa: F811
    for token in ApiToken.objects.filter(user=world.users["teammate"]):
        token_revoke(token=token, actor=None)


def _leave(world):  # noqa: F811
    membership_remove(user=world.users["teammate"], tenant=Tenant.objects.get(name="zebra-lab"), actor=None)


def _deactivate(world):  # noqa: F811
    user_update(user=world.users["teammate"], actor=None, is_active=False)


@pytest.mark.parametrize("end", [_revoke, _leave, _deactivate])
def test_it_ends_with_the_right_to_it(asgi, world, monkeypatch, end):  # noqa: F811
    monkeypatch.setattr(log_socket, "LOOK_S", 0.1)
    number = world.names["zebra-name"]

    async def talk():
        live, other = (log_of(asgi, world.bearers[cast], number) for cast in ("teammate", "owner"))
        found = [await live.open(), await other.open(), (await live.hear())["text"], (await other.hear())["text"]]
        await asyncio.to_thread(_apart, end, world)
        code = (await live.talk.receive_output(5))["code"]
        await asyncio.to_thread(_apart, lambda _: write(Attempt.objects.get(job_id=number), b"more\n"), world)
        found += [code, (await other.hear())["text"]]
        await other.close()
        return found

    assert run(talk()) == [None, None, *["hello from zebra-command\n"] * 2, SIGNED_OUT, "more\n"]


def test_a_request_that_follows_ends_with_the_right_to_it(world, monkeypatch):  # noqa: F811
    """It waits in a thread of its own; the token is asked for while it does."""
    monkeypatch.setattr(logs, "RIGHTS_S", 0.0)
    monkeypatch.setattr(logs, "FOLLOW_PERIOD_S", 0.01)
    query = logs.Asked.part
    monkeypatch.setattr(logs.Asked, "part", lambda asked: (_revoke(world), query(asked))[1])
    job = Job.objects.get(pk=world.names["zebra-name-waits"])
    answer = world.ask("teammate", "api", "GET", f"/api/v1/jobs/{job.pk}/logs?follow=1&wait=5")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "bad_token")
