"""The remedy of a failed job, worked out anew when it is asked for: nothing that a page sent is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.errors import Conflict
from portal.people.tenants.selectors import work_check
from portal.work.jobs.description_parts import SINGLETON
from portal.work.jobs.failing.causes import cause_of
from portal.work.jobs.failing.lines import last_lines
from portal.work.jobs.failing.remedies import remedies_of
from portal.work.jobs.lineage import description_again
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.services.submission import job_submit

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.failing.remedies import Remedy
    from portal.work.jobs.models import Job


SINGLE = {"kind": SINGLETON}


def remedies_now(job: Job) -> list[Remedy]:
    """Return the remedies of a failed job, from its end and its log as they are. Eight queries at most."""
    attempt = attempts_of(job).first()
    return remedies_of(job, cause_of(job, last_lines(attempt) if attempt else ()), attempt)


def job_mend(*, job: Job, actor: User) -> Job:
    """Submit a failed job again with the change that is certain to mend it; the same press twice gives the same job.

    Raises BerthError, among them Conflict `no_remedy` where the job's end names no such change.
    """
    work_check(actor, job.tenant)
    found = next((each for each in remedies_now(job) if each.act == "submit"), None)
    if found is None:
        raise Conflict("no_remedy", f"Nothing certain is known to mend job {job.number}. Edit and relaunch it.")
    description = {**description_again(job), **found.change}
    description.pop("start_after", None)
    waits = [each for each in description.pop("depends_on", None) or () if each == SINGLE]  # the other jobs are over
    description |= {"depends_on": waits} if waits else {}
    key = f"mend {job.number} {job.epoch} {found.button}"
    return job_submit(user=actor, tenant=job.tenant, description=description, idempotency_key=key)
