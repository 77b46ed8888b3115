"""Database -> scheduler: one snapshot of nodes, queue, running jobs and history, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import F

from portal.cluster.models import Gpu, GpuType, Node
from portal.estimation.probes import links_wanted
from portal.estimation.selectors import knowledge_load
from portal.jobs.models import Allocation, GpuAllocation, Job
from portal.jobs.services.profiling import profiles_past
from portal.jobs.services.tuning import cores_tuned
from portal.jobs.states import FINAL, JobState
from portal.rounds.models import Planning
from portal.rounds.planning.memory import Beside, Memory
from portal.rounds.planning.past import array_history_now
from portal.rounds.planning.promises import promises_load
from portal.rounds.planning.queued import jobs_blocked
from portal.rounds.planning.restored import Restored
from portal.rounds.planning.running import running_one
from portal.tenants.models import Tenant
from scheduler import model
from scheduler.estimator.cores import start_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.rounds.planning.memory import KeptJobs
    from portal.rounds.planning.queue_kept import Look
    from portal.rounds.planning.queued import QueuedJob
    from scheduler.parameters import Parameters

    Aside = tuple[model.Reason | None, dict[str, Any]]
    Tuned = Mapping[int, Mapping[str | None, int]]  # owner -> category -> its past jobs' largest tuned cores per GPU

AWAY = {"disk-low": "its disk is almost full"}
"""Words for a node that gets no jobs, where its health is no word for a sentence."""
HISTORY_JOBS = 2000
"""Finished jobs behind the medians of `age`: the latest so many."""


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
    parts = list(
        Allocation.objects.filter(released_at=None)
        .select_related("attempt__job", "attempt__profile_type", "node")
        .annotate(done_fraction=F("attempt__job__progress__fraction"))
        .order_by("attempt_id", "rank")
    )
    held = _gpus_held()
    for part in parts:
        part.gpus_held = held.get(part.pk, ())
    kinds, promises, tuned = list(GpuType.objects.all()), promises_load(), cores_tuned()
    look, past = memory.queue.look(), profiles_past(now=now, again_s=parameters.profile_again_s)
    known = Known(now, parameters, promises, tuned, past.since)
    jobs = _jobs(look, known, memory.jobs)
    running = _running(parts, now=now, parameters=parameters, promises=promises, tuned=tuned)
    resizable = [live.description for live in running if live.description is not None]
    state = model.ClusterState(
        nodes=_nodes(parts),
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
        history=_history(),
        array_history=array_history_now(),
        profiles_tried=past.tried,
        replanned_s=_replanned_s(),
        links_wanted=links_wanted(now=now, again_s=parameters.profile_again_s),
    )
    return Snapshot(state, look.rows)


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
    for node, index in Gpu.objects.filter(missing_since=None).order_by("index").values_list("node_id", "index"):
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
        speed=node.speed_factor or 1.0,
    )


@dataclass(frozen=True, slots=True)
class Known:
    """What waiting jobs are described by beside their rows."""

    now: datetime
    parameters: Parameters
    promises: Mapping[int, model.Promise]
    tuned: Tuned
    profiled: Mapping[int, datetime]


def _jobs(look: Look, known: Known, kept: KeptJobs) -> list[model.Job]:
    """Describe the queue: waiting and held jobs. A task waits for what its array waits for."""
    blocked, now_s, restored = frozenset(jobs_blocked()), known.now.timestamp(), Restored.read(now=known.now)

    def make(row: QueuedJob) -> model.Job:
        return _job(
            job=row,
            times=(row.submitted_s, row.waiting_since_s, row.started),
            now_s=now_s,
            parameters=known.parameters,
            tuned=known.tuned,
            promise=known.promises.get(row.pk),
            profiled=known.profiled.get(row.pk),
            aside=_aside(row, blocked=row.pk in blocked or row.array_id in blocked, restored=restored),
        )

    common = (known.tuned, known.parameters.large_model_parameters, restored)
    return kept.describe(look, Beside(blocked, known.promises, known.profiled, common), now_s, make)


def _aside(job: Any, *, blocked: bool, restored: Restored) -> Aside:
    """Return why a job does not wait for its turn, with the figures; (None, {}) when it does."""
    if job.state == JobState.HELD:
        return model.Reason.HELD, {}
    if blocked:
        return model.Reason.DEPENDENCY, {}
    return (model.Reason.RESTORED, restored.figures) if restored.keeps(job) else (None, {})


def _times(job: Any) -> tuple[float, float | None, bool]:
    """Return submission, since when it waits (Unix seconds), and whether it ever started, of a whole row."""
    since = job.waiting_since
    return job.submitted_at.timestamp(), since.timestamp() if since else None, job.started_at is not None


def _job(
    *,
    job: Any,
    times: tuple[float, float | None, bool],
    now_s: float,
    parameters: Parameters,
    tuned: Tuned,
    promise: model.Promise | None = None,
    profiled: datetime | None = None,
    aside: Aside = (None, {}),
) -> model.Job:
    submitted_s, since_s, started = times
    reason, figures = aside
    return model.Job(
        id=job.pk,
        tenant=job.tenant_id,
        requirement=tuple(job.gpus),
        submitted_s=submitted_s,
        gpu_types=frozenset(job.gpu_types),
        cores=(promise and promise.cores_wanted) or cores_wanted(job=job, parameters=parameters, tuned=tuned),
        memory_mib=job.memory_mib or 0,
        priority=job.priority,
        wait_s=job.waited_s if since_s is None else job.waited_s + max(0.0, now_s - since_s),
        age_s=job.age_s if started else None,
        owner=job.owner_id,
        category=job.category,
        model_label=job.model or None,
        done_fraction=getattr(job, "done_fraction", None) or 0.0,
        expected_duration_s=job.expected_duration_s,
        total_samples=job.samples,
        eligible=reason is None,
        ineligible_reason=reason,
        ineligible_figures=figures,
        checkpoint_domain=job.checkpoint_domain or None,
        movable=job.is_requeueable,
        promise=promise,
        gave_back=job.gave_back,
        attained_gpu_s=job.attained_gpu_s,
        instrumented=job.instrumented,
        profiled_since_s=None if profiled is None else profiled.timestamp(),
    )


def job_imagined(*, job: Any, blocked: bool, now: datetime, parameters: Parameters) -> model.Job:
    """Return what a snapshot would say of a job that is not stored. `job`: an unsaved row with an id that none has."""
    job.done_fraction = 0.0
    tuned = cores_tuned(owner_ids=[job.owner_id])
    aside = _aside(job, blocked=blocked, restored=Restored())  # it is new: no restore concerns it
    return _job(job=job, times=_times(job), now_s=now.timestamp(), parameters=parameters, tuned=tuned, aside=aside)


def jobs_imagined(rows: Sequence[Any], *, now: datetime, parameters: Parameters) -> list[model.Job]:
    """Return what a snapshot would say of stored jobs if they came anew: with nothing run, waited or promised."""
    tuned = cores_tuned(owner_ids=sorted({row.owner_id for row in rows}))
    found = (
        _job(job=row, times=_times(row), now_s=now.timestamp(), parameters=parameters, tuned=tuned) for row in rows
    )
    return [
        replace(
            job, wait_s=0.0, age_s=None, done_fraction=0.0, checkpoint_domain=None, gave_back=False, attained_gpu_s=0.0
        )
        for job in found
    ]


def cores_wanted(*, job: Any, parameters: Parameters, tuned: Tuned) -> int:
    """Cores a GPU (a CPU job: in all): what the tenant asked, else the start rule of section 8 from the owner's past."""
    if list(job.gpus) == [0]:
        return job.cores or 1
    if job.cores_per_gpu:
        return job.cores_per_gpu
    return start_cores(
        category=job.category,
        tuned=tuned.get(job.owner_id, {}),
        pipelined=bool(job.pipelined),
        model_parameters=job.parameters,
        large_model_parameters=parameters.large_model_parameters,
        heavy_between_iterations=bool(job.heavy_between_iterations),
    )


