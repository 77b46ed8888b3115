"""Fill an empty database with a seeded cluster and queue, as if tenants had used it: what `bench round` plans on.

The draws are those of `research.workloads.queues` (gpu-only): nodes of 8 GPUs in five types, about 30 % of the GPUs
held by running jobs, a queue of mixed requirement sets of eight tenants. Rows are written in bulk, past the services:
submitting 100 000 jobs would take minutes and measures nothing here. The jobs have no payload (no command): none runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.utils import timezone

from portal.cluster.models import Gpu, GpuType, Node
from portal.people.tenants.models import Membership, Tenant, User
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job, JobLabel, JobText
from portal.work.jobs.searching import text_of
from portal.work.jobs.states import AttemptState, JobState
from research.bench.errors import BenchError
from research.bench.readiness import database_ready
from research.workloads.queues import GPU_SPEEDS, TENANTS, instance_draw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from scheduler import model

BATCH = 2000
GPU_MEMORY_MIB = 81920
AHEAD = timedelta(hours=1)
RUNS_S = 1800
"""The running jobs began so long ago."""


def database_fill(*, gpus: int, jobs: int, seed: int) -> None:
    """Fill the database; BenchError unless it holds neither nodes nor jobs."""
    if gpus < 1 or jobs < 1:
        raise BenchError("--gpus and --jobs must be at least 1.")
    database_ready()
    if Node.objects.exists() or Job.objects.exists():
        raise BenchError("The database holds nodes or jobs already; a benchmark fills an empty one only.")
    instance = instance_draw(gpus=gpus, jobs=jobs, seed=seed, workload="gpu-only")
    now = timezone.now()
    with transaction.atomic():
        tenants = _tenants()
        nodes = _nodes(instance.nodes, now)
        _running(instance.nodes, nodes, tenants, now)
        for start in range(0, len(instance.jobs), BATCH):
            Job.objects.bulk_create(_job(job, tenants, now) for job in instance.jobs[start : start + BATCH])
    texts_fill()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # as autovacuum would have


def texts_fill() -> None:
    """Let the jobs that were written in bulk be found by the search."""
    missing = Job.objects.top_level().filter(text=None).values_list("pk", "name", "labels", "submitted_at", "category")
    rows = list(missing)
    JobText.objects.bulk_create(
        (
            JobText(job_id=pk, text=text_of(name=name, labels=labels), submitted_at=at, category=category)
            for pk, name, labels, at, category in rows
        ),
        batch_size=BATCH,
    )
    JobLabel.objects.bulk_create(
        (
            JobLabel(job_id=pk, name=key, pair=f"{key}={value}")
            for pk, _, labels, *_ in rows
            for key, value in labels.items()
        ),
        batch_size=BATCH,
    )


def contact_refresh() -> None:
    """Let every node have called: no agent runs here, and a silent node gets no jobs, however slow this machine is."""
    Node.objects.update(last_contact_at=timezone.now() + AHEAD)


def _tenants() -> dict[int, tuple[Tenant, User]]:
    """By the workload's number: the tenant and the one member who submits."""
    found = {}
    for number in range(1, TENANTS + 1):
        tenant = Tenant.objects.create(name=f"tenant-{number}")
        user = User.objects.create(username=f"member-{number}")
        Membership.objects.create(user=user, tenant=tenant)
        found[number] = (tenant, user)
    return found


def _nodes(drawn: Sequence[model.Node], now: datetime) -> dict[int, Node]:
    """By the workload's number."""
    types = {name: GpuType.objects.create(name=name, relative_speed=speed) for name, speed in GPU_SPEEDS.items()}
    rows = [
        Node(
            name=each.name,
            gpu_type=types[each.gpu_type or ""],
            cores=each.cores_total,
            memory_mib=each.memory_total_mib,
            storage_domain="shared",
            boot_id="boot",
            agent_version="1",
            token_digest=f"bench-{each.name}",
            trusts_tenants=True,
            last_contact_at=now,
        )
        for each in drawn
    ]
    made = {each.id: row for each, row in zip(drawn, Node.objects.bulk_create(rows, batch_size=BATCH), strict=True)}
    Gpu.objects.bulk_create(
        (
            Gpu(node=made[each.id], index=index, uuid=f"{each.name}-{index}", memory_mib=GPU_MEMORY_MIB)
            for each in drawn
            for index in range(each.gpus_total)
        ),
        batch_size=BATCH,
    )
    return made


def _running(
    drawn: Sequence[model.Node], nodes: dict[int, Node], tenants: dict[int, tuple[Tenant, User]], now: datetime
) -> None:
    """One running job on each node that the draw left partly busy: it holds what is not idle there."""
    busy = [(each, each.gpus_total - len(each.idle_gpus)) for each in drawn if len(each.idle_gpus) < each.gpus_total]
    jobs = Job.objects.bulk_create(
        _running_job(held, tenants[1 + k % TENANTS], now) for k, (_, held) in enumerate(busy)
    )
    attempts = Attempt.objects.bulk_create(
        _running_attempt(job, each, held) for job, (each, held) in zip(jobs, busy, strict=True)
    )
    parts = Allocation.objects.bulk_create(
        _running_part(attempt, each, nodes[each.id]) for attempt, (each, _) in zip(attempts, busy, strict=True)
    )
    by_place = {(gpu.node_id, gpu.index): gpu for gpu in Gpu.objects.all()}
    GpuAllocation.objects.bulk_create(
        (
            GpuAllocation(allocation=part, gpu=by_place[part.node_id, index], created_at=now)
            for part, (each, _) in zip(parts, busy, strict=True)
            for index in set(range(each.gpus_total)) - set(each.idle_gpus)
        ),
        batch_size=BATCH,
    )


def _running_attempt(job: Job, drawn: model.Node, held: int) -> Attempt:
    return Attempt(
        job=job,
        epoch=1,
        state=AttemptState.RUNNING,
        planning_number=0,
        gpus=held,
        cores=drawn.cores_total - len(drawn.idle_cores),
        rendezvous_port=0,
        created_at=job.started_at,
        started_at=job.started_at,
    )


def _running_part(attempt: Attempt, drawn: model.Node, node: Node) -> Allocation:
    return Allocation(
        attempt=attempt,
        node=node,
        rank=0,
        core_ids=sorted(set(range(drawn.cores_total)) - set(drawn.idle_cores)),
        memory_mib=0,
        state=Allocation.State.RUNNING,
    )


def _running_job(held: int, submitter: tuple[Tenant, User], now: datetime) -> Job:
    tenant, user = submitter
    began = now - timedelta(seconds=RUNS_S)
    return Job(
        tenant=tenant,
        owner=user,
        name="running",
        state=JobState.RUNNING,
        gpus=[held],
        cores_per_gpu=4,
        submitted_at=began,
        started_at=began,
        age_s=2.0 * RUNS_S,
        age_source="declared",
        epoch=1,
    )


def _job(job: model.Job, tenants: dict[int, tuple[Tenant, User]], now: datetime) -> Job:
    tenant, user = tenants[job.tenant]
    since = now - timedelta(seconds=job.wait_s)
    return Job(
        tenant=tenant,
        owner=user,
        name=f"job-{job.id}",
        labels={"team": str(job.id % 8)},
        gpus=list(job.requirement),
        gpu_types=sorted(job.gpu_types),
        cores_per_gpu=job.cores,
        memory_mib=job.memory_mib,
        expected_duration_s=job.age_s,
        checkpointable=len(job.requirement) > 1,
        submitted_at=since,
        waiting_since=since,
        reason="not-planned-yet",
    )
