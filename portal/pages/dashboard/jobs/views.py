"""The jobs' pages: list, one job, its log, actions. A view guards, fetches, validates, acts, answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from portal.foundation.api.streams import Streamed, csv_lines
from portal.foundation.bulk import among
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.jobs.array.page import array_context, folded_tasks
from portal.pages.dashboard.jobs.array.query import TaskQuery
from portal.pages.dashboard.jobs.figures import job_figure_make
from portal.pages.dashboard.jobs.head import header_make
from portal.pages.dashboard.jobs.list import list_context
from portal.pages.dashboard.jobs.log import log_page, log_parts
from portal.pages.dashboard.jobs.page import (
    artefacts_part,
    body_make,
    chain_part,
    log_choices,
    over_part,
    strip_part,
    timeline_part,
)
from portal.pages.dashboard.jobs.query import ListQuery
from portal.pages.dashboard.jobs.rows import rows_of
from portal.pages.dashboard.jobs.saved import USUAL, columns_parse
from portal.pages.dashboard.shell.frame import page_follow
from portal.people.accounts.lists import looked_at
from portal.people.tenants.selectors import zone_of
from portal.planning.rounds.read.explained import explanation
from portal.work.jobs.description import priority_parse
from portal.work.jobs.listing import attempts_of, job_find
from portal.work.jobs.log_reading import log_bytes, log_part
from portal.work.jobs.services import control, retrying
from portal.work.jobs.states import RETRIED, shell_code

if TYPE_CHECKING:
    from portal.work.jobs.models import Job

VERBS = {
    "cancel": control.job_cancel,
    "hold": control.job_hold,
    "release": control.job_release,
    "requeue": control.job_requeue,
    "retry": retrying.job_retry,
}
BULK = {**VERBS, "priority": control.job_priority_set}
DONE = {"cancel": "Cancelled", "hold": "Held", "release": "Released", "requeue": "Requeued", "retry": "Retried"}
DONE |= {"priority": "Priority set"}
FRAGMENTS: dict[str, Callable[[Job], Any]] = {"body": body_make, "timeline": timeline_part, "log": log_choices}
FRAGMENTS |= {"artefacts": artefacts_part, "curves": artefacts_part, "chain": chain_part}
FRAGMENTS |= {"over": over_part, "strip": strip_part}
ARRAY_FRAGMENTS = {"header", "array", "tasks", "chain"}
CSV_CHUNK = 2000
BULK_MOST = 500
DOWNLOAD_STEP_BYTES = 256 * 1024


def job_list(request: HttpRequest) -> HttpResponse:
    """Show the list, or with `fragment=` only its table or its chips, for live updates."""
    if "fragment" not in request.GET:
        page_follow(request, "cluster")
    context = list_context(user=request.user, query=ListQuery.of(request.GET))
    templates = {"table": "jobs/_table.html", "chips": "jobs/_chips.html"}
    return render(request, templates.get(request.GET.get("fragment", ""), "jobs/list.html"), context)


def job_tasks(request: HttpRequest, number: str) -> HttpResponse:
    """Answer with the rows of an opened array: failed first, then what runs and waits; its page has them all."""
    parent = job_find(user=request.user, number=number)
    rows = rows_of(folded_tasks(parent), task=True)
    more = parent.array_size - len(rows) if parent.array_size else 0
    columns = columns_parse(request.GET.get("columns", ",".join(USUAL)).split(","))
    context = {"rows": rows, "columns": [{"key": name} for name in columns], "parent": parent, "more": more}
    return render(request, "jobs/lists/_folded.html", context)


def job_detail(request: HttpRequest, number: str) -> HttpResponse:
    """Show one job. The page is live from before it is read: an event in between is a gap, not a loss."""
    job = job_find(user=request.user, number=number)
    page_follow(request, "cluster", f"job:{job.pk}")
    job = job_find(user=request.user, number=number)
    if job.state in RETRIED and job.owner_id == request.user.pk:
        looked_at(user=request.user, job_ids=[job.pk], what="end")
    if job.array_size:
        return render(request, "jobs/array.html", array_context(job=job, query=TaskQuery.of(request.GET)))
    attempts = list(attempts_of(job))  # each with its nodes, GPUs and searches: several queries
    shown = {**header_make(job, attempts, user=request.user), **body_make(job, attempts)}
    return render(request, "jobs/detail.html", {"job": shown})


def job_fragment(request: HttpRequest, number: str, name: str) -> HttpResponse:
    """Answer with a part of one job's page as it is now."""
    job = job_find(user=request.user, number=number)
    if job.array_size and name in ARRAY_FRAGMENTS:
        context = array_context(job=job, query=TaskQuery.of(request.GET), only=name)
        return render(request, f"jobs/_{name}.html", context)
    if job.array_size or name not in {"header", *FRAGMENTS}:
        raise NotFound("part of the page")
    shown = header_make(job, user=request.user) if name == "header" else FRAGMENTS[name](job)
    return render(request, f"jobs/_{name}.html", {"job": shown})


def job_action(request: HttpRequest, number: str, verb: str) -> HttpResponse:
    """Cancel, hold, release, requeue or retry one job, and go back to its page."""
    job = job_find(user=request.user, number=number)
    if verb not in VERBS:
        raise NotFound("action")
    try:
        VERBS[verb](job=job, actor=request.user, **_narrow(request, verb))
    except BerthError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"{DONE[verb]}: job {job.number}.")
    return redirect("job-detail", number=job.number)


