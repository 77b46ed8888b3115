"""The submit page: the form, what would happen now, and the same request as text."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from portal.cluster.selectors import gpu_type_names, idle_blocks
from portal.dashboard.queue_page import record_words
from portal.dashboard.submit_form import (
    GPU_COUNTS,
    MODES,
    description_of,
    fields_make,
    form_field_of,
    initial_of,
    initial_of_post,
)
from portal.errors import BerthError
from portal.jobs.listing import job_find
from portal.jobs.services import job_submit, submission_check
from portal.rounds.dryrun import dry_run as plan_dry_run
from portal.rounds.forecasts import forecast_record
from portal.rounds.knobs import knobs_current
from portal.rounds.places import queue_words
from portal.rounds.selectors import cores_effects
from portal.tenants.selectors import tenants_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from portal.dashboard.context import StartsContext
    from portal.dashboard.job_context import DryRunContext, GpuChoice, RequestContext, SubmitContext

DEFAULTS: dict[str, Any] = {"gpu_mode": "set", "gpus": [1]}


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form (`?from=` fills it from an earlier job), or submit it and go to the job's page."""
    if request.method == "GET":
        values = DEFAULTS
        if number := request.GET.get("from"):
            values = initial_of(job_find(user=request.user, number=number).payload.description)
        return render(request, "jobs/submit.html", _context(request, values, error=None))
    try:
        description = description_of(request.POST)
        job = job_submit(user=request.user, description=description, r_num=knobs_current()["r_num"])
    except BerthError as error:
        context = _context(request, initial_of_post(request.POST), error=error)
        return render(request, "jobs/submit.html", context, status=error.status)
    messages.success(request, f"Submitted: job {job.number}.")
    return redirect("job-detail", number=job.number)


@login_required
@require_POST
def dry_run(request: HttpRequest) -> HttpResponse:
    """Answer with the two cards beside the form: what would happen now, and the request as text."""
    context: dict[str, Any] = {"oob": True, "dry_run": None, "request_text": None}
    if request.POST.get("command", "").strip():
        try:
            description = description_of(request.POST)
            context["request_text"] = _request_text(request, description)
            context["dry_run"] = _dry_run(request, description)
        except BerthError as error:
            context["dry_run"] = _refused(error)
    return render(request, "jobs/_dryrun.html", context)


def _context(request: HttpRequest, values: Mapping[str, Any], *, error: BerthError | None) -> SubmitContext:
    tenants = [tenant.name for tenant in tenants_of(request.user)]
    types = gpu_type_names()
    fields = fields_make(values, tenants=tenants, gpu_types=types, error=error, effects=cores_effects(request.user))
    wrong = form_field_of(error) if error else None
    known = wrong in fields or wrong == "gpus"
    mode = values.get("gpu_mode", "set")
    return {
        "fields": fields,
        "errors": [error.detail] if error and not known else [],
        "gpu_modes": [{"value": value, "label": label, "selected": value == mode} for value, label in MODES.items()],
        "gpu_columns": [*types, "Fits one node now"] if types else ["Fits one node now"],
        "gpu_choices": _gpu_choices(values, types),
        "gpu_error": error.detail if error and wrong == "gpus" else None,
        "gpu_min": str(values.get("gpus_min") or ""),
        "gpu_max": str(values.get("gpus_max") or ""),
        "gpu_note": "A block is so many idle GPUs on one node.",
        "dry_run": None,
        "request_text": None,
        "submit_note": None if tenants else "You belong to no tenant yet; ask an operator to add you to one.",
    }


def _gpu_choices(values: Mapping[str, Any], types: list[str]) -> list[GpuChoice]:
    """Show for each size how many idle blocks of it each type has now."""
    blocks = idle_blocks()
    largest = max([8, *(max(sizes, default=0) for sizes in blocks.values())])
    chosen = {int(v) for v in values.get("gpus") or []}
    choices: list[GpuChoice] = []
    for count in sorted({*(c for c in GPU_COUNTS if c <= largest), *chosen} - {0}):
        fitting = {name: sum(size // count for size in blocks.get(name, ())) for name in types}
        total = sum(fitting.values())
        cells = [f"{fitting[name]} free" if fitting[name] else "\u2013" for name in types]
        cells.append(f"{total} block{'s' if total != 1 else ''}" if total else "no")
        choices.append({"count": count, "checked": count in chosen, "cells": cells, "fits": total > 0})
    return choices


def _dry_run(request: HttpRequest, description: dict[str, Any]) -> DryRunContext:
    tenant, parsed = submission_check(user=request.user, description=description, r_num=knobs_current()["r_num"])
    answer = plan_dry_run(description=parsed, tenant=tenant, user=request.user)
    rows = [
        {
            "configuration": f"{part['node']} \u00d7 {part['gpus'] or 'CPU'}",
            "text": f"{part['cores']} core{'s' if part['cores'] != 1 else ''}",
            "note": None,
            "verdict": "chosen",
            "chosen": True,
        }
        for part in answer["placement"] or []
    ]
    unit = "Cores" if parsed.gpus == (0,) else "Cores a GPU"
    return {
        "at": answer["at"].isoformat(),
        "outcome": "placeable" if answer["placeable"] else "waits",
        "word": "Placeable" if answer["placeable"] else "Would wait",
        "sentence": answer["sentence"].replace("Placed on", "The next planning would place it on"),
        "rows": rows,
        "starts": _starts(answer),
        "facts": [
            *([{"label": "Place", "value": queue_words(answer).removeprefix("place ")}] if answer["place"] else []),
            {"label": unit, "value": str(answer["cores"])},
            {"label": "Tenant", "value": tenant.name},
        ],
    }


def _starts(answer: dict[str, Any]) -> StartsContext | None:
    """Return the expected range of one that would wait."""
    found = answer["start"]
    if answer["placeable"] or found is None:
        return None
    moments = {name.removesuffix("_at"): at.isoformat() if at else None for name, at in found.items()}
    return {**moments, "record": record_words(forecast_record())}  # type: ignore[typeddict-item]


def _refused(error: BerthError) -> DryRunContext:
    from django.utils import timezone

    impossible = error.code == "unsatisfiable"
    return {
        "at": timezone.now().isoformat(),
        "outcome": "impossible" if impossible else "invalid",
        "word": "Impossible here" if impossible else "Not valid yet",
        "sentence": error.detail,
        "rows": [],
        "starts": None,
        "facts": [{"label": "Field", "value": error.field}] if error.field else [],
    }


def _request_text(request: HttpRequest, description: dict[str, Any]) -> RequestContext:
    """Return the same request for a shell and for Python. The shell line is quoted: a command may hold any character."""
    url = f"{request.scheme}://{request.get_host()}/api/v1/jobs"
    body = json.dumps(description, indent=1, ensure_ascii=False)
    curl = (
        f'curl -X POST {shlex.quote(url)} \\\n -H "Authorization: Bearer $BERTH_TOKEN" \\\n'
        f" -H 'Content-Type: application/json' \\\n --data {shlex.quote(body)}"
    )
    python = (
        "import json, os, urllib.request\n\n"
        f"job = {description!r}\n"
        f"request = urllib.request.Request(\n    {url!r},\n    json.dumps(job).encode(),\n"
        '    {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"], "Content-Type": "application/json"},\n)\n'
        'print(json.load(urllib.request.urlopen(request))["id"])'
    )
    return {"curl": curl, "python": python}
