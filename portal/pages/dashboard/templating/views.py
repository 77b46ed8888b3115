"""Job templates in the browser: a view guards, acts by one service, and answers."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.foundation.api.throttles import FormThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.submit.answer import dry_run_context, refused_context
from portal.pages.dashboard.submit.files import text_of
from portal.pages.dashboard.templating.page import (
    command_line,
    detail_context,
    errors_of,
    list_context,
    use_context,
)
from portal.pages.dashboard.templating.reading import asks_length, form_read
from portal.people.tenants.selectors import tenants_of
from portal.planning.templating.document import MOST_BYTES, Document, document_kept
from portal.planning.templating.models import JobTemplate, TemplateVersion
from portal.planning.templating.selectors import MOST_NUMBER, saved_get, template_get, version_get
from portal.planning.templating.services import template_delete, template_owner, template_save, values_save
from portal.planning.templating.submitting import (
    Order,
    document_suggested,
    order_make,
    order_problems,
    order_submit,
    values_known,
)
from portal.planning.templating.yaml_text import yaml_read, yaml_write
from portal.work.jobs.listing import job_find

EMPTY = """\
name: my-template
title: My template
about: ""
parameters:
  - {name: seconds, type: integer, label: Seconds, default: 60, least: 1, most: 3600}
job:
  command: sleep ${{ seconds }}
  gpus: 1
"""


def _number(text: str | None) -> int | None:
    """Return a number of a query; None without one. Raises NotFound for other text."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST_NUMBER):
        raise NotFound("page")
    return int(text)


def _found(request: HttpRequest, number: int) -> tuple[JobTemplate, TemplateVersion, Document]:
    template = template_get(number, user=request.user)
    asked = request.POST.get("version") if request.method == "POST" else request.GET.get("version")
    version = version_get(template, _number(asked))
    return template, version, document_kept(version.document)


