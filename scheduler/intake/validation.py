"""Checks of the core's input: each raises a typed error that names the node or job, the field and the right value."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob, InvalidNode
from scheduler.model.placements import only_instances

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.model import Job, Node


COUNT_MOST, NUMBER_MOST = 10**12, 1e15
"""No count, time or speed is larger: 30 million years, a thousand peta-iterations a second. Sums stay exact below."""

RATE_LEAST = 1e-9
OPTIONAL = frozenset({"age_s", "expected_duration_s", "limit_s", "total_samples", "profiled_since_s"})


def is_count(value: object) -> bool:
    """A whole number from 0 to COUNT_MOST; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MOST


def is_number(value: object) -> bool:
    """A finite number between -NUMBER_MOST and NUMBER_MOST; a bool, a text and NaN are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= NUMBER_MOST


def is_amount(value: object) -> bool:
    """A finite number, 0 or more."""
    return is_number(value) and value >= 0  # type: ignore[operator]


def is_rate(value: object) -> bool:
    """A finite number above 0: a speed, a throughput, a weight."""
    return is_number(value) and value >= RATE_LEAST  # type: ignore[operator]


def check_node(node: Node, gpu_speeds: Mapping[str, float], listed: Container[int] = ()) -> None:
    """Raise InvalidNode unless the node's capacities are counts, its idle resources fit them and its id is new."""
    if node.id in listed:
        raise InvalidNode(node.name, f"id {node.id} is listed twice")
    _check_capacities(node)
    if node.gpu_type is not None and not isinstance(node.gpu_type, str):
        raise InvalidNode(node.name, f"gpu_type is {node.gpu_type!r}; it must be a name")
    if node.gpus_there and not node.gpu_type:
        raise InvalidNode(node.name, f"has {node.gpus_there} GPUs and no gpu_type; name their type")
    if not is_rate(node.speed):
        raise InvalidNode(node.name, f"its speed factor is {node.speed}; it must be a number above 0")
    if node.closes_s != math.inf and not is_number(node.closes_s):
        raise InvalidNode(node.name, f"closes_s is {node.closes_s!r}; it must be a time in seconds, or inf")
    speed = gpu_speeds.get(node.gpu_type or "", 1.0)
    if not is_rate(speed):
        raise InvalidNode(node.name, f"GPU type {node.gpu_type} has the relative speed {speed}; it must be above 0")


def _check_capacities(node: Node) -> None:
    for name in ("gpus_total", "cores_total", "memory_total_mib", "idle_memory_mib"):
        if not is_count(getattr(node, name)):
            raise InvalidNode(node.name, f"{name} is {getattr(node, name)!r}; it must be a whole number, 0 or more")
    for name, total in (("idle_gpus", node.gpus_total), ("idle_cores", node.cores_total)):
        ids = getattr(node, name)
        if not isinstance(ids, tuple) or len(set(ids)) != len(ids) or len(ids) > total or not _are_counts(ids):
            raise InvalidNode(node.name, f"{name} must hold at most {total} distinct ids, each 0 or more")
    if node.idle_memory_mib > node.memory_total_mib:
        detail = f"idle_memory_mib {node.idle_memory_mib} is above memory_total_mib {node.memory_total_mib}"
        raise InvalidNode(node.name, detail)


def _are_counts(ids: Sequence[int]) -> bool:
    if {one.__class__ for one in ids} <= {int}:  # the fast case: a node has many cores
        return not ids or (min(ids) >= 0 and max(ids) <= COUNT_MOST)
    return all(is_count(one) for one in ids)


def check_job(job: Job, known_types: AbstractSet[str], listed: Container[int] = ()) -> None:
    """Raise InvalidJob unless the job can be planned as described. Unknown GPU types are those nobody registered."""
    if job.id in listed:
        raise InvalidJob(job.id, "is listed twice")
    _check_requirement(job)
    for name in ("cores", "memory_mib"):
        if not is_count(getattr(job, name)):
            raise InvalidJob(job.id, f"{name} is {getattr(job, name)!r}; it must be a whole number, 0 or more")
    if job.cores < 1:
        raise InvalidJob(job.id, "cores is 0; at least 1 is needed")
    if not is_count(job.least_cores) or not 1 <= job.least_cores <= job.cores:
        raise InvalidJob(job.id, f"least_cores is {job.least_cores!r}; it must be a whole number from 1 to cores")
    _check_numbers(job)
    if not isinstance(job.gpu_types, (set, frozenset)):
        raise InvalidJob(job.id, f"gpu_types is {job.gpu_types!r}; it must be a set of names")
    if only_instances(job.gpu_types) and job.requirement[0] > 1:
        raise InvalidJob(job.id, f"asks for {job.requirement[0]} instances; each takes jobs of one GPU, so ask for one")
    if unknown := sorted(job.gpu_types - known_types):
        known = ", ".join(sorted(known_types)) or "none"
        raise InvalidJob(job.id, f"unknown GPU type {', '.join(unknown)}; known types: {known}")


