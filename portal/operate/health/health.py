"""`/livez`: 200 while the portal answers at all. `/healthz`: its services and problems. Neither needs a token."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Count, Max, Q
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_celery_beat.models import PeriodicTask

from portal.cluster.models import UNREACHABLE_AFTER_S, Node
from portal.foundation.disk import disk_full_error, disk_state
from portal.foundation.events.models import OutboxMessage
from portal.foundation.read_only import says_read_only
from portal.foundation.redis_urls import ping
from portal.operate.health.problems import problems_of
from portal.planning.rounds.models import Planning
from portal.planning.rounds.settings.knobs import knobs_current

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


EVERY_S = 1.0
"""Seconds for which a write that went well holds: anybody may ask `/healthz` at any time."""
LOCK_PATIENCE_MS = 2000
SQLITE_BUSY = 5

_lock = threading.Lock()
_wrote_at = [float("-inf")]


def write_try() -> None:
    """Commit a write. Raises what the database says against it, but for another writer's lock, which shows that it is well."""
    with _lock:
        if time.monotonic() - _wrote_at[0] < EVERY_S:
            return
        try:
            with _patience(), transaction.atomic():
                OutboxMessage.objects.create(topic=OutboxMessage.Topic.EVENT).delete()
        except OperationalError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF != SQLITE_BUSY:
                raise
        _wrote_at[0] = time.monotonic()


@contextmanager
def _patience() -> Iterator[None]:
    """On SQLite, wait for another writer for less long than `/healthz` may take."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {LOCK_PATIENCE_MS}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {1000 * int(connection.settings_dict['OPTIONS']['timeout'])}")


PING_LIMIT_S = 1.0
SERVING = frozenset({"ok", "degraded"})
BEAT_TICKS, BEAT_SLACK_S = 3, 10
PLANNING_TICKS, PLANNING_SLACK_S = 3, 30
_started_s = time.monotonic()


@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    """Answer without asking database or broker: only a portal that hangs does not answer."""
    return JsonResponse({"alive": True})


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    answer, problems = health(writes=True)
    status = 200 if answer["state"] in SERVING else 503
    return JsonResponse(answer | {"problems": problems}, status=status)


def health(*, writes: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return the figures, and sentences about what is not well. `writes`: try a write too, which no page of people does.

    `state`: `ok`; `degraded`, problems that do not keep Berth from its work; `disk-low`, no job is taken in or started;
    `failing`, something that everything needs does not work.
    """
    answer: dict[str, Any] = {"state": "ok", "database": "ok", "broker": "ok"}
    failing: list[str] = []
    degraded: list[str] = []
    disk_low = _disk(answer)
    try:
        figures = _figures()
        degraded += problems_of(timezone.now())
    except (DatabaseError, InterfaceError) as error:
        answer["database"] = "unreachable"
        failing.append(f"database: unreachable ({type(error).__name__})")
    else:
        limits = figures.pop("limits")
        answer |= figures
        if disk_low:
            del limits["last_planning_age_s"]  # none is made; the disk is the reason, and is named
        failing += _unwritable(answer, disk_low=bool(disk_low)) if writes else []
        failing += [late for name, limit in limits.items() if (late := _late(name, figures[name], limit))]
    try:
        ping(settings.REDIS_URL, PING_LIMIT_S)
    except (redis.RedisError, OSError) as error:
        answer["broker"] = "unreachable"
        failing.append(f"broker: no answer to PING within {PING_LIMIT_S:g} s ({type(error).__name__})")
    if failing or disk_low or degraded:
        answer["state"] = "failing" if failing else "disk-low" if disk_low else "degraded"
    return answer, [*failing, *disk_low, *degraded]


def _disk(answer: dict[str, Any]) -> list[str]:
    """Put the disk's figures into the answer; return its problems."""
    try:
        disk = disk_state()
    except OSError as error:
        answer["disk"] = None
        return [f"disk: the data directory cannot be looked at ({error.strerror})"]
    answer["disk"] = asdict(disk)
    return [f"disk: {disk.sentence}"] if disk.low else []


def _unwritable(answer: dict[str, Any], *, disk_low: bool) -> list[str]:
    """Try to write; return the problem. That of a disk without room is the disk's."""
    try:
        write_try()
    except (DatabaseError, InterfaceError) as error:
        if disk_low and disk_full_error(error):
            return []
        answer["database"] = "unwritable"
        why = "it is read-only" if says_read_only(error.__cause__) else type(error).__name__
        return [f"database: it takes no writes ({why})"]
    return []


def _figures() -> dict[str, Any]:
    tick_s = knobs_current()["tick_s"]
    fresh = timezone.now() - timedelta(seconds=UNREACHABLE_AFTER_S)
    heard = Q(last_contact_at__gt=fresh, dead_at=None)
    nodes = Node.objects.listed().aggregate(
        total=Count("pk"), heard=Count("pk", filter=heard), up=Count("pk", filter=heard & Q(drained_at=None))
    )
    return {
        "beat_age_s": _age_s(PeriodicTask.objects.aggregate(at=Max("last_run_at"))["at"]),
        "last_planning_age_s": _age_s(
            Planning.objects.order_by("-number").values_list("started_at", flat=True).first()
        ),
        "nodes": nodes["up"],
        "nodes_in_contact": nodes["heard"],
        "nodes_registered": nodes["total"],
        "limits": {
            "beat_age_s": BEAT_TICKS * tick_s + BEAT_SLACK_S,
            "last_planning_age_s": PLANNING_TICKS * tick_s + PLANNING_SLACK_S,
        },
    }


def _age_s(at: datetime | None) -> float | None:
    """Return how long ago it was; a time yet to come, for the clock was set back, is as old as we have known it."""
    if at is None:
        return None
    age_s = (timezone.now() - at).total_seconds()
    return round(age_s if age_s >= 0 else time.monotonic() - _first_seen_s(at), 1)


@lru_cache(maxsize=8)
def _first_seen_s(at: datetime) -> float:
    return time.monotonic()


LATE = {
    "beat_age_s": ("clock: it has started no task", "beat"),
    "last_planning_age_s": ("plannings: none was made", "worker"),
}
"""The event that is missing, and the log that says why."""


def _late(name: str, age_s: float | None, limit_s: float) -> str | None:
    """Say so when something is overdue; an event that never happened is overdue once this process is that old itself."""
    waited_s = time.monotonic() - _started_s if age_s is None else age_s
    if waited_s <= limit_s:
        return None
    what, log = LATE[name]
    return (
        f"{what} for {waited_s:.0f} s, at most {limit_s:.0f} s are normal ({name}). A machine that is short of processor "
        f"time makes it late; if it stays so, logs/{log}.log in the data directory says why"
    )
