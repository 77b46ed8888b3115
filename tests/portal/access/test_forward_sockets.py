"""A forwarded port: who may open one, what travels between program and node, and what a hostile end of either achieves."""

import asyncio
import json

import pytest
from django.utils import timezone

from portal.foundation.api.sockets import SIGNED_OUT
from portal.pages.dashboard.forward import carrying
from portal.pages.dashboard.terminal import session
from portal.people.tenants.models import ApiToken, AuditEvent, Membership
from portal.work.jobs.models import Allocation, IdleWatch, Job
from tests.portal.access.test_sockets import _apart, asgi, run, world  # noqa: F401 - fixtures
from tests.portal.access.test_terminal_programs import token_of
from tests.portal.access.test_terminal_sockets import agent, ended, frame, running  # noqa: F401
from tests.portal.access.wire import Socket
from workers.protocol.frames import MOST_DATA, WINDOW, Kind, pack, pack_end, unpack, unpack_object


def program(asgi, token, number, *, query="", more=()):  # noqa: F811
    headers = [(b"host", b"testserver"), *more]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    return Socket(asgi.application, headers, path=f"/ws/jobs/{number}/forward{query}")


async def opened(asgi, world, running, secret):  # noqa: F811
    """A program and its node, with one stream between them; its number at each end."""
    node = agent(asgi, world.bearers[running.node.name])
    assert await node.open() is None
    live = program(asgi, secret, world.names["zebra-name"])
    assert await live.open() is None
    await live.say({"port": 8888})
    assert await live.hear() == {"state": "open", "node": running.node.name}
    await live.say_bytes(pack(Kind.OPEN, 7))
    kind, number, body = await frame(node)
    assert kind is Kind.OPEN
    await node.say_bytes(pack(Kind.OPENED, number))
    assert await frame(live) == (Kind.OPENED, 7, b"")
    return live, node, number, unpack_object(body)


def test_who_may_not_is_told_and_a_browser_is_turned_away(asgi, world, running):  # noqa: F811
    own = world.names["zebra-name"]
    good, reading = token_of(world, "owner")[1], token_of(world, "owner", scopes=["jobs:read"])[1]
    outsider, viewer = token_of(world, "outsider")[1], token_of(world, "teammate")[1]
    Membership.objects.filter(user=world.users["teammate"]).update(role=Membership.Role.VIEWER)
    cookie = [
        (b"cookie", f"sessionid={world.clients['owner'].cookies['sessionid'].value}".encode()),
        (b"origin", b"http://testserver"),
    ]

    async def told(token, number, first, **more):
        live = program(asgi, token, number, **more)
        if (code := await live.open()) is not None:
            return code
        await live.say(first)
        return (await ended(live))[0]["code"]

    async def all_asked():
        asked = {"port": 8888}
        return {
            "browser": await told(None, own, asked, more=cookie),
            "scope": await told(reading, own, asked, more=cookie),
            "foreign": await told(outsider, own, asked),
            "viewer": await told(viewer, own, asked),
            "missing": await told(good, 987654, asked),
            "waiting": await told(good, world.names["zebra-name-waits"], asked),
            "rank": await told(good, own, asked, query="?rank=1"),
            **{f"port {each}": await told(good, own, {"port": each}) for each in (0, 65_536, "80", True, None)},
            "no object": await told(good, own, "[]"),
        }

    found = run(all_asked())
    assert (found.pop("browser"), found.pop("scope")) == (SIGNED_OUT, SIGNED_OUT)
    assert (found.pop("foreign"), found.pop("missing"), found.pop("viewer")) == ("not_found", "not_found", "viewer")
    assert (found.pop("waiting"), found.pop("rank")) == ("not_running", "not_running")
    assert set(found.values()) == {"invalid"}
    assert not AuditEvent.objects.filter(action__startswith="job.forward").exists()


