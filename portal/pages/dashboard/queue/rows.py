"""The rows of the queue page: the needs of each job, why it waits in plain words, and when it should start."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import count_of
from portal.pages.dashboard.parts.plain import reason_words, sizes, sizes_gpus
from portal.pages.dashboard.parts.snapshot import OTHER_TENANT
from portal.planning.rounds.read.figures import JobNumbers, KeepersNow, Turns
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.read.selectors import figures_of, waited_s
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.models import Job
from portal.work.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.record.decisions import Decisions

TYPES_NAMED = 2
NOT_PLANNED = "not-planned-yet"


class Rows:
    """Reads what the rows of these jobs need, at once; of another tenant's jobs only what names nobody is shown."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions, ids: Sequence[int]) -> None:
        self._snapshot, self._decisions = snapshot, decisions
        self._keepers, self._turns = KeepersNow(snapshot.now), Turns(decisions, snapshot.planning)
        waiting = Job.objects.filter(state__in=QUEUED).select_related("tenant").in_bulk(ids)
        self._jobs = [waiting[pk] for pk in ids if pk in waiting]
        own = [job for job in self._jobs if snapshot.reader.sees(job.tenant_id)]
        number = snapshot.planning.number if snapshot.planning else None
        self._details = explanations_of([job.pk for job in own], number=number)
        self._starts = starts_of(self._jobs, snapshot.now)
        details = (detail["figures"] for detail in self._details.values())
        self._numbers = JobNumbers([*details, *(job.reason_figures for job in own)])
        self._within_s = float(snapshot.knobs["tick_s"])

    def made(self) -> list[dict[str, Any]]:
        """Return the rows; tasks of one array that stand together are one."""
        together = groupby(self._jobs, key=lambda job: job.array_id or -job.pk)
        return [self._row(list(jobs)) for _, jobs in together]

    def _row(self, jobs: list[Job]) -> dict[str, Any]:
        job, count = jobs[0], len(jobs)
        needs = needs_words(job)
        known = {"needs": f"{needs} each" if count > 1 else needs, "waited_s": max(map(waited_s, jobs)), "count": count}
        known |= {"starts": starts_make(self._starts.get(job.pk)), "reason": job.reason or NOT_PLANNED}
        if not self._snapshot.reader.sees(job.tenant_id):
            return {**known, "name": OTHER_TENANT, "url": None, "tenant": None, "said": None, "place": None, "lr": None}
        number = job.array_id if count > 1 else job.number
        return {
            **known,
            "name": job.name,
            "number": number,
            "url": reverse("job-detail", args=[number]),
            "tenant": job.tenant.name,
            **self._told(job, needs),
        }

    def _told(self, job: Job, needs: str) -> dict[str, Any]:
        """Say why it waits, and for operators its place in its queue and its wait over its run time."""
        reason, place = job.reason or NOT_PLANNED, self._decisions.find(job.pk)
        figures, standing, ratio = job.reason_figures, None, None
        if place is not None:
            entry = self._decisions.entry(place)
            ratio, standing = entry["latency_ratio"], self._decisions.standing(place)
            if entry["reason"] == job.reason:
                figures = self._turns.told(place, job, figures_of(entry, job, self._details.get(job.pk)))
        figures = self._numbers.told(self._keepers.told(job, job.reason, figures))
        said = reason_words(reason, figures, tenant=job.tenant.name, within_s=self._within_s)
        said = "held by its owner" if job.state == JobState.HELD and not job.reason else said
        return {"said": said.removeprefix(f"{needs}, "), "place": standing, "lr": ratio}


def needs_words(job: Job) -> str:
    """Say what a job asks for: 4 A100; 4 or 8 GPUs; 2 cores."""
    if job.gpus == [0]:
        return count_of(job.cores or 1, "core")
    types = job.gpu_types
    return f"{sizes(job.gpus)} {' or '.join(types)}" if 0 < len(types) <= TYPES_NAMED else sizes_gpus(job.gpus)
