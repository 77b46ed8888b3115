"""Read the engines: the GPUs that their allocations have had and may have, and the holders of the GPUs of their nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from portal.engines.models import Engine, EngineJob
from portal.foundation.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from workers.protocol.engine import NodeSeen

CLOCKS_DIFFER = timedelta(seconds=60)
"""The other scheduler's clock may be later than the portal's by this."""


def types_seen(engine: Engine) -> set[str]:
    """Return the types of GPUs that its nodes had when they joined, in Berth's words. One query."""
    found = EngineJob.objects.filter(engine=engine).exclude(node__gpu_type=None).order_by()
    return set(found.values_list("node__gpu_type__name", flat=True).distinct())


def gpus_may_come() -> Iterator[dict[str, int]]:
    """Yield, of each attached partition, the most GPUs that it may give, by type."""
    for engine in Engine.objects.filter(detached_at=None):
        yield dict.fromkeys(types_seen(engine), engine.gpus_max)


def engines_attached() -> QuerySet[Engine]:
    return Engine.objects.filter(detached_at=None)


def engine_get(**by: object) -> Engine:
    """Return one by its number or its name. Raises NotFound."""
    found = Engine.objects.select_related("tenant").filter(**by).first()
    if found is None:
        raise NotFound("engine")
    return found


def orders_open(engines: Collection[Engine]) -> dict[int, list[EngineJob]]:
    """Return the orders that have not ended, the oldest first, with their nodes, by the engine's id. One query."""
    found: dict[int, list[EngineJob]] = defaultdict(list)
    for job in EngineJob.objects.open().filter(engine__in=engines).select_related("node").order_by("pk"):
        found[job.engine_id].append(job)
    return found


@dataclass(frozen=True, slots=True)
class Host:
    """A node of the other scheduler, and the holders of its GPUs: Berth's orders, others, nobody; `out` take no jobs.

    The counts of the inventory may be older than the orders, so Berth's are believed first.
    """

    seen: NodeSeen
    jobs: tuple[EngineJob, ...]
    total: int
    held: int
    others: int
    free: int
    out: int


def hosts_of(engine: Engine, jobs: Sequence[EngineJob]) -> list[Host]:
    """Return the partition's nodes as its bridge saw them last. `jobs`: the engine's open orders."""
    by_host: dict[str, list[EngineJob]] = defaultdict(list)
    for job in jobs:
        if job.holds:
            by_host[job.host].append(job)
    return [_host(seen, tuple(by_host[seen["name"]])) for seen in engine.nodes]


def _host(seen: NodeSeen, jobs: tuple[EngineJob, ...]) -> Host:
    total = sum(seen["gpus"].values())
    held = min(total, sum(job.gpus for job in jobs))
    others = max(0, min(total, sum(seen["gpus_busy"].values())) - held)
    rest = total - held - others
    return Host(seen, jobs, total, held, others, *((rest, 0) if seen["takes_jobs"] else (0, rest)))


def held_gpus(jobs: Iterable[EngineJob]) -> int:
    """Return how many GPUs the orders hold that run."""
    return sum(job.gpus for job in jobs if job.holds)


def order_of(node_id: int, *, at: datetime | None = None) -> EngineJob | None:
    """Return the order that a node belongs to: the last one, or the one of that time. None where it is no allocation."""
    orders = EngineJob.objects.filter(node=node_id).select_related("engine")
    if at is not None:
        orders = orders.filter(Q(since=None) | Q(since__lte=at + CLOCKS_DIFFER), made_at__lte=at)
    return orders.order_by("-pk").first()