def test_bytes_go_both_ways_and_the_trail_says_who_and_where(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(session, "CHECK_S", 0.1)
    Job.objects.filter(pk=running.attempt.job_id).update(idle_timeout_s=3600)
    IdleWatch.objects.create(attempt=running.attempt, frame=0, used_at=timezone.now())
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, number, asked = await opened(asgi, world, running, secret)
        await live.say_bytes(pack(Kind.DATA, 7, b"GET / \0\xff"))
        there = await frame(node)
        await node.say_bytes(pack(Kind.DATA, number, b"200 \0\xff"))
        await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The job has closed the connection.")))
        back = [await frame(live), await frame(live)]
        await asyncio.sleep(0.5)
        await live.close()
        await node.close()
        return asked, there == (Kind.DATA, number, b"GET / \0\xff"), back

    asked, there, (data, close) = run(talk())
    attempt = running.attempt
    assert asked == {"kind": "port", "attempt": attempt.key, "epoch": attempt.epoch, "rank": 0, "port": 8888}
    assert there
    assert data == (Kind.DATA, 7, b"200 \0\xff")
    assert (close[:2], unpack_object(close[2])["code"]) == ((Kind.CLOSE, 7), "ended")
    trail = list(AuditEvent.objects.filter(action__startswith="job.forward").order_by("pk"))
    assert [(each.action, each.detail["port"]) for each in trail] == [("job.forward", 8888), ("job.forward_end", 8888)]
    assert IdleWatch.objects.get().used_by == "port"


def test_what_the_node_refuses_is_told_and_other_connections_go_on(asgi, world, running):  # noqa: F811
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, number, _ = await opened(asgi, world, running, secret)
        await live.say_bytes(pack(Kind.OPEN, 8))
        _, second, _ = await frame(node)
        await node.say_bytes(pack(Kind.CLOSE, second, pack_end("not_listening", "Nothing in the job listens on it.")))
        refused = await frame(live)
        await node.say_bytes(pack(Kind.DATA, number, b"on"))
        other = await frame(live)
        await live.close()
        await node.close()
        return refused, other

    refused, other = run(talk())
    assert (refused[:2], unpack_object(refused[2])["detail"]) == ((Kind.CLOSE, 8), "Nothing in the job listens on it.")
    assert other == (Kind.DATA, 7, b"on")


@pytest.mark.parametrize(
    "hostile",
    [
        [pack(Kind.OPENED, 7)],
        [pack(Kind.SIZE, 7, b"\0\x10\0\x10")],
        [pack(Kind.OPEN, 7)],
        [pack(Kind.CREDIT, 7, b"\xff\xff\xff\xff")],
        [b"\xff"],
        [pack(Kind.DATA, 7, b"x" * (MOST_DATA + 1))],
        [pack(Kind.CLOSE, 7, b"[]")],
        [pack(Kind.DATA, 7, b"x" * MOST_DATA)] * 12,
    ],
)
def test_a_program_that_breaks_the_rules_is_ended_with_its_streams(asgi, world, running, hostile):  # noqa: F811
    """The last one sends more than the node reads: 64 KiB wait on the way to it, and as many at the portal."""
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, number, _ = await opened(asgi, world, running, secret)
        for each in hostile:
            await live.say_bytes(each)
        told = await ended(live)
        taken = 0
        while (came := await frame(node))[0] is Kind.DATA:
            taken += len(came[2])
        await node.close()
        return told[0]["code"], came[:2] == (Kind.CLOSE, number), taken

    code, closed, taken = run(talk())
    assert (code, closed) == ("invalid", True)
    assert taken <= WINDOW


def test_no_more_connections_than_the_most(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(carrying, "MOST_STREAMS", 1)
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, number, _ = await opened(asgi, world, running, secret)
        await live.say_bytes(pack(Kind.OPEN, 8))
        refused = await frame(live)
        await live.say_bytes(pack(Kind.CLOSE, 7, pack_end("left", "")))
        assert (await frame(node))[:2] == (Kind.CLOSE, number)
        assert (await frame(live))[:2] == (Kind.CLOSE, 7)
        await live.say_bytes(pack(Kind.OPEN, 9))
        again = (await frame(node))[0]
        await live.close()
        await node.close()
        return refused, again

    refused, again = run(talk())
    assert (refused[:2], unpack_object(refused[2])["code"], again) == ((Kind.CLOSE, 8), "too_many", Kind.OPEN)


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda: ApiToken.objects.update(revoked_at=timezone.now()), "right_ended"),
        (lambda: Allocation.objects.update(released_at=timezone.now()), "ended"),
    ],
)
def test_it_ends_with_the_right_and_with_the_attempt(asgi, world, running, monkeypatch, happens, code):  # noqa: F811
    monkeypatch.setattr(session, "CHECK_S", 0.1)
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, number, _ = await opened(asgi, world, running, secret)
        await asyncio.to_thread(_apart, lambda _: happens(), world)
        told = await ended(live)
        closed = (await frame(node))[:2]
        await node.close()
        return told[0]["code"], closed == (Kind.CLOSE, number)

    assert run(talk()) == (code, True)


def test_one_counts_among_the_terminals(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setenv("BERTH_TERMINALS_PER_USER", "1")
    _, secret = token_of(world, "owner")

    async def talk():
        live, node, _, _ = await opened(asgi, world, running, secret)
        second = program(asgi, secret, world.names["zebra-name"])
        assert await second.open() is None
        await second.say({"port": 6006})
        told = (await ended(second))[0]
        await live.close()
        await node.close()
        return told

    told = run(talk())
    assert told["code"] == "too_many"
    assert json.dumps(told).count("1 terminals and forwarded ports")


def test_frames_are_those_of_a_channel():
    assert unpack(pack(Kind.DATA, 7, b"x")) == (Kind.DATA, 7, b"x")
