"""GPUs kept for jobs now: promises, and the last planning's reservations; foreign jobs without number and name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from portal.cluster.models import Node
from portal.people.tenants.models import User
from portal.planning.rounds.models import Planning
from portal.planning.rounds.read.forecasts import forecasts_of, start_told
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job, Promise
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.states import JobState
from scheduler.explaining.phrases import instant
from scheduler.fairness.keeping import RESERVATION
from scheduler.replan.promises import BOUND_RESTARTS

NODES_SHOWN = 2
ENDED = "when what runs there has ended"


@dataclass(frozen=True, slots=True)
class KeptFor:
    """Nodes kept for a job. `number` None: another tenant's.

    `until`: when what runs there should have ended (a reservation), or by when it starts or is given up (a promise, with its
    cause). `starts`: the job's start range, where it has one that is not over: pages show that one estimate.
    """

    job_id: int | None
    number: str | None
    name: str
    nodes: tuple[str, ...]
    gpus: int | None
    cause: str
    until: datetime
    starts: tuple[datetime, datetime] | None = None

    @property
    def who(self) -> str:
        return f"job {self.number}" if self.number else ANOTHERS

    @property
    def until_words(self) -> str:
        """Say until when, with an instant that pages print in the reader's zone."""
        at = instant(self.until.timestamp())
        if self.cause != RESERVATION:
            return f"until it starts, at the latest {at}"
        if self.starts is None:
            return f"until it starts, when what runs there has ended: by about {at}"
        return f"until it starts, probably from {_minute(self.starts[0])} to {_minute(self.starts[1])}"


def kept_now(*, user: User) -> list[KeptFor]:
    """Return the GPUs kept for waiting and stopping jobs, promises first, as `user` may see it. Six queries at most."""
    entries = kept_entries()
    if not entries:
        return []
    names = _names(entries)
    visible = Job.objects.visible_to(user).in_bulk([entry["job"] for entry in entries])
    ranges = _ranges(entries)
    return [_shown(entry, visible.get(entry["job"]), names, ranges) for entry in entries]


def kept_for(*, job: Job) -> list[KeptFor]:
    """Return the GPUs kept for one job; all viewers of the job may see that."""
    entries = [entry for entry in kept_entries() if entry["job"] == job.pk]
    names = _names(entries)
    ranges = _ranges(entries)
    return [_shown(entry, job, names, ranges) for entry in entries]


def places_kept(jobs: Collection[Job], planning: Planning | None) -> dict[int, str]:
    """Say where jobs will start that the planning reserved nodes for, and which parts must end there first. One query at most."""
    ids = {job.pk for job in jobs}
    nodes = {each["job"]: each["nodes"] for each in (planning.reservations if planning else ()) if each["job"] in ids}
    names = _names([{"nodes": each} for each in nodes.values()])
    return {job: f"on {_named([names[node] for node in own if node in names])}, {ENDED}" for job, own in nodes.items()}


def _named(names: list[str]) -> str:
    more = len(names) - NODES_SHOWN
    return ", ".join(names[:NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def kept_entries() -> list[dict[str, Any]]:
    """Return each, promises first, by row ids: `job`, `nodes`, `gpus` (None: the idle ones), `cause`, `until`."""
    return [*_promised(), *_reserved()]


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
    rows = list(Promise.objects.order_by("pk"))
    if not rows:
        return []
    lapse = timedelta(seconds=BOUND_RESTARTS * scheduler_parameters(knobs_current()).restart_cost_s)
    return [
        {
            "job": row.job_id,
            "nodes": [share[0] for share in row.shares],
            "gpus": sum(share[1] for share in row.shares),
            "cause": row.cause,
            "until": row.given_at + lapse,
        }
        for row in rows
    ]


def _reserved() -> list[dict[str, Any]]:
    """Read the last applied planning's reservations, without jobs that have left the queue since."""
    last = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    kept = last.values_list("reservations", flat=True).first() or []
    waiting = set(
        Job.objects.filter(pk__in=[each["job"] for each in kept], state=JobState.PENDING).values_list("pk", flat=True)
    )
    return [
        {**each, "gpus": None, "cause": RESERVATION, "until": datetime.fromisoformat(each["until"])}
        for each in kept
        if each["job"] in waiting
    ]


def _minute(at: datetime) -> str:
    """Return the minute as other places of a page show it, where an instant is printed in the reader's zone."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _ranges(entries: list[dict[str, Any]]) -> dict[int, tuple[datetime, datetime]]:
    """Return the start ranges of the jobs that have one with an end that lies ahead, by job."""
    jobs = [entry["job"] for entry in entries if entry["cause"] == RESERVATION]
    now = timezone.now()
    return {
        pk: (told.earliest_at, told.latest_at)
        for pk, each in forecasts_of(jobs).items()
        if (told := start_told(each, now)) and told.latest_at and not told.passed
    }


def _shown(
    entry: dict[str, Any], job: Job | None, names: dict[int, str], ranges: dict[int, tuple[datetime, datetime]]
) -> KeptFor:
    return KeptFor(
        job_id=job.pk if job else None,
        number=job.number if job else None,
        name=job.name if job else ANOTHERS,
        nodes=tuple(sorted(names[node] for node in entry["nodes"] if node in names)),
        gpus=entry["gpus"],
        cause=entry["cause"],
        until=entry["until"],
        starts=ranges.get(job.pk) if job else None,
    )
