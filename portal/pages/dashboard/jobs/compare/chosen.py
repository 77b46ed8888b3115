"""Which jobs an address compares, and how it wants their curves drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.artefacts.curves import SCALES, SMOOTHINGS
from portal.work.jobs.listing import job_find
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from django.http import QueryDict

    from portal.people.tenants.models import User

MOST = 4
"""Jobs on one page: as many as there are colours of lines that differ clearly."""
OFFERED, LOOKED_AT = 8, 100
"""The jobs that are offered, and the latest ones of each state that are looked at."""
OFFERED_STATES = (JobState.COMPLETED, JobState.FAILED, JobState.RUNNING, JobState.PENDING)


@dataclass(frozen=True)
class Chosen:
    """`jobs`: without repetitions, in the order of the address."""

    jobs: tuple[Job, ...]
    scale: str = SCALES[0]
    smooth: str = SMOOTHINGS[0]

    @classmethod
    def of(cls, given: QueryDict, user: User) -> Chosen:
        """Raises NotFound for a job that is missing or foreign, and BerthError for too many of them and a choice that is none."""
        typed = [each.strip().removeprefix("#") for each in given.getlist("job")]
        numbers = list(dict.fromkeys(filter(None, typed)))
        if len(numbers) > MOST:
            detail = f"These are {len(numbers)} jobs; at most {MOST} are compared. Leave some out."
            raise BerthError("too_many", detail, field="job")
        for field, choices in (("scale", SCALES), ("smooth", SMOOTHINGS)):
            if given.get(field, choices[0]) not in choices:
                raise BerthError("invalid", f"`{field}` must be one of {', '.join(choices)}.", field=field)
        jobs = tuple(job_find(user=user, number=number) for number in numbers)
        return cls(jobs, given.get("scale", SCALES[0]), given.get("smooth", SMOOTHINGS[0]))

    def url(self, name: str | None = None, *, curve: str = "") -> str:
        """Return the page's address, or a figure's by its name."""
        told = {"scale": self.scale, "smooth": self.smooth, "curve": curve}
        kept = [(key, value) for key, value in told.items() if value not in ("", SCALES[0], SMOOTHINGS[0])]
        numbers = [("job", job.number) for job in self.jobs]
        path = reverse("job-compare-figure", args=[name]) if name else reverse("job-compare")
        return f"{path}?{urlencode([*numbers, *kept])}"


def offered(job: Job, user: User) -> list[Job]:
    """Return jobs to compare with: other tasks of its array, else its owner's latest, those of its name first."""
    jobs = Job.objects.visible_to(user).exclude(pk=job.pk).only("name", "state", "array_id", "array_index")
    if job.array_id:
        jobs, order, most = jobs.filter(array=job.array_id), "array_index", OFFERED // len(OFFERED_STATES)
    else:
        jobs = jobs.top_level().filter(owner=job.owner_id, array_size__isnull=job.array_size is None)
        order, most = "-pk", LOOKED_AT
    found = [each for state in OFFERED_STATES for each in jobs.filter(state=state).order_by(order)[:most]]
    return sorted(found, key=lambda each: (each.name != job.name, -each.pk))[:OFFERED]
