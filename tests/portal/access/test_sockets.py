"""The doors of `portal.asgi`: the agents' long poll and the live socket, through the application as uvicorn gets it."""

import asyncio
import json
from collections import Counter

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.db import connections
from django.utils import timezone

from portal.foundation.api import sockets
from portal.foundation.errors import NotFound
from portal.foundation.events import relay
from portal.pages.dashboard.shell import consumers
from portal.pages.dashboard.shell.live_rights import MOST_STREAMS
from portal.people.accounts.models import SecondFactor
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import membership_remove, user_password_reset, user_update
from portal.work.jobs.selectors import job_get
from tests.portal.access.rows import AGENT
from tests.portal.access.wire import Socket, http
from tests.portal.access.world import CASTS

HTTP = {"livez", "healthz", "api/agent/v1/sync", "api/v1/uploads/content/<str:sha256>", ""}
OF_JOBS = {f"ws/jobs/<str:number>/{name}" for name in ("logs", "terminal", "forward")}
SOCKETS = {"ws/live", "api/agent/v1/channel", ""} | OF_JOBS
OURS = (b"origin", b"http://testserver")


@pytest.fixture(scope="module")
def asgi():
    """The portal's ASGI module, without its relay thread: tests publish the outbox themselves."""
    patch = pytest.MonkeyPatch()
    patch.setattr(relay, "start", lambda: None)
    patch.setattr(django_settings, "SECRET_KEY_PROBLEM", None)
    from portal import asgi as module

    yield module
    patch.undo()


@pytest.fixture
def world(committed, transactional_db, broker_settings):
    """Committed, since the application reads in threads of its own."""
    return committed.world()


def run(coroutine):
    """Run, and close what the application's threads left open: they are gone with the loop."""

    async def inside():
        try:
            return await asyncio.wait_for(coroutine, 30)
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(inside())


def test_every_route_of_both_routers_is_listed(asgi):
    assert set(asgi.application.application_mapping) == {"http", "websocket"}
    assert {_pattern(route) for route in asgi.http_routes} == HTTP
    assert {_pattern(route) for route in asgi.websocket_routes} == SOCKETS
    assert asgi.http_routes[-1].callback is asgi.django_application


def _pattern(route):
    return str(route.pattern)


# ---- the long poll ---------------------------------------------------------------------------------------------------


async def poll(asgi, secret, method="GET", query="revision=-1&wait=0"):
    headers = [(b"host", b"testserver")]
    if secret:
        headers.append((b"authorization", f"Bearer {secret}".encode()))
    return await http(asgi.application, method, f"/api/agent/v1/sync?{query}", headers)


def test_the_long_poll_as_each_cast(asgi, world):
    async def all_casts():
        return [(await poll(asgi, world.bearers.get(cast)))[0] for cast in CASTS]

    assert run(all_casts()) == list(AGENT)


def test_the_long_poll_knows_get_only_and_no_join_token(asgi, world):
    async def others():
        found = [(await poll(asgi, world.bearers["node"], method))[0] for method in ("POST", "PUT", "DELETE")]
        return [*found, (await poll(asgi, world.bearers["join"]))[0]]

    assert run(others()) == [405, 405, 405, 401]


def test_a_node_is_told_of_its_own_parts_only(asgi, world):
    async def both():
        return [json.loads((await poll(asgi, world.bearers[name]))[1]) for name in ("big", "far")]

    big, far = run(both())
    assert world.names["attempt"] in {part["attempt"] for part in big["attempts"]}
    assert world.names["attempt"] not in {part["attempt"] for part in far["attempts"]}


# ---- the live socket -------------------------------------------------------------------------------------------------


def socket(asgi, world, cast, *, origin=OURS, bearer=None, path="/ws/live"):
    headers = [(b"host", b"testserver"), *([origin] if origin else [])]
    if cast in world.clients and (jar := world.clients[cast].cookies):
        headers.append((b"cookie", f"sessionid={jar['sessionid'].value}".encode()))
    if bearer:
        headers.append((b"authorization", f"Bearer {bearer}".encode()))
    return Socket(asgi.application, headers, path)