def _narrow(request: HttpRequest, verb: str) -> dict[str, Any]:
    """Return which of an array's failed tasks a retry is for; nothing: all of them."""
    states = request.POST.getlist("state") if verb == "retry" else []
    if any(state not in RETRIED for state in states):
        raise BerthError("invalid", f"`state` must be one of {', '.join(sorted(RETRIED))}.", field="state")
    return {"states": states} if states else {}


def job_bulk(request: HttpRequest) -> HttpResponse:
    """Act on the selected jobs; say how many it applied to, and why not to the others."""
    verb = request.POST.get("action", "")
    if verb not in BULK:
        raise BerthError("invalid", f"Choose one of {', '.join(BULK)}.", field="action")
    more = {"priority": _priority(request)} if verb == "priority" else {}
    chosen = request.POST.getlist("job")
    if len(chosen) > BULK_MOST:
        raise BerthError(
            "too_many", f"{len(chosen)} jobs were chosen; at most {BULK_MOST} at once. None was changed.", field="job"
        )
    done, refused = 0, []
    for number in chosen:
        try:
            BULK[verb](job=job_find(user=request.user, number=number), actor=request.user, **more)
            done += 1
        except BerthError as error:
            refused.append(error.detail)
    if done:
        messages.success(request, f"{DONE[verb]}: {done} job{'s' if done != 1 else ''}.")
    for detail in refused[:3]:
        messages.error(request, detail)
    array = request.POST.get("array")  # the page that the form stood on: an array's, or the list
    page = (
        reverse("job-detail", args=[job_find(user=request.user, number=array).number]) if array else reverse("job-list")
    )
    target = page + request.POST.get("next", "")
    return redirect(target if url_has_allowed_host_and_scheme(target, allowed_hosts=None) else page)


def _priority(request: HttpRequest) -> int:
    text = request.POST.get("priority", "").strip()
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 5):
        raise BerthError("wrong_type", "`priority` must be a whole number. No job was changed.", field="priority")
    return priority_parse(int(text))


def job_log(request: HttpRequest, number: str) -> JsonResponse:
    job = job_find(user=request.user, number=number)
    page = log_page(
        job=job,
        attempt=_number(request, "attempt"),
        rank=_number(request, "rank") or 0,
        stream=request.GET.get("stream", ""),
        cursor=request.GET.get("offset", ""),
    )
    return JsonResponse(page)


def job_log_download(request: HttpRequest, number: str) -> HttpResponse:
    """Send the whole output of an attempt, or of a profile, as text: stdout of each part, then stderr."""
    job = job_find(user=request.user, number=number)
    profile = _number(request, "profile")
    epoch = _number(request, "attempt") if profile is None else profile
    parts = log_parts(job=job, epoch=epoch, profile=profile is not None)
    chunks = _whole_log(job, epoch, parts, profile=profile is not None)
    response = Streamed(chunks, content_type="text/plain; charset=utf-8")
    name = f"job-{job.number}" if profile is None else f"job-{job.number}-profile-{profile}"
    response["Content-Disposition"] = f'attachment; filename="{name}.log"'
    return response


def _whole_log(job: Job, epoch: int | None, parts: list[tuple[int, str]], *, profile: bool) -> Iterator[bytes]:
    for rank, stream in parts:
        part = log_part(job=job, epoch=epoch, rank=rank, stream=stream, profile=profile)
        offset, end = 0, part.length() if part else 0
        while part and offset < end:
            data = log_bytes(part, offset=offset, limit=DOWNLOAD_STEP_BYTES)
            offset += len(data)
            yield data


def _number(request: HttpRequest, name: str) -> int | None:
    raw = request.GET.get(name, "")
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9):
        raise BerthError("invalid", f"`{name}` must be a whole number.", field=name)
    return int(raw)


def job_figure(request: HttpRequest, number: str, name: str) -> JsonResponse:
    figure = job_figure_make(job=job_find(user=request.user, number=number), name=name)
    if figure is None:
        raise NotFound("figure")
    return JsonResponse(figure)


def job_explain(request: HttpRequest, number: str) -> JsonResponse:
    job = job_find(user=request.user, number=number)
    return JsonResponse(explanation(job), json_dumps_params={"indent": 2})


def job_csv(request: HttpRequest) -> HttpResponse:
    """Export the whole filtered list as a stream."""
    jobs = ListQuery.of(request.GET).ordered(user=request.user).select_related("tenant", "owner")
    rows = _csv_rows(jobs, zone_of(request.user))
    response = Streamed(csv_lines(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="berth-jobs-{timezone.now():%Y%m%d-%H%M}.csv"'
    return response


def _csv_rows(jobs: QuerySet[Job], zone: tzinfo) -> Iterator[list[object]]:
    """Yield the heading and a row a job; times are in the reader's zone."""
    yield ["id", "name", "state", "tenant", "owner", "gpus", "reason", "waited_s", "submitted", "ended", "exit"]
    # Each part is its own query: they are made as they are read, on any thread, and no cursor stays open meanwhile.
    keys = list(jobs.values_list("pk", flat=True))
    for first in range(0, len(keys), CSV_CHUNK):
        some = keys[first : first + CSV_CHUNK]
        found = {job.pk: job for job in jobs.order_by().filter(pk__in=among(some))}
        yield from (_csv_row(found[key], zone) for key in some if key in found)


def _csv_row(job: Job, zone: tzinfo) -> list[object]:
    told = [job.number, job.name, job.state, job.tenant.name, job.owner.username, " ".join(map(str, job.gpus))]
    times = [at and at.astimezone(zone).isoformat() for at in (job.submitted_at, job.ended_at)]
    return [*told, job.reason, round(job.waited_s, 1), *times, shell_code(job.exit_code, job.signal)]
