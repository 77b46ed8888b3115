"""Turn a planning's decision into an attempt. Its resources are checked against fresh, locked rows (invariants 1, 10)."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Sum
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.foundation.bulk import among
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job
from portal.work.jobs.services.locks import jobs_keep, jobs_lock, nodes_keep, nodes_lock, tenants_lock
from portal.work.jobs.services.placings import Part, Placing
from portal.work.jobs.services.starting import attempts_create, gpus_take, jobs_move, placed_tell
from portal.work.jobs.states import JobState
from portal.work.jobs.use import GPU_MILLI, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from portal.people.tenants.models import Tenant


log = logging.getLogger(__name__)

READ = tuple(
    """
        tenant state cancel_requested_at array array_size epoch checkpointable restartable waiting_since waited_s
        started_at age_s age_source age_spread age_runs samples
    """.split()
)
"""The fields of a job that placing reads."""


class DoesNotFit(Exception):
    """The cluster changed since the planning's snapshot; the job stays in the queue and the next planning sees it."""


def attempt_start(*, job_id: int, parts: Sequence[Part], planning_number: int) -> Attempt:
    """Start an attempt of a waiting job on exactly these resources, or raise DoesNotFit and change nothing."""
    refused = attempts_start(placings=[Placing(job_id, parts)], planning_number=planning_number)
    if job_id in refused:
        raise refused[job_id]
    return Attempt.objects.runs().live().get(job_id=job_id)


def attempts_start(*, placings: Sequence[Placing], planning_number: int) -> dict[int, DoesNotFit]:
    """Start an attempt of each waiting job on exactly its resources; return by job id why others were refused.

    A fixed number of queries for any number of jobs. A refused one changes nothing, and takes nothing from the rest:
    when a database constraint refuses the whole, or we fail over it, each is tried singly. None where nothing is placed, as by
    most plannings.
    """
    if not placings:
        return {}
    try:
        with transaction.atomic():
            return _start(placings=placings, planning_number=planning_number)
    except IntegrityError as error:
        if len(placings) == 1:
            return {placings[0].job_id: DoesNotFit(f"a database constraint refused it: {error}")}
    except (OperationalError, InterfaceError, MemoryError):  # it is not about any of them
        raise
    except Exception as error:
        if len(placings) == 1:
            log.exception("job %d could not be placed, which is a fault of Berth", placings[0].job_id)
            return {placings[0].job_id: DoesNotFit(f"a fault of Berth: {error!r}")}
    refused: dict[int, DoesNotFit] = {}
    for each in placings:
        refused |= attempts_start(placings=[each], planning_number=planning_number)
    return refused


def placing_lock(*, job_ids: Iterable[int], node_ids: Iterable[int], others: Iterable[int] = ()) -> None:
    """Lock all that placing these jobs on these nodes may touch, and `others` (jobs), in the one order of `locks`."""
    if connection.features.has_select_for_update:
        placed = Job.objects.filter(pk__in=among(job_ids))
        tenants_lock(placed.values_list("tenant_id", flat=True))
        nodes_keep(node_ids)
        jobs_keep({*job_ids, *placed.filter(array__isnull=False).values_list("array_id", flat=True), *others})


def _start(*, placings: Sequence[Placing], planning_number: int) -> dict[int, DoesNotFit]:
    fresh = _Fresh.read(placings)
    refused: dict[int, DoesNotFit] = {}
    started: list[tuple[Placing, Job]] = []
    for each in placings:
        try:
            started.append((each, fresh.take(each)))
        except DoesNotFit as error:
            refused[each.job_id] = error
    if started:
        now = timezone.now()
        jobs_move([(placing, job) for placing, job in started if placing.profile is None], now)
        attempts = attempts_create(started, planning_number, now)
        gpus_take(attempts, fresh.gpus)
        placed_tell(started, attempts, fresh.nodes, planning_number)
    return refused


