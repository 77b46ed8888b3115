"""A job's dependencies: other jobs that complete, end, or fail; and as a singleton all earlier ones of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from portal.foundation.errors import BerthError, Conflict
from portal.work.jobs.description_parts import MAX_DEPENDENCIES
from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.services.locks import jobs_lock
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.description import JobDescription

Kind = JobDependency.Kind


def dependencies_of(
    *, user: User, tenant: Tenant | None, parsed: JobDescription, locked: bool = True
) -> list[tuple[int, str]]:
    """Check the jobs that this job waits for; return (job, kind). A foreign and a missing id get the same answer.

    Codes: unknown_dependency, dependency_failed (409: it could never start), too_many (409: of a singleton's name).
    """
    wanted = dict(parsed.depends_on)
    if wanted.pop(0, None):
        wanted = _same_name(user=user, tenant=tenant, name=parsed.name) | wanted
    if not wanted:
        return []
    visible = Job.objects.visible_to(user).filter(pk__in=wanted)
    # Locked until this job is in the database: one that fails meanwhile would not know whom to cancel.
    rows = jobs_lock(visible.values_list("pk", flat=True)) if locked else visible.in_bulk()
    found = {pk: job.state for pk, job in rows.items()}
    for job_id in wanted:
        if job_id not in found:
            raise BerthError(
                "unknown_dependency", f"There is no job {job_id}, or you may not see it.", field="depends_on"
            )
    for job_id, kind in wanted.items():
        never = Kind.NOT_OK if found[job_id] == JobState.COMPLETED else Kind.OK
        if found[job_id] in FINAL and kind == never:
            raise Conflict(
                "dependency_failed",
                f"Job {job_id} ended {found[job_id]}, so this job could never start; remove it from `depends_on`.",
                field="depends_on",
            )
    return list(wanted.items())


def _same_name(*, user: User, tenant: Tenant | None, name: str) -> dict[int, str]:
    """Return the unfinished jobs of the user with this name. In a submission the tenant's row is locked: none slips in."""
    same = Job.objects.top_level().unfinished().filter(owner=user, name=name)
    same = same.filter(tenant=tenant) if tenant else same
    found = list(same.order_by("pk").values_list("pk", flat=True)[: MAX_DEPENDENCIES + 1])
    if len(found) > MAX_DEPENDENCIES:
        detail = f"More than {MAX_DEPENDENCIES} jobs named {name[:60]} have not ended; wait, or use another name."
        raise Conflict("too_many", detail, field="depends_on")
    return dict.fromkeys(found, Kind.SINGLE.value)


def dependencies_open() -> Q:
    """Filter on JobDependency: those whose condition has not come true yet."""
    ended, done = Q(on__state__in=FINAL), Q(on__state=JobState.COMPLETED)
    met = (
        (Q(kind=Kind.OK) & done) | (Q(kind__in=[Kind.ANY, Kind.SINGLE]) & ended) | (Q(kind=Kind.NOT_OK) & ended & ~done)
    )
    return ~met
