"""How long GPUs and cores were held in the last h hours, summed by the database; a node's active rates are made of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, F, FloatField, Func, IntegerField, Max, Min, Q, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest

from portal.cluster.models import Gpu
from portal.foundation.bulk import among
from portal.work.jobs.models import Allocation, GpuAllocation
from portal.work.jobs.queue_counts import SecondsUntil

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from django.db.models import Expression

    from portal.cluster.models import Node


class Length(Func):
    """The number of elements of a JSON array."""

    arity = 1
    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="jsonb_array_length", **context)


def _held_s(start: str, *, since: datetime, now: datetime) -> Expression:
    return SecondsUntil(Greatest(F(start), Value(since)), Coalesce(F("released_at"), Value(now)))


def gpu_held_s(*, hours: float, now: datetime) -> dict[int, float]:
    """Return for how many of the last h hours' seconds each GPU (by row id) was held, by whomever. One query."""
    since = now - timedelta(hours=hours)
    rows = GpuAllocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since)).order_by()
    # Of a GPU for one job at a time the sum; of a shared one each row by itself, for there they overlap.
    own = Case(When(mode=Gpu.Mode.SHARED, then=F("pk")))
    sums = (
        rows.annotate(own=own)
        .values_list("gpu", "own")
        .annotate(
            held=Sum(_held_s("created_at", since=since, now=now)), began=Min("created_at"), ended=Max("released_at")
        )
    )
    found: dict[int, float] = defaultdict(float)
    shared: dict[int, list[tuple[datetime, datetime]]] = defaultdict(list)
    for gpu, own_row, held_s, began, ended in sums:
        if own_row is None:
            found[gpu] += held_s
        else:
            shared[gpu].append((max(began, since), ended or now))
    for gpu, spans in shared.items():
        found[gpu] += union_s(spans)
    return found


def node_gpu_held_s(*, hours: float, now: datetime, node_ids: Collection[int] | None = None) -> dict[int, float]:
    """Return the GPU seconds held on each of these nodes (by row id) in the last h hours, of GPUs that are there. Two queries.

    The same as the sum of `gpu_held_s`, with a row a node instead of one a GPU: those that jobs share are few.
    """
    since = now - timedelta(hours=hours)
    rows = GpuAllocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since)).order_by()
    rows = rows.filter(gpu__missing_since=None)
    if node_ids is not None:
        rows = rows.filter(gpu__node__in=among(node_ids))
    alone = rows.exclude(mode=Gpu.Mode.SHARED).values_list("gpu__node")
    found = dict(alone.annotate(held=Sum(_held_s("created_at", since=since, now=now))))
    spans: dict[tuple[int, int], list[tuple[datetime, datetime]]] = defaultdict(list)
    shared = rows.filter(mode=Gpu.Mode.SHARED)
    for node, gpu, began, ended in shared.values_list("gpu__node", "gpu", "created_at", "released_at"):
        spans[node, gpu].append((max(began, since), ended or now))
    for (node, _), each in spans.items():
        found[node] = found.get(node, 0.0) + union_s(each)
    return found


def union_s(spans: Iterable[tuple[datetime, datetime]]) -> float:
    """Return how many seconds lie in at least one of the spans."""
    total, until = 0.0, None
    for began, ended in sorted(spans):
        start = began if until is None else max(began, until)
        total += max(0.0, (ended - start).total_seconds())
        until = ended if until is None else max(until, ended)
    return total


def core_held_s(*, hours: float, now: datetime, node_ids: Collection[int] | None = None) -> dict[int, float]:
    """Return the core seconds held on each node (by row id) in the last h hours. One query."""
    since = now - timedelta(hours=hours)
    rows = Allocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since)).order_by()
    if node_ids is not None:
        rows = rows.filter(node__in=among(node_ids))
    seconds = _held_s("attempt__created_at", since=since, now=now)
    held = Sum(Length("core_ids") * seconds, output_field=FloatField())
    return dict(rows.values_list("node").annotate(held=held))


@dataclass(frozen=True, slots=True)
class ActiveRates:
    """Shares 0..1 of a node's GPUs and cores that jobs held, over the time; None without any, or without time."""

    gpus: float | None
    cores: float | None


def gpus_present(node_ids: Collection[int]) -> dict[int, int]:
    """Return how many GPUs the agent of each of these nodes (by row id) sees. One query."""
    present = Gpu.objects.present().filter(node__in=among(node_ids)).order_by()
    return dict(present.values_list("node").annotate(n=Count("pk")))


def active_rates(
    nodes: Sequence[Node], *, hours: float, now: datetime, gpus: Mapping[int, int] | None = None
) -> dict[int, ActiveRates]:
    """Return the active rates (CODA eq. 1) of nodes over the last h hours, or since they joined, by row id. Four queries.

    `gpus`: the answer of `gpus_present`, where it has been asked already; three queries then.
    """
    ids = [node.pk for node in nodes]
    gpu_s, core_s = (each(hours=hours, now=now, node_ids=ids) for each in (node_gpu_held_s, core_held_s))
    gpus = gpus_present(ids) if gpus is None else gpus
    found = {}
    for node in nodes:
        span_s = min(hours * 3600, (now - node.registered_at).total_seconds())
        found[node.pk] = ActiveRates(
            gpus=_share(gpu_s.get(node.pk, 0.0), span_s * gpus.get(node.pk, 0)),
            cores=_share(core_s.get(node.pk, 0.0), span_s * node.cores),
        )
    return found


def _share(held_s: float, whole_s: float) -> float | None:
    return min(1.0, held_s / whole_s) if whole_s > 0 else None
