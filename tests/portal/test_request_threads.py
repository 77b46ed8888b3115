"""Requests run on threads that stay, each with its open database, and on so many at most; one that hangs delays no other."""

import asyncio
import json
import threading
import time

import pytest
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application
from django.db import connection
from django.db.backends.signals import connection_created

from portal.foundation.api.request_threads import BUSY, MOST_FREE, RequestThreads, _Lent
from portal.foundation.api.streams import Streamed
from portal.operate.health.within import UNANSWERED, Within
from tests.portal.access.wire import http

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
OURS = [(b"host", b"testserver")]


@pytest.fixture
def opened():
    """The names of the threads that opened a database."""
    names = []
    note = lambda **_: names.append(threading.current_thread().name)  # noqa: E731 - it is held weakly, so it needs a name
    connection_created.connect(note)
    yield names
    connection_created.disconnect(note)


def waited(condition, limit_s=10.0):
    """Say whether it became true; in a thread, so that the requests go on."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


class Door:
    """Requests that run `work` in their thread; `threads` are those that worked, in order."""

    def __init__(self, work=lambda: None, **limits):
        self.work, self.threads = work, []
        self.door = RequestThreads(self.application, **limits)

    async def application(self, *_):
        await sync_to_async(self.in_thread)()

    def in_thread(self):
        self.threads.append(threading.current_thread())
        connection.ensure_connection()
        self.work()

    async def ask(self):
        await self.door({}, None, None)
        await self.until_free(1)

    async def from_address(self, address, path="/api/v1/jobs"):
        """Ask, and return what was sent."""
        sent = []

        async def send(message):
            sent.append(message)

        await self.door({"client": (address, 1), "path": path}, None, send)
        return sent

    async def until_free(self, count):
        assert await asyncio.to_thread(waited, lambda: len(self.door._free) >= count)


async def test_requests_one_after_the_other_find_an_open_database(opened):
    door = RequestThreads(get_asgi_application())
    for _ in range(3):
        status, _body = await http(door, "GET", "/api/v1/nodes", [*OURS, (b"authorization", b"Bearer unknown")])
        assert status == 401
        await asyncio.sleep(0.05)  # the thread makes itself free
    assert len(opened) == 1


async def test_a_request_that_was_broken_off_keeps_its_thread_until_it_has_ended(opened):
    stuck = threading.Event()
    door = Door(work=lambda: stuck.wait(10) if len(door.threads) == 1 else None)
    broken_off = asyncio.create_task(door.ask())
    assert await asyncio.to_thread(waited, lambda: door.threads)
    broken_off.cancel()
    await door.ask()
    await door.ask()
    assert len({*door.threads}) == 2, "the second and third request had one thread, and it was not the first's"
    assert not stuck.is_set()
    stuck.set()
    await asyncio.gather(broken_off, return_exceptions=True)
    await door.until_free(2)


async def test_after_many_at_once_few_threads_and_connections_are_kept(opened):
    together = threading.Barrier(3 * MOST_FREE)
    door = Door(work=lambda: together.wait(10))
    await asyncio.gather(*(door.door({}, None, None) for _ in range(3 * MOST_FREE)))
    await door.until_free(MOST_FREE)
    alive = lambda: sum(thread.is_alive() for thread in {*door.threads})  # noqa: E731 - reads best in place
    assert await asyncio.to_thread(waited, lambda: alive() == MOST_FREE)
    assert len(opened) == 3 * MOST_FREE


async def test_what_fails_gives_its_thread_back():
    def fail():
        raise ValueError("a view's fault")

    door = Door(work=fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="a view's fault"):
            await door.ask()
        await door.until_free(1)
    assert len({*door.threads}) == 1


async def test_more_than_there_are_threads_wait_for_one():
    go = threading.Event()
    door = Door(work=lambda: go.wait(10), most=2)
    asked = [asyncio.create_task(door.from_address(f"10.0.0.{each}")) for each in range(6)]
    assert await asyncio.to_thread(waited, lambda: len(door.threads) == 2)
    await asyncio.sleep(0.1)
    assert len(door.threads) == 2
    go.set()
    await asyncio.gather(*asked)
    assert len(door.threads) == 6
    assert len({*door.threads}) == 2


async def test_one_address_leaves_threads_to_others_and_they_take_turns():
    go, order = threading.Event(), []
    door = Door(work=lambda: go.wait(10), most=3, of_one=2)
    greedy = [asyncio.create_task(door.from_address("10.0.0.1")) for _ in range(9)]
    assert await asyncio.to_thread(waited, lambda: len(door.threads) == 2)
    other = asyncio.create_task(door.from_address("10.0.0.2"))
    assert await asyncio.to_thread(waited, lambda: len(door.threads) == 3), "a thread was left for it"
    third = asyncio.create_task(door.from_address("10.0.0.3"))
    await asyncio.sleep(0.05)
    third.add_done_callback(lambda _: order.append("third"))
    greedy[-1].add_done_callback(lambda _: order.append("last of the first"))
    go.set()
    await asyncio.gather(*greedy, other, third)
    assert order[0] == "third", "it did not wait behind all of the first's"
    assert await asyncio.to_thread(waited, lambda: not door.door._taken), "nothing is kept of who is gone"


async def test_who_waits_too_long_is_told_to_come_again():
    go = threading.Event()
    door = Door(work=lambda: go.wait(10), most=1, wait_s=0.2)
    first = asyncio.create_task(door.from_address("10.0.0.1"))
    assert await asyncio.to_thread(waited, lambda: door.threads)
    start, body = await door.from_address("10.0.0.2")
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert json.loads(body["body"])["error"] == {"code": "busy", "field": None, "detail": BUSY}
    start, body = await door.from_address("10.0.0.2", path="/jobs/")
    assert (start["status"], body["body"].decode()) == (503, BUSY)
    go.set()
    await first
    assert await door.from_address("10.0.0.2") == []


async def test_so_many_of_one_address_are_under_way_and_no_more_are_begun():
    go = threading.Event()
    door = Door(work=lambda: go.wait(10), most=1, under_way_of_one=3)
    asked = [asyncio.create_task(door.from_address("10.0.0.1")) for _ in range(3)]
    assert await asyncio.to_thread(waited, lambda: door.threads)
    start, _ = await door.from_address("10.0.0.1")
    assert start["status"] == 503
    other = asyncio.create_task(door.from_address("10.0.0.2"))
    go.set()
    assert await asyncio.gather(*asked, other) == [[]] * 4
    assert await door.from_address("10.0.0.1") == []
    assert not door.door._under_way


async def test_a_node_that_was_answered_before_is_not_silenced_by_a_job_beside_it():
    go = threading.Event()
    go.set()
    statuses = {b"Bearer node": 200}

    async def application(scope, _receive, send):
        await sync_to_async(go.wait)(10)
        status = statuses.get(dict(scope["headers"]).get(b"authorization"), 401)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    door = RequestThreads(application, of_one=1, under_way_of_one=3)

    async def ask(token, path="/api/agent/v1/report"):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"client": ("10.0.0.1", 1), "path": path, "headers": [(b"authorization", token)]}
        await door(scope, None, send)
        return sent[0]["status"]

    assert await ask(b"Bearer node") == 200
    assert await ask(b"Bearer guessed") == 401
    go.clear()
    asked = [asyncio.create_task(ask(b"Bearer guessed")) for _ in range(3)]
    await asyncio.sleep(0.1)
    assert await ask(b"Bearer guessed 2") == 503
    node = asyncio.create_task(ask(b"Bearer node"))
    await asyncio.sleep(0.1)
    assert not node.done()
    assert door._taken.total() == 2, "the node has a thread, beside that of its address"
    go.set()
    assert await asyncio.gather(*asked, node) == [401, 401, 401, 200]


async def test_who_went_away_while_it_waited_takes_no_thread():
    go = threading.Event()
    door = Door(work=lambda: go.wait(10), most=1)
    first = asyncio.create_task(door.from_address("10.0.0.1"))
    assert await asyncio.to_thread(waited, lambda: door.threads)
    gone, stays = (asyncio.create_task(door.from_address("10.0.0.2")) for _ in range(2))
    await asyncio.sleep(0.05)
    gone.cancel()
    go.set()
    await asyncio.gather(first, gone, stays, return_exceptions=True)
    assert len(door.threads) == 2


async def test_a_thread_is_not_lost_to_who_went_away_just_before_it_was_free():
    threads = RequestThreads(None, most=1)
    first, gone = _Lent(threads, "10.0.0.1"), _Lent(threads, "10.0.0.2")
    await asyncio.wrap_future(first.submit(str))
    waits = gone.submit(str)
    gone.give_back()
    first.give_back()
    assert await asyncio.to_thread(waited, lambda: threads._free)
    assert waits.cancelled()
    assert await asyncio.to_thread(waited, lambda: not threads._taken)


async def test_who_reads_slowly_holds_no_thread_and_gets_all(opened):
    reads, sent = asyncio.Event(), []

    def parts():
        for each in range(3):
            connection.ensure_connection()
            yield bytes([each]) * 70_000

    def view():
        connection.ensure_connection()  # this thread's

    async def application(_scope, _receive, send):
        await sync_to_async(view)()
        async for part in Streamed(parts()):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def slow(message):
        sent.append(message["body"])
        await reads.wait()

    door = RequestThreads(application, most=1)
    downloads = [asyncio.create_task(door({"client": ("10.0.0.1", 1)}, None, slow)) for _ in range(20)]
    assert await asyncio.to_thread(waited, lambda: len(sent) == 20), "all have begun, one after the other"
    assert len(opened) <= 3, "one request's thread, and few of those that go on with answers"
    reads.set()
    await asyncio.gather(*downloads)
    assert b"".join(sorted(sent)) == b"".join(sorted([bytes([each]) * 70_000 for each in range(3)] * 20))


async def test_health_is_told_in_time_while_the_database_does_not_answer():
    go = threading.Event()
    door = Door(work=lambda: go.wait(10))
    within, sent = Within(door.door, limit_s=0.2), []

    async def send(message):
        sent.append(message)

    await within({"client": None}, None, send)
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"]) == UNANSWERED
    go.set()
    await door.until_free(1)
    await within({"client": None}, None, send)
    assert len(sent) == 2, "what came too late was not sent, and what comes in time is the application's"
