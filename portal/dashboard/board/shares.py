"""How long GPUs and cores were held in the last h hours, summed by the database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, FloatField, Func, IntegerField, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest

from portal.jobs.models import Allocation, GpuAllocation
from portal.jobs.queue_counts import SecondsUntil

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import Expression


class _Length(Func):
    """The number of elements of a JSON array."""

    arity = 1
    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="jsonb_array_length", **context)


def _held_s(start: str, *, since: datetime, now: datetime) -> Expression:
    return SecondsUntil(Greatest(F(start), Value(since)), Coalesce(F("released_at"), Value(now)))


def gpu_held_s(*, hours: float, now: datetime) -> dict[int, float]:
    """Return for how many of the last h hours' seconds each GPU (by row id) was held. One query."""
    since = now - timedelta(hours=hours)
    rows = GpuAllocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since)).order_by()
    return dict(rows.values_list("gpu").annotate(held=Sum(_held_s("created_at", since=since, now=now))))


def core_held_s(*, hours: float, now: datetime) -> dict[int, float]:
    """Return the core seconds held on each node (by row id) in the last h hours. One query."""
    since = now - timedelta(hours=hours)
    rows = Allocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since)).order_by()
    seconds = _held_s("attempt__created_at", since=since, now=now)
    held = Sum(_Length("core_ids") * seconds, output_field=FloatField())
    return dict(rows.values_list("node").annotate(held=held))
