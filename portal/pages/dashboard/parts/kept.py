"""GPUs that are kept for jobs, in words: job and end time on the cluster and node pages, the place on the job's own page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse

from portal.planning.rounds.read.kept import kept_for

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import KeptRow
    from portal.planning.rounds.read.kept import KeptFor
    from portal.work.jobs.models import Job


def kept_rows(kept: list[KeptFor]) -> list[KeptRow]:
    """Return a row for each job that a node is kept for."""
    return [
        {
            "url": reverse("job-detail", args=[each.number]) if each.number else None,
            "who": f"#{each.number}" if each.number else each.name,
            "until": each.until_words,
        }
        for each in kept
    ]


def kept_note(*, job: Job) -> str | None:
    """Say what is kept for this job, if anything is."""
    own = [each for each in kept_for(job=job) if each.nodes]
    if not own:
        return None
    words = [
        f"{f'{each.gpus} GPUs on ' if each.gpus and each.gpus > 1 else ''}{', '.join(each.nodes)} {each.until_words}"
        for each in own
    ]
    return f"Kept for it: {'; '.join(words)}."
