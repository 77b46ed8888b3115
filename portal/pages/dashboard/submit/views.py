"""The submit page: the form, the forecast of the next planning, and the same request as text."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.cluster.selectors import gpu_type_names, software_offered
from portal.foundation.api.throttles import FormThrottle, throttle_check
from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.waiting import quota_near
from portal.pages.dashboard.submit.answer import (
    dry_run_context,
    names_of,
    others_context,
    refused_context,
    request_text,
)
from portal.pages.dashboard.submit.apart import code_choices, pythons_offered, secrets_of
from portal.pages.dashboard.submit.files import files_context
from portal.pages.dashboard.submit.form import fields_make, gpus_context, initial_of, initial_of_post
from portal.pages.dashboard.submit.reading import description_read, errors_of, form_field_of
from portal.pages.dashboard.submit.rows import lines_make, of_group, rows_context
from portal.pages.dashboard.submit.speeds import cores_context, speeds_context, tenant_chosen
from portal.pages.dashboard.submit.start import again_values, description_saved, import_read, start_context
from portal.people.tenants.models import Tenant
from portal.people.tenants.selectors import tenants_of
from portal.planning.rounds.read.cores import cores_effects
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.templating.services import values_save
from portal.work.jobs.listing import job_find
from portal.work.jobs.services.submission import job_submit, submission_problems
from portal.work.jobs.use import tenants_use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from portal.pages.dashboard.parts.context import FieldContext
    from portal.pages.dashboard.submit.reading import Reading

DEFAULTS: dict[str, Any] = {"gpu_mode": "set", "gpus": [1]}


def submit(request: HttpRequest) -> HttpResponse:
    """Show the form (`?from=` fills it from an earlier job, `&begin_with=` lets it begin with an artefact of that,
    `&mend=` names the field that a remedy changes), or submit it and go to the job's page.
    """
    if request.method == "GET":
        values = DEFAULTS
        if number := request.GET.get("from"):
            job, asked = job_find(user=request.user, number=number), request.GET
            task = job_find(user=request.user, number=f"{number}_{asked['task']}") if asked.get("task") else None
            values = again_values(job, asked, task)
        elif saved := request.GET.get("saved"):
            values = DEFAULTS | initial_of(description_saved(request.user, saved))
        return render(request, "submit/submit.html", _context(request, values, problems=[]))
    reading, problems = _examine(request)
    if not problems:
        try:
            job = job_submit(user=request.user, description=reading.description, r_num=knobs_current()["r_num"])
        except BerthError as error:
            problems = [error]
        else:
            messages.success(request, f"Submitted: job {job.number}.")
            return redirect("job-detail", number=job.number)
    return _refuse(request, reading, problems)


def form_save(request: HttpRequest) -> HttpResponse:
    """Save the whole form under a name, without its files; or show it with its mistakes beside the fields."""
    reading = description_read(request.POST, request.FILES)
    problems, values = list(reading.problems), dict(reading.description)
    for name in ("files", "upload"):
        values.pop(name, None)
    if not problems:
        try:
            saved = values_save(user=request.user, template=None, name=request.POST.get("save_as", ""), values=values)
        except BerthError as error:
            problems = [error]
        else:
            messages.success(request, f"Saved as {saved.name}, without files.")
            return redirect(f"{reverse('job-submit')}?saved={saved.pk}")
    return _refuse(request, reading, problems)


def _refuse(request: HttpRequest, reading: Reading, problems: list[BerthError]) -> HttpResponse:
    """Show the form as it was sent, with its mistakes."""
    files = {name: each["base64"] for name, each in reading.description.get("files", {}).items()}
    context = _context(request, initial_of_post(request.POST) | {"files": files}, problems=problems)
    return render(request, "submit/submit.html", context, status=problems[0].status)


def from_script(request: HttpRequest) -> HttpResponse:
    """Fill the form from a batch script or YAML, and say what became of each directive. Nothing is submitted."""
    throttle_check(request, FormThrottle)
    values, imported = import_read(request.POST, request.FILES, user=request.user, r_num=knobs_current()["r_num"])
    context = _context(request, DEFAULTS if values is None else values, problems=[])
    context["imported"] = imported
    return render(request, "submit/submit.html", context, status=400 if values is None else 200)


def dry_run(request: HttpRequest) -> HttpResponse:
    """Answer with the verdict beside the form, the closed lines of its rows, the request as text, and with every problem."""
    throttle_check(request, FormThrottle)
    reading, problems = _examine(request)
    values = initial_of_post(request.POST)
    tenant = tenant_chosen(tenants_of(request.user), values)
    context: dict[str, Any] = {
        "oob": True,
        "of_form": True,
        "verdict": None,
        "request_text": None,
        "problems": errors_of(problems),
        "lines": lines_make(values, tenant, pythons_offered(software_offered())),
        "speeds": speeds_context(tenant, values),
        "cores_past": cores_context(request.user, tenant, values),
    }
    if request.POST.get("command", "").strip():
        if not problems or not reading.problems:
            context["request_text"] = request_text(request, reading.description)
        context["verdict"] = (
            refused_context(problems)
            if problems
            else dry_run_context(request.user, _with_requirements(request, reading.description))
        )
    return render(request, "submit/_dryrun.html", context)


def alternatives(request: HttpRequest) -> HttpResponse:
    """Answer with alternatives that would be over sooner than the form's job."""
    found: dict[str, Any] = {"others": [], "all_tried": False}
    try:
        throttle_check(request, FormThrottle)
        reading, problems = _examine(request)
        if not problems:
            found = others_context(request.user, _with_requirements(request, reading.description))
    except BerthError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:  # then it is not worked out yet
            raise
    return render(request, "submit/_others.html", found)


