"""What the submit form may start from: an earlier job, job templates, and settings that the person saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.submit.form import initial_of
from portal.planning.templating.selectors import saved_get, saved_of, templates_for
from portal.work.jobs.finding.lineage import description_again

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job

SHOWN = 6
MOST_SAVED = 100


def start_context(user: User) -> dict[str, Any]:
    """Return the first templates, how many there are, and the person's saved forms. Three queries."""
    found = templates_for(user=user)
    return {"templates": list(found[:SHOWN]), "count": found.count(), "saved": list(saved_of(user, None)[:MOST_SAVED])}


def again_values(job: Job, artefact: str) -> dict[str, Any]:
    """Return the form's values for a job like this one; `artefact`: what it begins with."""
    payload = job.array.payload if job.array_id else job.payload
    return initial_of(description_again(job, artefact)) | {"files": payload.files, "depends_on": ""}


def description_saved(user: User, number: str) -> dict[str, Any]:
    """Return the description that was saved of the whole form; {} for one of a template. Raises NotFound."""
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    saved = saved_get(int(number) if is_number else 0, user=user)
    return {} if saved.template_id else dict(saved.values)
