"""A job and others, in words: those on one GPU, GPUs that are kept for a job, CPU jobs that were slowed for another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.urls import reverse

from portal.cluster.models import Gpu
from portal.planning.rounds.contention.throttling import reason
from portal.planning.rounds.read.kept import kept_for
from portal.work.jobs.models import Attempt, GpuAllocation, Slowing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.db.models import QuerySet

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.context import KeptRow
    from portal.planning.rounds.read.kept import KeptFor
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


def kept_rows(kept: list[KeptFor]) -> list[KeptRow]:
    """Return a row for each job that a node is kept for."""
    return [
        {
            "url": reverse("job-detail", args=[each.number]) if each.number else None,
            "who": f"#{each.number}" if each.number else each.name,
            "until": each.until_words,
        }
        for each in kept
    ]


def kept_note(*, job: Job) -> str | None:
    """Say what is kept for this job, if anything is."""
    own = [each for each in kept_for(job=job) if each.nodes]
    if not own:
        return None
    words = [
        f"{f'{each.gpus} GPUs on ' if each.gpus and each.gpus > 1 else ''}{', '.join(each.nodes)} {each.until_words}"
        for each in own
    ]
    return f"Kept for it: {'; '.join(words)}."


SHOWN = 10
FRACTIONS = {0.5: "half", 0.25: "a quarter", 0.125: "an eighth", 0.0625: "a sixteenth"}


def slowed_rows(
    slowings: Iterable[Slowing], called: Callable[[Job], str], link: Callable[[Job], str | None]
) -> list[dict[str, Any]]:
    """Return rows. `called`: how the reader may call a job; `link`: its page, where the reader may go there."""
    return [_row(each, called, link) for each in slowings]


def of_job(job: Job) -> list[Slowing]:
    """Return when a job was slowed, and when others were for it, the last first."""
    own = Q(attempt__job=job) | Q(helped__job=job)
    return list(_read().filter(own)[:SHOWN])


def on_node(node: Node) -> list[Slowing]:
    return list(_read().filter(node=node)[:SHOWN])


def _read() -> QuerySet[Slowing]:
    return Slowing.objects.select_related("attempt__job", "helped__job", "node")


def _brief(slowing: Slowing) -> int | None:
    seconds = (slowing.to_at - slowing.from_at).total_seconds() if slowing.to_at else None
    return None if seconds is None or seconds >= 60 else round(seconds)


def _row(slowing: Slowing, called: Callable[[Job], str], link: Callable[[Job], str | None]) -> dict[str, Any]:
    job = slowing.attempt.job
    helped = called(slowing.helped.job) if slowing.helped else "a training job"
    outcome = slowing.get_outcome_display()
    return {
        "who": called(job),
        "url": link(job),
        "from_at": slowing.from_at.isoformat(),
        "to_at": slowing.to_at.isoformat() if slowing.to_at else None,
        "seconds": _brief(slowing),  # where it was for less than a minute: both clocks may show the same
        "why": reason(slowing, helped),
        "kept": FRACTIONS.get(slowing.share, f"{100 * slowing.share:.0f} %"),
        "end": outcome,
    }
