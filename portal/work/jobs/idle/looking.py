"""Look at the measurements of jobs that end when nobody uses them: count, warn, and end them.

A stretch (one batch of a node, five seconds mostly) counts as idle when the job's mean use of cores and of GPUs in it lies
below the limits. Idle time is the sum of such stretches since the last one in which the job was used. So only time that was
measured counts: not what a clock says, nor the hours in which node, agent or portal were away.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Mod
from django.utils import timezone

from portal.cluster.models import TelemetryFrame
from portal.cluster.telemetry import frames_of
from portal.foundation.bulk import among
from portal.foundation.environment import env
from portal.foundation.events.followers import idle_near
from portal.foundation.events.services import page_event
from portal.work.jobs.idle.using import IDLE_END, ends_s, span, warning_s
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, IdleWatch
from portal.work.jobs.services.control import attempt_stop
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.states import AttemptState, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet


LONGEST_S = 60.0
"""More than this of one batch counts as this: an agent sends five seconds, and after a while away not many more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From this use on a job is used: cores, and percent of its GPUs' time."""

    cores: float
    gpu_percent: float


@dataclass(frozen=True, slots=True)
class Part:
    """An attempt's part on one node. `gpus`: their indices; `is_alone`: it shares none of them."""

    key: str
    gpus: tuple[str, ...]
    is_alone: bool


def idle_after(before_s: float, batch: Mapping[str, Any], part: Part, limits: Limits) -> tuple[float, str]:
    """Return the seconds for which the part was idle after this batch, and its kind of use; "": no known one."""
    own = (batch.get("attempts") or {}).get(part.key)
    cores = _mean((own or {}).get("cpu_cores"))
    if cores is None:
        return before_s, ""
    if cores >= limits.cores:
        return 0.0, "cores"
    busy = _gpu_percent(own or {}, batch.get("gpus") or {}, part, limits)
    if busy is None:
        return before_s, ""
    if busy >= limits.gpu_percent:
        return 0.0, "GPUs"
    return before_s + min(LONGEST_S, max(0.0, batch["count"] * batch["period_s"])), ""


def _gpu_percent(own: Mapping[str, Any], gpus: Mapping[str, Any], part: Part, limits: Limits) -> float | None:
    """Return how much of its GPUs' time it used, 0 of a job without GPUs; None: not measured.

    Its own processes' use where the node tells them apart, else that of its GPUs. Of a shared GPU that is at work it is
    then not known whose work it is.
    """
    if not part.gpus:
        return 0.0
    alone = _mean(own.get("gpu_utilisation"))
    if alone is not None:
        return alone
    all_of_them = [_mean((gpus.get(index) or {}).get("utilisation")) for index in part.gpus]
    known = [each for each in all_of_them if each is not None]
    if len(known) < len(all_of_them):
        return None
    busiest = max(known)
    return busiest if part.is_alone or busiest < limits.gpu_percent else None


def _mean(series: Sequence[float | None] | None) -> float | None:
    known = [value for value in series or () if value is not None]
    return sum(known) / len(known) if known else None


Parts = dict[int, Part]
"""An attempt's parts, by node id."""
AT_ONCE = 200
"""Rows written in one transaction: others write meanwhile."""
LOOK_S, TURNS = 15, 3
"""Seconds between looks. Jobs far from a warning are looked at each third time: rows of telemetry stay for a minute at least."""
NEAR_S, WARNED_LEAST = 300.0, 0.8
"""A job is near that may come within this time to that part of the limit, before which nobody is warned (`warning_s`)."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at one watch: idle seconds by node, the kind of its use, and the last row that was read."""

    watch: IdleWatch
    parts: dict[str, float]
    used_by: str
    last: int

    @property
    def idle_s(self) -> float:
        return min(self.parts.values(), default=0.0)

    @property
    def matters(self) -> bool:
        """Say whether it warns, takes a warning back or ends: of most it only keeps the count."""
        limit_s = float(self.watch.attempt.job.idle_timeout_s or 0)
        return self.watch.warned_idle_s is not None or self.idle_s >= limit_s - warning_s(limit_s)


