"""Turn a planning's decision into an attempt: what it holds is checked against fresh rows under lock (invariants 1, 10)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.cluster.services import node_touch
from portal.environment import env
from portal.events.services import node_wake, page_event
from portal.jobs.models import Allocation, Attempt, GpuAllocation, Job
from portal.jobs.services.arrays import array_refresh
from portal.jobs.services.changes import event_record
from portal.jobs.services.locks import jobs_lock, nodes_lock, tenants_lock
from portal.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from portal.tenants.models import Tenant

FIRST_PORT, PORTS = 20000, 20000
"""Rendezvous ports of multi-node attempts: one an attempt, so that two on a node do not meet."""


@dataclass(frozen=True)
class Part:
    """What an attempt is to hold on one node."""

    node_id: int
    gpu_indices: tuple[int, ...]
    core_ids: tuple[int, ...]
    memory_mib: int


class DoesNotFit(Exception):
    """The cluster changed since the planning's snapshot; the job stays in the queue and the next planning sees it."""


def attempt_start(
    *, job_id: int, parts: Sequence[Part], planning_number: int, age: tuple[float, str] | None = None
) -> Attempt:
    """Start an attempt of a waiting job on exactly these resources, or raise DoesNotFit and change nothing.

    `age` is (seconds, where it came from): refreshed until a job's first start, then fixed (algorithms, section 3).
    """
    try:
        with transaction.atomic():
            return _start(job_id=job_id, parts=parts, planning_number=planning_number, age=age)
    except IntegrityError as error:
        raise DoesNotFit(f"a database constraint refused it: {error}") from error


def placing_lock(*, job_ids: Iterable[int], node_ids: Iterable[int], others: Iterable[int] = ()) -> None:
    """Lock all that placing these jobs on these nodes may touch, and `others` (jobs), in the one order of `locks`."""
    if connection.features.has_select_for_update:
        tenant_ids = Job.objects.filter(pk__in=list(job_ids)).values_list("tenant_id", flat=True)
        tenants_lock(tenant_ids)
        nodes_lock(node_ids)
        arrays = Job.objects.filter(pk__in=list(job_ids), array__isnull=False).values_list("array_id", flat=True)
        jobs_lock({*job_ids, *arrays, *others})


def _start(*, job_id: int, parts: Sequence[Part], planning_number: int, age: tuple[float, str] | None) -> Attempt:
    known = Job.objects.filter(pk=job_id).values_list("tenant_id", "array_id").first()
    if known is None:
        raise DoesNotFit("the job is gone")
    tenant = tenants_lock([known[0]])[known[0]]
    nodes = nodes_lock(part.node_id for part in parts)
    job = jobs_lock(pk for pk in (job_id, known[1]) if pk)[job_id]
    now = timezone.now()
    gpus, cores = sum(len(p.gpu_indices) for p in parts), sum(len(p.core_ids) for p in parts)
    _quota_check(tenant=tenant, gpus=gpus, cores=cores)
    for part in parts:
        if part.node_id not in nodes:
            raise DoesNotFit("a node is gone")
        _part_check(node=nodes[part.node_id], part=part, tenant_id=tenant.pk)
    stretch_s = max(0.0, (now - job.waiting_since).total_seconds()) if job.waiting_since else 0.0
    if age is None or job.started_at is not None:
        age = (job.age_s, job.age_source)
    moved = Job.objects.filter(
        pk=job_id, state=JobState.PENDING, epoch=job.epoch, cancel_requested_at=None, array_size=None
    ).update(
        state=JobState.STARTING,
        epoch=job.epoch + 1,
        waited_s=job.waited_s + stretch_s,
        waiting_since=None,
        age_s=age[0],
        age_source=age[1],
        started_at=job.started_at or now,
        reason="",
        reason_figures={},
    )
    if not moved:
        raise DoesNotFit("the job no longer waits")
    attempt = _attempt_create(job=job, parts=parts, nodes=nodes, planning_number=planning_number)
    names = ", ".join(nodes[p.node_id].name for p in parts)
    what = f"{gpus} GPU{'s' if gpus != 1 else ''} and {cores} cores" if gpus else f"{cores} cores"
    event_record(
        job_id=job_id,
        kind="placed",
        text=f"Placed on {names}: {what}, planning {planning_number}.",
        epoch=attempt.epoch,
    )
    page_event(stream="cluster", topic="job")
    page_event(stream=f"job:{job_id}", topic="job", id=job_id)
    if job.array_id:
        array_refresh(array_id=job.array_id)
    return attempt


