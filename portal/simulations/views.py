"""The laboratory's pages: simulations, their answers side by side, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.errors import BerthError, NotFound
from portal.simulations import form, pages
from portal.simulations.laboratory import (
    owned_share,
    simulation_cancel,
    simulation_delete,
    simulation_order,
    trace_add,
    trace_delete,
)
from portal.simulations.models import LabTrace, Simulation
from portal.simulations.selectors import history_taken, simulation_get, trace_get
from portal.tenants.selectors import tenants_of

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.tenants.models import Tenant, User


@login_required
@require_GET
def laboratory(request: HttpRequest) -> HttpResponse:
    """The list, or with `?fragment=table` its table alone."""
    fragment = request.GET.get("fragment")
    if fragment not in {None, "table"}:
        raise NotFound("fragment")
    context = pages.list_context(request.user)
    return render(request, "laboratory/_list.html" if fragment else "laboratory/list.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return render(request, "laboratory/new.html", pages.new_context(request.user))
    try:
        order = form.order_of(request.POST, user=request.user)
        made = simulation_order(
            user=request.user, tenant=_tenant(request.user, request.POST.get("tenant")), order=order
        )
    except BerthError as error:
        context = pages.new_context(request.user, request.POST, error)
        return render(request, "laboratory/new.html", context, status=error.status)
    return redirect("laboratory-detail", number=made.pk)


def _tenant(user: User, name: str | None) -> Tenant:
    """The tenant of that name among the user's; the only one where none is named."""
    tenants = tenants_of(user)
    if not name and len(tenants) == 1:
        return tenants[0]
    for tenant in tenants:
        if tenant.name == name:
            return tenant
    names = ", ".join(each.name for each in tenants) or "none"
    raise BerthError("invalid", f"Choose one of your tenants: {names}.", field="tenant")


@login_required
@require_GET
def detail(request: HttpRequest, number: int) -> HttpResponse:
    """A simulation, or with `?fragment=progress` its bars alone: once it has ended they ask for the whole page."""
    simulation = simulation_get(user=request.user, number=number)
    fragment = request.GET.get("fragment")
    if fragment not in {None, "progress"}:
        raise NotFound("fragment")
    if fragment is None:
        return render(request, "laboratory/detail.html", pages.detail_context(simulation, request.user))
    answer = render(request, "laboratory/_progress.html", pages.progress_context(simulation))
    if not simulation.is_open:
        answer["HX-Refresh"] = "true"
    return answer


@login_required
@require_GET
def figure(request: HttpRequest, number: int, name: str) -> HttpResponse:
    return JsonResponse(pages.figure_of([simulation_get(user=request.user, number=number)], name))


@login_required
@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    return render(request, "laboratory/compare.html", pages.compare_context(request.user, _runs(request)))


@login_required
@require_GET
def compare_figure(request: HttpRequest, name: str) -> HttpResponse:
    return JsonResponse(pages.figure_of(pages.chosen_of(request.user, _runs(request)), name))


def _runs(request: HttpRequest) -> list[int]:
    return [form.whole(text, "run") for text in request.GET.getlist("run")]


@login_required
@require_GET
def answer(request: HttpRequest, number: int) -> HttpResponse:
    """All figures of a simulation as a JSON file."""
    simulation = simulation_get(user=request.user, number=number)
    response = JsonResponse({"policies": simulation.figures}, json_dumps_params={"sort_keys": True, "indent": 1})
    response["Content-Disposition"] = f'attachment; filename="simulation-{simulation.pk}.json"'
    return response


@login_required
@require_POST
def act(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    """Cancel, share or delete one's own; an operator may cancel what he sees."""
    simulation = simulation_get(user=request.user, number=number)
    if not _may(simulation, request.user, verb):
        raise NotFound("simulation")
    if verb == "cancel":
        simulation_cancel(simulation=simulation, actor=request.user)
        messages.success(request, "It stops within seconds." if simulation.state == "RUNNING" else "It is cancelled.")
    elif verb == "share":
        owned_share(row=simulation, actor=request.user, shared_with=request.POST.get("shared_with", ""))
        messages.success(request, "Who sees it is changed.")
    elif verb == "delete":
        simulation_delete(simulation=simulation, actor=request.user)
        messages.success(request, f"{simulation.name} is deleted.")
        return redirect("laboratory")
    else:
        raise NotFound("action")
    return redirect("laboratory-detail", number=number)


def _may(row: LabTrace | Simulation, user: User, verb: str) -> bool:
    return row.owner_id == user.pk or (verb == "cancel" and user.is_operator)


@login_required
@require_http_methods(["GET", "POST"])
def traces(request: HttpRequest) -> HttpResponse:
    """The traces; a POST uploads one, or takes one from this cluster's history (`days`)."""
    if request.method == "GET":
        return render(request, "laboratory/traces.html", pages.traces_context(request.user))
    try:
        trace = _trace_from(request)
    except BerthError as error:
        context = pages.traces_context(request.user, request.POST.dict(), error)
        return render(request, "laboratory/traces.html", context, status=error.status)
    messages.success(request, f"{trace.name}: {trace.jobs} jobs.")
    return redirect("laboratory-traces")


def _trace_from(request: HttpRequest) -> LabTrace:
    user, post = request.user, request.POST
    tenant = _tenant(user, post.get("tenant"))
    if post.get("origin") == LabTrace.Origin.HISTORY:
        days = form.number(post.get("days", ""), "days")
        everybody = user.is_operator
        content, form_name = history_taken(tenant=None if everybody else tenant, days=days), "berth-jsonl"
        name = post.get("name", "").strip() or f"the last {days:g} day{'s' if days != 1 else ''}"
        origin = LabTrace.Origin.HISTORY
    else:
        file = request.FILES.get("file")
        if file is None:
            raise BerthError("blank", "Choose a file.", field="file")
        content, form_name, origin = file.read(), post.get("format", ""), LabTrace.Origin.UPLOAD
        everybody = False
        name = post.get("name", "").strip() or file.name
    return trace_add(
        user=user, tenant=tenant, name=name, form=form_name, content=content, origin=origin, all_tenants=everybody
    )


@login_required
@require_POST
def trace_act(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    trace = trace_get(user=request.user, number=number)
    if trace.owner_id != request.user.pk:
        raise NotFound("trace")
    if verb == "share":
        owned_share(row=trace, actor=request.user, shared_with=request.POST.get("shared_with", ""))
        messages.success(request, "Who sees it is changed.")
    elif verb == "delete":
        trace_delete(trace=trace, actor=request.user)
        messages.success(request, f"{trace.name} is deleted.")
    else:
        raise NotFound("action")
    return redirect("laboratory-traces")
