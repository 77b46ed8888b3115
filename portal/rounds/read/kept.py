"""What is kept for jobs now: promises, and the last planning's reservations; foreign jobs without number and name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from portal.cluster.models import Node
from portal.jobs.models import Job, Promise
from portal.jobs.states import JobState
from portal.rounds.models import Planning
from portal.rounds.read.selectors import ANOTHERS

if TYPE_CHECKING:
    from portal.tenants.models import User


@dataclass(frozen=True, slots=True)
class KeptFor:
    """Nodes kept for a job. `number` None: another tenant's. `until` None: until it starts (a promise, with its cause)."""

    job_id: int | None
    number: str | None
    name: str
    nodes: tuple[str, ...]
    gpus: int | None
    cause: str
    until: datetime | None

    @property
    def who(self) -> str:
        return f"job {self.number}" if self.number else ANOTHERS


def kept_now(*, user: User) -> list[KeptFor]:
    """Return what is kept for waiting and stopping jobs, promises first, as `user` may see it. Five queries at most."""
    entries = [*_promised(), *_reserved()]
    if not entries:
        return []
    names = _names(entries)
    visible = Job.objects.visible_to(user).in_bulk([entry["job"] for entry in entries])
    return [_shown(entry, visible.get(entry["job"]), names) for entry in entries]


def kept_for(*, job: Job) -> list[KeptFor]:
    """Return what is kept for one job; who may see the job may see that."""
    entries = [entry for entry in (*_promised(), *_reserved()) if entry["job"] == job.pk]
    names = _names(entries)
    return [_shown(entry, job, names) for entry in entries]


def kept_gpus() -> dict[int, int | None]:
    """Return how many GPUs of each node (by row id) are kept for a job; None: all that are idle. Three queries."""
    found: dict[int, int | None] = {}
    for shares in Promise.objects.values_list("shares", flat=True):
        for node, gpus, *_ in shares:
            found[node] = (found.get(node) or 0) + gpus
    for entry in _reserved():
        found |= dict.fromkeys(entry["nodes"], None)
    return found


def _names(entries: list[dict[str, Any]]) -> dict[int, str]:
    ids = {node for entry in entries for node in entry["nodes"]}
    return dict(Node.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


def _promised() -> list[dict[str, Any]]:
    return [
        {
            "job": row.job_id,
            "nodes": [share[0] for share in row.shares],
            "gpus": sum(share[1] for share in row.shares),
            "cause": row.cause,
            "until": None,
        }
        for row in Promise.objects.order_by("pk")
    ]


def _reserved() -> list[dict[str, Any]]:
    """Read the last applied planning's reservations, without jobs that have left the queue since."""
    last = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    kept = last.values_list("reservations", flat=True).first() or []
    waiting = set(
        Job.objects.filter(pk__in=[each["job"] for each in kept], state=JobState.PENDING).values_list("pk", flat=True)
    )
    return [
        {**each, "gpus": None, "cause": "reservation", "until": datetime.fromisoformat(each["until"])}
        for each in kept
        if each["job"] in waiting
    ]


def _shown(entry: dict[str, Any], job: Job | None, names: dict[int, str]) -> KeptFor:
    return KeptFor(
        job_id=job.pk if job else None,
        number=job.number if job else None,
        name=job.name if job else ANOTHERS,
        nodes=tuple(sorted(names[node] for node in entry["nodes"] if node in names)),
        gpus=entry["gpus"],
        cause=entry["cause"],
        until=entry["until"],
    )