def _examine(request: HttpRequest) -> tuple[Reading, list[BerthError]]:
    """Read the form. Return it with every reason for which a submission would be refused, at most one for each field."""
    reading = description_read(request.POST, request.FILES)
    description = _with_requirements(request, reading.description)
    if any(form_field_of(problem) == "gpus" for problem in reading.problems):
        description["gpus"] = 1  # the other fields can be judged then: its own refusal is left out below
    found = {form_field_of(problem) for problem in reading.problems}
    problems = list(reading.problems)
    for problem in submission_problems(user=request.user, description=description, r_num=knobs_current()["r_num"]):
        if (field := form_field_of(problem)) is None or field not in found:
            problems.append(problem)
            found.add(field)
    return reading, problems


def _with_requirements(request: HttpRequest, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description to judge: a dry run has no contents, so a requirements file that the page keeps counts as some."""
    name = (description.get("software") or {}).get("requirements_file")
    known = name in names_of(request.POST) and name not in description.get("files", {})
    return {**description, "software": {"requirements": "as-in-the-file"}} if known else dict(description)


def _context(request: HttpRequest, values: Mapping[str, Any], *, problems: list[BerthError]) -> dict[str, Any]:
    mine = tenants_of(request.user)
    tenants, tenant = [each.name for each in mine], tenant_chosen(mine, values)
    errors, software = errors_of(problems), software_offered()
    fields = fields_make(
        values,
        tenants=tenants,
        gpu_types=gpu_type_names(),
        software=software,
        secrets=secrets_of(mine),
        errors=errors,
        effects=cores_effects(request.user),
    )
    return {
        "fields": fields,
        "first": [fields["name"], *([fields["tenant"]] if len(tenants) > 1 else [])],
        "tenant": tenants[0] if len(tenants) == 1 else None,
        "rows": rows_context(fields, values, tenant, pythons_offered(software)),
        "sources": [(kind, of_group(fields, kind)) for kind in ("git", "path")],
        "problems": _summary(errors, fields),
        "files": files_context(values, errors.get("files"), user=request.user),
        "code_from": code_choices(str(values.get("code_from") or "")),
        "gpus": gpus_context(values),
        "gpu_error": errors.get("gpus"),
        "quotas": _quotas(mine),
        "verdict": None,
        "request_text": None,
        "imported": None,
        "start": start_context(request.user),
        "save_as": str(values.get("save_as") or ""),
        "save_error": errors.get("save_as"),
        "speeds": speeds_context(tenant, values),
        "cores_past": cores_context(request.user, tenant, values),
        "submit_note": None if tenants else "You belong to no tenant yet; ask an operator to add you to one.",
    }


def _quotas(tenants: list[Tenant]) -> list[str]:
    """Say which quotas are nearly used, before a job is refused or waits for one."""
    limited = [each for each in tenants if each.gpu_quota or each.core_quota or each.queued_jobs_quota]
    use = tenants_use(Tenant.objects.filter(pk__in=[each.pk for each in limited])) if limited else {}
    near = [(each, *found) for each in limited if (found := quota_near(each, use[each.pk]))]
    return [
        f"{tenant.name} uses {used:g} of its {quota} {label}: {after}" for tenant, label, used, quota, after in near
    ]


def _summary(errors: Mapping[str, str], fields: Mapping[str, FieldContext]) -> list[dict[str, Any]]:
    """List mistakes in the order of the form; a field that the form does not show belongs to the whole form."""
    labels = {"gpus": "GPUs", "files": "Files", "save_as": "Save as"}
    labels |= {name: field["label"] for name, field in fields.items()}
    first = ("name", "model", "tenant", "command", "working_directory", "files", "gpus")
    order = {name: place for place, name in enumerate([*first, *fields, "save_as"])}
    return [
        {"field": name, "label": labels.get(name), "target": f"id_{name}" if name in labels else None, "detail": detail}
        for name, detail in sorted(errors.items(), key=lambda item: order.get(item[0], -1))
    ]
