"""One job's page: its head, why it waits or how it ended, the numbers behind that, attempts and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.dashboard.jobs.files import file_rows
from portal.dashboard.jobs.history import attempt_cause
from portal.dashboard.jobs.numbers import numbers_make
from portal.dashboard.jobs.profiles import profiles_make
from portal.dashboard.jobs.rows import actions_of, failed_count, gpus_words
from portal.dashboard.jobs.speed import speed_make
from portal.dashboard.jobs.timeline import timeline_make
from portal.dashboard.jobs.tuning import tuning_make
from portal.dashboard.jobs.why import why_make
from portal.dashboard.parts.formatting import GIB_MIB
from portal.dashboard.parts.kept import kept_note
from portal.dashboard.parts.slowed import of_job, slowed_rows
from portal.jobs.gpu_sharing import names_words, part_words, place_of
from portal.jobs.listing import attempts_of, profiles_of
from portal.jobs.log_reading import log_sizes
from portal.jobs.models import Job
from portal.jobs.selectors import software_of
from portal.jobs.sizes import grace_of
from portal.jobs.software import software_words
from portal.jobs.states import FINAL, LIVE, QUEUED, JobState
from portal.rounds.contention.words import named
from portal.rounds.read.explained import explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.dashboard.jobs.context import (
        ActionButton,
        AttemptRow,
        EventRow,
        JobBodyContext,
        JobHeaderContext,
        JobLogContext,
        JobPageContext,
        LogContext,
        Since,
        TimelinePartContext,
        Verb,
        WhyContext,
    )
    from portal.dashboard.parts.context import Fact, LegendItem, PlotContext
    from portal.dashboard.parts.slowed import SlowedRow
    from portal.jobs.models import Attempt

EVENTS_SHOWN = 30
MEASURED_EVERY_S = 5
"""While it runs its plots are drawn anew so often."""
LABELS = {"cancel": "Cancel", "hold": "Hold", "release": "Release", "requeue": "Requeue", "retry": "Retry"}


def page_context(*, job: Job) -> JobPageContext:
    """Fill the whole page. The functions below also answer with its live parts alone."""
    return {**header_make(job), **body_make(job), **log_choices(job)}


def header_make(job: Job) -> JobHeaderContext:
    attempts = list(attempts_of(job))
    return {
        "id": job.number,
        "name": job.name,
        "state": job.state,
        "since": _since(job, attempts),
        "actions": _actions(job),
        "relaunch_url": f"{reverse('job-submit')}?from={job.array_id or job.pk}",
        "facts": _facts(job, attempts),
    }


def body_make(job: Job) -> JobBodyContext:
    """Fill what changes with the job's state. A part whose content does not exist yet is empty until it does."""
    attempts, profiles = list(attempts_of(job)), list(profiles_of(job))
    why = explanation(job)
    return {
        "id": job.number,
        "why": _with_kept(why_make(job, why, attempts), job),
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
        "files": file_rows((job.array.payload if job.array_id else job.payload).files),
    }


def _slowed(job: Job) -> list[SlowedRow]:
    def called(other: Job) -> str:
        return "this job" if other.pk == job.pk else named(other, job)

    def link(other: Job) -> str | None:
        shown = other.pk != job.pk and other.tenant_id == job.tenant_id
        return reverse("job-detail", args=[other.number]) if shown else None

    return slowed_rows(of_job(job), called, link)


def timeline_part(job: Job) -> TimelinePartContext:
    """Fill the timeline alone: it moves on by itself while the job runs."""
    attempts, profiles = list(attempts_of(job)), list(profiles_of(job))
    timeline = timeline_make(job=job, attempts=attempts, profiles=profiles)
    return {"id": job.number, "timeline": timeline, "plots": _plots(job, attempts)}


def log_choices(job: Job) -> JobLogContext:
    return {"id": job.number, "log": _log(job, list(attempts_of(job)))}


def _with_kept(why: WhyContext | None, job: Job) -> WhyContext | None:
    if why is not None and job.state not in FINAL:
        why["note"] = why["note"] or kept_note(job=job)
    return why


def _since(job: Job, attempts: Sequence[Attempt]) -> Since:
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


def _actions(job: Job) -> list[ActionButton]:
    running = job.state in LIVE
    confirm = {
        "cancel": f"Cancel job {job.number}?" + (" It is stopped on its node." if running else ""),
        "requeue": f"Stop job {job.number} and let it wait again?",
    }
    return [
        {"verb": verb, "label": _label(job, verb), "confirm": confirm.get(verb), "disabled": None}
        for verb in reversed(actions_of(job))
    ]


