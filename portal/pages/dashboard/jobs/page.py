"""The body of one job's page: the card of its state, its log and plots, its command, results and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.jobs.chain.page import chain_make, lineage_make
from portal.pages.dashboard.jobs.cores import cores_told, tuning_make
from portal.pages.dashboard.jobs.ended import ended_make
from portal.pages.dashboard.jobs.facts import asked_make
from portal.pages.dashboard.jobs.happened import events_make
from portal.pages.dashboard.jobs.numbers import numbers_make
from portal.pages.dashboard.jobs.over import over_make
from portal.pages.dashboard.jobs.ran.card import ran_make
from portal.pages.dashboard.jobs.results import results_make, strip_make, use_words
from portal.pages.dashboard.jobs.runs import runs_make
from portal.pages.dashboard.jobs.speed import speed_make
from portal.pages.dashboard.jobs.timeline import timeline_make
from portal.pages.dashboard.jobs.waiting.page import waiting_make
from portal.pages.dashboard.parts.neighbours import of_job, slowed_rows
from portal.planning.rounds.contention.throttling import named
from portal.planning.rounds.read.explained import explanation
from portal.work.jobs.listing import attempts_of, profiles_of
from portal.work.jobs.log_reading import log_sizes
from portal.work.jobs.states import FINAL, LIVE, QUEUED, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import PlotContext
    from portal.work.jobs.models import Attempt, Job

MEASURED_EVERY_S = 5
"""Seconds between two drawings of the plots while it runs."""
LEAST_S = 120
"""A job that ran no longer has no plots once it has ended."""


def stage_of(job: Job) -> str:
    """Say which card stands first on its page: waiting, running, done or failed."""
    if job.state in FINAL:
        return "done" if job.state == JobState.COMPLETED else "failed"
    return "running" if job.state in LIVE else "waiting"


def _decided(job: Job, why: dict[str, Any]) -> dict[str, Any]:
    """Return why a job runs where it does, and the page of the planning that decided last. A waiting one says why above."""
    number = why.get("planning")
    return {
        "sentence": why["sentence"] if job.state in LIVE else "",
        "at": why["at"].isoformat() if why.get("at") else None,
        "url": reverse("planning-detail", args=[number]) if number else None,
    }


def body_make(job: Job, attempts: Sequence[Attempt] | None = None) -> dict[str, Any]:
    """Fill what changes with the job's state. A part whose content does not exist yet is empty until it does.

    `attempts`: the job's runs, where they were read.
    """
    attempts, profiles = list(attempts_of(job)) if attempts is None else attempts, list(profiles_of(job))
    why, results = explanation(job, recorded=job.state in QUEUED), results_make(job)
    return {
        "id": job.number,
        "stage": stage_of(job),
        "ended": ended_make(job, attempts),
        "waiting": waiting_make(job, why=why),
        "over": over_make(job, attempts),
        "strip": strip_make(job, attempts, results) if job.state == JobState.COMPLETED else None,
        "ran": ran_make(job, attempts),
        "asked": asked_make(job, cores_told(job, attempts)),
        "numbers": numbers_make(job, why),
        "decided": _decided(job, why),
        "speed": speed_make(job, attempts),
        "tuning": tuning_make(job, attempts),
        "slowed": _slowed(job) if attempts else [],
        "use": use_words(attempts),
        "timeline": timeline_make(job=job, attempts=attempts, profiles=profiles),
        "plots": plots_make(job, attempts),
        "runs": runs_make(attempts, profiles),
        "events": events_make(job, attempts),
        "artefacts": results,
        "lineage": lineage_make(job),
        "log": _log(job, attempts),
        **chain_part(job),
    }


def chain_part(job: Job) -> dict[str, Any]:
    """Fill the chain of dependencies: it changes with other jobs."""
    return {"id": job.number, "chain": chain_make(job)}


def timeline_part(job: Job) -> dict[str, Any]:
    """Fill the timeline: it moves on by itself while the job runs."""
    timeline = timeline_make(job=job, attempts=list(attempts_of(job)), profiles=list(profiles_of(job)))
    return {"id": job.number, "timeline": timeline}


def over_part(job: Job) -> dict[str, Any]:
    """Fill the card of a running job: it moves on by itself too."""
    return {"id": job.number, "over": over_make(job, list(attempts_of(job)))}


def strip_part(job: Job) -> dict[str, Any]:
    return {"id": job.number, "strip": strip_make(job, list(attempts_of(job)), results_make(job))}


def artefacts_part(job: Job) -> dict[str, Any]:
    return {"id": job.number, "stage": stage_of(job), "artefacts": results_make(job)}


def log_choices(job: Job) -> dict[str, Any]:
    return {"id": job.number, "log": _log(job, list(attempts_of(job)))}


def _slowed(job: Job) -> list[dict[str, Any]]:
    def called(other: Job) -> str:
        return "this job" if other.pk == job.pk else named(other, job)

    def link(other: Job) -> str | None:
        shown = other.pk != job.pk and other.tenant_id == job.tenant_id
        return reverse("job-detail", args=[other.number]) if shown else None

    return slowed_rows(of_job(job), called, link)


def plots_make(job: Job, attempts: Sequence[Attempt]) -> list[PlotContext]:
    """Draw what was measured while it ran: nothing for a job that has not run, or was over at once."""
    if not any(attempt.started_at for attempt in attempts) or (job.state in FINAL and job.ran_s < LEAST_S):
        return []
    plots = [
        _plot(job, "cores", "CPU cores", "used, of those it holds"),
        _plot(job, "memory", "Memory", "and its limit" if job.memory_mib else ""),
    ]
    return plots if job.gpus == [0] else [_plot(job, "gpu", "GPUs busy", ""), *plots]


def _plot(job: Job, name: str, title: str, note: str) -> PlotContext:
    plot: PlotContext = {
        "name": name,
        "title": title,
        "note": note,
        "url": reverse("job-figure", args=[job.number, name]),
        "topics": "own-job",
    }
    return plot | {"refresh_s": MEASURED_EVERY_S} if job.state in LIVE else plot


def _log(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Fill the log's choices; None until it starts."""
    if job.array_size or not attempts:
        return None
    ranks = len(attempts[0].allocations.all())
    sizes = log_sizes(job)
    total = sum(int(row["bytes"]) for row in sizes if row["attempt"] == attempts[0].epoch)
    return {
        "url": reverse("job-log", args=[job.number]),
        "download_url": reverse("job-log-download", args=[job.number]),
        "attempts": [
            {"value": str(a.epoch), "label": f"run {a.epoch}", "selected": place == 0}
            for place, a in enumerate(attempts)
        ],
        "ranks": [{"value": str(rank), "label": f"part {rank}", "selected": rank == 0} for rank in range(ranks)],
        "size_bytes": total if sizes else None,
        "empty": "Nothing printed yet.",
    }
