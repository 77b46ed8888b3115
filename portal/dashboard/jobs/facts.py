"""The facts of a job's page: what it asks for, one label and value each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.dashboard.jobs.rows import gpus_words
from portal.dashboard.parts.formatting import GIB_MIB
from portal.dashboard.parts.gpu_sharing import beside_words, part_words, place_of
from portal.jobs.fields.code import code_words
from portal.jobs.models import Job
from portal.jobs.selectors import brought_of
from portal.jobs.sizes import grace_of
from portal.jobs.software import software_words
from portal.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.dashboard.parts.context import Fact
    from portal.jobs.models import Attempt


def _brought(job: Job) -> list[Fact]:
    """Return where its code comes from, its software and the names of its secrets."""
    software, code, secrets = brought_of(job)
    ready = software or "git" in code
    fact: Fact = {"label": "Software", "value": software_words(software)}
    if ready and job.state == JobState.STARTING:
        fact["note"] = "being made ready; the log tells how far"
    found: list[Fact] = [fact]
    if code:
        commit = code.get("commit", "")
        found.insert(0, {"label": "Code", "value": code_words(code), "note": f"commit {commit[:12]}" if commit else ""})
    if secrets:
        found.append(
            {"label": "Secrets", "value": ", ".join(f"{variable} from {name}" for variable, name in secrets.items())}
        )
    return found


def facts_asked(job: Job, attempts: Sequence[Attempt] = ()) -> list[tuple[str, str]]:
    """Return labels and values of what it asks for; of what it does not say there are none."""
    words = gpus_words(job, attempts[0] if attempts else None)
    gpus = words if isinstance(words, str) else "".join(part["text"] for part in words)
    facts: list[tuple[str, Any]] = [
        ("Tenant", job.tenant.name),
        ("Owner", job.owner.username),
        ("Category", job.category),
        ("GPUs", "none" if job.gpus == [0] else gpus.removeprefix("needs ")),
        ("Types", ", ".join(job.gpu_types) or ("any" if job.gpus != [0] else None)),
        ("Cores", _cores(job)),
        ("Memory", f"{job.memory_mib / GIB_MIB:.1f} GiB" if job.memory_mib else None),
        ("Disk", f"{job.disk_gib:g} GiB" if job.disk_gib else None),
        ("Time limit", _hours(job.time_limit_s)),
        ("Idle time-out", _hours(job.idle_timeout_s)),
        ("Grace", _grace(job)),
        ("Model", job.model or None),
        ("Priority", job.priority or None),
        ("Labels", ", ".join(f"{key}={value}" for key, value in job.labels.items()) or None),
        ("Array", f"{job.array_size} tasks" if job.array_size else None),
        ("Runs again", _again(job)),
        ("Records its iterations", "yes" if job.instrumented else None),
    ]
    return [(label, str(value)) for label, value in facts if value is not None]


def facts_make(job: Job, attempts: Sequence[Attempt]) -> list[Fact]:
    shown: list[Fact] = [{"label": label, "value": value} for label, value in facts_asked(job, attempts)]
    shown += _brought(job)
    shown += _sharing(job)
    if job.array_id:
        shown.append(
            {"label": "Task of", "value": f"#{job.array_id}", "href": reverse("job-detail", args=[job.array_id])}
        )
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
    names = beside_words(job, place) or "nobody now"
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
