"""Find jobs by a part of their name or labels, in any case: in `JobText`, apart from the jobs' wide rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Func, Q, TextField, Value
from django.db.models.functions import StrIndex

from portal.work.jobs.models import JobLabel, JobText

if TYPE_CHECKING:
    from collections.abc import Mapping

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