@dataclass
class _Fresh:
    """The rows that placing depends on, read under their locks, and the additions of the placings taken so far."""

    tenants: dict[int, Tenant]
    nodes: dict[int, Node]
    jobs: dict[int, Job]
    held: dict[int, list[int]]  # tenant -> [thousandths of GPUs, cores]
    used: dict[int, _Use]  # by node
    gpus: dict[tuple[int, int], Gpu]  # by (node, index), those that are there
    parts: dict[int, list[int]]  # shared GPU -> [thousandths, MiB] that are held of it

    @classmethod
    def read(cls, placings: Sequence[Placing]) -> _Fresh:
        known = Job.objects.filter(pk__in=among(each.job_id for each in placings)).values_list("tenant_id", "array_id")
        rows = list(known)
        tenants = tenants_lock(tenant for tenant, _ in rows)
        nodes = nodes_lock(part.node_id for each in placings for part in each.parts)
        ids = {*(each.job_id for each in placings), *(array for _, array in rows if array)}
        jobs = jobs_lock(ids, fields=READ)
        held = Attempt.objects.filter(job__tenant__in=among(tenants), ended_at=None).order_by()
        sums = held.values_list("job__tenant").annotate(held_milli=Sum(GPU_MILLI), held_cores=Sum("cores"))
        used: dict[int, _Use] = defaultdict(_Use)
        live = Allocation.objects.filter(node__in=among(nodes), released_at=None).order_by()
        for node, core_ids, memory_mib, holder in live.values_list(
            "node_id", "core_ids", "memory_mib", "attempt__job__tenant_id"
        ):
            used[node].add(core_ids, memory_mib, holder)
        present = Gpu.objects.takes_jobs().filter(node__in=among(nodes)).order_by()
        gpus = {(gpu.node_id, gpu.index): gpu for gpu in present.only("node_id", "index", "mode", "memory_mib")}
        shared = [each.pk for each in gpus.values() if each.mode == Gpu.Mode.SHARED]
        on_shared = GpuAllocation.objects.filter(gpu__in=among(shared), released_at=None).order_by()
        taken = on_shared.values_list("gpu").annotate(Sum("compute"), Sum("memory_mib"))
        parts = {gpu: [compute, memory_mib or 0] for gpu, compute, memory_mib in taken}
        return cls(tenants, nodes, jobs, {pk: [a, b] for pk, a, b in sums}, used, gpus, parts)

    def take(self, placing: Placing) -> Job:
        """Check one placing against the rows and those taken before it, and take it; DoesNotFit changes nothing."""
        job = self.jobs.get(placing.job_id)
        if job is None:
            raise DoesNotFit("the job is gone")
        parts = placing.parts
        gpu_milli, cores = sum(p.gpu_milli for p in parts), sum(len(p.core_ids) for p in parts)
        held = self.held.setdefault(job.tenant_id, [0, 0])
        _quota_check(tenant=self.tenants[job.tenant_id], gpu_milli=held[0] + gpu_milli, cores=held[1] + cores)
        for part in parts:
            if part.node_id not in self.nodes:
                raise DoesNotFit("a node is gone")
            node = self.nodes[part.node_id]
            _part_check(node=node, part=part, used=self.used[part.node_id], tenant_id=job.tenant_id)
            if any((part.node_id, index) not in self.gpus for index in part.gpu_indices):
                raise DoesNotFit(f"a GPU of {node.name} is missing or takes no jobs")
            self._gpus_check(node, part)
        if job.state != JobState.PENDING or job.cancel_requested_at or job.array_size is not None:
            raise DoesNotFit("the job no longer waits")
        self.held[job.tenant_id] = [held[0] + gpu_milli, held[1] + cores]
        for part in parts:
            self.used[part.node_id].add(part.core_ids, part.memory_mib, job.tenant_id)
            if part.gpu_compute is not None:
                own = self.parts.setdefault(self.gpus[part.node_id, part.gpu_indices[0]].pk, [0, 0])
                own[0], own[1] = own[0] + part.gpu_compute, own[1] + (part.gpu_memory_mib or 0)
        return job

    def _gpus_check(self, node: Node, part: Part) -> None:
        """Check that its GPUs are in the mode that it takes them in, and that what it takes of a shared one is left there."""
        mode = Gpu.Mode.EXCLUSIVE if part.gpu_compute is None else Gpu.Mode.SHARED
        for gpu in (self.gpus[part.node_id, index] for index in part.gpu_indices):
            if gpu.mode != mode:
                raise DoesNotFit(f"GPU {gpu.index} of {node.name} is {gpu.mode} by now")
            if part.gpu_compute is not None:
                compute, memory_mib = self.parts.get(gpu.pk, (0, 0))
                over = memory_mib + (part.gpu_memory_mib or 0) > gpu.memory_mib
                if over or compute + part.gpu_compute > WHOLE:
                    raise DoesNotFit(f"GPU {gpu.index} of {node.name} has too little left")


@dataclass
class _Use:
    """The sums of live allocations on one node."""

    cores: set[int] = field(default_factory=set)
    memory_mib: int = 0
    tenants: set[int] = field(default_factory=set)

    def add(self, core_ids: Iterable[int], memory_mib: int, tenant_id: int) -> None:
        self.cores.update(core_ids)
        self.memory_mib += memory_mib
        self.tenants.add(tenant_id)


def _quota_check(*, tenant: Tenant, gpu_milli: int, cores: int) -> None:
    """Refuse what would make the tenant hold more than its quotas: `gpu_milli` thousandths of GPUs and `cores` in all."""
    if tenant.gpu_quota is not None and gpu_milli > WHOLE * tenant.gpu_quota:
        raise DoesNotFit("tenant-quota")
    if tenant.core_quota is not None and cores > tenant.core_quota:
        raise DoesNotFit("tenant-quota")


def _part_check(*, node: Node, part: Part, used: _Use, tenant_id: int) -> None:
    """Check one node under its row lock: up, cores and memory free, and its account not another tenant's."""
    if not node.is_schedulable:
        raise DoesNotFit(f"{node.name} is {node.health}")
    if used.cores & set(part.core_ids) or not set(part.core_ids) <= set(range(node.cores)):
        raise DoesNotFit(f"cores of {node.name} are taken")
    if used.memory_mib + part.memory_mib > node.memory_mib:
        raise DoesNotFit(f"memory of {node.name} is taken")
    alone = node.single_account and not (node.trusts_tenants or settings.DEMO)
    if alone and used.tenants - {tenant_id}:
        raise DoesNotFit("tenant-not-trusted")
