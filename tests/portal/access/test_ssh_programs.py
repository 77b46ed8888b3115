"""The portal's part in ssh to a job: a stream of its own kind, the rights of a terminal, and its use."""

import asyncio

import pytest
from django.utils import timezone

from portal.pages.dashboard.terminal import session
from portal.people.tenants.models import AuditEvent, Membership
from portal.work.jobs.models import IdleWatch, Job
from tests.portal.access.test_sockets import _apart, asgi, run, world  # noqa: F401 - fixtures
from tests.portal.access.test_terminal_programs import program, token_of
from tests.portal.access.test_terminal_sockets import agent, ended, frame, running  # noqa: F401
from workers.protocol.frames import Kind, pack, pack_end, unpack_object

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBnRqUz9gMGcyYHdQzIZ0dYQYFZr7iH1nhrm0mGPp7Ab"
ASKED = {"ssh": KEY, "user": "me"}


def talked(asgi, world, running, each):  # noqa: F811
    """Return the value of `each`, which gets program, node, stream and request of an open one."""
    _, secret = token_of(world, "owner")

    async def talk():
        node = agent(asgi, world.bearers[running.node.name])
        assert await node.open() is None
        live = program(asgi, secret, world.names["zebra-name"])
        assert await live.open() is None
        await live.say(ASKED)
        _, number, body = await frame(node)
        await node.say_bytes(pack(Kind.OPENED, number))
        try:
            return await each(live, node, number, unpack_object(body))
        finally:
            await node.close()

    return run(talk())


def test_the_node_hears_key_and_name_and_the_trail_says_ssh(asgi, world, running):  # noqa: F811
    async def each(live, node, number, asked):
        await node.say_bytes(pack(Kind.CLOSE, number, pack_end("no_sshd", "The node has no sshd.")))
        return asked, (await ended(live))[0]

    asked, told = talked(asgi, world, running, each)
    assert {name: asked[name] for name in ("kind", "key", "user", "rank")} == {
        "kind": "ssh",
        "key": KEY,
        "user": "me",
        "rank": 0,
    }
    assert (told["code"], told["detail"]) == ("no_sshd", "The node has no sshd.")
    trail = AuditEvent.objects.filter(action__startswith="job.ssh").order_by("pk")
    assert [each.action for each in trail] == ["job.ssh", "job.ssh_end"]
    assert KEY not in str(list(trail.values_list("detail", flat=True)))


@pytest.mark.parametrize(
    "first",
    [
        {"ssh": KEY},
        {"ssh": KEY, "user": "a b"},
        {"ssh": f"{KEY} comment", "user": "me"},
        {"ssh": f"{KEY}\n{KEY}", "user": "me"},
        {"ssh": None, "user": "me"},
    ],
)
def test_what_is_no_name_and_no_key_opens_nothing(asgi, world, running, first):  # noqa: F811
    _, secret = token_of(world, "owner")

    async def talk():
        live = program(asgi, secret, world.names["zebra-name"])
        assert await live.open() is None
        await live.say(first)
        return (await ended(live))[0]["code"]

    assert run(talk()) == "invalid"


def test_one_who_may_only_look_is_refused(asgi, world, running):  # noqa: F811
    _, secret = token_of(world, "owner")
    Membership.objects.filter(user=world.users["owner"]).update(role=Membership.Role.VIEWER)

    async def talk():
        live = program(asgi, secret, world.names["zebra-name"])
        assert await live.open() is None
        await live.say(ASKED)
        return (await ended(live))[0]["code"]

    assert run(talk()) == "viewer"


@pytest.mark.parametrize(("size", "code", "uses"), [(40, "idle", False), (900, "ended", True)])
def test_what_keeps_a_connection_alive_is_no_use_and_what_moves_is(asgi, world, running, monkeypatch, size, code, uses):  # noqa: F811
    """`ServerAliveInterval` moves some 90 bytes; between two looks 40 come twice here."""
    Job.objects.filter(pk=running.attempt.job_id).update(idle_timeout_s=3600)
    IdleWatch.objects.create(attempt=running.attempt, frame=0, used_at=timezone.now())
    monkeypatch.setattr(session, "CHECK_S", 0.2)
    monkeypatch.setattr(session, "env", lambda name: 1 if name == "BERTH_TERMINAL_IDLE_S" else 4)

    async def each(live, node, number, _):
        told = asyncio.ensure_future(ended(live))
        for _ in range(30):
            if told.done():
                break
            await node.say_bytes(pack(Kind.DATA, number, b"x" * size))
            await asyncio.sleep(0.1)
        if not told.done():
            await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The connection has ended.")))
        return (await told)[0]["code"]

    assert talked(asgi, world, running, each) == code
    assert (IdleWatch.objects.get(attempt=running.attempt).used_by == "ssh") is uses
