"""Carries the outbox to Redis: one thread a process, woken by commits, so that no request waits for a broker.

A row is published and then deleted; a process killed in between publishes it again, which does no harm. While the broker
is away rows stay and the thread tries again every second; rows of a killed process are taken by any other's drain.
Page events are numbered per stream when they are published (Redis INCR): a page that sees a gap refetches (invariant 9).
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import redis
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

log = logging.getLogger(__name__)

BATCH = 500
RETRY_S = 1.0
IDLE_S = 5.0
LIVE_LIMIT = 2000

"""Live events that wait to be published, equal ones counted once: beyond it the oldest goes, and the log says so."""

_live: dict[str, tuple[str, dict[str, Any]]] = {}
_live_lock = threading.Lock()
_wake = threading.Event()
_thread: threading.Thread | None = None
_start_lock = threading.Lock()


def group_name(stream: str) -> str:
    """Return the Channels group of a stream: group names allow no colon."""
    return "stream." + stream.replace(":", ".")


def number_key(stream: str) -> str:
    return f"berth:number:{stream}"


def kick() -> None:
    _wake.set()


def live_put(*, stream: str, payload: dict[str, Any]) -> None:
    """Publish soon. An equal event that waits already is this one: a job that writes a thousand lines is one refetch."""
    with _live_lock:
        _live.setdefault(json.dumps([stream, payload], sort_keys=True), (stream, payload))
        if len(_live) > LIVE_LIMIT:
            oldest, _ = _live.pop(next(iter(_live)))
            log.warning(
                "live events: over %s wait; one of %s is dropped, its page waits for the next", LIVE_LIMIT, oldest
            )
    _wake.set()


def _live_next() -> tuple[str, dict[str, Any]] | None:
    with _live_lock:
        return _live.pop(next(iter(_live))) if _live else None


def start() -> None:
    """Start this process's relay thread (portal and Celery worker call it; a second call does nothing)."""
    global _thread  # noqa: PLW0603 - one thread a process is the point
    with _start_lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="outbox-relay", daemon=True)
            _thread.start()


def _run() -> None:
    publisher = Publisher()
    pause_s = IDLE_S
    while True:
        _wake.wait(pause_s)
        _wake.clear()
        pause_s = IDLE_S
        try:
            close_old_connections()
            drain(publisher)
        except Exception as error:  # noqa: BLE001 - whatever fails, the rows stay and the thread must live
            log.warning("outbox: not delivered, will retry: %s", error)
            publisher.reset()
            pause_s = RETRY_S


def drain(publisher: Publisher | None = None) -> int:
    """Publish and delete what the outbox holds; return how many rows. Raises what the broker or database raises."""
    if publisher is None:
        publisher = Publisher()
        try:
            return drain(publisher)
        finally:
            publisher.close()
    from portal.foundation.events.models import OutboxMessage

    done = 0
    while rows := list(OutboxMessage.objects.all()[:BATCH]):
        publisher.publish(rows)
        OutboxMessage.objects.filter(pk__in=[row.pk for row in rows]).delete()
        done += len(rows)
        if len(rows) < BATCH:
            break
    while (event := _live_next()) is not None:
        publisher.event(*event)
    return done


class Publisher:
    """The connections of one thread: a plain Redis client for numbers, the channel layer on a loop of its own."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        self.reset()

    def close(self) -> None:
        """Close the connections; left to the garbage collector, each publisher would keep its sockets for long."""
        if self._loop is not None:
            self._redis.close()
            try:
                self._loop.close()  # the channel layer closes its own connections with it
            except (redis.exceptions.RedisError, OSError) as error:
                log.debug("outbox: the broker went before its connections: %s", error)
            self._loop = None

    def reset(self) -> None:
        self.close()
        self._redis = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2)
        self._loop = asyncio.new_event_loop()

    def publish(self, rows: list[Any]) -> None:
        """Publish rows, equal ones once: a hundred submissions are one planning and one refetch."""
        seen: set[tuple[str, str, str]] = set()
        for row in rows:
            key = (row.topic, row.stream, repr(sorted(row.payload.items())))
            if key in seen:
                continue
            seen.add(key)
            if row.topic == "plan":
                # Now, not when the row was written: a planning may have looked before that row's commit.
                self._send_plan(timezone.now().isoformat())
                seen.update((r.topic, r.stream, repr(sorted(r.payload.items()))) for r in rows if r.topic == "plan")
            elif row.topic == "wake":
                self._group_send(group_name(row.stream), {"type": "node.wake"})
            else:
                self.event(row.stream, row.payload)

    def event(self, stream: str, payload: dict[str, Any]) -> None:
        # A stream's first number is the time in milliseconds: after a FLUSHALL it jumps, and every page sees the gap.
        # Counting from 1 again could meet a page that happens to expect just that number.
        with self._redis.pipeline() as pipeline:
            pipeline.set(number_key(stream), int(timezone.now().timestamp() * 1000), nx=True)
            pipeline.incr(number_key(stream))
            number = pipeline.execute()[1]
        message = {"type": "stream.event", "stream": stream, "number": number, **payload}
        self._group_send(group_name(stream), message)

    def _group_send(self, group: str, message: dict[str, Any]) -> None:
        layer = get_channel_layer()
        if self._loop is None:
            raise RuntimeError("the publisher is closed")
        self._loop.run_until_complete(layer.group_send(group, message))

    def _send_plan(self, nudged_at: str) -> None:
        from portal.foundation.celery import app

        app.send_task("rounds.plan", kwargs={"nudged_at": nudged_at}, retry=False, expires=60)
