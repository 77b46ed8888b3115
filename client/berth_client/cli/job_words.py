"""A job, its explanation and a plan as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.cli.output import (
    Columns,
    counted,
    facts,
    lasting,
    listed,
    memory,
    seconds_between,
    sentence,
    table,
    when,
)
from berth_client.fields import SHOWN
from berth_client.jobs import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from berth_client.shapes import Attempt, Explanation, Job, JobDetail, Plan


def _time(job: Job) -> str | None:
    """Return how long it has waited while it waits, else how long it has run."""
    if job["started_at"] is None:
        return lasting(job["waited_s"])
    return lasting(seconds_between(job["started_at"], job["ended_at"]))


def _where(job: Job) -> str:
    """Return where it runs, why it waits, or how it ended; of an array, how many tasks are in which state."""
    if job["array_counts"]:
        return ", ".join(f"{tasks} {state}" for state, tasks in job["array_counts"].items() if tasks)
    if job["state"] in FINAL:
        return "" if job["exit_code"] == 0 else _code_words(job)
    return listed(job["nodes"]) or job["reason"]


COLUMNS = Columns(
    short=(
        ("job", lambda job: job["number"]),
        ("name", lambda job: job["name"]),
        ("owner", lambda job: job["owner"]),
        ("state", lambda job: job["state"]),
        ("gpus", lambda job: listed(job["gpus"])),
        ("time", _time),
        ("where or why", _where),
    ),
    wide=(
        ("tenant", lambda job: job["tenant"]),
        ("priority", lambda job: job["priority"]),
        ("types", lambda job: listed(job["gpu_types"]) or "any"),
        ("cores", lambda job: job["cores_per_gpu"] or job["cores"]),
        ("memory", lambda job: memory(job["memory_mib"])),
        ("limit", lambda job: lasting(job["time_limit_s"])),
        ("LR", lambda job: job["latency_ratio"]),
        ("submitted", lambda job: when(job["submitted_at"])),
        ("started", lambda job: when(job["started_at"])),
        ("ended", lambda job: when(job["ended_at"])),
        ("labels", lambda job: listed([f"{name}={value}" if value else name for name, value in job["labels"].items()])),
    ),
    name=lambda job: str(job["number"]),
)


WORDS: dict[str, Callable[[Any], object]] = {
    "duration": lasting,
    "mib": memory,
    "gib": lambda gib: None if gib is None else f"{gib:g} GiB",
    "number": lambda value: value,
    "time": when,
}


def job_facts(job: JobDetail, *, wide: bool = False) -> str:
    """Return one job as text: its request, its progress and its attempts."""
    found = facts(
        [
            ("job", f"{job['number']}, {job['name']}"),
            ("owner", f"{job['owner']}, of {job['tenant']}"),
            ("state", _state(job)),
            ("GPUs", f"{listed(job['gpus'])} of {listed(job['gpu_types']) or 'any type'}"),
            ("cores", job["cores"] or (f"{job['cores_per_gpu']} a GPU asked" if job["cores_per_gpu"] else None)),
            *((label, WORDS[kind](job.get(field))) for label, field, kind in SHOWN),
            ("priority", job["priority"] or None),
            ("waits for", listed([each["job"] for each in job["depends_on"]])),
            ("submitted", when(job["submitted_at"])),
            ("started", when(job["started_at"])),
            ("ended", when(job["ended_at"])),
            ("waited", lasting(job["waited_s"])),
            ("progress", _progress(job)),
            *(_more(job) if wide else ()),
        ]
    )
    if not job["attempts"]:
        return found
    columns = ("attempt", "state", "GPUs", "cores", "nodes", "began", "took", "ended by")
    rows = [_attempt(each) for each in job["attempts"]]
    return f"{found}\n{table(columns, rows)}\n"


def _more(job: JobDetail) -> list[tuple[str, Any]]:
    return [
        ("model", job["model"]),
        ("category", job["category"]),
        ("directory", job["working_directory"]),
        ("files", listed([each["name"] for each in job["files"]])),
        ("labels", listed([f"{name}={value}" for name, value in job["labels"].items()])),
        ("may resume", "yes" if job["checkpointable"] else None),
        ("command", job["command"].replace("\n", "; ")),
    ]


def _state(job: JobDetail) -> str:
    if job["array_counts"]:
        return f"{job['state']}: {_where(job)}"
    if job["state"] in FINAL:
        return ", ".join([job["state"], *filter(None, [end_words(job)])])
    more = f" on {listed(job['nodes'])}" if job["nodes"] else f": {job['reason']}" if job["reason"] else ""
    stopping = ", being stopped" if job["cancel_requested_at"] else ""
    return f"{job['state']}{more}{stopping}"


def end_words(job: JobDetail) -> str:
    """Return how a job ended: its exit code or signal, and the reason if one is known."""
    code = _code_words(job)
    detail = "" if job["end_detail"] == code.replace("exit code", "exit") else job["end_detail"]
    return ", ".join(filter(None, (code, detail)))


def _code_words(ended: Job | Attempt) -> str:
    if ended.get("signal"):
        return f"signal {ended['signal']}"
    return "" if ended["exit_code"] is None else f"exit code {ended['exit_code']}"


def _progress(job: JobDetail) -> str | None:
    progress = job["progress"]
    return f"{100 * progress['fraction']:.0f} %" if progress and progress["samples_total"] else None


def _attempt(attempt: Attempt) -> list[Any]:
    ended_by = attempt["end_detail"] or attempt["stop_reason"] or _code_words(attempt).replace("exit code 0", "")
    took = lasting(seconds_between(attempt["started_at"], attempt["ended_at"]))
    nodes = listed([each["node"] for each in attempt["parts"]])
    held = attempt["gpus"], attempt["cores"], nodes
    return [attempt["epoch"], attempt["state"], *held, when(attempt["started_at"]), took, ended_by]


def format_explanation(found: Explanation) -> str:
    """Return why a job waits, or where it was placed, as text."""
    changes, end = found.get("what_would_start"), found.get("expected_end") or {}
    lines = facts(
        [
            ("reason", found.get("reason")),
            ("place", place_words(found)),
            ("waited", lasting(found.get("wait_s"))),
            ("expected run time", lasting(found.get("age_s"))),
            ("latency ratio", found.get("latency_ratio")),
            ("expected start", start_words(found.get("predicted_start")) or found.get("predicted_start_missing")),
            ("expected end", start_words(end) or when(end.get("median_at"))),
            ("that end is", end.get("words")),
        ]
    )
    text = f"{sentence(found.get('sentence') or 'Nothing is known of it yet.')}\n\n{lines}"
    if larger := found.get("larger_sentence"):
        text += f"\n{sentence(larger)}\n"
    if changes is not None:
        text += "\nThese changes would start it:\n" + "".join(
            f"  {sentence(each['sentence'])}\n" for each in changes or NO_CHANGE
        )
    return text


NO_CHANGE = ({"sentence": "no single change that was tried"},)


QUEUES = {
    "gpu-large": "jobs of 4 GPUs and more",
    "gpu-small": "jobs of 1 to 3 GPUs",
    "cpu": "CPU jobs",
    "gpu": "GPU jobs",
}
"""Labels of the waiting tasks; the portal's own names are for programs."""


