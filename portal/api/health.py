"""`/healthz`: 200 when everything that Berth needs answers, 503 naming what does not. Needs no token."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Count, Max, Q
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_celery_beat.models import PeriodicTask

from portal.cluster.models import UNREACHABLE_AFTER_S, Node
from portal.launch.broker import ping
from portal.rounds.knobs import knobs_current
from portal.rounds.models import Planning

if TYPE_CHECKING:
    from datetime import datetime

PING_LIMIT_S = 1.0
BEAT_TICKS, BEAT_SLACK_S = 3, 10
PLANNING_TICKS, PLANNING_SLACK_S = 3, 30
_started_s = time.monotonic()


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    answer, problems = health()
    return JsonResponse(answer | {"problems": problems}, status=503 if problems else 200)


def health() -> tuple[dict[str, Any], list[str]]:
    """Return the figures, and sentences about what is not well."""
    answer: dict[str, Any] = {"database": "ok", "broker": "ok"}
    problems: list[str] = []
    try:
        figures = _figures()
    except (DatabaseError, InterfaceError) as error:
        answer["database"] = "unreachable"
        problems.append(f"database: unreachable ({type(error).__name__})")
    else:
        limits = figures.pop("limits")
        answer |= figures
        problems += [late for name, limit in limits.items() if (late := _late(name, figures[name], limit))]
    try:
        ping(settings.REDIS_URL, PING_LIMIT_S)
    except (redis.RedisError, OSError) as error:
        answer["broker"] = "unreachable"
        problems.append(f"broker: no answer to PING within {PING_LIMIT_S:g} s ({type(error).__name__})")
    return answer, problems


def _figures() -> dict[str, Any]:
    tick_s = knobs_current()["tick_s"]
    fresh = timezone.now() - timedelta(seconds=UNREACHABLE_AFTER_S)
    nodes = Node.objects.aggregate(
        total=Count("pk"), up=Count("pk", filter=Q(last_contact_at__gt=fresh, dead_at=None, drained_at=None))
    )
    return {
        "beat_age_s": _age_s(PeriodicTask.objects.aggregate(at=Max("last_run_at"))["at"]),
        "last_planning_age_s": _age_s(Planning.objects.aggregate(at=Max("started_at"))["at"]),
        "nodes": nodes["up"],
        "nodes_registered": nodes["total"],
        "limits": {
            "beat_age_s": BEAT_TICKS * tick_s + BEAT_SLACK_S,
            "last_planning_age_s": PLANNING_TICKS * tick_s + PLANNING_SLACK_S,
        },
    }


def _age_s(at: datetime | None) -> float | None:
    return None if at is None else round(max(0.0, (timezone.now() - at).total_seconds()), 1)


def _late(name: str, age_s: float | None, limit_s: float) -> str | None:
    """Say so when something is overdue; what never happened is overdue once this process is that old itself."""
    if age_s is None:
        up_s = time.monotonic() - _started_s
        return f"{name}: never happened, and the portal runs for {up_s:.0f} s" if up_s > limit_s else None
    return f"{name}: {age_s:.0f}, at most {limit_s:.0f} expected" if age_s > limit_s else None
