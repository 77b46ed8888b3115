"""How a job ended that did not complete: its cause in a sentence, its last lines, and its remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import count_of, duration, memory
from portal.work.artefacts.selectors import artefacts_summary
from portal.work.jobs.failing.causes import Kind, cause_of
from portal.work.jobs.failing.lines import SHOWN, last_lines
from portal.work.jobs.failing.mending import job_mend
from portal.work.jobs.failing.remedies import remedies_of
from portal.work.jobs.listing import job_find
from portal.work.jobs.states import FINAL, JobState, end_words, shell_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest, HttpResponse

    from portal.pages.dashboard.parts.context import Segment
    from portal.work.jobs.failing.causes import Cause
    from portal.work.jobs.failing.remedies import Remedy
    from portal.work.jobs.models import Attempt, Job

CODES = {
    126: "Its command cannot be run: is the file executable (chmod +x)?",
    127: "Its command was not found.",
    134: "It ended itself (SIGABRT).",
    137: "It was killed (SIGKILL), often because its node ran out of memory.",
    139: "It crashed (SIGSEGV), often by a library that does not fit its node.",
    143: "It ended on SIGTERM without a result.",
}
"""The meaning of some of a shell's exit codes."""


PRINTS = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY})
"""Ends of which the job's own last lines may tell; of the others they tell what it did when it was stopped."""
KEEPS = frozenset({Kind.NODE, Kind.TIME, Kind.IDLE})
"""Causes that leave its results: the card says how many are kept."""


def remedy_for(job: Job) -> str | None:
    """Return a sentence for lists, from the end and not from the job's lines; None when there is nothing to do."""
    if found := remedies_of(job, cause_of(job)):
        return found[0].words
    return CODES.get(shell_code(job.exit_code, job.signal) or 0) if job.state == JobState.FAILED else None


def ended_make(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Fill the card of a job that ended, but did not complete: the cause, the last lines, the remedies. None for others."""
    if job.state not in FINAL or job.state == JobState.COMPLETED or job.array_size:
        return None
    lines = last_lines(attempts[0]) if attempts and job.state in PRINTS else []
    cause = cause_of(job, lines)
    at = cause.line if cause else None
    until = len(lines) if at is None or at >= len(lines) - SHOWN else at + 1
    shown = [{"text": text, "tells": at == place} for place, text in enumerate(lines)][max(0, until - SHOWN) : until]
    kept = artefacts_summary(job).files if cause and cause.kind in KEEPS else 0
    return {
        "sentence": [*_cause_words(job, cause, attempts), *_code_words(job, cause)],
        "kept": f"{count_of(kept, 'result')} {'is' if kept == 1 else 'are'} kept." if kept else "",
        "lines": shown,
        "remedies": [_remedy(job, each) for each in remedies_of(job, cause, attempts[0] if attempts else None)],
    }


def _remedy(job: Job, remedy: Remedy) -> dict[str, Any]:
    urls = {
        "submit": reverse("job-mend", args=[job.number]),
        "again": reverse("job-action", args=[job.number, "retry"]),
    }
    form = f"{reverse('job-submit')}?from={job.number}&mend={remedy.at}#id_{remedy.at}"
    return {
        "words": remedy.words,
        "note": remedy.note,
        "button": remedy.button,
        "post": urls.get(remedy.act),
        "url": None if remedy.act in urls else form,
    }


def _cause_words(job: Job, cause: Cause | None, attempts: Sequence[Attempt]) -> list[Segment]:
    """Say in a sentence what ended it, and name the thing."""
    detail = job.end_detail
    if cause is None:
        if job.state == JobState.CANCELLED:
            return [{"text": f"It was cancelled{f': {detail}' if detail else ''}."}]
        own = detail in {"", end_words(job.exit_code, job.signal)}
        return [] if own else [{"text": f"{detail[0].upper()}{detail[1:]}."}]
    head, name, tail = _named(job, cause, attempts)
    return [{"text": head}, {"text": name, "bold": True}, {"text": tail}]


def _named(job: Job, cause: Cause, attempts: Sequence[Attempt]) -> tuple[str, str, str]:
    """Return the sentence in three: before the thing, its name, behind it."""
    detail = job.end_detail.partition(" (")[0]
    limit = f" of the {memory(job.memory_mib)} that it asked for" if job.memory_mib else ""
    used = f": {detail.partition(': ')[2]}" if detail and cause.line is None else ""
    time = f"time limit of {duration(job.time_limit_s)}" if job.time_limit_s else "time limit"
    nodes = " and ".join(part.node.name for part in attempts[0].allocations.all()) if attempts else ""
    imported = f", which {cause.by} imports" if cause.by else ""
    known = {
        Kind.PACKAGE: ("Its software has no package ", cause.name, imported),
        Kind.MODULE: ("It found no module ", cause.name, imported),
        Kind.COMMAND: ("Its node has no command ", cause.name, ""),
        Kind.GPU_MEMORY: ("It ran ", "out of GPU memory", used),
        Kind.MEMORY: ("It ran ", "out of memory", limit),
        Kind.TIME: ("It reached its ", time, ""),
        Kind.NODE: ("It lost its node ", nodes, f": {detail}" if detail else ""),
        Kind.NODE_DISK: ("The disk that it wrote to ", "is full", ""),
        Kind.DEPENDENCY: ("It was cancelled: ", detail, ""),
    }
    head, name, tail = known.get(cause.kind, ("", f"{detail[:1].upper()}{detail[1:]}", ""))
    return head, name, f"{tail}."


def _code_words(job: Job, cause: Cause | None) -> list[Segment]:
    """Say the exit code behind the cause; with no cause what is known of the code."""
    if job.state != JobState.FAILED or (code := shell_code(job.exit_code, job.signal)) is None:
        return []
    how = f"exit code {job.exit_code}" if job.signal is None else f"signal {job.signal}"
    known = f" {CODES[code]}" if cause is None and code in CODES else ""
    return [{"text": f" It ended with {how}.{known}"}]


def job_run_mended(request: HttpRequest, number: str) -> HttpResponse:
    """Submit the job again with the remedy that is certain, and show the new one; say why where there is none."""
    job = job_find(user=request.user, number=number)
    try:
        made = job_mend(job=job, actor=request.user)
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        messages.error(request, error.detail)
        return redirect("job-detail", number=job.number)
    messages.success(request, f"Submitted again: job {made.number}.")
    return redirect("job-detail", number=made.number)