async def opened(live):
    """None when it was accepted, else the code it was closed with; closes it."""
    code = await live.open()
    if code is None:
        await live.close()
    return code


def test_the_socket_as_each_cast(asgi, world):
    async def all_casts():
        found = {}
        for cast in CASTS:
            found[cast] = await opened(socket(asgi, world, cast, bearer=world.bearers.get(cast)))
        return found

    assert run(all_casts()) == {
        "owner": None,
        "teammate": None,
        "outsider": None,
        "operator": None,
        "anonymous": 4401,
        "node": 4401,
    }


async def refused_everywhere(asgi, world):
    paths = [
        "/",
        "/ws",
        "/ws/x",
        "/ws/live/x",
        "/ws/jobs//logs",
        "/ws/jobs/1/x",
        "/api/agent/v1/sync",
        "/livez",
        "/\n",
        "",
    ]
    doors = [socket(asgi, world, cast, path=path) for cast in CASTS for path in paths]
    return [await door.open() for door in doors]


def test_a_path_that_no_socket_has_is_refused_quietly(asgi, world):
    """It was an exception for each, with a trace in the log that anybody could fill."""
    assert None not in run(refused_everywhere(asgi, world))


FOREIGN = [
    b"https://evil.example",
    b"http://testserver.evil.example",
    b"null",
    b"http://[",
    b"http://testserver:99999",
    None,
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_origin_is_refused_before_the_socket_opens(asgi, world, origin):
    """A close before accepting is what uvicorn answers as 403."""
    assert run(opened(socket(asgi, world, "owner", origin=origin and (b"origin", origin)))) is not None


async def followed(asgi, world, cast, streams):
    """What a socket is told about each stream it asks for: errors by stream, and the numbers it then gets."""
    live = socket(asgi, world, cast)
    assert await live.open() is None
    await live.say({"type": "follow", "streams": streams})
    errors = {}
    while (said := await live.hear())["type"] == "error":
        errors[said["stream"]] = said["code"]
    await live.close()
    return errors, set(said["numbers"])


def test_a_foreign_job_cannot_be_followed_and_answers_as_a_missing_one(asgi, world):
    own, foreign = f"job:{world.names['foreign']}", f"job:{world.names['zebra-name']}"
    strange = [f"job:{world.names['missing']}", "job:", "job:x", "node:1", "job:-1"]
    errors, numbers = run(followed(asgi, world, "outsider", ["cluster", own, foreign, *strange]))
    assert errors == dict.fromkeys([foreign, *strange], "not_found")
    assert numbers == {"cluster", own}


@pytest.mark.parametrize("cast", ["owner", "teammate", "operator"])
def test_those_who_see_a_job_may_follow_it(asgi, world, cast):
    stream = f"job:{world.names['zebra-name']}"
    assert run(followed(asgi, world, cast, [stream])) == ({}, {stream})


def test_the_board_and_nodes_name_no_job_and_are_followed_by_everybody(asgi, world):
    streams, strange = ["board:1", "board:24", "node:big"], ["board:2", "board:", "node:nowhere", "node:"]
    errors, numbers = run(followed(asgi, world, "outsider", [*streams, *strange]))
    assert (errors, numbers) == (dict.fromkeys(strange, "not_found"), set(streams))


def test_simulations_are_followed_by_those_who_see_them(asgi, world):
    own, shared, missing = (f"simulation:{world.names[name]}" for name in ("simulation", "shared", "missing"))
    strange = ["simulation:", "simulation:x", "simulation:-1", f"trace:{world.names['trace']}"]
    seen = {
        cast: run(followed(asgi, world, cast, [own, shared, missing, *strange]))[1]
        for cast in ("owner", "teammate", "outsider", "operator")
    }
    assert seen == {"owner": {own, shared}, "teammate": {shared}, "outsider": set(), "operator": {shared}}


def test_an_outsider_gets_no_event_of_a_foreign_job_and_no_id(asgi, world, broker_settings):
    async def listen():
        live = socket(asgi, world, "outsider")
        assert await live.open() is None
        await live.say({"type": "follow", "streams": ["cluster", f"job:{world.names['zebra-name']}"]})
        heard = [await live.hear() for _ in range(2)]
        await asyncio.to_thread(_publish)
        while True:
            try:
                heard.append(await live.hear(1.5))
            except TimeoutError:
                break
        return heard

    heard = run(listen())
    events = [said for said in heard if said["type"] == "event"]
    assert events
    assert {said["stream"] for said in events} == {"cluster"}
    assert "zebra" not in str(heard)
    assert not any("id" in said for said in events)
    numbers = redis.Redis.from_url(broker_settings.url)
    assert numbers.get(relay.number_key(f"job:{world.names['zebra-name']}")), "the foreign job did have events"


def _publish():
    try:
        relay.drain()
    finally:
        connections.close_all()


def test_a_socket_that_talks_nonsense_gets_a_sentence_and_lives(asgi, world):
    async def talk():
        live = socket(asgi, world, "owner")
        assert await live.open() is None
        said = []
        nonsense = (
            "[]",
            '{"type": "follow", "streams": 5}',
            "{",
            "",
            "[" * 200_000,
            b"\xff",
            '{"type": "follow", "streams": [{}]}',
        )
        for text in nonsense:
            await (live.say_bytes(text) if isinstance(text, bytes) else live.say(text))
            said.append(await live.hear())
        await live.close()
        return [(each["type"], each["code"]) for each in said]

    assert run(talk()) == [("error", "invalid")] * 6 + [("error", "not_found")]


def test_a_job_that_the_follower_may_no_longer_see_is_as_good_as_missing(asgi, world):
    world.users["teammate"].memberships.all().delete()
    with pytest.raises(NotFound):
        job_get(user=world.users["teammate"], job_id=world.names["zebra-name"])
    stream = f"job:{world.names['zebra-name']}"
    assert run(followed(asgi, world, "teammate", [stream])) == ({stream: "not_found"}, set())


# ---- what a socket may cost, and how long its rights last ------------------------------------------------------------


def test_a_stream_has_one_name(asgi, world):
    """An alias would be a group of its own that no event reaches, and there are any number of them."""
    number = world.names["zebra-name"]
    aliases = [
        f"job:0{number}",
        f"job: {number}",
        f"job:{number} ",
        f"job:+{number}",
        f"JOB:{number}",
        f"job:{number}\n",
        "cluster ",
    ]
    errors, numbers = run(followed(asgi, world, "owner", [f"job:{number}", *aliases]))
    assert errors == dict.fromkeys(aliases, "not_found")
    assert numbers == {f"job:{number}"}


def test_a_socket_follows_so_many_streams_and_says_when_it_is_asked_for_more(asgi, world):
    async def talk():
        live = socket(asgi, world, "owner")
        assert await live.open() is None
        await live.say({"type": "follow", "streams": [f"job:{n}" for n in range(1, MOST_STREAMS + 2)]})
        at_once = await live.hear()
        for n in range(3):
            await live.say({"type": "follow", "streams": ["cluster", *(f"simulation:{n}{m}" for m in range(9))]})
        heard = [await live.hear() for _ in range(30)]
        await live.close()
        return at_once, heard

    at_once, heard = run(talk())
    assert (at_once["type"], at_once["code"]) == ("error", "too_many")
    assert {each["type"] for each in heard} == {"error", "heartbeat"}


def test_a_socket_that_talks_without_end_is_closed(asgi, world):
    async def talk():
        live = socket(asgi, world, "owner")
        assert await live.open() is None
        for _ in range(consumers.MOST_MESSAGES + 1):
            await live.say({"type": "follow", "streams": []})
        while (said := await live.talk.receive_output(10))["type"] != "websocket.close":
            pass
        return said["code"]

    assert run(talk()) == sockets.TOO_MANY


def test_a_person_has_so_many_sockets_and_a_closed_one_makes_room(asgi, world, monkeypatch):
    monkeypatch.setattr(sockets, "MOST_SOCKETS", 3)
    monkeypatch.setattr(sockets, "_open", Counter())

    async def talk():
        open_ = [socket(asgi, world, "owner") for _ in range(3)]
        found = [await live.open() for live in open_]
        found += [await socket(asgi, world, "owner").open(), await opened(socket(asgi, world, "teammate"))]
        await open_[0].close()
        found.append(await opened(socket(asgi, world, "owner")))
        for live in open_[1:]:
            await live.close()
        return found

    assert run(talk()) == [None, None, None, sockets.TOO_MANY, None, None]
    assert not sockets._open


def _sign_out(world):
    world.clients["teammate"].post("/logout")


def _new_password(world):
    user_password_reset(user=world.users["teammate"], actor=None)


def _leave(world):
    membership_remove(user=world.users["teammate"], tenant=Tenant.objects.get(name="zebra-lab"), actor=None)


def _deactivate(world):
    user_update(user=world.users["teammate"], actor=None, is_active=False)


@pytest.mark.parametrize("end", [_sign_out, _new_password, _leave, _deactivate])
def test_a_socket_is_closed_soon_after_its_right_has_ended(asgi, world, monkeypatch, end):
    monkeypatch.setattr(consumers, "HEARTBEAT_S", 0.1)

    async def talk():
        live, other = socket(asgi, world, "teammate"), socket(asgi, world, "owner")
        for each in (live, other):
            assert await each.open() is None
            await each.say({"type": "follow", "streams": [f"job:{world.names['zebra-name']}"]})
        heard = [(await live.hear())["type"] for _ in range(5)]
        await asyncio.to_thread(_apart, end, world)
        while (said := await live.talk.receive_output(20))["type"] != "websocket.close":
            pass
        still = [(await other.hear())["type"] for _ in range(3)]
        await other.close()
        return heard, said["code"], still

    assert run(talk()) == (["heartbeat"] * 5, sockets.SIGNED_OUT, ["heartbeat"] * 3)


def _apart(end, world):
    try:
        end(world)
    finally:
        connections.close_all()


def test_an_operator_whose_required_second_factor_is_gone_follows_nothing(asgi, world, monkeypatch):
    monkeypatch.setattr(consumers, "HEARTBEAT_S", 0.1)
    monkeypatch.setenv("BERTH_OPERATORS_SECOND_FACTOR", "1")
    factor = SecondFactor.objects.create(user=world.users["operator"], sealed="x", confirmed_at=timezone.now())

    async def talk():
        live = socket(asgi, world, "operator")
        found = [await live.open()]
        await asyncio.to_thread(_apart, lambda _: factor.delete(), world)
        while (said := await live.talk.receive_output(20))["type"] != "websocket.close":
            pass
        return [*found, said["code"], await opened(socket(asgi, world, "operator"))]

    assert run(talk()) == [None, sockets.SIGNED_OUT, sockets.SIGNED_OUT]


def test_a_heart_that_is_told_to_stop_stops_whatever_it_waits_for(asgi, world, monkeypatch):
    """One that a call kept from hearing so would beat for ever, for a socket that is gone."""
    monkeypatch.setattr(consumers, "HEARTBEAT_S", 0.002)

    async def talk():
        left = 0
        for turn in range(60):
            live = socket(asgi, world, "teammate")
            assert await live.open() is None
            await live.say({"type": "follow", "streams": [f"job:{world.names['zebra-name']}"]})
            await asyncio.sleep(turn / 1000)
            hearts = [each for each in asyncio.all_tasks() if each.get_coro().__qualname__ == "LiveConsumer._beat"]
            for heart in hearts:
                heart.cancel()
            left += len((await asyncio.wait(hearts, timeout=2))[1])
            await live.close()
        return left

    assert run(talk()) == 0
