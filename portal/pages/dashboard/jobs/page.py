"""One job's page: its head, why it waits or how it ended, the numbers behind that, attempts and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.artefacts.page import artefacts_card
from portal.pages.dashboard.jobs.chain.page import chain_make, lineage_make
from portal.pages.dashboard.jobs.facts import facts_make, payload_rows
from portal.pages.dashboard.jobs.numbers import numbers_make
from portal.pages.dashboard.jobs.rows import actions_of, failed_count
from portal.pages.dashboard.jobs.running import extensions, idle_make
from portal.pages.dashboard.jobs.speed import speed_make, tuning_make
from portal.pages.dashboard.jobs.timeline import attempt_cause, profiles_make, timeline_make
from portal.pages.dashboard.jobs.waiting.page import waiting_make
from portal.pages.dashboard.jobs.why import why_make
from portal.pages.dashboard.parts.neighbours import kept_note, of_job, slowed_rows
from portal.people.tenants.selectors import WORK, may
from portal.planning.rounds.contention.throttling import named
from portal.planning.rounds.read.explained import explanation
from portal.planning.templating.models import JobTemplate
from portal.work.jobs.listing import attempts_of, profiles_of
from portal.work.jobs.log_reading import log_sizes
from portal.work.jobs.states import FINAL, LIVE, QUEUED, JobState, end_words

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import LegendItem, PlotContext
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Attempt, Job

EVENTS_SHOWN = 30
MEASURED_EVERY_S = 5
"""Seconds between two drawings of the plots while it runs."""
LABELS = {"cancel": "Cancel", "hold": "Hold", "release": "Release", "requeue": "Requeue", "retry": "Retry"}


def page_context(*, job: Job, user: User) -> dict[str, Any]:
    """Fill the whole page. The functions below answer with its live parts."""
    attempts = list(attempts_of(job))  # each of these with its nodes, GPUs and searches: several queries
    header = header_make(job, attempts, user=user)
    return {**header, **body_make(job, attempts), **log_choices(job, attempts), **chain_part(job)}


def header_make(job: Job, attempts: Sequence[Attempt] | None = None, *, user: User | None = None) -> dict[str, Any]:
    """Fill the page's head as `user` sees it; None: an array's, which has nothing that not all may do.

    `attempts`: the job's runs, where they were read.
    """
    attempts = list(attempts_of(job)) if attempts is None else attempts
    return {
        "id": job.number,
        "name": job.name,
        "state": job.state,
        "since": _since(job, attempts),
        "actions": _actions(job),
        "extensions": extensions(job),
        "terminal_url": _terminal_url(job, user),
        "idle": idle_make(job, user),
        "relaunch_url": f"{reverse('job-submit')}?from={job.array_id or job.pk}",
        "template": _template(job),
        "facts": facts_make(job, attempts),
    }


def _terminal_url(job: Job, user: User | None) -> str | None:
    if job.state != JobState.RUNNING or job.array_size or user is None or not may(user, job.tenant, WORK):
        return None
    return reverse("job-terminal", args=[job.number])


def _template(job: Job) -> dict[str, Any]:
    """Return the way to the template that it was made of, and to one made of it."""
    made_of = job.brought.template
    is_there = bool(made_of) and JobTemplate.objects.filter(pk=made_of["id"]).exists()
    again = f"{reverse('template-use', args=[made_of['id']])}?from={job.number}" if is_there else None
    words = f"{made_of['name']} {made_of['version']}" if made_of else None
    return {"again_url": again, "words": words, "save_url": f"{reverse('template-new')}?from={job.number}"}


def body_make(job: Job, attempts: Sequence[Attempt] | None = None) -> dict[str, Any]:
    """Fill what changes with the job's state. A part whose content does not exist yet is empty until it does."""
    attempts, profiles = list(attempts_of(job)) if attempts is None else attempts, list(profiles_of(job))
    why = explanation(job)
    return {
        "id": job.number,
        "why": _with_kept(why_make(job, why, attempts), job),
        "waiting": waiting_make(job),
        "asks_what_if": job.state in QUEUED and not job.array_size,
        "numbers": numbers_make(job, why),
        "speed": speed_make(job, attempts),
        "tuning": tuning_make(attempts),
        "slowed": _slowed(job) if attempts else [],
        "timeline": timeline_make(job=job, attempts=attempts, profiles=profiles),
        "plots": _plots(job, attempts),
        "attempts": [_attempt(attempt) for attempt in attempts],
        "profiles": profiles_make(profiles),
        "events": events_make(job),
        "files": payload_rows(job.brought),
        "artefacts": artefacts_card(job),
        "lineage": lineage_make(job),
    }


def _slowed(job: Job) -> list[dict[str, Any]]:
    def called(other: Job) -> str:
        return "this job" if other.pk == job.pk else named(other, job)

    def link(other: Job) -> str | None:
        shown = other.pk != job.pk and other.tenant_id == job.tenant_id
        return reverse("job-detail", args=[other.number]) if shown else None

    return slowed_rows(of_job(job), called, link)


