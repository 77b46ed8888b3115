"""Terminals of programs with a token, what limits terminals, and to whom the page offers one."""

import asyncio

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.foundation.api.sockets import SIGNED_OUT
from portal.nodes import channel as channels
from portal.pages.dashboard.terminal import session
from portal.people.tenants import services
from portal.people.tenants.models import ApiToken, AuditEvent, Membership
from tests.portal.access.test_sockets import _apart, asgi, run, world  # noqa: F401 - fixtures
from tests.portal.access.test_terminal_sockets import agent, browser, ended, frame, opened, running  # noqa: F401
from tests.portal.access.wire import Socket
from workers.protocol.frames import Kind, pack, pack_end, unpack_object


def program(asgi, token, number, *, query="", more=()):  # noqa: F811
    """A socket with a token. It sends an Origin of nobody's and a cookie of nobody's: neither counts."""
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {token}".encode()), *more]
    return Socket(asgi.application, headers, path=f"/ws/jobs/{number}/terminal{query}")


def token_of(world, cast, **more):  # noqa: F811
    given = {"name": "shell", "scopes": ["jobs:read", "jobs:write"], **more}
    return services.token_create(user=world.users[cast], actor=None, **given)


def test_a_token_opens_one_and_what_is_refused_is_said_in_words(asgi, world, running):  # noqa: F811
    own = world.names["zebra-name"]
    good, reading = token_of(world, "owner")[1], token_of(world, "owner", scopes=["jobs:read"])[1]
    outsider = token_of(world, "outsider")[1]
    cookie = [(b"cookie", f"sessionid={world.clients['owner'].cookies['sessionid'].value}".encode())]

    async def said(token, number, first, **more):
        live = program(asgi, token, number, **more)
        if (code := await live.open()) is not None:
            return code
        await live.say(first)
        told, _ = await ended(live)
        return told["code"], told["detail"]

    async def all_asked():
        return {
            "scope": await said(reading, own, {}, more=cookie),
            "wrong": await said("berth_wrong", own, {}, more=cookie),
            "foreign": await said(outsider, own, {}),
            "missing": await said(good, 987654, {}),
            "waiting": await said(good, world.names["zebra-name-waits"], {}),
            "rank": await said(good, own, {}, query="?rank=1"),
            "no object": await said(good, own, "[]"),
            "nested": await said(good, own, "[" * 3000),
            "command": await said(good, own, {"command": 5}),
            "nothing": await said(good, own, {"command": ""}),
            "long": await said(good, own, {"command": "x" * 2049}),
            "plain": await said(good, own, {"plain": True}),
        }

    found = run(all_asked())
    assert (found.pop("scope"), found.pop("wrong")) == (SIGNED_OUT, SIGNED_OUT)
    assert [found.pop(name)[0] for name in ("foreign", "missing")] == ["not_found"] * 2
    assert [found.pop(name)[0] for name in ("waiting", "rank")] == ["not_running"] * 2
    assert {code for code, _ in found.values()} == {"invalid"}


def test_a_programs_command_reaches_the_node_and_its_exit_code_comes_back(asgi, world, running):  # noqa: F811
    _, secret = token_of(world, "owner")

    async def talk():
        node = agent(asgi, world.bearers[running.node.name])
        assert await node.open() is None
        live = program(asgi, secret, world.names["zebra-name"], more=[(b"origin", b"http://evil.example")])
        assert await live.open() is None
        await live.say({"columns": 91, "rows": 33, "command": "nvidia-smi", "plain": True, "kind": "else", "rank": 5})
        _, number, body = await frame(node)
        await node.say_bytes(pack(Kind.OPENED, number))
        await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The command has ended.", 7)))
        told = (await ended(live))[0]
        await node.close()
        return unpack_object(body), told

    asked, told = run(talk())
    assert {name: asked[name] for name in ("kind", "rank", "columns", "rows", "command", "plain")} == {
        "kind": "terminal",
        "rank": 0,
        "columns": 91,
        "rows": 33,
        "command": "nvidia-smi",
        "plain": True,
    }
    assert (told["code"], told["exit_code"]) == ("ended", 7)
    assert "nvidia-smi" not in str(list(AuditEvent.objects.values_list("detail", flat=True)))


def test_a_revoked_token_loses_its_terminal(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(session, "CHECK_S", 0.1)
    _, secret = token_of(world, "owner")

    async def talk():
        node = agent(asgi, world.bearers[running.node.name])
        assert await node.open() is None
        live = program(asgi, secret, world.names["zebra-name"])
        assert await live.open() is None
        await live.say({})
        _, number, _ = await frame(node)
        await node.say_bytes(pack(Kind.OPENED, number))
        await asyncio.to_thread(_apart, lambda _: ApiToken.objects.update(revoked_at=timezone.now()), world)
        told = await ended(live)
        kind, closed, _ = await frame(node)
        await node.close()
        return told[0]["code"], told[1], kind, closed == number

    assert run(talk()) == ("right_ended", SIGNED_OUT, Kind.CLOSE, True)


def test_a_node_whose_token_was_revoked_loses_its_channel_and_terminals(asgi, world, running, monkeypatch):  # noqa: F811
    monkeypatch.setattr(channels, "CHECK_S", 0.1)

    async def talk():
        live, node, _, _ = await opened(asgi, world, running)
        await asyncio.to_thread(_apart, lambda _: Node.objects.update(token_revoked_at=timezone.now()), world)
        told = await ended(live)
        while (answer := await node.talk.receive_output(10))["type"] == "websocket.send":
            pass
        return told[0]["code"], answer["code"]

    assert run(talk()) == ("away", channels.REFUSED)


@pytest.mark.parametrize(
    ("setting", "words"),
    [("BERTH_TERMINALS_PER_USER", "You have 1"), ("BERTH_TERMINALS_PER_PART", "This part of the job")],
)
def test_how_many_may_be_open_is_the_operators_to_set(asgi, world, running, monkeypatch, setting, words):  # noqa: F811
    monkeypatch.setenv(setting, "1")

    async def talk():
        live, node, number, _ = await opened(asgi, world, running)
        second = browser(asgi, world, "owner", world.names["zebra-name"])
        assert await second.open() is None
        told = (await ended(second))[0]
        await node.say_bytes(pack(Kind.CLOSE, number, pack_end("ended", "The shell has ended.")))
        await ended(live)
        third = browser(asgi, world, "owner", world.names["zebra-name"])
        assert await third.open() is None
        kind = (await frame(node))[0]
        await third.close()
        await node.close()
        return told["code"], told["detail"], kind

    code, detail, kind = run(talk())
    assert (code, kind) == ("too_many", Kind.OPEN)
    assert detail.startswith(words)


def test_the_button_is_shown_to_those_alone_who_may(world, running):  # noqa: F811
    own, job = world.names["zebra-name"], running.attempt.job
    job.__class__.objects.filter(pk=job.pk).update(state="RUNNING")
    link = f'href="/jobs/{own}/terminal"'

    def shown():
        pages = [f"/jobs/{own}/", f"/jobs/{own}/fragments/header"]
        return [link in world.clients["teammate"].get(page).content.decode() for page in pages]

    assert shown() == [True, True]
    Membership.objects.filter(user=world.users["teammate"]).update(role=Membership.Role.VIEWER)
    assert shown() == [False, False]
