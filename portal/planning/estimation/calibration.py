"""Link and network bandwidths per GPU type (Hops 3.5, eq. 2), measured by jobs of Berth's own, kept with date and method.

`within`: an all-reduce among GPUs of one node; `between`: one of more GPUs than any node of the type has. An earlier
figure stays unless it is asked for again, so the command may be repeated at will.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from portal.cluster.gpu_states import instance_of
from portal.cluster.models import Gpu, GpuType, Node
from portal.foundation.errors import BerthError
from portal.foundation.events.services import plan_nudge
from portal.foundation.layout import SOURCE
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.services import audit_record
from portal.planning.estimation.models import Link
from portal.work.jobs.log_reading import lines_of_tail, log_part
from portal.work.jobs.models import Job
from portal.work.jobs.services.submission import job_submit
from portal.work.jobs.states import JobState
from scheduler.estimator.iteration import bandwidth

SCRIPT = SOURCE / "workers" / "instrument" / "link_measure.py"
WORD = "BERTH-LINK "
MEMORY_MIB = 2048
LOG_BYTES = 256 * 1024
KINDS = {"within": "within a node", "between": "between nodes"}


@dataclass(frozen=True, slots=True)
class Task:
    """One bandwidth to measure: `sizes` are the GPU counts that its job accepts. Not `possible`: `why` says so."""

    gpu_type: GpuType
    kind: str
    sizes: tuple[int, ...] = ()
    why: str = ""

    @property
    def possible(self) -> bool:
        return bool(self.sizes)


def calibration_tasks(*, names: list[str] | None = None, again: bool = False) -> list[Task]:
    """Return the measurements to make now. Raises BerthError for a GPU type that does not exist."""
    types = GpuType.objects.select_related("link")
    for name in names or ():
        if not types.filter(name=name).exists():
            known = ", ".join(types.values_list("name", flat=True)) or "none"
            raise BerthError("not_found", f"There is no GPU type {name}; there are: {known}.", field="gpu_type")
    found = []
    for gpu_type in types.filter(name__in=names) if names else types:
        sizes = _node_sizes(gpu_type)
        link = getattr(gpu_type, "link", None)
        wanted = [kind for kind in KINDS if again or link is None or link.measured(kind) is None]
        found += [_task(gpu_type, kind, sizes) for kind in wanted]
    return found


def _node_sizes(gpu_type: GpuType) -> list[int]:
    """GPUs of the nodes of a type that take jobs now, the largest first."""
    nodes = Node.objects.alive().reachable().filter(drained_at=None)
    own = Gpu.objects.present().with_type().filter(type_name=gpu_type.name, node__in=nodes).order_by()
    present = own.values_list("node").annotate(present=Count("pk"))
    return sorted((count for _, count in present), reverse=True)


def _task(gpu_type: GpuType, kind: str, sizes: list[int]) -> Task:
    if instance_of(gpu_type.name) is not None:
        return Task(gpu_type, kind, why="instances (MIG) exchange nothing")
    if kind == "between":
        few = "fewer than 2 nodes of this type are up"
        return Task(gpu_type, kind, (sizes[0] + 1,)) if len(sizes) > 1 else Task(gpu_type, kind, why=few)
    if not sizes or sizes[0] < 2:
        return Task(gpu_type, kind, why="no node of this type is up with 2 GPUs or more")
    return Task(gpu_type, kind, tuple(size for size in (2, 4, 8) if size <= sizes[0]))


def calibration_submit(*, task: Task, actor: User, tenant: Tenant, python: str, time_limit_s: int) -> Job:
    """Submit the measuring job of a task."""
    return job_submit(
        user=actor,
        tenant=tenant,
        description={
            "name": f"calibrate {KINDS[task.kind]}",
            "command": f"{python} link_measure.py",
            "files": {"link_measure.py": SCRIPT.read_text()},
            "category": "other",
            "gpus": list(task.sizes),
            "gpu_types": [task.gpu_type.name],
            "cores_per_gpu": 1,
            "memory_mib": MEMORY_MIB,
            "time_limit_s": time_limit_s,
            "expected_duration_s": 30,
            "restartable": True,
            "labels": {"berth": "calibrate"},
        },
    )


def calibration_record(*, task: Task, job: Job, actor: User) -> Link:
    """Keep the output of an ended measuring job. Raises BerthError when it failed or printed nothing of use."""
    link = Link.objects.filter(gpu_type=task.gpu_type).first() or Link()
    told = getattr(link, f"{task.kind}_assumed_from")
    return link_measured(gpu_type=task.gpu_type, kind=task.kind, job=job, said=said_by(job), actor=actor, told=told)


def link_measured(
    *, gpu_type: GpuType, kind: str, job: Job, said: dict[str, Any], actor: User | None, told: str
) -> Link:
    """Keep a figure. `told`: the nodes' words about the link when it was measured. Raises BerthError for one of no use."""
    nodes = said["nodes"]
    if (nodes > 1) != (kind == "between"):
        raise BerthError("wrong_placement", f"Job {job.number} ran on {nodes} node(s); that measures something else.")
    try:
        measured = [(int(p), float(seconds), int(gpus)) for p, seconds, gpus in said["measured"]]
        value = bandwidth(measured, nodes=nodes)
    except (TypeError, ValueError) as error:
        raise BerthError("unreadable", f"What job {job.number} measured is of no use: {error}.") from error
    names = ("within_node", "within_measured_at", "within_method", "within_told")
    if kind == "between":
        names = ("between_nodes", "between_measured_at", "between_method", "between_told")
    method = (
        f"{said['method']}; {len(measured)} sizes up to {max(p for p, _, _ in measured):,} parameters, job {job.number}"
    )
    with transaction.atomic():
        link, _ = Link.objects.update_or_create(
            gpu_type=gpu_type, defaults=dict(zip(names, (value, timezone.now(), method[:300], told), strict=True))
        )
        detail = {"gpu_type": gpu_type.name, kind: value, "job": job.pk}
        audit_record(actor=actor, action="link.measure", target=f"gpu-type:{gpu_type.pk}", detail=detail)
        plan_nudge()
    return link