def place_words(found: Mapping[str, object]) -> str | None:
    """For example: 2 of 5 in the queue for jobs of 1 to 3 GPUs. None: it stands in no queue."""
    queue, place = found.get("queue"), found.get("place")
    if not queue or not place:
        return None
    return f"{place} of {found.get('queue_length')} in the queue for {QUEUES.get(str(queue), queue)}"


def plan_words(found: Plan) -> str:
    placed = [
        f"{each['node']}: {counted(each['gpus'], 'GPU')}, {counted(each['cores'], 'core')}"
        for each in found["placement"] or ()
    ]
    lines = facts(
        [
            ("would start", "with the next planning" if found["placeable"] else "later"),
            ("on", "; ".join(placed)),
            ("reason", found["reason"]),
            ("place", place_words(found)),
            ("expected start", None if found["placeable"] else start_words(found["start"])),
        ]
    )
    told = similar_words(found.get("similar"))
    return f"{sentence(found['sentence'])}\n\n{lines}" + (f"\n{told}\n" if told else "")


def similar_words(similar: Any) -> str:
    """Return the run times of similar jobs, and how to declare theirs; "" where they are not known."""
    if not similar:
        return ""
    low, high, middle_s = lasting(similar["low_s"]), lasting(similar["high_s"]), similar["declare_s"]
    took = f"took {low}" if low == high else f"mostly took {low} to {high}"
    middle = (
        f"{middle_s}s" if middle_s < 120 else f"{middle_s // 60}min" if middle_s < 7200 else f"{middle_s / 3600:g}h"
    )
    return f"{similar['words']} {took}; declare it by --expected {middle}."


def start_words(start: Any) -> str | None:
    """Return a range of times; None when there is none."""
    if not start or not start.get("earliest_at"):
        return None
    latest = start.get("latest_at")
    if start.get("passed"):
        return f"overdue: expected {when(start['earliest_at'])} to {when(latest)}"
    return f"{when(start['earliest_at'])} to {when(latest) if latest else 'beyond what was simulated'}"