def idle_look() -> int:
    """Count, warn and end; return how many jobs were looked at. Six queries, one for each job, some for each that changes.

    Each is looked at whose warning may be near, and in each of `TURNS` turns another part of those far from it.
    """
    attempts = list(_running(turn=_turn()))
    if not attempts:
        return 0
    watches = _watches(attempts)
    parts = _parts(attempts)
    counted, used, last = _counted(watches, parts)
    looked = [
        Looked(watch, {str(node): counted[watch.pk].get(str(node), 0.0) for node in parts[watch.attempt_id]}, by, last)
        for watch in watches
        for by in [used.get(watch.pk, "")]
        if last > watch.frame
    ]
    kept = _keep([each for each in looked if not each.matters])
    for each in looked:
        if each.watch.pk not in kept:
            _settle(each)
    return len(attempts)


def _turn() -> int:
    return int(time.time() // LOOK_S) % TURNS


def _running(*, turn: int) -> QuerySet[Attempt]:
    running = Attempt.objects.runs().live().filter(state=AttemptState.RUNNING, stop_reason="")
    asked = running.filter(job__idle_timeout_s__isnull=False).annotate(turn=Mod("pk", TURNS))
    near = Q(idle_watch__idle_s__gte=WARNED_LEAST * F("job__idle_timeout_s") - NEAR_S)
    return asked.filter(Q(idle_watch=None) | near | Q(turn=turn)).select_related("job").order_by("pk")


def _watches(attempts: Sequence[Attempt]) -> list[IdleWatch]:
    """Return the watch of each attempt; a new one begins with measurements from now on."""
    ids = [attempt.pk for attempt in attempts]
    there = set(IdleWatch.objects.filter(attempt__in=among(ids)).values_list("attempt_id", flat=True))
    if fresh := [pk for pk in ids if pk not in there]:
        newest = TelemetryFrame.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        now = timezone.now()
        rows = [IdleWatch(attempt_id=pk, frame=newest, used_at=now) for pk in fresh]
        IdleWatch.objects.bulk_create(rows, ignore_conflicts=True)
    return list(IdleWatch.objects.filter(attempt__in=among(ids)).select_related("attempt__job").order_by("pk"))


def _parts(attempts: Sequence[Attempt]) -> dict[int, Parts]:
    found: dict[int, Parts] = {attempt.pk: {} for attempt in attempts}
    keys = {attempt.pk: attempt.key for attempt in attempts}
    gpus: dict[int, list[tuple[str, str]]] = defaultdict(list)
    here = Allocation.objects.filter(attempt__in=among(keys), released_at=None)
    held = GpuAllocation.objects.filter(allocation__attempt__in=among(keys), released_at=None)
    for part, index, mode in held.values_list("allocation_id", "gpu__index", "mode"):
        gpus[part].append((str(index), mode))
    for part, attempt_id, node_id in here.values_list("pk", "attempt_id", "node_id"):
        indices = tuple(index for index, _ in gpus[part])
        is_alone = all(mode == "exclusive" for _, mode in gpus[part])
        found[attempt_id][node_id] = Part(keys[attempt_id], indices, is_alone)
    return found


def _counted(
    watches: Sequence[IdleWatch], parts: dict[int, Parts]
) -> tuple[dict[int, dict[str, float]], dict[int, str], int]:
    """Return the idle seconds of each watch by node, the kind of its use, and the last row of telemetry that there was."""
    limits = Limits(cores=env("BERTH_IDLE_CORES_PERCENT") / 100, gpu_percent=float(env("BERTH_IDLE_GPU_PERCENT")))
    counted = {watch.pk: dict(watch.parts) for watch in watches}
    used: dict[int, str] = {}
    on_node: dict[int, list[IdleWatch]] = defaultdict(list)
    for watch in watches:
        for node_id in parts[watch.attempt_id]:
            on_node[node_id].append(watch)
    first = min(watch.frame for watch in watches)
    last = first
    rows = TelemetryFrame.objects.filter(node_id__in=among(on_node), pk__gt=first).order_by("pk")
    for pk, node_id, packed in rows.values_list("pk", "node_id", "packed").iterator():
        last = pk
        for batch in frames_of(bytes(packed)):
            for watch in on_node[node_id]:
                if pk > watch.frame:
                    mine, node = counted[watch.pk], str(node_id)
                    part = parts[watch.attempt_id][node_id]
                    mine[node], by = idle_after(mine.get(node, 0.0), batch, part, limits)
                    if by:
                        used[watch.pk] = by
    return counted, used, last


def _keep(quiet: Sequence[Looked]) -> set[int]:
    """Keep the counts of these; return the watches that nobody changed meanwhile. In short transactions."""
    kept: set[int] = set()
    for first in range(0, len(quiet), AT_ONCE):
        with transaction.atomic():
            for each in quiet[first : first + AT_ONCE]:
                watch = each.watch
                values: dict[str, Any] = {"frame": each.last, "parts": each.parts, "idle_s": each.idle_s}
                if each.used_by:
                    values |= {"used_at": timezone.now(), "used_by": each.used_by}
                same = IdleWatch.objects.filter(pk=watch.pk, frame=watch.frame, uses=watch.uses)
                if same.update(**values):
                    kept.add(watch.pk)
    return kept


@transaction.atomic
def _settle(looked: Looked) -> None:
    """Keep the counts, and warn or end. A use of the job meanwhile outweighs them."""
    watch = looked.watch
    job = watch.attempt.job
    road_lock(jobs=lambda: [job.pk])
    fresh = IdleWatch.objects.select_for_update().get(pk=watch.pk)
    if fresh.frame != watch.frame:  # another worker was quicker
        return
    fresh.frame = looked.last
    if fresh.uses == watch.uses:
        fresh.parts, fresh.idle_s = looked.parts, looked.idle_s
        if looked.used_by:
            fresh.used_at, fresh.used_by = timezone.now(), looked.used_by
    _follow(fresh, watch.attempt)
    fresh.save()


def _follow(watch: IdleWatch, attempt: Attempt) -> None:
    """Warn once, and end when nobody has used it since. Before the warning nothing ends, however much was counted at once."""
    job = attempt.job
    limit_s = float(job.idle_timeout_s or 0)
    if watch.idle_s < limit_s - warning_s(limit_s):
        if watch.warned_idle_s is not None:
            watch.warned_idle_s = None
            page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    elif watch.warned_idle_s is None:
        watch.warned_idle_s = watch.idle_s
        left_s = ends_s(limit_s, watch.idle_s) - watch.idle_s
        left = f"nobody has used it for {span(watch.idle_s)}; it ends in {span(left_s)} unless somebody does"
        event_record(job_id=job.pk, kind="idle", text=f"{left[0].upper()}{left[1:]}.", epoch=attempt.epoch)
        idle_near(job_id=job.pk, mark=f"idle-{attempt.epoch}-{watch.uses}-{watch.frame}", detail=left)
        page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    elif watch.idle_s >= ends_s(limit_s, watch.warned_idle_s):
        _end(attempt, limit_s)


def _end(attempt: Attempt, limit_s: float) -> None:
    live = Attempt.objects.filter(pk=attempt.pk, ended_at=None, state=AttemptState.RUNNING, stop_reason="")
    why = f"nobody used it for {span(limit_s)}{IDLE_END}"
    if live.update(end_detail=why):
        attempt_stop(job_id=attempt.job_id, reason=StopReason.IDLE)
        text = f"Attempt {attempt.epoch} is stopped: {why}."
        event_record(job_id=attempt.job_id, kind="stop-ordered", text=text, epoch=attempt.epoch)
        page_event(stream=f"job:{attempt.job_id}", topic="job", id=attempt.job_id)
