"""Find jobs: by a part of their name or labels, in any case (`JobText`), and by filters of lists, each from an index.

A filter only ever narrows the jobs that the reader may see. So a name that is not there, and one that is another
tenant's, find the same: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import F, Func, Q, TextField, Value
from django.db.models.functions import Coalesce, StrIndex

from portal.work.jobs.listing import jobs_labelled
from portal.work.jobs.models import Allocation, JobLabel, JobText

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django.db.models import QuerySet

    from portal.work.jobs.models import Job


LONGEST_NUMBER = 18
"""Digits."""


def text_of(*, name: str, labels: Mapping[str, str]) -> str:
    """Return the text that a search looks at for a job with this name and these labels."""
    return "\n".join([name, *(f"{key}={value}" for key, value in labels.items())]).lower()


def job_text_add(job: Job) -> None:
    """Store the text and the labels by which a job is found. A task of an array has none, because lists do not show tasks."""
    text = text_of(name=job.name, labels=job.labels)
    JobText.objects.create(job=job, text=text, submitted_at=job.submitted_at, category=job.category)
    JobLabel.objects.bulk_create(
        JobLabel(job=job, name=name, pair=f"{name}={value}") for name, value in job.labels.items()
    )


def jobs_found(jobs: QuerySet[Job], text: str) -> QuerySet[Job]:
    """Keep the jobs whose name or labels contain `text`, or whose number it is (`1044`, `#1044`)."""
    wanted = text.strip().removeprefix("#")
    found = Q(text__contains=wanted.lower())
    if wanted.isascii() and wanted.isdigit() and len(wanted) < LONGEST_NUMBER:
        found |= Q(pk=int(wanted))
    return jobs.filter(pk__in=JobText.objects.filter(found).values("pk"))


class _FirstLine(Func):
    """The first line of a text: of `JobText` the name, which has no line break."""

    arity = 1
    output_field = TextField()
    function, template = "SPLIT_PART", "%(function)s(%(expressions)s, CHR(10), 1)"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "SUBSTR(%(expressions)s, 1, INSTR(%(expressions)s || CHAR(10), CHAR(10)) - 1)"
        return self.as_sql(compiler, connection, template=template, **context)


def jobs_named(jobs: QuerySet[Job], name: str) -> QuerySet[Job]:
    """Keep the jobs whose name contains `name`, in any case. Not for tasks of arrays: they have no text."""
    wanted = name.lower()
    place = StrIndex(_FirstLine("text"), Value(wanted))
    texts = JobText.objects.filter(text__contains=wanted).alias(place=place).filter(place__gt=0)
    return jobs.filter(pk__in=texts.values("pk"))


TIMES = ("submitted", "started", "ended")


@dataclass(frozen=True)
class Between:
    """A stretch of time: `since` is in it, `until` is not. None: open."""

    since: datetime | None = None
    until: datetime | None = None

    def of(self, column: str) -> dict[str, datetime]:
        ends = {f"{column}__gte": self.since, f"{column}__lt": self.until}
        return {name: moment for name, moment in ends.items() if moment is not None}


@dataclass(frozen=True)
class JobFilters:
    """The filter of a job list; an empty field keeps all. `label` is `name` or `name=value`, `node` a node that it had GPUs or
    cores of, by any of its runs.
    """

    owner: str | None = None
    category: str | None = None
    label: str | None = None
    node: str | None = None
    submitted: Between = Between()
    started: Between = Between()
    ended: Between = Between()

    @property
    def looks_apart(self) -> bool:
        """Whether what is kept comes from other rows or another index than the list's: it is then found once, not state by
        state.
        """
        return bool(self.category or self.label or self.node or self.submitted.of(""))


def jobs_kept(jobs: QuerySet[Job], filters: JobFilters) -> QuerySet[Job]:
    """Keep the jobs, of a list that shows arrays folded, that fit every filter. An array counts by the use of its tasks."""
    if filters.owner:
        jobs = jobs.filter(owner__username=filters.owner)
    if filters.category:
        jobs = jobs.filter(pk__in=JobText.objects.filter(category=filters.category).values("pk"))
    if filters.label:
        has = JobLabel.objects.filter(**{"pair" if "=" in filters.label else "name": filters.label})
        jobs = jobs.filter(pk__in=has.values("job_id"))
    if filters.node:
        runs = Allocation.objects.filter(node__name=filters.node, attempt__kind="run")
        shown = Coalesce(F("attempt__job__array_id"), F("attempt__job_id"))  # arrays stand for their tasks
        jobs = jobs.filter(pk__in=runs.annotate(shown=shown).values("shown"))
    times = (("submitted_at", filters.submitted), ("started_at", filters.started), ("ended_at", filters.ended))
    return jobs.filter(**{name: moment for column, between in times for name, moment in between.of(column).items()})


def tasks_kept(tasks: QuerySet[Job], filters: JobFilters) -> QuerySet[Job]:
    """Keep the tasks of one array that fit every filter: they are few, and have no rows beside their own."""
    same = {"owner__username": filters.owner, "category": filters.category}
    tasks = tasks.filter(**{name: value for name, value in same.items() if value})
    if filters.label:
        tasks = jobs_labelled(tasks, label=filters.label)
    if filters.node:
        rows = Allocation.objects.filter(node__name=filters.node, attempt__kind="run", attempt__job__in=tasks)
        tasks = tasks.filter(pk__in=rows.values("attempt__job_id"))
    times = (("submitted_at", filters.submitted), ("started_at", filters.started), ("ended_at", filters.ended))
    for column, between in times:
        tasks = tasks.filter(**between.of(column))
    return tasks
