"""Requests run on threads that stay, each with its open database; one that hangs delays no other."""

import asyncio
import threading
import time

import pytest
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application
from django.db import connection
from django.db.backends.signals import connection_created

from portal.middleware import MOST_FREE, RequestThreads
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

    def __init__(self, work=lambda: None):
        self.work, self.threads = work, []
        self.door = RequestThreads(self.application)

    async def application(self, *_):
        await sync_to_async(self.in_thread)()

    def in_thread(self):
        self.threads.append(threading.current_thread())
        connection.ensure_connection()
        self.work()

    async def ask(self):
        await self.door({}, None, None)
        await self.until_free(1)

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
