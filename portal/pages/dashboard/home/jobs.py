"""My jobs in three groups of the same form: running, waiting, ended today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F, Prefetch
from django.urls import reverse

from portal.pages.dashboard.jobs.ended import remedy_for
from portal.pages.dashboard.jobs.query import MINE, WITHIN, ListQuery, states_named
from portal.pages.dashboard.jobs.rows import array_summary, gpus_words
from portal.pages.dashboard.parts.expected import ends_make
from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.dashboard.parts.marks import LINE_HOURS, start_line
from portal.planning.estimation.selectors import progress_fractions
from portal.planning.rounds.read.ends import expected_end, ran_s
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.read.needs import start_need
from portal.planning.rounds.read.selectors import waited_s
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.states import FINAL, LIVE, RETRIED, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.home.scope import Scope
    from portal.pages.dashboard.parts.context import Rich, Segment
    from portal.planning.rounds.read.forecasts import Start

ROWS = 5
WAITING = tuple(state for state in JobState if state not in FINAL and state not in LIVE)


def jobs_make(scope: Scope) -> dict[str, Any]:
    """Return the groups. Eleven queries, however many jobs there are."""
    groups = [_running(scope), _waiting(scope), _ended(scope)]
    counts = [f"{number(group['count'])} {group['name'].lower()}" for group in groups]
    return {
        "title": "My jobs" if scope.is_mine else f"Jobs of {scope.view}",
        "summary": ", ".join(counts),
        "url": _list_url(scope),
        "groups": [group for group in groups if group["count"]],
    }


def _list_url(scope: Scope, *, state: str = "", when: str = "", within: str = "") -> str:
    """Return the address of the list of the scope's jobs that are asked for."""
    owner, tenant = (MINE, "") if scope.is_mine else ("", scope.view)
    return ListQuery(owner=owner, tenant=tenant, state=state, when=when, within=within).url()


def _read(jobs: Any) -> list[Job]:
    return list(jobs.select_related("tenant", "owner")[:ROWS])


def _group(name: str, count: int, rows: list[dict[str, Any]], url: str, note: str = "") -> dict[str, Any]:
    return {"name": name, "count": count, "note": note, "rows": rows, "more": max(0, count - len(rows)), "url": url}


# ---- running ---------------------------------------------------------------------------------------------------------


def _running(scope: Scope) -> dict[str, Any]:
    jobs = scope.jobs.filter(state__in=LIVE)
    rows = _read(jobs.order_by(F("started_at").desc(nulls_first=True), "-pk"))
    allocations = Prefetch("allocations", Allocation.objects.select_related("node").order_by("rank"))
    attempts = Attempt.objects.runs().live().filter(job__in=rows).select_related("speed")
    live = {attempt.job_id: attempt for attempt in attempts.prefetch_related(allocations)}
    done = progress_fractions(rows)
    made = [_run_row(job, scope, live.get(job.pk), done.get(job.pk)) for job in rows]
    return _group("Running", jobs.count(), made, _list_url(scope, state=states_named(LIVE)))


def _blank(job: Job, mine: bool) -> dict[str, Any]:
    return {
        "number": job.number,
        "name": job.name,
        "url": reverse("job-detail", args=[job.number]),
        "state": job.state,
        "owner": None if mine else job.owner.username,
        "about": f"array of {number(job.array_size)} tasks" if job.array_size else "",  # "ran 5 h 20 min"
        "gpus": _gpus(job, None),
        "where": "",
        "bar": None,  # per cent
        "array": array_summary(job) if job.array_size else None,
        "line": None,  # of the next hours, with the start range
        "goes": "",
        "remedy": None,
        "from_at": None,
        "to_at": None,
        "about_at": None,  # of a start: shown large, the range below it
        "when": "",  # "ends", "starts", "ended"
        "tone": "",
    }


def _gpus(job: Job, attempt: Attempt | None) -> Rich:
    """Say the GPUs with their unit: a row has no head of its column."""
    words = gpus_words(job, attempt)
    if job.gpus == [0]:
        return words
    one = job.gpus == [1] or (attempt is not None and attempt.gpus == 1)
    segments: list[Segment] = [{"text": words}] if isinstance(words, str) else list(words or [])
    return [*segments, {"text": " GPU" if one else " GPUs"}]


