"""The two sockets of a terminal: who may open which, what travels between them, and what a hostile end of either achieves."""

import asyncio
import json

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.foundation.api.sockets import SIGNED_OUT
from portal.nodes import channel as channels
from portal.nodes.calls import CALLS
from portal.pages.dashboard.terminal import session as sessions
from portal.pages.dashboard.terminal import socket as terminals
from portal.people.tenants.models import AuditEvent, Membership, Tenant
from portal.people.tenants.services import membership_remove
from portal.work.jobs.models import Allocation, Attempt
from tests.portal.access.test_sockets import _apart, asgi, poll, run, world  # noqa: F401 - fixtures
from tests.portal.access.wire import Socket
from tests.portal.access.world import CASTS
from workers.protocol.frames import MOST_DATA, WINDOW, Kind, pack, pack_end, unpack, unpack_object

OURS = (b"origin", b"http://testserver")


@pytest.fixture
def running(world):  # noqa: F811
    """The owner's job with one running part, as its node has told."""
    attempt = Attempt.objects.get(job_id=world.names["zebra-name"], ended_at=None)
    Attempt.objects.filter(pk=attempt.pk).update(state="RUNNING", started_at=timezone.now(), stop_reason="")
    Allocation.objects.filter(attempt=attempt).update(state=Allocation.State.RUNNING)
    return Allocation.objects.select_related("node", "attempt").get(attempt=attempt, rank=0)


def browser(asgi, world, cast, number, *, origin=OURS, query=""):  # noqa: F811
    headers = [(b"host", b"testserver"), *([origin] if origin else [])]
    if cast in world.clients and "sessionid" in world.clients[cast].cookies:
        headers.append((b"cookie", f"sessionid={world.clients[cast].cookies['sessionid'].value}".encode()))
    return Socket(asgi.application, headers, path=f"/ws/jobs/{number}/terminal{query}")


def agent(asgi, secret):  # noqa: F811
    headers = [(b"host", b"testserver")] + ([(b"authorization", f"Bearer {secret}".encode())] if secret else [])
    return Socket(asgi.application, headers, path="/api/agent/v1/channel")


async def frame(node):
    """The next frame that the portal sends a node; credit is left out."""
    while True:
        answer = await node.talk.receive_output(10)
        assert answer["type"] == "websocket.send", answer
        kind, number, body = unpack(answer["bytes"])
        if kind is not Kind.CREDIT:
            return kind, number, body


async def ended(live):
    """What a browser is told last, and the code with which its socket is closed."""
    last = None
    while (answer := await live.talk.receive_output(20))["type"] == "websocket.send":
        last = json.loads(answer["text"]) if answer.get("text") else last
    return last, answer["code"]


async def opened(asgi, world, running, cast="owner"):  # noqa: F811
    """A browser and a node with one open stream."""
    node = agent(asgi, world.bearers[running.node.name])
    assert await node.open() is None
    live = browser(asgi, world, cast, world.names["zebra-name"])
    assert await live.open() is None
    kind, number, body = await frame(node)
    assert kind is Kind.OPEN
    await node.say_bytes(pack(Kind.OPENED, number))
    assert [await live.hear(), await live.hear()] == [{"state": "opening"}, {"state": "open"}]
    return live, node, number, unpack_object(body)


def test_each_cast_at_the_terminal(asgi, world, running):  # noqa: F811
    async def all_asked():
        found = {}
        for cast in CASTS:
            live = browser(asgi, world, cast, world.names["zebra-name"])
            found[cast] = await live.open()
            if found[cast] is None:
                await live.close()
        return found

    refused, out = terminals.REFUSED, SIGNED_OUT
    assert run(all_asked()) == dict(zip(CASTS, (None, None, refused, None, out, out), strict=True))


