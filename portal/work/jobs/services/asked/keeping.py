"""A job's files: patterns of those that it keeps, and artefacts of earlier jobs as inputs.

Which artefacts are kept is known to a higher room, `artefacts`, which registers how to ask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import Q

from portal.foundation import checks
from portal.foundation.errors import BerthError, Conflict
from portal.work.jobs.models import Job, JobInput
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from portal.people.tenants.models import Tenant
    from portal.work.jobs.description import JobDescription
    from portal.work.jobs.fields.keeping import Input

Named = tuple[int, str]
"""A job's id and the path of an artefact of it, or of a folder with a / at its end."""
_askers: list[Callable[[Collection[Named]], set[Named]]] = []


def kept_asked_by(asker: Callable[[Collection[Named]], set[Named]]) -> None:
    """Register what says which of some artefacts are kept; called once, in `apps.ready()`."""
    _askers[:] = [asker]


def kept_of(named: Collection[Named]) -> set[Named]:
    """Return those that are kept: files that are, and folders with such a file."""
    return _askers[0](named) if _askers and named else set()


def inputs_resolved(*, tenant: Tenant, parsed: JobDescription) -> JobDescription:
    """Return the description with the ids of its inputs' jobs. A foreign and a missing job get the same answer.

    Codes: unknown_input, input_missing (409: the job could not begin with it).
    """
    if not parsed.inputs:
        return parsed
    jobs = _jobs(tenant, {each.job for each in parsed.inputs})
    for each in parsed.inputs:
        if each.job not in jobs:
            raise BerthError("unknown_input", f"There is no job {each.job} of {tenant.name}.", field="inputs")
    kept = kept_of({(jobs[each.job].pk, each.path) for each in parsed.inputs})
    awaited = {job_id for job_id, _ in parsed.depends_on}
    for each in parsed.inputs:
        if (jobs[each.job].pk, each.path) not in kept:
            _missing(each, jobs[each.job], awaited)
    return parsed.but(inputs=tuple(replace(each, job=str(jobs[each.job].pk)) for each in parsed.inputs))


def _jobs(tenant: Tenant, numbers: Iterable[str]) -> dict[str, Job]:
    wanted = Q()
    for number in numbers:
        array, is_task, index = number.partition("_")
        wanted |= Q(array_id=int(array), array_index=int(index)) if is_task else Q(pk=int(array))
    rows = Job.objects.filter(wanted, tenant=tenant).only("pk", "state", "array_id", "array_index")
    return {key: job for job in rows for key in (job.number, str(job.pk))}


def _missing(wanted: Input, job: Job, awaited: Collection[int]) -> None:
    """Raise Conflict where this artefact cannot come any more, or nobody waits for it."""
    if job.state in FINAL:
        detail = f"Job {wanted.job} has ended and kept no {checks.quoted(wanted.path)}; name one of its artefacts."
    elif job.pk in awaited:
        return
    else:
        detail = f"Job {wanted.job} has not kept {checks.quoted(wanted.path)} yet; wait for it with `depends_on`."
    raise Conflict("input_missing", detail, field="inputs")


def inputs_create(job: Job, parsed: JobDescription) -> None:
    """Store a job's inputs; `parsed` as `inputs_resolved` returned it."""
    JobInput.objects.bulk_create(
        JobInput(job=job, source_id=int(each.job), path=each.path, target=each.target) for each in parsed.inputs
    )