def _run_row(job: Job, scope: Scope, attempt: Attempt | None, fraction: float | None) -> dict[str, Any]:
    row = _blank(job, scope.is_mine)
    if job.array_size:
        return {**row, "goes": row["array"]["words"] if row["array"] else ""}
    if attempt is None:
        return row
    end = ends_make(expected_end(job, attempt, fraction, scope.now))
    return {
        **row,
        "about": f"ran {duration(ran_s(job, attempt, scope.now))}",
        "gpus": _gpus(job, attempt),
        "where": ", ".join(part.node.name for part in attempt.allocations.all()),
        "bar": None if fraction is None else 100 * fraction,
        "goes": _speed_words(attempt),
        "to_at": end["about"] if end else None,
        "when": "ends" if end else "",
    }


def _speed_words(attempt: Attempt) -> str:
    """Say its measured speed, and compare it with the predicted one."""
    speed = getattr(attempt, "speed", None)
    measured = speed.samples_per_s if speed else None
    if speed is None or measured is None:
        return ""
    words = f"{number(round(measured))} samples/s"
    if speed.predicted_samples_per_s:
        words += f", {measured / speed.predicted_samples_per_s:.0%} of predicted".replace("%", "\u00a0%")
    return words


# ---- waiting ---------------------------------------------------------------------------------------------------------


def _waiting(scope: Scope) -> dict[str, Any]:
    jobs = scope.jobs.filter(state__in=WAITING)
    order = (F("start_forecast__earliest_at").asc(nulls_last=True), "pk")
    first = list(jobs.order_by(*order).values_list("pk", flat=True)[:ROWS])  # only keys: the rows are wide
    found = Job.objects.select_related("tenant", "owner").in_bulk(first)
    rows = [found[pk] for pk in first if pk in found]
    numbers, starts = JobNumbers(job.reason_figures for job in rows), starts_of(rows, scope.now)
    made = [_wait_row(job, scope, numbers, starts.get(job.pk)) for job in rows]
    note = f"bars: the next {LINE_HOURS} h" if any(row["line"] for row in made) else ""
    return _group("Waiting", jobs.count(), made, _list_url(scope, state=states_named(WAITING)), note)


def _wait_row(job: Job, scope: Scope, numbers: JobNumbers, start: Start | None) -> dict[str, Any]:
    row = _blank(job, scope.is_mine)
    if job.array_size:
        return {**row, "goes": row["array"]["words"] if row["array"] else ""}
    need = start_need(job.reason, numbers.told(job.reason_figures)) if job.reason else None
    row = {**row, "about": f"waited {duration(waited_s(job))}", "goes": f"needs {need}" if need else ""}
    if job.state == JobState.HELD:
        return {**row, "goes": f"held by {job.held_by}" if job.held_by else "held"}
    if start is None:
        return row
    if start.passed:
        return {**row, "when": "later than expected"}
    latest = start.latest_at.isoformat() if start.latest_at else None
    line = start_line(start, scope.now)
    about = start.median_at.isoformat() if start.median_at else None
    ends = {"from_at": start.earliest_at.isoformat(), "to_at": latest, "about_at": about}
    return {**row, **ends, "line": line, "when": "starts"}


# ---- ended -----------------------------------------------------------------------------------------------------------


def _ended(scope: Scope) -> dict[str, Any]:
    """The jobs that ended in the last day, failed ones first."""
    jobs = scope.jobs.filter(ended_at__gte=scope.now - WITHIN["24h"][1])
    failed = _read(jobs.filter(state__in=RETRIED).order_by("-ended_at"))
    rows = failed + _read(jobs.exclude(state__in=RETRIED).order_by("-ended_at"))
    last = {each.job_id: each for each in Attempt.objects.runs().filter(job__in=rows[:ROWS]).order_by("epoch")}
    made = [_end_row(job, last.get(job.pk), scope.is_mine) for job in rows[:ROWS]]
    url = _list_url(scope, when="ended", within="24h")
    return _group("Ended today", jobs.count(), made, url, "the last 24 h, failed first")


def _end_row(job: Job, attempt: Attempt | None, mine: bool) -> dict[str, Any]:
    """Fill a row of an ended job; its GPUs are those of its last attempt."""
    row = _blank(job, mine)
    failed = job.state in RETRIED
    waited = f"waited {duration(waited_s(job))}"
    goes = job.end_detail if failed or job.state == JobState.CANCELLED else ""
    return {
        **row,
        "about": f"ran {duration(job.ran_s)}" if not job.array_size and job.ran_s else row["about"],
        "gpus": _gpus(job, attempt),
        "goes": goes or (row["array"]["words"] if row["array"] else waited),
        "remedy": remedy_for(job) if failed else None,
        "to_at": job.ended_at.isoformat() if job.ended_at else None,
        "when": waited if goes and not job.array_size else "ended",
        "tone": "fail" if failed else "",
    }
