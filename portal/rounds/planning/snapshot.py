"""Database -> scheduler: one snapshot of nodes, queue, running jobs and history, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import F

from portal.cluster.models import Gpu, GpuType, Node
from portal.estimation.probes import links_wanted
from portal.estimation.selectors import knowledge_load
from portal.jobs.models import Allocation, GpuAllocation
from portal.jobs.services.profiling import profiles_past
from portal.jobs.services.tuning import cores_tuned
from portal.jobs.software import node_offers
from portal.rounds.models import Planning
from portal.rounds.planning.described import Known, job_described, jobs_described, times_of
from portal.rounds.planning.ended import ended_since, history_load
from portal.rounds.planning.memory import Memory
from portal.rounds.planning.past import array_history_now
from portal.rounds.planning.promises import promises_load
from portal.rounds.planning.running import running_one
from portal.tenants.models import Tenant
from scheduler import model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from portal.rounds.planning.queued import QueuedJob
    from scheduler.parameters import Parameters

AWAY = {"disk-low": "its disk is almost full"}
"""Words for a node that gets no jobs, where its health is no word for a sentence."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a planning is made from, and the rows of the queue as they were read for it."""

    state: model.ClusterState
    queued: Sequence[QueuedJob]


def state_load(*, now: datetime, parameters: Parameters) -> model.ClusterState:
    """Read the snapshot. Times in it are Unix seconds."""
    return snapshot_load(now=now, parameters=parameters).state


def snapshot_load(*, now: datetime, parameters: Parameters, memory: Memory | None = None) -> Snapshot:
    """Read the snapshot, and keep the queue's rows: who applies the plan compares with them.

    `memory`: this process's, of which only what changed is read anew; its jobs are those of its last snapshot, moved on.
    """
    memory = memory or Memory()
    parts, kinds = _parts(), list(GpuType.objects.all())
    running_known = Known(now.timestamp(), parameters, cores_tuned(), promises_load())
    look, past = memory.queue.look(), profiles_past(now=now, again_s=parameters.profile_again_s)
    jobs = jobs_described(look, replace(running_known, profiled=past.since), memory.jobs)
    running = _running(parts, running_known)
    resizable = [live.description for live in running if live.description is not None]
    state = model.ClusterState(
        nodes=_nodes(parts),
        jobs=jobs,
        knowledge=knowledge_load([*jobs, *resizable]),
        running=running,
        tenants=_tenants(),
        gpu_speeds={kind.name: kind.relative_speed for kind in kinds},
        gpu_weights={kind.name: kind.share_weight for kind in kinds},
        ended=ended_since(now - timedelta(hours=parameters.raqlr_hours)),
        history=history_load(),
        array_history=array_history_now(),
        profiles_tried=past.tried,
        replanned_s=_replanned_s(),
        links_wanted=links_wanted(now=now, again_s=parameters.profile_again_s),
    )
    return Snapshot(state, look.rows)


def _parts() -> list[Any]:
    """Return the live allocations, an attempt's beside each other, with `done_fraction` and `gpus_held`. Two queries."""
    parts = list(
        Allocation.objects.filter(released_at=None)
        .select_related("attempt__job", "attempt__profile_type", "node")
        .annotate(done_fraction=F("attempt__job__progress__fraction"))
        .order_by("attempt_id", "rank")
    )
    held = _gpus_held()
    for part in parts:
        part.gpus_held = held.get(part.pk, ())
    return parts


def _tenants() -> list[model.Tenant]:
    return [
        model.Tenant(id=t.pk, weight=t.weight, gpu_quota=t.gpu_quota, core_quota=t.core_quota)
        for t in Tenant.objects.all()
    ]


def _gpus_held() -> dict[int, tuple[int, ...]]:
    """Return the indices of the GPUs that live allocations hold, by allocation. One query."""
    rows = GpuAllocation.objects.filter(released_at=None, allocation__released_at=None).order_by("pk")
    held: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for allocation, index in rows.values_list("allocation_id", "gpu__index"):
        held[allocation] += (index,)
    return held


def _replanned_s() -> float | None:
    done = Planning.objects.filter(replan=True, status=Planning.Status.APPLIED).order_by("-number")
    last = done.values_list("started_at", flat=True).first()
    return last.timestamp() if last is not None else None


def _nodes(parts: Iterable[Any]) -> list[model.Node]:
    """Describe the nodes. `parts`: the live allocations, with `gpus_held`."""
    gpus: dict[int, set[int]] = defaultdict(set)
    cores: dict[int, set[int]] = defaultdict(set)
    tenants: dict[int, set[int]] = defaultdict(set)
    memory: dict[int, int] = defaultdict(int)
    for part in parts:
        gpus[part.node_id].update(part.gpus_held)
        cores[part.node_id].update(part.core_ids)
        memory[part.node_id] += part.memory_mib
        tenants[part.node_id].add(part.attempt.job.tenant_id)
    present: dict[int, list[int]] = defaultdict(list)
    seen = Gpu.objects.present().order_by("index")
    for node, index, cordoned, outside in seen.values_list("node_id", "index", "cordoned_at", "outside_since"):
        # One that no job may get is left out, unless a job has it: then it is that job's as long as it runs.
        if (cordoned is None and outside is None) or index in gpus[node]:
            present[node].append(index)
    rows = Node.objects.alive().select_related("gpu_type").order_by("pk").annotate(speed_factor=F("speed__factor"))
    return [
        _node(
            node=n,
            present=present[n.pk],
            used_gpus=gpus[n.pk],
            used_cores=cores[n.pk],
            used_mib=memory[n.pk],
            tenants=tenants[n.pk],
        )
        for n in rows
    ]


def _node(
    *,
    node: Any,
    present: Sequence[int],
    used_gpus: set[int],
    used_cores: set[int],
    used_mib: int,
    tenants: set[int],
) -> model.Node:
    return model.Node(
        id=node.pk,
        name=node.name,
        gpu_type=node.gpu_type.name if node.gpu_type and present else None,
        gpus_total=len(present),
        idle_gpus=tuple(index for index in present if index not in used_gpus),
        cores_total=node.cores,
        idle_cores=tuple(core for core in range(node.cores) if core not in used_cores),
        memory_total_mib=node.memory_mib,
        idle_memory_mib=max(0, node.memory_mib - used_mib),
        storage_domain=node.storage_domain,
        schedulable=node.is_schedulable,
        unavailable_because="" if node.is_schedulable else AWAY.get(node.health, node.health),
        single_account=node.single_account,
        trusts_tenants=node.trusts_tenants or settings.DEMO,
        tenants=frozenset(tenants),
        offers=node_offers(node.software),
        speed=node.speed_factor or 1.0,
    )


def _running(parts: Iterable[Allocation], known: Known) -> list[model.Running]:
    by_attempt: dict[int, list[Allocation]] = defaultdict(list)
    for part in parts:
        by_attempt[part.attempt_id].append(part)

    def describe(job: Any) -> model.Job:
        return job_described(job, times_of(job), known)

    return [running_one(held, describe=describe, now_s=known.now_s) for held in by_attempt.values()]