def template_list(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").replace("\0", "")[:200]
    page = _number(request.GET.get("page")) or 1
    return render(request, "templating/list.html", list_context(request.user, text, page))


def template_detail(request: HttpRequest, number: int) -> HttpResponse:
    template, version, _ = _found(request, number)
    other = _number(request.GET.get("with"))
    return render(request, "templating/detail.html", detail_context(request.user, template, version, other))


def template_yaml(request: HttpRequest, number: int) -> HttpResponse:
    """Send a version as YAML, to be imported elsewhere."""
    template, version, _ = _found(request, number)
    answer = HttpResponse(yaml_write(version.document), content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{template.name}.yaml"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


# ---- a job from a template -------------------------------------------------------------------------------------------


def template_use(request: HttpRequest, number: int) -> HttpResponse:
    """Show the form that the parameters make (`?from=` a job, `?saved=` settings), submit it, or save its settings."""
    template, version, document = _found(request, number)
    if request.method == "GET":
        context = use_context(request.user, template, version, document, _beginning(request, document), [])
        return render(request, "templating/use.html", context)
    given, order, problems = _examine(request, template, version, document)
    if order is not None and not problems:
        try:
            if request.POST.get("act") == "save":
                return _save(request, template, order)
            job = order_submit(order, user=request.user, tenant=None)
        except BerthError as error:
            problems = [error]
        else:
            messages.success(request, f"Submitted: job {job.number}.")
            return redirect("job-detail", number=job.number)
    context = use_context(request.user, template, version, document, given, problems)
    return render(request, "templating/use.html", context, status=problems[0].status)


def _beginning(request: HttpRequest, document: Document) -> dict[str, Any]:
    """Return the values that the form begins with."""
    if job_number := request.GET.get("from"):
        job = job_find(user=request.user, number=job_number)
        kept = job.brought.template.get("values", {})
        return {"values": values_known(document, kept), "tenant": job.tenant.name, "from_job": job.number}
    if saved := _number(request.GET.get("saved")):
        kept = saved_get(saved, user=request.user)
        return {"values": values_known(document, kept.values), "save_as": kept.name}
    return {"values": {}}


def _examine(
    request: HttpRequest, template: JobTemplate, version: TemplateVersion, document: Document
) -> tuple[dict[str, Any], Order | None, list[BerthError]]:
    """Read the form. Return its values, the order that they make, and every reason to refuse it."""
    given, changes, wrong = form_read(document, request.POST)
    order, problems = order_make(template, version, given["values"], changes, tenant=given["tenant"] or None)
    problems = [*problems, *wrong]
    if order is not None and not wrong and request.POST.get("act") != "save":
        problems = order_problems(order, user=request.user)
    return given, order, problems


def _save(request: HttpRequest, template: JobTemplate, order: Order) -> HttpResponse:
    name = request.POST.get("save_as", "")
    saved = values_save(user=request.user, template=template, name=name, values=order.origin["values"])
    messages.success(request, f"Saved as {saved.name}.")
    return redirect(f"{reverse('template-use', args=[template.pk])}?saved={saved.pk}")


def template_plan(request: HttpRequest, number: int) -> HttpResponse:
    """Answer with the card beside the form, the forecast of the next planning, and every problem."""
    throttle_check(request, FormThrottle)
    template, version, document = _found(request, number)
    given, order, problems = _examine(request, template, version, document)
    context: dict[str, Any] = {"oob": True, "problems": errors_of(document, problems), "command_line": None}
    if order is None or problems:
        context["verdict"] = refused_context(problems)
    else:
        context["verdict"] = dry_run_context(request.user, order.description)
        if not asks_length(document):
            context["verdict"]["similar"] = None
        more = {"--name": given["name"], "--tenant": given["tenant"], "--expected": given["expected_duration_s"]}
        context["command_line"] = command_line(document, version.number, order.origin["values"], more)
    return render(request, "templating/_plan.html", context)


# ---- making and changing ---------------------------------------------------------------------------------------------


def template_new(request: HttpRequest) -> HttpResponse:
    """Make a template from YAML: pasted, from a file, of a job (`?from=`), or of a template that is there (`?of=`)."""
    error = None
    if request.method == "POST":
        text, whose = request.POST.get("text", "").replace("\r\n", "\n"), request.POST.get("whose", "")
        try:
            text = _read_upload(request) or text
            owner = (
                template_owner(user=request.user, name=whose or None, operators=False)
                if whose != "*"
                else (template_owner(user=request.user, name=None, operators=True))
            )
            template, changed = template_save(actor=request.user, tenant=owner, document=yaml_read(text))
        except BerthError as refused:
            error = refused
        else:
            words = f"Version {template.version} is saved." if changed else "Nothing differs from the last version."
            messages.success(request, words)
            return redirect("template-detail", number=template.pk)
    else:
        text, whose = _begin(request)
    tenants = [each.name for each in tenants_of(request.user)]
    context = {"text": text, "whose": whose, "tenants": tenants, "error": error}
    return render(request, "templating/new.html", context, status=error.status if error else 200)


def _begin(request: HttpRequest) -> tuple[str, str]:
    """Return the text that the page begins with, and whose template it would be."""
    if job_number := request.GET.get("from"):
        job = job_find(user=request.user, number=job_number)
        description = job.brought.description
        note = "# The files that were uploaded for this job do not come along; small ones may stand in job.files.\n"
        text = yaml_write(document_suggested(description))
        return (note if description.get("upload") else "") + text, job.tenant.name
    if of := _number(request.GET.get("of")):
        template = template_get(of, user=request.user)
        whose = template.tenant.name if template.tenant else "*" if request.user.is_operator else ""
        return yaml_write(version_get(template).document), whose
    return EMPTY, ""


def _read_upload(request: HttpRequest) -> str:
    detail = "The file is larger than 512 KiB; a template is 256 KiB at most."
    return text_of(request.FILES.get("file"), 2 * MOST_BYTES, BerthError("too_large", detail, field="text"))


def template_drop(request: HttpRequest, number: int) -> HttpResponse:
    template = template_get(number, user=request.user)
    template_delete(actor=request.user, template=template)
    messages.success(request, f"The template {template.name} is deleted.")
    return redirect("template-list")


# ---- saved settings --------------------------------------------------------------------------------------------------


def saved_drop(request: HttpRequest, number: int) -> HttpResponse:
    saved = saved_get(number, user=request.user)
    saved.delete()
    messages.success(request, f"{saved.name} is deleted.")
    return redirect("template-use", number=saved.template_id) if saved.template_id else redirect("job-submit")
