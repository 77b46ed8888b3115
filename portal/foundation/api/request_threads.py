"""Threads for requests: each has its open database, their number is bounded, and a slow reader holds none.

A request takes a thread for its first call (its body has come by then) and gives it back with the first part of its answer.
What it still does then, the next parts of a download for one, any of a few other threads does. When all are taken, requests
wait in turn by the addresses that they came from; who waits too long is told to come again. A node that was answered before
counts for itself, not for its address: a job that asks from there without end must not silence it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections, connections

from portal.foundation.deep_calls import RoomyThread, roomy

MOST_FREE = 4
"""Threads, each with a connection, that wait for requests; one that is freed beyond them ends."""
MOST, MOST_OF_ONE = 48, 32
"""The most requests that are answered at once, and those from one address: each may have a connection, of which Postgres has 100
by default. On two cores more threads answer no more requests a second.
"""
UNDER_WAY, UNDER_WAY_OF_ONE = 4_000, 1_000
"""The most requests under way at once, whose bodies still come, that wait, or whose answers are still read: each takes
memory, a quarter of a MiB where an answer is long and nobody reads it.
"""
WAIT_S = 10.0
RETRY_AFTER_S = 5
ANSWERING = 16
"""Threads for the rest of answers that have begun."""
OF_NODES, MOST_NODES = "/api/agent/", 20_000
BUSY = "Too many requests are being answered; try again in a few seconds."


class BusyError(Exception):
    """No thread was free for a request's whole patience."""


@dataclass
class _Waiting:
    lent: _Lent
    future: Future[Any]
    call: Callable[[], Any]


class _Lent(Executor):
    """The executor on which one request runs its calls."""

    def __init__(self, threads: RequestThreads, client: str) -> None:
        self.threads, self.client = threads, client
        self.thread: RoomyThread | None = None
        self.answers = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.answers:
            return self.threads.answering.submit(_of_answer, fn, *args, **kwargs)
        if self.thread is None:
            self.thread = self.threads.take(self.client)
        if self.thread is None:
            return self.threads.queue(self, partial(fn, *args, **kwargs))
        return self.thread.submit(fn, *args, **kwargs)

    def give_back(self) -> None:
        """Free the thread after what it still does; later calls run elsewhere."""
        with self.threads.lock:  # a request that waited and is gone must not be given one
            self.answers = True
            thread, self.thread = self.thread, None
        if thread is not None:
            thread.submit(self.threads.put_back, thread, self.client)


