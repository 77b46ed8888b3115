"""The laboratory's pages: simulations, their answers side by side, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render

from portal.foundation.api.throttles import LaboratoryThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.shell.frame import page_follow
from portal.pages.laboratory.live import stream_of
from portal.pages.laboratory.models import LabTrace
from portal.pages.laboratory.output import told
from portal.pages.laboratory.output.turns import turns_words
from portal.pages.laboratory.pages import answers, form
from portal.pages.laboratory.pages import shown as pages
from portal.pages.laboratory.run.answer import report_of
from portal.pages.laboratory.selectors import acting_check, simulation_get, simulations_for, tenant_chosen, trace_get
from portal.pages.laboratory.services import (
    history_add,
    owned_share,
    simulation_cancel,
    simulation_delete,
    simulation_order,
    trace_add,
    trace_delete,
)

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.pages.laboratory.models import Simulation


def laboratory(request: HttpRequest) -> HttpResponse:
    """Show the list, or with `?fragment=table` only its table."""
    fragment = request.GET.get("fragment")
    if fragment not in {None, "table"}:
        raise NotFound("fragment")
    page_follow(request, *pages.streams_listed(request.user))
    context = pages.list_context(request.user)
    return render(request, "laboratory/_list.html" if fragment else "laboratory/list.html", context)


def new(request: HttpRequest) -> HttpResponse:
    """Show the form: empty, or filled from a simulation (`?from=`), a trace (`?trace=`) or names. A POST asks for one."""
    if request.method == "GET":
        trace = request.GET.get("trace")
        chosen = trace_get(user=request.user, number=trace) if trace is not None else None
        asked = request.GET if "source" in request.GET else None
        context = pages.new_context(request.user, again=_again(request), trace=chosen, asked=asked)
        return render(request, "laboratory/new.html", context)
    try:
        throttle_check(request, LaboratoryThrottle)
        tenant = tenant_chosen(user=request.user, name=request.POST.get("tenant"))
        with transaction.atomic():  # a refused order keeps nothing of the history
            order = form.order_of(request.POST, user=request.user, tenant=tenant)
            made = simulation_order(user=request.user, tenant=tenant, order=order)
    except BerthError as error:
        context = pages.new_context(request.user, request.POST, error)
        return render(request, "laboratory/new.html", context, status=error.status)
    return redirect("laboratory-detail", number=made.pk)


def _again(request: HttpRequest) -> Simulation | None:
    number = request.GET.get("from")
    if number is None:
        return None
    found = simulation_get(user=request.user, number=number)
    acting_check(row=found, user=request.user, verb="again")
    return found


def detail(request: HttpRequest, number: int) -> HttpResponse:
    """Show a simulation, or one part: `?fragment=state` its state, `?fragment=progress` how far its policies are."""
    simulation = simulation_get(user=request.user, number=number)
    fragment = request.GET.get("fragment")
    if fragment not in {None, "state", "progress"}:
        raise NotFound("fragment")
    if fragment is None:
        if simulation.is_open:  # read again once it is followed: no event between the two is lost
            page_follow(request, stream_of(number))
            simulation = simulation_get(user=request.user, number=number)
        return render(request, "laboratory/detail.html", pages.detail_context(simulation, request.user))
    context = {"row": pages.row_of(simulation, request.user), **pages.progress_context(simulation)}
    return render(request, f"laboratory/_{fragment}.html", context)


def turns(request: HttpRequest) -> HttpResponse:
    """Say the price of turns by shares in the last simulation that tells it, for the pages of plannings."""
    last = simulations_for(user=request.user).exclude(turns={}).first()
    return render(request, "laboratory/_turns.html", {"last": last, "words": turns_words(last.turns) if last else ""})


def figure(request: HttpRequest, number: int, name: str) -> HttpResponse:
    return JsonResponse(answers.figure_of([simulation_get(user=request.user, number=number)], name))


def compare(request: HttpRequest) -> HttpResponse:
    return render(request, "laboratory/compare.html", pages.compare_context(request.user, _runs(request)))


def compare_figure(request: HttpRequest, name: str) -> HttpResponse:
    return JsonResponse(answers.figure_of(pages.chosen_of(request.user, _runs(request)), name))


def _runs(request: HttpRequest) -> list[int]:
    return [form.whole(text, "run") for text in request.GET.getlist("run")]


def answer(request: HttpRequest, number: int) -> HttpResponse:
    """Send a simulation's report as a JSON file."""
    simulation = simulation_get(user=request.user, number=number)
    disposition = f'attachment; filename="simulation-{simulation.pk}.json"'
    return HttpResponse(
        told.as_json(report_of(simulation)),
        content_type="application/json",
        headers={"Content-Disposition": disposition},
    )


def act(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    """Cancel, share or delete an own simulation. An operator may cancel every simulation that operators see."""
    simulation = simulation_get(user=request.user, number=number)
    acting_check(row=simulation, user=request.user, verb=verb)
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


def traces(request: HttpRequest) -> HttpResponse:
    """Show the traces. A POST uploads one, or takes one from this cluster's history (`days`)."""
    if request.method == "GET":
        return render(request, "laboratory/traces.html", pages.traces_context(request.user))
    try:
        throttle_check(request, LaboratoryThrottle)
        trace = _trace_from(request)
    except BerthError as error:
        context = pages.traces_context(request.user, request.POST.dict(), error)
        return render(request, "laboratory/traces.html", context, status=error.status)
    messages.success(request, f"{trace.name}: {trace.jobs} jobs.")
    return redirect("laboratory-traces")


def _trace_from(request: HttpRequest) -> LabTrace:
    user, post = request.user, request.POST
    tenant = tenant_chosen(user=user, name=post.get("tenant"))
    name = post.get("name", "").strip()
    if post.get("origin") == LabTrace.Origin.HISTORY:
        return history_add(user=user, tenant=tenant, name=name, days=form.number(post.get("days", ""), "days"))
    file = request.FILES.get("file")
    if file is None:
        raise BerthError("blank", "Choose a file.", field="file")
    return trace_add(user=user, tenant=tenant, name=name or file.name, form=post.get("format", ""), content=file.read())


def trace_act(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    trace = trace_get(user=request.user, number=number)
    acting_check(row=trace, user=request.user, verb=verb)
    if verb == "share":
        owned_share(row=trace, actor=request.user, shared_with=request.POST.get("shared_with", ""))
        messages.success(request, "Who sees it is changed.")
    elif verb == "delete":
        trace_delete(trace=trace, actor=request.user)
        messages.success(request, f"{trace.name} is deleted.")
    else:
        raise NotFound("action")
    return redirect("laboratory-traces")