def _check_numbers(job: Job) -> None:
    for name in (
        "wait_s",
        "age_s",
        "expected_duration_s",
        "limit_s",
        "total_samples",
        "attained_gpu_s",
        "done_fraction",
    ):
        value = getattr(job, name)
        if not is_amount(value) and not (value is None and name in OPTIONAL):
            raise InvalidJob(job.id, f"{name} is {value!r}; it must be a finite number, 0 or more")
    for name in ("submitted_s", "priority", "profiled_since_s"):
        if not is_number(getattr(job, name)) and not (getattr(job, name) is None and name in OPTIONAL):
            raise InvalidJob(job.id, f"{name} is {getattr(job, name)!r}; it must be a finite number")
    for share in job.promise.shares if job.promise else ():
        if not all(is_count(each) for each in (share.gpus, share.cores, share.memory_mib)):
            raise InvalidJob(job.id, f"what is promised to it on node {share.node} must be counts, 0 or more")


_NUMBERS = frozenset({int, float})


def is_plainly_sound(job: Job, shapes: Container[tuple[object, object]]) -> bool:
    """A fast check for long queues: if it is True, `check_job` can refuse only a job listed twice, or a bad speed.

    `shapes`: the (requirement, GPU types) that `check_job` found sound in another job.
    """
    try:
        return (
            (job.requirement, job.gpu_types) in shapes
            and all(count.__class__ is int for count in job.requirement)  # True == 1 == 1.0, which are no counts
            and job.gpu_types.__class__ is frozenset
            and job.promise is None
            and job.cores.__class__ is job.memory_mib.__class__ is int
            and 1 <= job.least_cores <= job.cores <= COUNT_MOST
            and job.least_cores.__class__ is int
            and 0 <= job.memory_mib <= COUNT_MOST
            and is_plain(job.wait_s)
            and (job.age_s is None or is_plain(job.age_s))
            and (job.expected_duration_s is None or is_plain(job.expected_duration_s))
            and (job.limit_s is None or is_plain(job.limit_s))
            and (job.total_samples is None or is_plain(job.total_samples))
            and is_plain(job.attained_gpu_s)
            and is_plain(job.done_fraction)
            and is_plain(job.submitted_s, least=-NUMBER_MOST)
            and (job.profiled_since_s is None or is_plain(job.profiled_since_s, least=-NUMBER_MOST))
            and is_plain(job.priority, least=-NUMBER_MOST)
        )
    except TypeError:
        return False  # something that has no hash or no order: check_job says what


def is_plain(value: float, *, least: float = 0) -> bool:
    """Whether it is an int or a float, no bool, from `least` to NUMBER_MOST."""
    return value.__class__ in _NUMBERS and least <= value <= NUMBER_MOST


def _check_requirement(job: Job) -> None:
    requirement = job.requirement
    if not isinstance(requirement, tuple):
        raise InvalidJob(job.id, f"requirement is {requirement!r}; it must be a tuple of GPU counts")
    if not requirement:
        raise InvalidJob(job.id, "requirement is empty; give at least one GPU count, or 0 for a CPU job")
    if not all(is_count(count) for count in requirement):
        raise InvalidJob(job.id, f"requirement {list(requirement)} must hold whole numbers, 0 or more")
    if any(low >= high for low, high in pairwise(requirement)):
        raise InvalidJob(job.id, f"requirement {list(requirement)} must be ascending and without repeats")
    if requirement[0] == 0 and len(requirement) > 1:
        raise InvalidJob(job.id, f"requirement {list(requirement)} mixes 0 with GPU counts; a CPU job has 0 alone")