def test_a_viewer_another_origin_and_what_does_not_run(asgi, world, running):  # noqa: F811
    Membership.objects.filter(user=world.users["teammate"]).update(role=Membership.Role.VIEWER)
    own = world.names["zebra-name"]

    async def all_asked():
        asked = {
            "viewer": browser(asgi, world, "teammate", own),
            "no origin": browser(asgi, world, "owner", own, origin=None),
            "foreign": browser(asgi, world, "owner", own, origin=(b"origin", b"http://evil.example")),
            "port": browser(asgi, world, "owner", own, origin=(b"origin", b"http://testserver:8001")),
            "missing": browser(asgi, world, "owner", 987654),
            "waiting": browser(asgi, world, "owner", world.names["zebra-name-waits"]),
            "rank": browser(asgi, world, "owner", own, query="?rank=1"),
            "nonsense": browser(asgi, world, "owner", own, query="?rank=-1"),
        }
        return {name: await live.open() for name, live in asked.items()}

    found = run(all_asked())
    assert None not in found.values(), found
    assert world.clients["teammate"].get(f"/jobs/{own}/terminal").status_code == 403


def test_each_cast_at_the_channel(asgi, world):  # noqa: F811
    async def all_asked():
        found = {}
        for cast in CASTS:
            node = agent(asgi, world.bearers.get(cast))
            found[cast] = await node.open()
            if found[cast] is None:
                await node.close()
        return found

    refused = channels.REFUSED
    assert run(all_asked()) == dict(zip(CASTS, (refused,) * 5 + (None,), strict=True))


