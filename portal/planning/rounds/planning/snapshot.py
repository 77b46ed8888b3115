"""Database -> scheduler: one snapshot of nodes, queue, running jobs and history, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import F

from portal.cluster.models import Gpu, GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import SignatureUse
from portal.planning.estimation.probes import links_wanted
from portal.planning.estimation.selectors import knowledge_load
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.memory import Memory
from portal.planning.rounds.planning.model_jobs import Known, times_of, to_model_job, to_model_jobs
from portal.planning.rounds.planning.nodes import nodes_described
from portal.planning.rounds.planning.past import array_history_now, ended_since, history_load
from portal.planning.rounds.planning.promises import promises_load
from portal.planning.rounds.planning.running import running_one
from portal.planning.rounds.planning.sharing import (
    apart_signatures,
    memory_seen,
    pairs_load,
    policies_asked,
    policy_learned,
    shared_memory,
    uses_load,
)
from portal.planning.rounds.planning.starts import starts_load
from portal.planning.rounds.planning.without_failing_jobs import set_failing_aside, set_invalid_aside
from portal.work.jobs.models import Allocation, GpuAllocation
from portal.work.jobs.services.profiling import profiles_past
from scheduler import model
from scheduler.estimator.measured import signature
from scheduler.model.placements import is_instance, only_instances
from scheduler.planning.profiling import PROFILE_AGAIN_S

if TYPE_CHECKING:
    from portal.planning.rounds.planning.queued import QueuedJob
    from scheduler.model import Job
    from scheduler.parameters import Parameters


NAMES = 5000
"""The most signatures that are looked up, the first in the queue: a missing answer keeps nobody from an instance."""


def too_small_load(jobs: Iterable[Job], kinds: Iterable[GpuType]) -> dict[str, frozenset[str]]:
    """Return by signature the types of instances that are too small for it. One query, none without instances."""
    memory = {kind.name: kind.memory_mib for kind in kinds if kind.memory_mib and is_instance(kind.name)}
    if not memory:
        return {}
    names = dict.fromkeys(
        signature(job) for job in jobs if job.requirement[0] == 1 and not only_instances(job.gpu_types)
    )
    found: dict[str, frozenset[str]] = {}
    rows = SignatureUse.objects.filter(signature__name__in=list(names)[:NAMES], gpu_type__isnull=False)
    for name, most in rows.values_list("signature__name", "most__gpu_memory_mib"):
        small = frozenset(kind for kind, mib in memory.items() if (most or 0) > mib)
        if small:
            found[name] = found.get(name, frozenset()) | small
    return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of a planning, and the rows of the queue as they were read for it."""

    state: model.ClusterState
    queued: Sequence[QueuedJob]


def state_load(*, now: datetime, parameters: Parameters) -> model.ClusterState:
    """Read the snapshot without planning. Times in it are Unix seconds.

    The jobs that the last planning could not plan are set aside: over one of them the planner may fail (`without_failing_jobs`).
    """
    found = snapshot_load(now=now, parameters=parameters)
    invalid = {row.pk for row in found.queued if row.reason == model.Reason.INVALID}
    return set_invalid_aside(found.state, invalid)


def snapshot_load(*, now: datetime, parameters: Parameters, memory: Memory | None = None) -> Snapshot:
    """Read the snapshot, and keep the queue's rows: applying compares with them.

    `memory`: this process's, of which only what changed is read anew; its jobs are those of its last snapshot, moved on.
    """
    memory = memory or Memory()
    parts, kinds = _parts(), list(GpuType.objects.all())
    shared = shared_memory(parameters)
    apart = apart_signatures() if shared else {}
    running_known = Known(now.timestamp(), starts_load(parameters), promises_load(), shared=shared, apart=apart)
    look, past = memory.queue.look(), profiles_past(now=now, again_s=PROFILE_AGAIN_S)
    jobs = set_failing_aside(to_model_jobs(look, replace(running_known, profiled=past.since), memory.jobs))
    running = _running(parts, running_known)
    sharing = any(job.part is not None for job in jobs) if shared else False
    policies = policies_asked(parameters) if sharing else frozenset()
    resizable = [live.description for live in running if live.description is not None]
    state = model.ClusterState(
        nodes=nodes_described(
            parts, jobs, running_known.promises, memory_seen(parts, policies, now=now), apart, now=now
        ),
        jobs=jobs,
        knowledge=knowledge_load([*jobs, *resizable]),
        running=running,
        tenants=[
            model.Tenant(id=t.pk, weight=t.weight, gpu_quota=t.gpu_quota, core_quota=t.core_quota)
            for t in Tenant.objects.all()
        ],
        gpu_speeds={kind.name: kind.relative_speed for kind in kinds},
        gpu_weights={kind.name: kind.share_weight for kind in kinds},
        ended=ended_since(now - timedelta(hours=parameters.raqlr_hours)),
        history=history_load(),
        array_history=array_history_now(),
        profiles_tried=past.tried,
        replanned_s=_replanned_s(),
        links_wanted=links_wanted(now=now, again_s=PROFILE_AGAIN_S),
        uses=uses_load(jobs, parts, policies),
        too_small=too_small_load(jobs, kinds),
        pairs=pairs_load(jobs, parts, now=now) if sharing else {},
        learned=policy_learned() if "dqn" in policies else None,
    )
    return Snapshot(state, look.rows)


def _parts() -> list[Any]:
    """Return the live allocations, an attempt's beside each other, with `done_fraction`, `gpus_held`, `part_held` and `bay`.

    Two queries.
    """
    parts = list(
        Allocation.objects.filter(released_at=None)
        .select_related("attempt__job", "attempt__profile_type", "node")
        .annotate(done_fraction=F("attempt__job__progress__fraction"))
        .order_by("attempt_id", "rank")
    )
    held = _gpus_held()
    for part in parts:
        own = held.get(part.pk, Held())
        part.gpus_held, part.part_held = own.gpus, own.part
        part.bay = model.bay_id(part.node_id, own.beside or 0)
    return parts


class Held(NamedTuple):
    """The GPUs of a live allocation: indices, or a part of a shared one; and their type where it is not their node's."""

    gpus: tuple[int, ...] = ()
    part: model.HeldPart | None = None
    beside: int | None = None


def _gpus_held() -> dict[int, Held]:
    """Return the GPUs of each live allocation. One query."""
    rows = GpuAllocation.objects.filter(released_at=None, allocation__released_at=None).order_by("pk")
    names = ("allocation_id", "gpu__index", "gpu__gpu_type_id", "mode", "compute", "memory_mib")
    held: dict[int, Held] = {}
    for allocation, index, beside, mode, compute, memory_mib in rows.values_list(*names):
        if mode == Gpu.Mode.SHARED:
            held[allocation] = Held((), model.HeldPart(index, compute, memory_mib), beside)
        else:
            held[allocation] = Held((*held.get(allocation, Held()).gpus, index), None, beside)
    return held


def _replanned_s() -> float | None:
    done = Planning.objects.filter(replan=True, status=Planning.Status.APPLIED).order_by("-number")
    last = done.values_list("started_at", flat=True).first()
    return last.timestamp() if last is not None else None


def _running(parts: Iterable[Allocation], known: Known) -> list[model.Running]:
    by_attempt: dict[int, list[Allocation]] = defaultdict(list)
    for part in parts:
        by_attempt[part.attempt_id].append(part)

    def describe(job: Any) -> model.Job:
        return to_model_job(job, times_of(job), known)

    every = by_attempt.values()
    return [running_one(held, describe=describe, now_s=known.now_s) for held in every]
