"""The right to open a terminal in a part of a job, or to reach its ports; how many are open; the audit, without content."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.listing import job_find
from portal.work.jobs.models import Allocation, Attempt
from portal.work.jobs.states import AttemptState

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.models import Job

MOST_RANK = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """A running part. `asked` names it to its node."""

    job: Job
    attempt_id: int
    node_id: int
    node: str
    asked: dict[str, Any]


def rank_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < MOST_RANK):
        raise BerthError("invalid", "rank must be the number of one of the job's parts, from 0.", field="rank")
    return int(text)


def job_for(*, user: User, number: str, tenant: Tenant | None = None) -> Job:
    """Return the job. Raises NotFound for a missing and a foreign one, Forbidden for a viewer. `tenant`: only its jobs."""
    job = job_find(user=user, number=number, tenant=tenant)
    work_check(user, job.tenant)
    return job


def parts_of(job: Job) -> list[Allocation]:
    """Return the parts of the job that run now, by rank; none while it is being stopped."""
    running = Attempt.objects.runs().live().filter(job=job, state=AttemptState.RUNNING, stop_reason="")
    parts = Allocation.objects.filter(attempt__in=running, released_at=None, state=Allocation.State.RUNNING)
    return list(parts.select_related("attempt", "node").order_by("rank"))


def place_of(*, user: User, number: str, rank: int, tenant: Tenant | None = None) -> Place:
    """Return where that part runs. Raises BerthError where the user may not work on the job, or nothing runs there."""
    job = job_for(user=user, number=number, tenant=tenant)
    part = next((each for each in parts_of(job) if each.rank == rank), None)
    if part is None:
        raise Conflict("not_running", f"Job {job.number} has no running part {rank}. This needs one.")
    return place_in(job, part)


def place_in(job: Job, part: Allocation) -> Place:
    asked = {"kind": "terminal", "attempt": part.attempt.key, "epoch": part.attempt.epoch, "rank": part.rank}
    return Place(job, part.attempt_id, part.node_id, part.node.name, asked)


def begun_record(*, user: User, place: Place, action: str = "job.terminal", **more: Any) -> None:
    _record(user, action, place, more)


def ended_record(*, user: User, place: Place, seconds: float, action: str = "job.terminal", **more: Any) -> None:
    _record(user, f"{action}_end", place, {**more, "seconds": round(seconds)})


def _record(user: User, action: str, place: Place, more: dict[str, Any]) -> None:
    detail = {"epoch": place.asked["epoch"], "rank": place.asked["rank"], "node": place.node, **more}
    audit_record(actor=user, action=action, target=f"job:{place.job.pk}", tenant=place.job.tenant, detail=detail)


class Places:
    def __init__(self) -> None:
        self._of_people: Counter[int] = Counter()
        self._in_parts: Counter[tuple[str, int]] = Counter()

    def take(self, user_id: int, place: Place) -> str | None:
        """Count a new one; where there are the most allowed already, count none and return a sentence that says so."""
        if self._of_people[user_id] >= (most := env("BERTH_TERMINALS_PER_USER")):
            return f"You have {most} terminals and forwarded ports open, which is the most. Close one."
        if self._in_parts[_part(place)] >= (most := env("BERTH_TERMINALS_PER_PART")):
            return f"This part of the job has {most} terminals and forwarded ports open, which is the most. Close one."
        self._of_people[user_id] += 1
        self._in_parts[_part(place)] += 1
        return None

    def give(self, user_id: int, place: Place) -> None:
        self._of_people[user_id] -= 1
        self._in_parts[_part(place)] -= 1
        self._of_people += Counter()  # forgets what is zero
        self._in_parts += Counter()


def _part(place: Place) -> tuple[str, int]:
    return f"{place.asked['attempt']}-{place.asked['epoch']}", place.asked["rank"]


PLACES = Places()