def chain_part(job: Job) -> dict[str, Any]:
    """Fill the chain of dependencies: it changes with other jobs."""
    return {"id": job.number, "chain": chain_make(job)}


def timeline_part(job: Job) -> dict[str, Any]:
    """Fill the timeline: it moves on by itself while the job runs."""
    attempts, profiles = list(attempts_of(job)), list(profiles_of(job))
    timeline = timeline_make(job=job, attempts=attempts, profiles=profiles)
    return {"id": job.number, "timeline": timeline, "plots": _plots(job, attempts)}


def artefacts_part(job: Job) -> dict[str, Any]:
    return {"id": job.number, "artefacts": artefacts_card(job)}


def log_choices(job: Job, attempts: Sequence[Attempt] | None = None) -> dict[str, Any]:
    return {"id": job.number, "log": _log(job, list(attempts_of(job)) if attempts is None else attempts)}


def _with_kept(why: dict[str, Any] | None, job: Job) -> dict[str, Any] | None:
    if why is not None and job.state not in FINAL:
        why["note"] = why["note"] or kept_note(job=job)
    return why


def _since(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Say since when it is in its state, and which attempt that is."""
    moment = job.submitted_at
    if job.state in FINAL:
        moment = job.ended_at
    elif job.state in LIVE and attempts:
        moment = attempts[0].started_at or attempts[0].created_at
    elif attempts and attempts[0].ended_at:
        moment = attempts[0].ended_at
    return {
        "at": moment.isoformat(),
        "ended": job.state in FINAL,
        "attempt": f"attempt {job.epoch}" if job.epoch > 1 else None,
    }


def _actions(job: Job) -> list[dict[str, Any]]:
    running = job.state in LIVE
    confirm = {
        "cancel": f"Cancel job {job.number}?" + (" It is stopped on its node." if running else ""),
        "requeue": f"Stop job {job.number} and let it wait again?",
    }
    return [
        {
            "verb": verb,
            "label": f"Retry {failed_count(job)} failed" if verb == "retry" and job.array_size else LABELS[verb],
            "confirm": confirm.get(verb),
        }
        for verb in reversed(actions_of(job))
    ]


def _plots(job: Job, attempts: Sequence[Attempt]) -> list[PlotContext]:
    """Draw what was measured while it ran: nothing for a job that has not run."""
    if not any(attempt.started_at for attempt in attempts):
        return []
    note = "against its limit" if job.memory_mib else "of its processes"
    allocated: LegendItem = {"label": "allocated", "token": "text-2", "kind": "dashed"}
    plots = [
        _plot(job, "cores", "CPU cores", "used against allocated", [allocated]),
        _plot(job, "memory", "Memory, GiB", note),
    ]
    return plots if job.gpus == [0] else [_plot(job, "gpu", "GPU use, %", "mean and range of its GPUs"), *plots]


def _plot(job: Job, name: str, title: str, note: str, legend: Sequence[LegendItem] = ()) -> PlotContext:
    plot: PlotContext = {
        "name": name,
        "title": title,
        "note": note,
        "url": reverse("job-figure", args=[job.number, name]),
        "legend": list(legend),
        "topics": "own-job",
    }
    return plot | {"refresh_s": MEASURED_EVERY_S} if job.state in LIVE else plot


def _attempt(attempt: Attempt) -> dict[str, Any]:
    parts = list(attempt.allocations.all())
    end = attempt.ended_at or timezone.now()
    return {
        "number": attempt.epoch,
        "state": attempt.state,
        "where": ", ".join(part.node.name for part in parts),
        "gpus": f"{attempt.gpus} GPU{'s' if attempt.gpus != 1 else ''}" if attempt.gpus else "CPU",
        "cores": attempt.cores,
        "started_at": attempt.started_at.isoformat() if attempt.started_at else None,
        "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
        "run_s": (end - attempt.started_at).total_seconds() if attempt.started_at else None,
        "exit": end_words(attempt.exit_code, attempt.signal) or None,
        "cause": attempt_cause(attempt),
        "restart_s": attempt.restart_s,
    }


def events_make(job: Job) -> list[dict[str, Any]]:
    return [{"at": event.at.isoformat(), "text": event.text} for event in job.events.order_by("-id")[:EVENTS_SHOWN]]


def _log(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    if job.array_size:
        return None
    ranks = len(attempts[0].allocations.all()) if attempts else 1
    sizes = log_sizes(job)
    total = sum(int(row["bytes"]) for row in sizes if attempts and row["attempt"] == attempts[0].epoch)
    return {
        "url": reverse("job-log", args=[job.number]),
        "download_url": reverse("job-log-download", args=[job.number]),
        "attempts": [
            {"value": str(a.epoch), "label": f"Attempt {a.epoch}", "selected": place == 0}
            for place, a in enumerate(attempts)
        ],
        "ranks": [{"value": str(rank), "label": f"Rank {rank}", "selected": rank == 0} for rank in range(ranks)],
        "size_bytes": total if sizes else None,
        "empty": "Nothing printed yet." if attempts else "It has not started yet; its output appears here.",
    }
