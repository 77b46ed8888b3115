"""Berth's own past as a trace, and its cluster as a cluster file: so that "what would last week have been with ..." can be asked.

A job counts when it was submitted in the time asked for and has run. It arrives when it was submitted; what it was held or
waited for a dependency before its only attempt is left out of its waiting, so it arrives later by that. Its work is what
its attempts did, in seconds of the last attempt's size and GPU type, by the law that replays it (`Scaled`): of all attempts
for a checkpointable job, of the last one for others, who began from zero. One that still runs counts with what it has had.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.db.models import Avg, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from portal.cluster.models import GpuType, Node
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.clusters import MANNERS, ClusterFile
from portal.people.tenants.models import Tenant
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Allocation, Attempt, Job
from scheduler import model
from scheduler.intake.bays import split
from scheduler.parameters import PARAMETERS
from scheduler.simulator.world.laws import EXPONENT
from scheduler.simulator.world.truth import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

MOST_DAYS = 3650.0
LEAST_S = 0.001
RESTARTED_JOBS = 1000
"""Restarts, the newest ones, whose mean is the length of a restart: old ones, on other machines, show nothing."""


def history_rows(*, days: float, now: datetime, tenants: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
    """The jobs of the last `days`, by arrival, as lines of `berth-jsonl`; of these tenants (ids), else of all.

    Times count from the first submission. Three queries, streamed. SimulationError: days out of range, or no job.
    """
    if not 0 < days <= MOST_DAYS:
        raise SimulationError("days", f"{days:g} is not above 0 and at most {MOST_DAYS:g}")
    attempts = _attempts(since=now - timedelta(days=days), tenants=tenants)
    first = attempts.order_by("job__submitted_at").values_list("job__submitted_at", flat=True).first()
    if first is None:
        raise SimulationError("days", f"no job that was submitted in the last {days:g} days has run; take more days")
    speeds = dict(GpuType.objects.values_list("name", "relative_speed"))
    ordered = attempts.order_by("job__submitted_at", "job_id", "epoch").iterator(chunk_size=2000)
    for _, own in groupby(ordered, key=lambda attempt: attempt.job_id):
        yield _row(list(own), first=first, now=now, speeds=speeds)


def _attempts(*, since: datetime, tenants: Sequence[int] | None) -> Any:
    own = Q() if tenants is None else Q(job__tenant__in=tenants)
    first = Allocation.objects.filter(attempt=OuterRef("pk"), rank=0)
    beside = Coalesce("gpu_allocations__gpu__gpu_type__name", "node__gpu_type__name")
    node_type = first.annotate(type_name=beside).values("type_name")[:1]
    return (
        Attempt.objects.filter(
            own, kind=Attempt.Kind.RUN, job__submitted_at__gte=since, started_at__isnull=False, job__array_size=None
        )
        .select_related("job__tenant", "job__owner")
        .annotate(node_type=Subquery(node_type))
    )


def _row(attempts: list[Attempt], *, first: datetime, now: datetime, speeds: Mapping[str, float]) -> dict[str, Any]:
    job, last = attempts[-1].job, attempts[-1]
    counted = attempts if job.checkpointable else [last]
    arrival_s = (job.submitted_at - first).total_seconds()
    if job.epoch == 1:
        arrival_s = max(arrival_s, (last.started_at - first).total_seconds() - job.waited_s)
    told = {
        "submitted_s": round(arrival_s, 3),
        "tenant": job.tenant.name,
        "gpus": job.gpus if job.gpus != [0] else 0,
        "duration_s": round(max(LEAST_S, sum(_work_s(each, last, now, speeds) for each in counted)), 3),
        "name": job.name,
        "owner": job.owner.username,
        "cores": _cores(job, last),
        "memory_mib": job.memory_mib,
        "gpu_types": job.gpu_types,
        "ran_gpus": last.gpus,
        "ran_on": last.node_type if last.gpus else None,
        "category": job.category,
        "model_label": job.model,
        "expected_duration_s": job.expected_duration_s,
        "priority": job.priority,
        "movable": job.checkpointable,
    }
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def _work_s(attempt: Any, last: Any, now: datetime, speeds: Mapping[str, float]) -> float:
    """The attempt's work, in seconds of the last one's GPUs."""
    ran_s = max(0.0, ((attempt.ended_at or now) - attempt.started_at).total_seconds())
    if not last.gpus:
        return ran_s
    speed = speeds.get(attempt.node_type or "", 1.0) / speeds.get(last.node_type or "", 1.0)
    return ran_s * speed * float(attempt.gpus / last.gpus) ** EXPONENT


def _cores(job: Job, last: Attempt) -> int:
    """Per GPU, or in all for a CPU job: the request, else the grant; of a GPU job first what it was placed with, or tuned to."""
    if not last.gpus:
        return job.cores or max(1, last.cores)
    return last.cores_wanted or job.cores_per_gpu or max(1, last.cores // last.gpus)


def cluster_registered() -> ClusterFile:
    """The cluster as it is registered, every node up and idle, with its tenants. SimulationError when there is no node."""
    nodes = [
        bay
        for each in Node.objects.alive().select_related("gpu_type").prefetch_related("gpus__gpu_type").order_by("pk")
        for bay in _bays(each)
    ]
    if not nodes:
        raise SimulationError("cluster", "no node is registered here; describe a cluster with --cluster")
    kinds, tenants = list(GpuType.objects.all()), list(Tenant.objects.order_by("pk"))
    factors = Node.objects.alive().exclude(speed=None).values_list("pk", "speed__factor")
    world = World(
        nodes,
        tuple(
            model.Tenant(number, tenant.weight, tenant.gpu_quota, tenant.core_quota)
            for number, tenant in enumerate(tenants, start=1)
        ),
        {kind.name: kind.relative_speed for kind in kinds},
        {kind.name: kind.share_weight for kind in kinds},
        speeds={pk: factor for pk, factor in factors if factor},
        restart_s=restart_s_of(Job.objects.all()),
        shared_storage=False,
    )
    return ClusterFile(world, tuple(tenant.name for tenant in tenants), "the cluster as it is registered")


def restart_s_of(jobs: QuerySet[Job]) -> float:
    """The length of a restart (s): the measured mean of the newest of these jobs, within a cluster file's limits.

    Where none of them was stopped and started again it is what the scheduler takes it to be, the knob `restart_cost_s`.
    """
    newest = jobs.filter(restart_s__isnull=False).order_by("-pk")[:RESTARTED_JOBS]
    measured = newest.aggregate(mean=Avg("restart_s"))["mean"]
    return float(knobs_current()["restart_cost_s"] if measured is None else min(measured, MANNERS["restart_s"][1]))


def _bays(node: Any) -> list[model.Node]:
    """The node; one with GPUs of several types as one for each of them."""
    present = [gpu for gpu in node.gpus.all() if gpu.missing_since is None]
    counts = Counter(name for gpu in present if (name := gpu.type_of(node)) is not None)
    own = node.gpu_type.name if node.gpu_type else ""
    kinds = sorted(counts.items(), key=lambda each: (each[0] != own, each[0]))
    return [_node(node, present)] if len(kinds) < 2 else split(_node(node, present), kinds)


def _node(node: Any, present: Sequence[Any]) -> model.Node:
    gpus = tuple(sorted(gpu.index for gpu in present))
    return model.Node(
        id=node.pk,
        name=node.name,
        gpu_type=node.gpu_type.name if node.gpu_type and gpus else None,
        gpus_total=len(gpus),
        idle_gpus=gpus,
        cores_total=node.cores,
        idle_cores=tuple(range(node.cores)),
        memory_total_mib=node.memory_mib,
        idle_memory_mib=node.memory_mib,
        storage_domain=node.storage_domain,
    )


def knobs_in_force() -> tuple[str, dict[str, Any]]:
    """The policy in force, and the scheduler's knobs that are away from their defaults."""
    values = knobs_current()
    parameters = scheduler_parameters(values)
    own = {each.name: values[each.name] for each in PARAMETERS if each.name != "policy"}
    defaults = {each.name: each.default for each in PARAMETERS}
    return parameters.policy, {name: value for name, value in own.items() if value != defaults[name]}
