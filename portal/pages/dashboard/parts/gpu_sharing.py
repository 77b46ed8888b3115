"""The jobs that share a GPU, of all tenants. Pages must mask them for their reader (invariant 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.cluster.models import Gpu
from portal.work.jobs.models import Attempt, GpuAllocation

if TYPE_CHECKING:
    from portal.work.jobs.models import Job

NAMED = 3
"""Jobs that are named one by one."""


@dataclass(frozen=True, slots=True)
class Place:
    """A job's part of a shared GPU now, and the jobs beside it there."""

    node: str
    gpu: int
    compute: int
    memory_mib: int
    beside: tuple[Job, ...]


def place_of(job: Job) -> Place | None:
    """Return where a job shares a GPU now; None where it does not. Two queries."""
    live = GpuAllocation.objects.filter(released_at=None, mode=Gpu.Mode.SHARED).select_related("gpu__node")
    own = live.filter(allocation__attempt__job=job).first()
    if own is None:
        return None
    there = Attempt.objects.filter(
        allocations__gpu_allocations__gpu=own.gpu, allocations__gpu_allocations__released_at=None
    )
    beside = [each.job for each in there.select_related("job").order_by("pk") if each.job_id != job.pk]
    return Place(own.gpu.node.name, own.gpu.index, own.compute, own.memory_mib or 0, tuple(beside))


def beside_words(job: Job, place: Place) -> str:
    """The neighbours of a job, for its own tenant: foreign jobs are only counted. Empty for none."""
    own = [f"#{each.number}" for each in place.beside if each.tenant_id == job.tenant_id]
    return names_words(own, len(place.beside) - len(own))


def part_words(compute: int, memory_mib: int | None) -> str:
    """For example: 25 % and 4 GiB."""
    size = "" if memory_mib is None else f" and {round(memory_mib / 1024, 2):g} GiB"
    return f"{compute / 10:g} %{size}"


def names_words(own: list[str], others: int) -> str:
    """For example: #41, #42 and a job of another tenant; empty for nobody. `own`: those that the reader may see."""
    words = own[:NAMED]
    if len(own) > NAMED:
        words.append(f"{len(own) - NAMED} more")
    if others:
        words.append("a job of another tenant" if others == 1 else f"{others} jobs of other tenants")
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