def said_by(job: Job) -> dict[str, Any]:
    """The line that the job printed for us."""
    if job.state != JobState.COMPLETED:
        tail = [line for line in _output(job, "stderr") if line.strip()][-1:]
        why = job.end_detail or " ".join(tail).strip() or "it says nothing more"
        raise BerthError("failed", f"Job {job.number} ended {job.state}: {why}. Its log tells more.")
    for line in _output(job, "stdout"):
        if line.startswith(WORD):
            try:
                said = json.loads(line.removeprefix(WORD))
                return {"nodes": int(said["nodes"]), "method": str(said["method"]), "measured": said["measured"]}
            except (ValueError, KeyError, TypeError) as error:
                raise BerthError("unreadable", f"What job {job.number} printed cannot be read: {error}.") from error
    raise BerthError("unreadable", f"Job {job.number} completed without its figures; see its log.")


def _output(job: Job, stream: str) -> list[str]:
    part = log_part(job=job, epoch=None, rank=0, stream=stream)
    return lines_of_tail(part, limit=LOG_BYTES) if part else []


def links_table() -> list[dict[str, Any]]:
    """Return a row for each GPU type and kind: the bandwidth in parameters a second (None: nothing is known), when, how.

    `assumed`: nobody measured it yet; `method` says from what it is assumed.
    """
    rows = []
    for gpu_type in GpuType.objects.select_related("link"):
        link = getattr(gpu_type, "link", None) or Link()
        for side in KINDS:
            value, at = link.bandwidth(side), getattr(link, f"{side}_measured_at")
            told = getattr(link, f"{side}_assumed_from")
            refined = ", refined by running jobs" if getattr(link, f"{side}_refined") else ""
            rows.append(
                {
                    "gpu_type": gpu_type.name,
                    "kind": side,
                    "parameters_per_s": value,
                    "assumed": value is not None and link.is_assumed(side),
                    "measured_at": at.isoformat() if at else None,
                    "method": (getattr(link, f"{side}_method") or (f"assumed: {told}" if told else "")) + refined,
                }
            )
    return rows