def _running(
    parts: Iterable[Allocation],
    *,
    now: datetime,
    parameters: Parameters,
    promises: Mapping[int, model.Promise],
    tuned: Tuned,
) -> list[model.Running]:
    by_attempt: dict[int, list[Allocation]] = defaultdict(list)
    for part in parts:
        by_attempt[part.attempt_id].append(part)

    now_s = now.timestamp()

    def describe(job: Any) -> model.Job:
        promise = promises.get(job.pk)
        return _job(job=job, times=_times(job), now_s=now_s, parameters=parameters, tuned=tuned, promise=promise)

    return [running_one(held, describe=describe, now_s=now_s) for held in by_attempt.values()]


def ended_since(moment: datetime) -> list[model.Ended]:
    """Return waiting time and age of the jobs that ended after `moment`, for RAQLR."""
    rows = Job.objects.runnable().filter(ended_at__gt=moment, age_s__gt=0, state__in=FINAL)
    return [
        model.Ended(ended_s=ended_at.timestamp(), wait_s=waited_s, age_s=age_s, array=array)
        for ended_at, waited_s, age_s, array in rows.values_list("ended_at", "waited_s", "age_s", "array_id")
    ]


def _history() -> model.RunHistory:
    """Medians of what completed jobs ran, over the latest HISTORY_JOBS of them (section 3's fallbacks).

    A job's run time is that of its attempts: in between it waited, and what has no record of them is taken as one.
    """
    rows = (
        Job.objects.runnable()
        .filter(state=JobState.COMPLETED, started_at__isnull=False, ended_at__isnull=False, link_probe=None)
        .order_by("-ended_at")
        .values_list("owner_id", "tenant_id", "category", "ran_s", "started_at", "ended_at", "expected_duration_s")[
            :HISTORY_JOBS
        ]
    )
    ratios, by_tenant, by_category, every = defaultdict(list), defaultdict(list), defaultdict(list), []
    for owner, tenant, category, ran_s, started_at, ended_at, declared_s in rows:
        took_s = ran_s or max(0.0, (ended_at - started_at).total_seconds())
        by_tenant[tenant, category].append(took_s)
        by_category[category].append(took_s)
        every.append(took_s)
        if declared_s:
            ratios[owner].append(took_s / declared_s)
    return model.RunHistory(
        declared_ratio={owner: median(values) for owner, values in ratios.items()},
        tenant_category_s={key: median(values) for key, values in by_tenant.items()},
        category_s={key: median(values) for key, values in by_category.items()},
        cluster_s=median(every) if every else None,
    )
