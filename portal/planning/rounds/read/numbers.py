"""The numbers of the jobs that a decision's figures name: figures hold database ids, and an array's task is `58_40`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from portal.work.jobs.models import Job

if TYPE_CHECKING:
    Figures = Mapping[str, Any]


BESIDE = ("beside_own", "apart_own")
"""Figures of sharing: jobs on a GPU, and those that a job is kept apart from."""


class JobNumbers:
    """The numbers of jobs by id. One query for all the figures it is made with, and one for each that names others."""

    def __init__(self, figures: Iterable[Figures] = ()) -> None:
        self._known: dict[int, int | str] = {}
        self._read({job for each in figures for job in _ids(each)})

    def told(self, figures: Figures) -> dict[str, Any]:
        """Return the figures with numbers in place of ids; a job that is gone keeps its id."""
        self._read(set(_ids(figures)) - self._known.keys())
        told = dict(figures)
        if lost := told.get("lost_to"):
            told["lost_to"] = {**lost, "own_jobs": [self._number(job) for job in lost.get("own_jobs", ())]}
        if blocked := told.get("blocked_by"):
            told["blocked_by"] = {**blocked, "job": self._number(blocked.get("job"))}
        if keepers := told.get("keepers"):
            told["keepers"] = [{**each, "job": self._number(each.get("job"))} for each in keepers]
        for name in BESIDE:
            if beside := (told.get("shared") or {}).get(name):
                told["shared"] = {**told["shared"], name: [self._number(job) for job in beside]}
        if jobs := told.get("depends_on"):
            told["depends_on"] = [self._number(job) for job in jobs]
        return told

    def _number(self, job: Any) -> Any:
        return self._known.get(job, job)

    def _read(self, ids: set[int]) -> None:
        if ids:
            rows = Job.objects.filter(pk__in=ids).only("pk", "array_id", "array_index")
            self._known |= {job: job for job in ids} | {job.pk: job.number for job in rows}


def _ids(figures: Figures) -> Iterator[int]:
    """Yield the ids that figures name. A text is a number already; None stands for another tenant's job."""
    named = [*(figures.get("lost_to") or {}).get("own_jobs", ()), *(figures.get("depends_on") or ())]
    named += [job for name in BESIDE for job in (figures.get("shared") or {}).get(name) or ()]
    named += [(figures.get("blocked_by") or {}).get("job"), *(each.get("job") for each in figures.get("keepers") or ())]
    yield from (job for job in named if isinstance(job, int))
