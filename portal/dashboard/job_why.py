"""Why a job waits, where it runs, how it ended: the sentence first, then the numbers the scheduler recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.dashboard.job_remedies import remedy_for
from portal.jobs.states import LIVE, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.dashboard.context import Fact
    from portal.dashboard.job_context import Candidate, NumbersContext, WhyContext
    from portal.jobs.models import Attempt, Job


def why_make(job: Job, why: dict[str, Any], attempts: Sequence[Attempt]) -> WhyContext | None:
    if job.state in QUEUED:
        return _why_waits(why)
    if job.state in LIVE:
        return _why_shape("Where it runs", why, sentence=why["sentence"] or "It is being started.")
    if job.array_size:
        return None
    return {
        **_why_shape("How it ended", {}, sentence=_end_sentence(job, attempts)),
        "at": job.ended_at.isoformat() if job.ended_at else None,
        "remedy": remedy_for(job),
    }


def _why_waits(why: dict[str, Any]) -> WhyContext:
    title = "Why it is held" if why["state"] == JobState.HELD else "Why it waits"
    return {**_why_shape(title, why, sentence=why["sentence"]), "reason": why["reason"]}


def _why_shape(title: str, why: dict[str, Any], *, sentence: str) -> WhyContext:
    number = why.get("planning")
    return {
        "title": title,
        "reason": None,
        "planning_number": number,
        "planning_url": reverse("planning-detail", args=[number]) if number else None,
        "at": why["at"].isoformat() if why.get("at") else None,
        "sentence": sentence,
        "note": None,
        "remedy": None,
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
    times = f" in attempt {job.epoch}" if job.epoch > 1 else ""
    detail = f": {job.end_detail}" if job.end_detail and job.state != JobState.COMPLETED else ""
    ran = ""
    if attempts and attempts[0].started_at and attempts[0].ended_at:
        ran = f" after {_span((attempts[0].ended_at - attempts[0].started_at).total_seconds())}"
    return f"{word}{times}{ran}{detail}."


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def numbers_make(job: Job, why: dict[str, Any]) -> NumbersContext | None:
    """Show what the scheduler saw: only figures that it recorded."""
    if why["age_s"] is None or job.array_size:
        return None
    figures: list[Fact] = [
        {"label": "Wait", "value": _span(why["wait_s"]), "note": "eligible waiting, all attempts"},
        {"label": "Age, expected run time", "value": _span(why["age_s"]), "note": f"source: {why['age_source']}"},
    ]
    if why["latency_ratio"] is not None:
        figures.append({"label": "Latency ratio", "value": f"{why['latency_ratio']:.2f}", "note": "wait / age"})
    if why["rank"] is not None:
        figures.append({"label": "Rank", "value": f"{why['rank']} of {why['queue_length']}", "note": "in the queue"})
    if why["inside_window"] is not None and why["rank"] is not None:
        figures.append({"label": "Window", "value": "inside" if why["inside_window"] else "outside", "note": None})
    return {
        "figures": figures,
        "throughput_unit": "speed, relative",
        "candidates": _candidates(why),
        "binding": _binding(why["figures"]),
        "json_url": reverse("job-explain", args=[job.number]),
    }


def _candidates(why: dict[str, Any]) -> list[Candidate]:
    figures = why["figures"]
    rows = []
    if figures.get("nodes") and isinstance(figures["nodes"], dict) and why["placement"]:
        rows.append(_candidate(figures, verdict="chosen", result=f"{figures.get('source', '')} throughput"))
    if rejected := figures.get("best_rejected"):
        if not rows:
            rows.append(_not_placed())
        rows.append(_candidate(rejected, verdict="best-rejected", result=f"{rejected.get('source', '')} throughput"))
    return rows


def _not_placed() -> Candidate:
    empty = dict.fromkeys(("gpus", "cores", "throughput", "goodness", "weighted", "objective", "loss"))
    return {"configuration": "not placed in this planning", **empty, "verdict": "chosen", "result": ""}


def _candidate(figures: dict[str, Any], *, verdict: str, result: str) -> Candidate:
    nodes = figures["nodes"]
    return {
        "configuration": " + ".join(f"{name} \u00d7 {part['gpus'] or 'CPU'}" for name, part in nodes.items()),
        "gpus": str(sum(part["gpus"] for part in nodes.values())),
        "cores": str(sum(part["cores"] for part in nodes.values())),
        "throughput": f"{figures['throughput']:.2f}" if figures.get("throughput") is not None else None,
        "goodness": figures.get("gain"),
        "weighted": figures.get("value"),
        "objective": None,
        "loss": None,
        "verdict": verdict,
        "result": result,
    }


def _binding(figures: dict[str, Any]) -> Any:
    binding = figures.get("binding")
    if not binding:
        return None
    words = {"gpus": "GPUs", "cores": "Cores", "memory_mib": "Memory (MiB)"}
    what = words.get(binding["resource"], binding["resource"].replace("_", " "))
    where = f" of {binding['node']}" if binding.get("node") else ""
    return [
        {"text": f"Binding constraint: {what}{where}. ", "bold": True},
        {"text": f"It needs {binding['needed']}; {binding['available']} are left in the final plan."},
    ]