def _quota_check(*, tenant: Tenant, gpus: int, cores: int) -> None:
    held = Attempt.objects.filter(job__tenant=tenant, ended_at=None).aggregate(gpus=Sum("gpus"), cores=Sum("cores"))
    if tenant.gpu_quota is not None and (held["gpus"] or 0) + gpus > tenant.gpu_quota:
        raise DoesNotFit("tenant-quota")
    if tenant.core_quota is not None and (held["cores"] or 0) + cores > tenant.core_quota:
        raise DoesNotFit("tenant-quota")


def _part_check(*, node: Node, part: Part, tenant_id: int) -> None:
    """Check one node under its row lock: up, cores and memory free, and its account not another tenant's."""
    if not node.is_schedulable:
        raise DoesNotFit(f"{node.name} is {node.health}")
    used_cores: set[int] = set()
    used_memory = 0
    tenants: set[int] = set()
    for core_ids, memory_mib, holder in Allocation.objects.filter(node=node, released_at=None).values_list(
        "core_ids", "memory_mib", "attempt__job__tenant_id"
    ):
        used_cores.update(core_ids)
        used_memory += memory_mib
        tenants.add(holder)
    if used_cores & set(part.core_ids) or not set(part.core_ids) <= set(range(node.cores)):
        raise DoesNotFit(f"cores of {node.name} are taken")
    if used_memory + part.memory_mib > node.memory_mib:
        raise DoesNotFit(f"memory of {node.name} is taken")
    alone = node.single_account and not (node.trusts_tenants or settings.DEMO)
    if alone and tenants - {tenant_id}:
        raise DoesNotFit("tenant-not-trusted")


def _attempt_create(*, job: Job, parts: Sequence[Part], nodes: dict[int, Node], planning_number: int) -> Attempt:
    now = timezone.now()
    lease_s = env("BERTH_LEASE_S") if job.is_requeueable else None
    lease_until = now + timedelta(seconds=lease_s) if lease_s else None
    attempt = Attempt.objects.create(
        job=job,
        epoch=job.epoch + 1,
        planning_number=planning_number,
        gpus=sum(len(p.gpu_indices) for p in parts),
        cores=sum(len(p.core_ids) for p in parts),
        rendezvous_port=0,
        created_at=now,
        lease_s=lease_s,
    )
    Attempt.objects.filter(pk=attempt.pk).update(rendezvous_port=FIRST_PORT + attempt.pk % PORTS)
    for rank, part in enumerate(parts):
        allocation = Allocation.objects.create(
            attempt=attempt,
            node_id=part.node_id,
            rank=rank,
            core_ids=list(part.core_ids),
            memory_mib=part.memory_mib,
            lease_until=lease_until,
        )
        _gpus_take(allocation=allocation, part=part)
        node_touch(node_id=part.node_id)
        node_wake(node_id=part.node_id)
    return attempt


def _gpus_take(*, allocation: Allocation, part: Part) -> None:
    if not part.gpu_indices:
        return
    gpus = list(Gpu.objects.filter(node_id=part.node_id, index__in=part.gpu_indices, missing_since=None))
    if len(gpus) != len(part.gpu_indices):
        raise DoesNotFit("a GPU is missing")
    GpuAllocation.objects.bulk_create(
        GpuAllocation(allocation=allocation, gpu=gpu, mode=Gpu.Mode.EXCLUSIVE, created_at=allocation.attempt.created_at)
        for gpu in gpus
    )
