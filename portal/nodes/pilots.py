"""How many pilots a partition is to hold: as many as waiting jobs can use, up to the operator's limit."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from portal.engines.models import Engine, EngineJob
from portal.engines.selectors import types_seen
from portal.engines.services import pilots_order
from portal.work.jobs.models import Allocation, Job
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.models import QuerySet

OTHER_REASONS = (
    "",
    "not-planned-yet",
    "tenant-quota",
    "dependency",
    "held",
    "profiling",
    "invalid",
    "checkpoint-elsewhere",
    "restored",
    "software-missing",
    "no-shared-gpu",
)
"""Why jobs wait where another node would not help, or where no planning has looked yet."""
TOO_LONG = "nodes-close"
"""Why a job waits that would still run when the nodes close. One that is longer than a pilot helps no more in a new one."""
FITS_SHARE = 0.85
"""Of a pilot's limit: its agent begins later and leaves before the end, and lengths are rounded up."""
LOOKED_AT = 2000
"""So many of the oldest waiting jobs are asked; they want more than any partition gives long before."""
SETTLED = timedelta(seconds=10)
"""A node that has just joined counts as free for waiting jobs: the next plannings use it."""
RENEW_SHARE, RENEW_LEAST_S = 0.1, 120.0
"""So long before its end, of its limit, a pilot that works has a successor asked for."""
AFTER_REFUSAL = timedelta(seconds=30)
S = EngineJob.State


def pilots_adjust(engine: Engine) -> None:
    """Order pilots that waiting jobs could use, and end those that have been idle. Three queries, and one for each change."""
    if engine.form != Engine.Form.PILOT or engine.away_since is not None:
        return
    now = timezone.now()
    jobs = list(engine.jobs.open().select_related("node").annotate(works=Exists(_parts())))
    staying = [job for job in jobs if job.stop_at is None]
    held = sum(job.gpus for job in jobs)
    # Of an unknown partition one pilot shows which types of GPUs jobs can name.
    waiting = _waiting_gpus(engine) or int(not types_seen(engine))
    wanted = waiting + sum(job.gpus for job in staying if job.works and _ends_soon(job, engine, now))
    coming = sum(job.gpus for job in staying if _is_coming(job, now))
    _idle_note(staying, now)
    each = engine.gpus_per_pilot or max(_whole(engine), 1)
    wanted = 0 if engine.detached_at else wanted
    more = min(-(-(wanted - coming) // each), (engine.gpus_max - held) // each)
    if more > 0 and not (engine.refused_at and now - engine.refused_at < AFTER_REFUSAL):
        pilots_order(engine=engine, number=more, gpus=each)
    _give_back(engine, staying, wanted, now)


def _parts() -> QuerySet[Allocation]:
    return Allocation.objects.filter(node=OuterRef("node")).exclude(state=Allocation.State.ENDED)


def _whole(engine: Engine) -> int:
    """Return the GPUs of the partition's smallest node that has any."""
    return min((sum(each["gpus"].values()) for each in engine.nodes if each["gpus"]), default=0)


def _waiting_gpus(engine: Engine) -> int:
    """Return the GPUs that the oldest waiting jobs ask for at least, as far as the engine may serve them."""
    now = timezone.now()
    waiting = (
        Job.objects.runnable()
        .filter(state=JobState.PENDING, cancel_requested_at=None)
        .exclude(reason__in=OTHER_REASONS)
    )
    waiting = waiting.filter(Q(start_after=None) | Q(start_after__lte=now))
    if engine.tenant_id is not None:
        waiting = waiting.filter(tenant=engine.tenant_id)
    texts = Cast("gpus", TextField()), Cast("gpu_types", TextField())
    rows = waiting.order_by("pk").values_list(*texts, "reason", "age_s", "time_limit_s")[:LOOKED_AT]
    types, total = types_seen(engine), 0
    for gpus, asked, reason, *lengths in rows:
        need, names = min(json.loads(gpus)) or 1, json.loads(asked)
        too_long = reason == TOO_LONG and min(filter(None, lengths), default=0) > FITS_SHARE * engine.limit_s
        if need <= engine.gpus_max and not too_long and (not names or _has_one(types, names)):
            total += need
    return total


def _has_one(types: set[str], asked: Iterable[str]) -> bool:
    return not types or not types.isdisjoint(asked)


def _ends_soon(job: EngineJob, engine: Engine, now: datetime) -> bool:
    before_s = max(RENEW_LEAST_S, RENEW_SHARE * engine.limit_s)
    return job.ends_at is not None and job.ends_at - now < timedelta(seconds=min(before_s, engine.limit_s / 2))


def _is_coming(job: EngineJob, now: datetime) -> bool:
    """Say whether it will be free soon: it waits, has not joined, or has joined just now."""
    if job.node is None:
        return True
    return job.idle_since is not None and now - job.idle_since < SETTLED


def _idle_note(jobs: Iterable[EngineJob], now: datetime) -> None:
    for job in jobs:
        idle = now if job.node is not None and not job.works else None
        if (idle is None) != (job.idle_since is None):
            EngineJob.objects.filter(pk=job.pk).update(idle_since=idle)
            job.idle_since = idle


def _give_back(engine: Engine, jobs: Iterable[EngineJob], wanted: int, now: datetime) -> None:
    """End the pilots that have been idle, and those that wait while nobody wants them any more."""
    idle = timedelta(seconds=0 if engine.detached_at else engine.idle_s)
    for job in jobs:
        waits_for_nobody = job.state in {S.WANTED, S.PENDING} and wanted == 0
        is_idle = job.idle_since is not None and now - job.idle_since >= idle
        if waits_for_nobody or is_idle:
            EngineJob.objects.filter(pk=job.pk).update(stop_at=now)
