"""The sentences of a job's page on its start, and on the jobs that began from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.artefacts.tree import page_url
from portal.work.jobs.finding.lineage import MOST_TOLD, began_from, continued_by

if TYPE_CHECKING:
    from portal.work.jobs.finding.lineage import Began
    from portal.work.jobs.models import Job


def lineage_make(job: Job) -> dict[str, Any] | None:
    """Fill the card; None where the job stands alone. At most five queries, and one for each folder that it began from."""
    began, later = began_from(job), continued_by(job)
    shown = list(later[: MOST_TOLD + 1])
    if not began and not shown:
        return None
    count = later.count() if len(shown) > MOST_TOLD else len(shown)
    rows = [{"number": each.number, "name": each.name, "state": each.state} for each in shown[:MOST_TOLD]]
    return {
        "began": [
            {"words": _words(each), "url": _url(each), "target": each.target, "note": _note(each)} for each in began
        ],
        "later": rows,
        "others": count - 1,
        "more": count - len(rows),
    }


def _words(began: Began) -> str:
    return f"#{began.job.number}'s {began.path}" if began.job else f"{began.path} of a job that is gone"


def _url(began: Began) -> str | None:
    if began.job is None:
        return None
    if not began.is_kept:
        return reverse("job-detail", args=[began.job.number])
    name = "under" if began.path.endswith("/") else "path"
    return page_url(began.job, **{name: began.path.rstrip("/")})


def _note(began: Began) -> str | None:
    if began.is_kept:
        return None
    return "not kept any more" if began.job is None or began.job.ended_at else "not there yet"
