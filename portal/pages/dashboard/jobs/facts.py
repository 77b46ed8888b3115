"""The facts of a job's page: its request, with a label and a value for each field, and its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.parts.formatting import GIB_MIB, count_of
from portal.pages.dashboard.parts.neighbours import beside_words, part_words, place_of
from portal.pages.dashboard.parts.plain import sizes
from portal.work.jobs.declaration.table import PLAIN
from portal.work.jobs.fields.code import code_words
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import brought_of
from portal.work.jobs.sizes import grace_of
from portal.work.jobs.software import software_words
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.dashboard.parts.context import Fact
    from portal.work.jobs.declaration.table import JobField


def file_rows(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the names with their sizes, by name."""
    return [{"name": name, "size_bytes": decoded_bytes(data)} for name, data in sorted(files.items())]


def decoded_bytes(data: str) -> int:
    """Return how many bytes a base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


OWN_WORDS = frozenset(
    """
        name cores cores_per_gpu cores_exactly grace_s checkpointable restartable shareable gpu_memory_mib latency_class
    """.split()
)
"""Plain fields that the page tells in words of their own."""


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


def facts_asked(job: Job) -> list[tuple[str, str]]:
    """Return labels and values of the request, without fields that it does not give."""
    facts: list[tuple[str, Any]] = [
        ("Tenant", job.tenant.name),
        ("Owner", job.owner.username),
        ("GPUs", "none" if job.gpus == [0] else sizes(job.gpus)),
        ("Types", ", ".join(job.gpu_types) or ("any" if job.gpus != [0] else None)),
        ("Cores", _cores(job)),
        *((field.label, _plain(field, job)) for field in PLAIN if field.name not in OWN_WORDS),
        ("Learning rate", json.dumps(job.learning_rate, sort_keys=True) if job.learning_rate else None),
        ("Grace", _grace(job)),
        ("Labels", ", ".join(f"{key}={value}" for key, value in job.labels.items()) or None),
        ("Array", _array(job)),
        ("Runs again", _again(job)),
    ]
    return [(label, str(value)) for label, value in facts if value is not None]


def _plain(field: JobField, job: Job) -> str | None:
    """Return a field's value in the words of its kind and unit; None for nothing, and for the default."""
    value = getattr(job, field.name)
    if value is None or value == field.default:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.kind == "time":
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if field.unit in {"s", "min", "h"}:
        return _hours(value)
    if field.unit == "gib":
        return f"{value / GIB_MIB:.1f} GiB" if field.name.endswith("_mib") else f"{value:g} GiB"
    return str(value)


def _array(job: Job) -> str | None:
    at_once = f", {job.array_concurrency} at a time" if job.array_concurrency else ""
    return f"{job.array_size} tasks{at_once}" if job.array_size else None


def facts_make(job: Job, cores: str | None = None) -> list[Fact]:
    """Return its facts. `cores`: the text about its cores, in place of the number asked."""
    told = dict(facts_asked(job)) | ({"Cores": cores} if cores else {})
    shown: list[Fact] = [{"label": label, "value": value} for label, value in told.items()]
    shown += _brought(job)
    shown += _sharing(job)
    if job.array_id:
        shown.append(
            {"label": "Task of", "value": f"#{job.array_id}", "href": reverse("job-detail", args=[job.array_id])}
        )
    return [*shown, {"label": "Submitted", "value": "", "at": job.submitted_at.isoformat()}]


def asked_make(job: Job, cores: str | None) -> dict[str, Any]:
    """Fill the folded row of its request: all that it asked for, and in its closed line what most wants to be seen."""
    facts = facts_make(job, cores)
    told = {fact["label"]: fact["value"] for fact in facts}
    words = [f"{told[label]} {word}".rstrip() for label, word in SEEN.items() if label in told]
    words = [*words[:3], told["Cores"] if cores is None else f"cores: {cores}"] if "Cores" in told else words[:3]
    return {"facts": facts, "words": ", ".join(words) or "nothing but its GPUs"}


SEEN = {
    "Memory": "of memory",
    "Time limit": "at most",
    "Disk": "of disk",
    "Grace": "to stop",
    "Model label": "",
}
"""The labels of the closed line, with the words behind their values."""


def _sharing(job: Job) -> list[Fact]:
    """Return the part of a GPU that it asks for, and its present neighbours there; foreign jobs are only counted."""
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


def _cores(job: Job) -> str | None:
    if not job.cores_per_gpu:
        return count_of(job.cores, "core") if job.cores else None
    return f"{'exactly ' if job.cores_exactly else ''}{count_of(job.cores_per_gpu, 'core')} a GPU"


def _grace(job: Job) -> str | None:
    """Say what it has from SIGTERM to SIGKILL, and whether it once needed more: where it may be stopped to run again."""
    if job.overran_epoch is not None:
        more = "; not resized again" if job.checkpointable and len(job.gpus) > 1 else ""
        return f"{grace_of(job)} s, overrun by run {job.overran_epoch}{more}"
    return f"{grace_of(job)} s" if job.is_requeueable or job.grace_s is not None else None


def _again(job: Job) -> str | None:
    if job.checkpointable:
        return "from its checkpoint"
    return "from zero" if job.restartable else None


def _hours(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.3g} h" if minutes >= 60 else f"{minutes:.3g} min"
