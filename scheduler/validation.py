"""Bad input to the core: each check raises a typed error naming the node or job, the field and what would be right."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob, InvalidNode

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from collections.abc import Set as AbstractSet

    from scheduler.model import Job, Node


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value >= 0)


def check_node(node: Node, gpu_speeds: Mapping[str, float], listed: Container[int] = ()) -> None:
    """Raise InvalidNode unless the node's capacities are counts, its idle resources fit them and its id is new."""
    if node.id in listed:
        raise InvalidNode(node.name, f"id {node.id} is listed twice")
    for name in ("gpus_total", "cores_total", "memory_total_mib", "idle_memory_mib"):
        if not _is_count(getattr(node, name)):
            raise InvalidNode(node.name, f"{name} is {getattr(node, name)!r}; it must be a whole number, 0 or more")
    for name, total in (("idle_gpus", node.gpus_total), ("idle_cores", node.cores_total)):
        ids = getattr(node, name)
        if len(set(ids)) != len(ids) or len(ids) > total or not all(_is_count(one) for one in ids):
            raise InvalidNode(node.name, f"{name} must hold at most {total} distinct ids, each 0 or more")
    if node.idle_memory_mib > node.memory_total_mib:
        detail = f"idle_memory_mib {node.idle_memory_mib} is above memory_total_mib {node.memory_total_mib}"
        raise InvalidNode(node.name, detail)
    if node.gpus_total and not node.gpu_type:
        raise InvalidNode(node.name, f"has {node.gpus_total} GPUs and no gpu_type; name their type")
    if not (math.isfinite(node.speed) and node.speed > 0):
        raise InvalidNode(node.name, f"its speed factor is {node.speed}; it must be a number above 0")
    speed = gpu_speeds.get(node.gpu_type or "", 1.0)
    if not (math.isfinite(speed) and speed > 0):
        raise InvalidNode(node.name, f"GPU type {node.gpu_type} has the relative speed {speed}; it must be above 0")


def check_job(job: Job, known_types: AbstractSet[str], listed: Container[int] = ()) -> None:
    """Raise InvalidJob unless the job can be planned as described. Unknown GPU types are those nobody registered."""
    if job.id in listed:
        raise InvalidJob(job.id, "is listed twice")
    _check_requirement(job)
    for name in ("cores", "memory_mib"):
        if not _is_count(getattr(job, name)):
            raise InvalidJob(job.id, f"{name} is {getattr(job, name)!r}; it must be a whole number, 0 or more")
    if job.cores < 1:
        raise InvalidJob(job.id, "cores is 0; at least 1 is needed")
    for name in ("wait_s", "age_s", "expected_duration_s", "total_samples", "attained_gpu_s", "done_fraction"):
        if not _is_time(getattr(job, name)):
            raise InvalidJob(job.id, f"{name} is {getattr(job, name)!r}; it must be a finite number, 0 or more")
    if not math.isfinite(job.submitted_s):
        raise InvalidJob(job.id, f"submitted_s is {job.submitted_s!r}; it must be finite")
    if unknown := sorted(job.gpu_types - known_types):
        known = ", ".join(sorted(known_types)) or "none"
        raise InvalidJob(job.id, f"unknown GPU type {', '.join(unknown)}; known types: {known}")


def is_plainly_sound(job: Job) -> bool:
    """A quick look at a job's own numbers: True means that `check_job` finds nothing in them. Queues are long."""
    return (
        job.cores.__class__ is int
        and job.memory_mib.__class__ is int
        and job.cores >= 1
        and job.memory_mib >= 0
        and 0.0 <= job.wait_s < math.inf
        and (job.age_s is None or 0.0 <= job.age_s < math.inf)
        and (job.expected_duration_s is None or 0.0 <= job.expected_duration_s < math.inf)
        and (job.total_samples is None or 0.0 <= job.total_samples < math.inf)
        and 0.0 <= job.attained_gpu_s < math.inf
        and 0.0 <= job.done_fraction < math.inf
        and -math.inf < job.submitted_s < math.inf
    )


def _check_requirement(job: Job) -> None:
    requirement = job.requirement
    if not requirement:
        raise InvalidJob(job.id, "requirement is empty; give at least one GPU count, or 0 for a CPU job")
    if not all(_is_count(count) for count in requirement):
        raise InvalidJob(job.id, f"requirement {list(requirement)} must hold whole numbers, 0 or more")
    if any(low >= high for low, high in pairwise(requirement)):
        raise InvalidJob(job.id, f"requirement {list(requirement)} must be ascending and without repeats")
    if requirement[0] == 0 and len(requirement) > 1:
        raise InvalidJob(job.id, f"requirement {list(requirement)} mixes 0 with GPU counts; a CPU job has 0 alone")