def _of_answer(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    close_old_connections()  # as when a request begins: this thread may have had nothing to do for long
    return roomy(fn, *args, **kwargs)


class RequestThreads:
    """An ASGI application around Django's: runs requests on threads that stay, so that each finds an open database.

    Left to itself, Django gives every request a thread of its own until its answer has been read, and with it a database
    that must be opened first: on SQLite the whole schema is read anew, on Postgres a server process is forked.
    """

    def __init__(
        self,
        django: Callable[..., Awaitable[Any]],
        *,
        most: int = MOST,
        of_one: int = MOST_OF_ONE,
        wait_s: float = WAIT_S,
        under_way_of_one: int = UNDER_WAY_OF_ONE,
    ) -> None:
        self._django, self._most, self._of_one, self._wait_s = django, most, of_one, wait_s
        self._under_way: Counter[str] = Counter()  # only the event loop uses it
        self._under_way_of_one = under_way_of_one
        self._nodes: OrderedDict[str, None] = OrderedDict()
        self.lock = Lock()
        self._free: deque[RoomyThread] = deque()
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        self.answering = ThreadPoolExecutor(ANSWERING, "answering")

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        bearer = _bearer_of(scope)
        client = bearer if bearer in self._nodes else str((scope.get("client") or ("",))[0])
        if self._under_way[client] >= self._under_way_of_one or self._under_way.total() >= UNDER_WAY:
            await _busy_tell(scope, send)
            return
        lent = _Lent(self, client)
        self._under_way[client] += 1

        async def sending(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body" and message.get("more_body"):
                lent.give_back()
            elif bearer and message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
                self._node_keep(bearer)
            await send(message)

        try:
            async with ThreadSensitiveContext(executor=lent):
                await self._django(scope, receive, sending)
        except BusyError:
            await _busy_tell(scope, send)
        finally:
            lent.give_back()
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]

    def _node_keep(self, bearer: str) -> None:
        self._nodes[bearer] = None
        self._nodes.move_to_end(bearer)
        if len(self._nodes) > MOST_NODES:
            self._nodes.popitem(last=False)

    def take(self, client: str) -> RoomyThread | None:
        """Return a thread that is free, or a new one; None when there are enough."""
        with self.lock:
            if self._taken[client] >= self._of_one or self._taken.total() >= self._most:
                return None
            self._taken[client] += 1
            return self._free.pop() if self._free else RoomyThread("request")

    def queue(self, lent: _Lent, call: Callable[[], Any]) -> Future[Any]:
        """Let a request's first call wait for a thread. Its result: the call's, or BusyError."""
        waiting = _Waiting(lent, Future(), call)
        with self.lock:
            self._waiting.setdefault(lent.client, deque()).append(waiting)
        asyncio.get_running_loop().call_later(self._wait_s, self._give_up, waiting)
        return waiting.future

    def _give_up(self, waiting: _Waiting) -> None:
        with self.lock:
            mine = self._waiting.get(waiting.lent.client, deque())
            if waiting not in mine:
                return
            mine.remove(waiting)
        if waiting.future.set_running_or_notify_cancel():
            waiting.future.set_exception(BusyError())

    def put_back(self, thread: RoomyThread, client: str) -> None:
        """Give a thread to the next that waits, or make it free. It does this itself,
        after the last call that a broken-off request still does there.
        """
        with self.lock:
            self._taken[client] -= 1
            self._taken += Counter()  # an address of which nothing is left is not kept
            following = self._next()
            if following is not None:
                self._taken[following.lent.client] += 1
                following.lent.thread = thread
            elif len(self._free) < MOST_FREE:
                self._free.append(thread)
                return
        if following is not None:
            thread.submit(_run, following)
            return
        connections.close_all()
        thread.shutdown(wait=False)

    def _next(self) -> _Waiting | None:
        """Take out the first that waits, of the addresses in turn, and that may run; requests that are gone are left out."""
        for client in list(self._waiting):
            mine = self._waiting[client]
            while mine and mine[0].lent.answers:
                mine.popleft().future.cancel()
            if not mine:
                del self._waiting[client]
            elif self._taken[client] < self._of_one:
                self._waiting.move_to_end(client)
                return mine.popleft()
        return None


def _bearer_of(scope: dict[str, Any]) -> str:
    """Return a hash of a node's token; empty for a request that is no node's."""
    if not scope.get("path", "").startswith(OF_NODES):
        return ""
    sent = next((value for name, value in scope.get("headers", ()) if name == b"authorization"), b"")
    return hashlib.sha256(sent).hexdigest() if sent else ""


def _run(waiting: _Waiting) -> None:
    if not waiting.future.set_running_or_notify_cancel():
        return
    try:
        waiting.future.set_result(waiting.call())
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        waiting.future.set_exception(error)


async def _busy_tell(scope: dict[str, Any], send: Any) -> None:
    """Answer 503: as REST does to programs, in a sentence to people."""
    if scope.get("path", "").startswith("/api/"):
        content, kind = json.dumps({"error": {"code": "busy", "field": None, "detail": BUSY}}), "application/json"
    else:
        content, kind = BUSY, "text/plain; charset=utf-8"
    headers = [(b"content-type", kind.encode()), (b"retry-after", str(RETRY_AFTER_S).encode())]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": content.encode()})
