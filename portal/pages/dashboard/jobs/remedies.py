"""Remedies for a job that did not complete: an end comes with its cause and a suggestion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.work.jobs.idle.using import IDLE_END
from portal.work.jobs.states import JobState, shell_code

if TYPE_CHECKING:
    from portal.work.jobs.models import Job

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
