"""CPU jobs that were slowed for a node's memory bandwidth, as rows: on their own pages, their neighbours', the node's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from django.db.models import Q

from portal.planning.rounds.contention.throttling import reason
from portal.work.jobs.models import Slowing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.db.models import QuerySet

    from portal.cluster.models import Node
    from portal.work.jobs.models import Job

SHOWN = 10
FRACTIONS = {0.5: "half", 0.25: "a quarter", 0.125: "an eighth", 0.0625: "a sixteenth"}


class SlowedRow(TypedDict):
    """`who` was slowed from `from_at` to `to_at` (None: it still is) because of `why`."""

    who: str
    url: str | None
    from_at: str
    to_at: str | None
    seconds: int | None  # where it was for less than a minute: both clocks may show the same
    why: str
    kept: str
    end: str


def slowed_rows(
    slowings: Iterable[Slowing], called: Callable[[Job], str], link: Callable[[Job], str | None]
) -> list[SlowedRow]:
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


def _row(slowing: Slowing, called: Callable[[Job], str], link: Callable[[Job], str | None]) -> SlowedRow:
    job = slowing.attempt.job
    helped = called(slowing.helped.job) if slowing.helped else "a training job"
    outcome = slowing.get_outcome_display()
    return {
        "who": called(job),
        "url": link(job),
        "from_at": slowing.from_at.isoformat(),
        "to_at": slowing.to_at.isoformat() if slowing.to_at else None,
        "seconds": _brief(slowing),
        "why": reason(slowing, helped),
        "kept": FRACTIONS.get(slowing.share, f"{100 * slowing.share:.0f} %"),
        "end": outcome,
    }