def test_the_long_poll_says_once_that_a_channel_is_wanted(asgi, world):  # noqa: F811
    node = Node.objects.get(name="big")

    async def asked():
        waiting = asyncio.create_task(poll(asgi, world.bearers["big"], query=f"revision={node.revision}&wait=20"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        CALLS.call(node.pk)
        first = json.loads((await waiting)[1])
        other = json.loads((await poll(asgi, world.bearers["far"]))[1])
        second = json.loads((await poll(asgi, world.bearers["big"]))[1])
        return first.get("channel"), other.get("channel"), second.get("channel")

    assert run(asked()) == (True, None, None)


def test_bytes_go_both_ways_and_the_trail_says_who_not_what(asgi, world, running):  # noqa: F811
    async def talk():
        live, node, number, asked = await opened(asgi, world, running)
        await live.say({"columns": 91, "rows": 33})
        await live.say({"columns": 0, "rows": "x"})
        await live.say("[" * 3000)
        await live.say_bytes(b"secret-word\n")
        heard = [await frame(node), await frame(node)]
        await node.say_bytes(pack(Kind.DATA, number, b"shown\r\n"))
        shown = (await live.talk.receive_output(10))["bytes"]
        await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The shell has ended.")))
        told = await ended(live)
        await node.close()
        return asked, heard, shown, told

    asked, heard, shown, told = run(talk())
    attempt = running.attempt
    assert asked == {"kind": "terminal", "attempt": attempt.key, "epoch": attempt.epoch, "rank": 0}
    assert [kind for kind, _, _ in heard] == [Kind.SIZE, Kind.DATA]
    assert (heard[1][2], shown) == (b"secret-word\n", b"shown\r\n")
    assert told == ({"state": "ended", "code": "ended", "detail": "The shell has ended.", "exit_code": None}, 1000)
    trail = list(AuditEvent.objects.filter(action__startswith="job.terminal").order_by("pk"))
    assert [each.action for each in trail] == ["job.terminal", "job.terminal_end"]
    assert {(each.actor_id, each.tenant.name) for each in trail} == {(world.users["owner"].pk, "zebra-lab")}
    assert "secret-word" not in str([each.detail for each in trail])


def test_what_is_typed_waits_for_a_job_that_does_not_read(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sessions, "STUCK_S", 0.5)

    async def talk():
        live, node, _, _ = await opened(asgi, world, running)
        for _ in range(2 * WINDOW // MOST_DATA):
            await live.say_bytes(b"x" * MOST_DATA)
        told = await ended(live)
        size = 0
        while (heard := await frame(node))[0] is Kind.DATA:
            size += len(heard[2])
        await node.close()
        return told, size, heard[0]

    told, size, last = run(talk())
    assert (told[0]["code"], size, last) == ("stuck", WINDOW, Kind.CLOSE)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x09\0\0\0\1",
        pack(Kind.OPEN, 1, b"{}"),
        pack(Kind.CREDIT, 1, b"\xff\xff\xff\xff"),
        pack(Kind.CLOSE, 1, b"[]"),
        pack(Kind.DATA, 1, b"x" * MOST_DATA) * 2,
    ],
)
def test_a_node_that_breaks_the_rules_loses_its_channel_and_browsers_are_told(asgi, world, running, broken):  # noqa: F811
    async def talk():
        live, node, _, _ = await opened(asgi, world, running)
        await node.say_bytes(broken)
        told = await ended(live)
        while (answer := await node.talk.receive_output(10))["type"] == "websocket.send":
            pass
        return told[0]["code"], answer["code"]

    assert run(talk()) == ("away", channels.WRONG)


def test_a_node_that_sends_more_than_was_asked_for_is_cut_off(asgi, world, running):  # noqa: F811
    """A browser that does not read: the portal asks for no more, and a node that sends it all the same is closed."""

    async def talk():
        node = channels.Channel(1, lambda _: asyncio.sleep(0))
        opening = asyncio.create_task(node.open({}, tenant_id=1))
        await asyncio.sleep(0)
        node.take(pack(Kind.OPENED, 1))
        await opening
        for _ in range(WINDOW // MOST_DATA):
            node.take(pack(Kind.DATA, 1, b"x" * MOST_DATA))
        with pytest.raises(channels.FrameError):
            node.take(pack(Kind.DATA, 1, b"x"))

    run(talk())


@pytest.mark.slow
def test_a_node_without_an_answer_and_one_whose_channel_is_replaced(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sessions, "CALL_S", 0.5)

    async def talk():
        live = browser(asgi, world, "owner", world.names["zebra-name"])
        assert await live.open() is None
        away = (await ended(live))[0]["code"]
        live, _, _, _ = await opened(asgi, world, running)
        newer = agent(asgi, world.bearers[running.node.name])
        assert await newer.open() is None
        replaced = (await ended(live))[0]["code"]
        live = browser(asgi, world, "owner", world.names["zebra-name"])
        assert await live.open() is None
        kind = (await frame(newer))[0]
        await live.close()
        await newer.close()
        return away, replaced, kind

    assert run(talk()) == ("away", "away", Kind.OPEN)


def test_it_is_closed_soon_after_the_right_to_it_has_ended(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sessions, "CHECK_S", 0.1)

    def leave(world):
        membership_remove(user=world.users["teammate"], tenant=Tenant.objects.get(name="zebra-lab"), actor=None)

    async def talk():
        live, node, number, _ = await opened(asgi, world, running, "teammate")
        await asyncio.to_thread(_apart, leave, world)
        told = await ended(live)
        kind, closed, _ = await frame(node)
        await node.close()
        return told[0]["code"], told[1], kind, closed == number

    assert run(talk()) == ("right_ended", SIGNED_OUT, Kind.CLOSE, True)


def test_nobody_uses_it(asgi, world, running, monkeypatch):  # noqa: F811
    """A terminal in which nothing moves, and a channel without a stream."""
    monkeypatch.setattr(sessions, "CHECK_S", 0.1)
    monkeypatch.setattr(sessions, "env", lambda _: 0)
    for name, value in (("CHECK_S", 0.1), ("UNUSED_S", 0.3)):
        monkeypatch.setattr(channels, name, value)

    async def talk():
        live, node, _, _ = await opened(asgi, world, running)
        told = await ended(live)
        while (answer := await node.talk.receive_output(10))["type"] == "websocket.send":
            pass
        return told[0]["code"], answer["code"]

    assert run(talk()) == ("idle", channels.DONE)
