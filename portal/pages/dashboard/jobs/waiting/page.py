"""Fill a waiting job's cards: its expected start, the steps before it, and the changes that would end it sooner."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.chain.page import KIND_WORDS
from portal.pages.dashboard.jobs.waiting.changes import changes_make
from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import count_of, counted
from portal.pages.dashboard.parts.neighbours import kept_note
from portal.pages.dashboard.parts.plain import reason_words
from portal.planning.offers.services import is_offered, offers_kept
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.forecasts import MARKS, Start, record_at
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.models import JobDependency
from portal.work.jobs.services.asked.dependencies import dependencies_open
from portal.work.jobs.states import FINAL, LIVE, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Rich
    from portal.planning.offers.services import Kept
    from portal.work.jobs.models import Job

STEPS = 5
"""Rows of the steps before the start, the start among them."""
CELLS = 16
ANOTHERS_JOB = "another tenant's job"
DONE = {"ok": "completes", "notok": "fails"}
TOGETHER_S = 90.0
"""A start that is expected so soon after an end is one step with it."""


def waiting_make(
    job: Job,
    kept: Kept | None = None,
    *,
    why: dict[str, Any] | None = None,
    said: dict[str, Any] | None = None,
    note: str | None = None,
) -> dict[str, Any] | None:
    """Fill the cards of a job that waits; None for any other. `kept`: offers just worked out; `why`: its explanation."""
    if job.state in FINAL | LIVE or job.array_size:
        return None
    why = explanation(job) if why is None else why
    kept = (kept or offers_kept(job)) if is_asked(job) else None
    told, now = Start(**why["predicted_start"]) if why["predicted_start"] else None, timezone.now()
    way = kept.answer["gathering"] if kept else None
    figures = JobNumbers().told(why["figures"])
    awaited = _awaited(job) if why["reason"] == "dependency" and "until_s" not in figures else []
    return {
        "number": job.number,
        **_start(job, told, figures, why, now),
        "sentence": _sentence(job, way, why["reason"], figures, awaited),
        "guessed": any(not end.get("known", True) for end in way["ends"]) if way else False,
        "note": kept_note(job=job),
        "steps": _steps_of_ends(way, told, now) if way else _steps_awaited(job, awaited, figures, told),
        "changes": changes_make(job, kept, told, said=said, note=note) if kept else None,
    }


def is_asked(job: Job) -> bool:
    """Say whether changes are worked out for it: no change of its own starts a job that waits for others."""
    return is_offered(job) and job.reason != "dependency"


def _start(job: Job, told: Start | None, figures: dict[str, Any], why: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return `about`, the time that stands large, None where it is not known; its range and record, or the cause."""
    starts = starts_make(told)
    card: dict[str, Any] = {"about": None, "before": "about", "range": None, "record": "", "cause": ""}
    if job.state == JobState.HELD:
        return card | {"cause": f"It is held{f' by {job.held_by}' if job.held_by else ''}."}
    if why["reason"] == "dependency" and "until_s" in figures:
        return card | {"about": _iso(figures["until_s"]), "before": "not before"}
    if told is None or starts is None:
        return card | {"cause": why["predicted_start_missing"] or ""}
    if told.passed:
        return card | {"range": starts}
    record = record_at(why["past_predictions"], (told.median_at - now).total_seconds()) if told.median_at else None
    is_known = record is not None and record["starts"] >= MARKS
    marks = record["last"] if record and is_known else []
    held = f"Of the last {len(marks)} such ranges {marks.count('held')} held." if marks else ""
    return card | {"about": starts["median"], "range": starts, "record": held}


def _sentence(
    job: Job, way: dict[str, Any] | None, reason: str | None, figures: dict[str, Any], awaited: list[JobDependency]
) -> Rich:
    """Say its need and the present offer."""
    if job.state == JobState.HELD:
        return "Release it to let it wait for its turn."
    if awaited:
        first, more = awaited[0], f" and {counted(len(awaited) - 1)} more" if len(awaited) > 1 else ""
        name, done = _named(first.on, job)["job"], KIND_WORDS[first.kind].partition(",")[0]
        return [{"text": "It waits until "}, {"text": f"{name}{more}", "bold": True}, {"text": f" {done}."}]
    if way:
        types = job.gpu_types
        need = f"{way['need']} {' or '.join(types)}" if 0 < len(types) < 3 else count_of(way["need"], "GPU")
        return [
            {"text": "It needs "},
            {"text": f"{need} on one node", "bold": True},
            {"text": ", and "},
            {"text": way["node"], "whole": True},
            {"text": f" has {counted(way['idle'])} free for it."},
        ]
    said = reason_words(reason, figures, tenant=job.tenant.name, within_s=float(knobs_current()["tick_s"]))
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _steps_of_ends(way: dict[str, Any], told: Start | None, now: datetime) -> dict[str, Any]:
    """Return the ends in the way, the last of them, and the start; `more`: how many are left out, and until when."""
    ends, need, now_s = way["ends"], way["need"], now.timestamp()
    start_s = told.median_at.timestamp() if told and told.median_at and not told.passed else None
    is_apart = start_s is not None and abs(start_s - ends[-1]["at"]) > TOGETHER_S
    room = STEPS - is_apart - (way["idle"] > 0)
    hidden = ends[:-room]
    rows = [] if not way["idle"] else [_step(None, now=True, done=True, text="free now", free=way["idle"], need=need)]
    rows += [
        _step(
            _iso(end["at"]),
            due=end["at"] < now_s,
            job=f"#{end['job']}" if end["job"] else ANOTHERS_JOB,
            url=reverse("job-detail", args=[end["job"]]) if end["job"] else None,
            text="ends" if end.get("known", True) else "may end",
            free=end["free"],
            need=need,
        )
        for end in ends[-room:]
    ]
    if is_apart and start_s is not None:
        rows.append(_step(_iso(start_s), free=need, need=need))
    rows[-1] |= {"last": True, "starts": start_s is not None}
    more = {"count": len(hidden), "at": _iso(hidden[-1]["at"])} if hidden else None
    return {"node": way["node"], "rows": rows, "more": more}


def _awaited(job: Job) -> list[JobDependency]:
    """Return its open dependencies, one more than is shown. One query."""
    found = JobDependency.objects.filter(dependencies_open(), job=job.array_id or job.pk).select_related("on")
    return list(found.order_by("on_id")[:STEPS])


def _steps_awaited(
    job: Job, awaited: list[JobDependency], figures: dict[str, Any], told: Start | None
) -> dict[str, Any] | None:
    """Return the jobs or the time that it waits for; None where it waits for its turn."""
    at = _iso(figures["until_s"]) if "until_s" in figures else None
    if not at and not awaited:
        return None
    shown = awaited[: STEPS - 1]
    rows = [_step(None, **_named(each.on, job), text=DONE.get(each.kind, "ends")) for each in shown]
    start = at or (told.median_at.isoformat() if told and told.median_at else None)
    rows.append(_step(start, last=True, starts=True))
    return {"node": None, "rows": rows, "more": {"count": "some", "at": None} if len(awaited) > len(shown) else None}


def _named(other: Job, job: Job) -> dict[str, Any]:
    if other.tenant_id != job.tenant_id:
        return {"job": ANOTHERS_JOB, "url": None}
    return {"job": f"#{other.number}", "url": reverse("job-detail", args=[other.number])}


def _step(at: str | None, *, free: int = 0, need: int = 0, **more: Any) -> dict[str, Any]:
    cells = [place < free for place in range(need)] if need <= CELLS else []
    return {"at": at, "cells": cells, "free": free, "need": need, **more}


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()
