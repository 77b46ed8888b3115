"""Why a job waits, where it runs, how it ended and the remedy: the sentence above the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.foundation.environment import env
from portal.pages.dashboard.jobs.numbers import span_words
from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import duration
from portal.pages.dashboard.queue.page import PAGE_ROWS, record_words
from portal.planning.rounds.read.figures import queue_words
from portal.planning.rounds.read.forecasts import Start
from portal.work.jobs.idle.using import IDLE_END
from portal.work.jobs.states import LIVE, QUEUED, JobState, shell_code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from portal.pages.dashboard.parts.context import Rich, StartsContext
    from portal.work.jobs.models import Attempt, Job

EXIT_CODES = {
    1: "The command reported an error: its last lines on stderr say which.",
    2: "Usually wrong arguments: look at the command line.",
    126: "The command was found but could not be run: is the file executable (chmod +x)?",
    127: "The command was not found on the node: give its full path, or put it into the job's files.",
    134: "The program ended itself (SIGABRT): its last lines on stderr say why.",
    137: "It was killed (SIGKILL), often because memory ran out: ask for more memory_mib.",
    139: "It crashed (SIGSEGV): often a wrong native library for this node.",
    143: "It ended on SIGTERM without writing a result; a job that checkpoints should exit 0 after it.",
}


def remedy_for(job: Job) -> str | None:
    """Return one or two sentences, None when there is nothing to do."""
    if job.state == JobState.OUT_OF_MEMORY:
        return _for_memory(job)
    if job.state == JobState.TIMEOUT:
        return _for_time(job)
    if job.state == JobState.NODE_FAIL:
        if job.is_requeueable:
            return f"It lost its node {job.requeues + 1} times, which is more than max_requeues allows; edit and relaunch it."
        return "Mark it checkpointable or restartable. Berth then starts it again by itself when its node is lost."
    if job.state == JobState.FAILED and "(disk_gib)" in job.end_detail:
        return "Let it write less or delete what it no longer needs, or submit it with more disk_gib."
    if job.state == JobState.CANCELLED and job.end_detail.endswith(" did not complete"):
        return (
            "It waited for that job to complete. A retry of that job does not bring this one back: edit and relaunch it. "
            "A job that should run however the other one ends waits for it with the kind `any`."
        )
    code = shell_code(job.exit_code, job.signal)
    return EXIT_CODES.get(code) if job.state == JobState.FAILED and code is not None else None


def _for_time(job: Job) -> str:
    if job.end_detail.endswith(IDLE_END):
        return "Submit it again when you need it, or with a longer idle_timeout_s. What it wrote for keeping is kept."
    more = "" if job.checkpointable else " If it can resume from a checkpoint, mark it checkpointable."
    return f"Submit it with a longer time_limit_s.{more}"


def _for_memory(job: Job) -> str:
    if "(gpu_memory_mib)" in job.end_detail:
        return "Ask for more gpu_memory_mib, or make batches smaller; a job that shares no GPU has all of its memory."
    return "Ask for more memory_mib, or make batches smaller; the memory plot shows how it grew."


def why_make(job: Job, why: dict[str, Any], attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    if job.state in QUEUED:
        return _why_waits(why)
    if job.state in LIVE:
        shape = _why_shape("Where it runs", why, sentence=why["sentence"] or "It is being started.")
        return {**shape, "note": silent_words(attempts[0], timezone.now()) if attempts else None}
    if job.array_size:
        return None
    return {
        **_why_shape("How it ended", {}, sentence=_end_sentence(job, attempts)),
        "at": job.ended_at.isoformat() if job.ended_at else None,
        "remedy": remedy_for(job),
    }


def silent_words(attempt: Attempt, now: datetime) -> str | None:
    """Say that nodes of a live attempt are silent, and the consequences; None while all are heard."""
    live = [part for part in attempt.allocations.all() if part.released_at is None]
    silent = [part for part in live if not part.node.is_reachable]
    if not silent:
        return None
    heard = [part.node.last_contact_at for part in silent if part.node.last_contact_at]
    since = f" for {duration((now - min(heard)).total_seconds())}" if heard else ""
    names = " and ".join(part.node.name for part in silent)
    said = f"Berth has not heard {names}{since}, so what is shown here may be old; the job may still run there."
    ends = [part.lease_until for part in silent if part.lease_until]
    if not ends:
        return (
            f"{said} It is not ended for that: it stays until its node is back, or an operator declares the node dead."
        )
    left_s = (min(ends) - now).total_seconds() + env("BERTH_LEASE_GRACE_S")
    return f"{said} Without word its attempt counts as lost {f'in {duration(left_s)}' if left_s > 0 else 'soon'}."


def _why_waits(why: dict[str, Any]) -> dict[str, Any]:
    title = "Why it is held" if why["state"] == JobState.HELD else "Why it waits"
    shape = _why_shape(title, why, sentence=why["sentence"])
    return {
        **shape,
        "reason": why["reason"],
        "ahead": _ahead(why),
        "starts": _starts(why),
        "no_starts": why["predicted_start_missing"],
    }


def _ahead(why: dict[str, Any]) -> Rich | None:
    """Say its place in the queue, with a link to it there."""
    if why["place"] is None:
        return None
    array, page = why["array"], (why["place"] - 1) // PAGE_ROWS + 1
    url = f"{reverse('queue')}{f'?{array}={page}' if page > 1 else ''}#queue-{array}"
    words = queue_words(why)
    return [{"text": words[0].upper() + words[1:], "href": url}, {"text": "."}]


def _starts(why: dict[str, Any]) -> StartsContext | None:
    found = starts_make(Start(**why["predicted_start"]) if why["predicted_start"] else None)
    return {**found, "record": record_words(why["past_predictions"])} if found else None


def _why_shape(title: str, why: dict[str, Any], *, sentence: str) -> dict[str, Any]:
    number = why.get("planning")
    return {
        "title": title,
        "reason": None,
        "planning_number": number,
        "planning_url": reverse("planning-detail", args=[number]) if number else None,
        "at": why["at"].isoformat() if why.get("at") else None,
        "sentence": sentence,
        "note": None,
        "ahead": None,
        "remedy": None,
        "starts": None,
        "no_starts": None,
    }


def _end_sentence(job: Job, attempts: Sequence[Attempt]) -> str:
    word = {
        JobState.COMPLETED: "Completed",
        JobState.FAILED: "Failed",
        JobState.TIMEOUT: "Stopped at its time limit",
        JobState.CANCELLED: "Cancelled",
        JobState.OUT_OF_MEMORY: "Stopped for using more memory than it asked for",
        JobState.NODE_FAIL: "Lost with its node",
    }[JobState(job.state)]
    if "(gpu_memory_mib)" in job.end_detail or job.end_detail.endswith(IDLE_END):
        word = "Stopped"  # the detail has the reason
    times = f" in attempt {job.epoch}" if job.epoch > 1 else ""
    detail = f": {job.end_detail}" if job.end_detail and job.state != JobState.COMPLETED else ""
    ran = ""
    if attempts and attempts[0].started_at and attempts[0].ended_at:
        ran = f" after {span_words((attempts[0].ended_at - attempts[0].started_at).total_seconds())}"
    return f"{word}{times}{ran}{detail}."
