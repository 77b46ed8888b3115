"""What a job keeps and what it begins with: patterns of its files, and artefacts of earlier jobs as inputs.

Which artefacts are kept is known to a higher room, `artefacts`, which registers how to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal import checks
from portal.errors import BerthError, Conflict
from portal.jobs.models import Job
from portal.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.jobs.description import JobDescription
    from portal.tenants.models import Tenant

_askers: list[Callable[[int, str], bool]] = []


def kept_asked_by(asker: Callable[[int, str], bool]) -> None:
    """Register what says whether an artefact (job's id, path) is kept; called once, in `apps.ready()`."""
    _askers[:] = [asker]


def inputs_check(*, tenant: Tenant, parsed: JobDescription) -> None:
    """Refuse inputs that the job could not begin with. A foreign and a missing job get the same answer."""
    if not parsed.inputs:
        return
    wanted = {job_id for job_id, _, _ in parsed.inputs}
    states: dict[int, Any] = dict(Job.objects.filter(tenant=tenant, pk__in=wanted).values_list("pk", "state"))
    awaited = {job_id for job_id, _ in parsed.depends_on}
    for job_id, path, _ in parsed.inputs:
        if job_id not in states:
            detail = f"There is no job {job_id} of {tenant.name}."
            raise BerthError("unknown_input", detail, field="inputs")
        if _askers and _askers[0](job_id, path):
            continue
        if states[job_id] in FINAL:
            detail = f"Job {job_id} has ended and kept no {checks.quoted(path)}; name one of its artefacts."
            raise Conflict("input_missing", detail, field="inputs")
        if job_id not in awaited:
            detail = f"Job {job_id} has not kept {checks.quoted(path)} yet; wait for it with `depends_on`."
            raise Conflict("input_missing", detail, field="inputs")
