"""The pages of a job's files: tree and preview, curves, pictures, downloads, removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import JsonResponse
from django.shortcuts import redirect, render

from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.artefacts.curves import curve_figure, curves_of
from portal.pages.dashboard.artefacts.page import ArtefactQuery, artefacts_context, shown_part
from portal.pages.dashboard.artefacts.previews import picture_answer
from portal.pages.dashboard.artefacts.tree import page_url
from portal.pages.dashboard.shell.frame import page_follow
from portal.work.artefacts.download import download_all, download_answer, download_file
from portal.work.artefacts.selectors import artefact_get, artefacts_of
from portal.work.artefacts.services import artefacts_remove
from portal.work.jobs.listing import job_find

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

    from portal.work.jobs.models import Job

FRAGMENTS = {"tree": (artefacts_context, "artefacts/_tree.html"), "shown": (shown_part, "artefacts/_shown.html")}


def _job(request: HttpRequest, number: str) -> Job:
    """Return a job that can have artefacts: an array's tasks have, it has not. Raises NotFound."""
    job = job_find(user=request.user, number=number)
    if job.array_size:
        raise NotFound("artefact")
    return job


def job_artefacts(request: HttpRequest, number: str) -> HttpResponse:
    job = _job(request, number)
    page_follow(request, "cluster", f"job:{job.pk}")
    context = artefacts_context(job=_job(request, number), query=ArtefactQuery.of(request.GET), user=request.user)
    return render(request, "artefacts/page.html", {"artefacts": context})


def job_artefacts_fragment(request: HttpRequest, number: str, name: str) -> HttpResponse:
    job = _job(request, number)
    if name not in FRAGMENTS:
        raise NotFound("part of the page")
    make, template = FRAGMENTS[name]
    context = make(job=job, query=ArtefactQuery.of(request.GET), user=request.user)
    return render(request, template, {"artefacts": context})


def job_artefacts_figure(request: HttpRequest, number: str) -> JsonResponse:
    """Answer with one curve by its name."""
    query = ArtefactQuery.of(request.GET)
    told = curves_of(_job(request, number))
    series = (told or {}).get("series", {}).get(request.GET.get("name", ""))
    if told and told.get("passing"):
        raise BerthError("busy", told["notes"][0], status=503)
    if series is None:
        raise NotFound("curve")
    name = request.GET["name"]
    times = told["times"].get(name) if told and query.axis == "time" else None
    figure = curve_figure(name, *series, times=times, scale=query.scale, smooth=float(query.smooth))
    return JsonResponse(figure)


def job_artefacts_picture(request: HttpRequest, number: str) -> HttpResponseBase:
    job = _job(request, number)
    row = artefact_get(job, ArtefactQuery.of(request.GET).path)
    if row.size is None:
        raise NotFound("picture")
    return picture_answer(request, job, row)


def job_artefacts_download(request: HttpRequest, number: str) -> HttpResponseBase:
    """Send one file (`path`), or a folder or all as a tar (`under`); always as a download, in ranges where asked."""
    job, query = _job(request, number), ArtefactQuery.of(request.GET)
    if query.path:
        found = download_file(job, artefact_get(job, query.path))
        return download_answer(request, found, content_type="application/octet-stream")
    found = download_all(job, list(artefacts_of(job, under=query.under)))
    return download_answer(request, found, content_type="application/x-tar")


def job_artefacts_remove(request: HttpRequest, number: str) -> HttpResponse:
    """Remove one file, or all below a folder; nothing named removes nothing."""
    job, path = _job(request, number), request.POST.get("path", "")
    if not path:
        raise BerthError("invalid", "`path` must name a file or a folder.", field="path")
    count = artefacts_remove(job=job, actor=request.user, path=path)
    messages.success(request, f"Removed: {count} file{'s' if count != 1 else ''}.")
    return redirect(page_url(job))