def _label(job: Job, verb: Verb) -> str:
    return f"Retry {failed_count(job)} failed" if verb == "retry" and job.array_size else LABELS[verb]


def _software(job: Job) -> Fact:
    software = software_of(job)
    fact: Fact = {"label": "Software", "value": software_words(software)}
    if software and job.state == JobState.STARTING:
        fact["note"] = "being made ready; the log tells how far"
    return fact


def _facts(job: Job, attempts: Sequence[Attempt]) -> list[Fact]:
    words = gpus_words(job, attempts[0] if attempts else None)
    gpus = words if isinstance(words, str) else "".join(part["text"] for part in words)
    facts: list[tuple[str, Any]] = [
        ("Tenant", job.tenant.name),
        ("Owner", job.owner.username),
        ("Category", job.category),
        ("GPUs", gpus.removeprefix("needs ")),
        ("Types", ", ".join(job.gpu_types) or ("any" if job.gpus != [0] else None)),
        ("Cores", _cores(job)),
        ("Memory", f"{job.memory_mib / GIB_MIB:.1f} GiB" if job.memory_mib else None),
        ("Disk", f"{job.disk_gib:g} GiB" if job.disk_gib else None),
        ("Time limit", _hours(job.time_limit_s)),
        ("Grace", _grace(job)),
        ("Model", job.model or None),
        ("Priority", job.priority or None),
        ("Labels", ", ".join(f"{key}={value}" for key, value in job.labels.items()) or None),
        ("Array", f"{job.array_size} tasks" if job.array_size else None),
        ("Runs again", _again(job)),
        ("Records its iterations", "yes" if job.instrumented else None),
    ]
    shown: list[Fact] = [{"label": label, "value": str(value)} for label, value in facts if value is not None]
    shown.append(_software(job))
    shown += _sharing(job)
    if job.array_id:
        shown.append(
            {"label": "Task of", "value": f"#{job.array_id}", "href": reverse("job-detail", args=[job.array_id])}
        )
    after = job.dependencies.values_list("on_id", flat=True)
    shown += [{"label": "After", "value": f"#{on_id}", "href": reverse("job-detail", args=[on_id])} for on_id in after]
    return [*shown, {"label": "Submitted", "value": "", "at": job.submitted_at.isoformat()}]


def _sharing(job: Job) -> list[Fact]:
    """Return the part of a GPU that it asks for, and with whom it shares one now; others' jobs are counted only."""
    if not job.shareable or job.gpu_compute is None:
        return []
    waits = "its answers are waited for" if job.latency_class == Job.LatencyClass.LATENCY else ""
    asked: Fact = {"label": "Part of a GPU", "value": part_words(job.gpu_compute, job.gpu_memory_mib), "note": waits}
    place = place_of(job)
    if place is None:
        return [asked]
    own = [f"#{each.number}" for each in place.beside if each.tenant_id == job.tenant_id]
    names = names_words(own, len(place.beside) - len(own)) or "nobody now"
    held = part_words(place.compute, place.memory_mib)
    return [
        asked,
        {"label": f"Shares {place.node} GPU {place.gpu}", "value": f"with {names}", "note": f"it has {held}"},
    ]


def _cores(job: Job) -> str | int | None:
    if not job.cores_per_gpu:
        return job.cores
    return f"{'exactly ' if job.cores_exactly else ''}{job.cores_per_gpu} a GPU"


def _grace(job: Job) -> str | None:
    """Say what it has from SIGTERM to SIGKILL, and whether it once needed more: where it may be stopped to run again."""
    if job.overran_epoch is not None:
        more = "; not resized again" if job.checkpointable and len(job.gpus) > 1 else ""
        return f"{grace_of(job)} s, overrun by attempt {job.overran_epoch}{more}"
    return f"{grace_of(job)} s" if job.is_requeueable or job.grace_s is not None else None


def _again(job: Job) -> str | None:
    if job.checkpointable:
        return "from its checkpoint"
    return "from zero" if job.restartable else None


def _hours(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    minutes = seconds / 60
    return f"{minutes / 60:.3g} h" if minutes >= 60 else f"{minutes:.3g} min"


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


def _attempt(attempt: Attempt) -> AttemptRow:
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
        "exit": f"exit {attempt.exit_code}" if attempt.exit_code is not None else None,
        "cause": attempt_cause(attempt),
        "restart_s": attempt.restart_s,
    }


def events_make(job: Job) -> list[EventRow]:
    return [{"at": event.at.isoformat(), "text": event.text} for event in job.events.order_by("-id")[:EVENTS_SHOWN]]


def _log(job: Job, attempts: Sequence[Attempt]) -> LogContext | None:
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
