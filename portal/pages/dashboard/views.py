"""The pages on the whole cluster: overview, cluster, nodes, rounds, tokens, search. Each needs a sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from portal.cluster import selectors as cluster
from portal.cluster.services import health, operating
from portal.foundation.errors import BerthError, Forbidden, NotFound
from portal.pages.dashboard.board.feed import HORIZONS_H, board_now, horizon, stream_of
from portal.pages.dashboard.cluster import node as cluster_page_node
from portal.pages.dashboard.cluster import page as cluster_page
from portal.pages.dashboard.overview import page as overview
from portal.pages.dashboard.parts.snapshot import Snapshot, fragment_answer, page_numbers
from portal.pages.dashboard.shell import account, search
from portal.pages.dashboard.shell.frame import page_follow
from portal.work.jobs.listing import job_find
from portal.work.notifications.asking import owner_ask

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.cluster.models import Node


# ---- overview --------------------------------------------------------------------------------------------------------


def overview_fragment(request: HttpRequest, name: str) -> HttpResponse:
    snapshot = Snapshot(request.user)
    return fragment_answer(overview.fragment_html(name, snapshot), snapshot.sharing)


def job_ask(request: HttpRequest, number: str) -> HttpResponse:
    """Ask a job's owner something; operators only."""
    job = job_find(user=request.user, number=number)
    try:
        sent = owner_ask(job=job, actor=request.user, text=request.POST.get("text", ""))
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        messages.error(request, error.detail)
    else:
        how = "gets a message" if sent else "chose no messages of this kind; it stands on the job's page"
        messages.success(request, f"{job.owner.username} {how}.")
    return redirect(_back(request) or "overview")


# ---- cluster ---------------------------------------------------------------------------------------------------------


def cluster_list(request: HttpRequest) -> HttpResponse:
    page_follow(request, "cluster", stream_of(HORIZONS_H[0]))
    snapshot = Snapshot(request.user)
    context = cluster_page.cluster_context(snapshot)
    page_numbers(request, snapshot.sharing)
    return render(request, "cluster/list.html", context)


def cluster_board(request: HttpRequest) -> HttpResponse:
    """The cluster as numbers: the same for every reader, it names no job."""
    return JsonResponse(board_now(horizon(request.GET.get("h"))), json_dumps_params={"separators": (",", ":")})


def cluster_rows(request: HttpRequest) -> HttpResponse:
    """The nodes of one group as a table, a page at a time."""
    by, group, page = request.GET.get("by", "type"), request.GET.get("group", ""), request.GET.get("page")
    context = cluster_page.rows_context(request.user, by=by, group=group, page=page)
    return render(request, "cluster/_rows.html", context)


def cluster_fragment(request: HttpRequest, name: str) -> HttpResponse:
    snapshot = Snapshot(request.user)
    return fragment_answer(cluster_page.fragment_html(name, snapshot), snapshot.sharing)


def node_detail(request: HttpRequest, name: str) -> HttpResponse:
    page_follow(request, "cluster", f"node:{name}")
    return render(
        request,
        "cluster/node.html",
        cluster_page_node.node_context(Snapshot(request.user, names=[name]), name, chosen=request.GET.get("range")),
    )


def node_fragment(request: HttpRequest, name: str, fragment: str) -> HttpResponse:
    context = cluster_page_node.fragment_context(Snapshot(request.user, names=[name]), name, fragment)
    return render(request, f"cluster/_node_{fragment}.html", context)


def node_figure(request: HttpRequest, name: str, figure: str) -> HttpResponse:
    snapshot = Snapshot(request.user, names=[name])
    return JsonResponse(cluster_page_node.node_figure(snapshot, name, figure, chosen=request.GET.get("range")))


def node_action(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Drain, resume or declare dead; operators only, and with a reason but for resuming."""
    if not request.user.is_operator:
        raise Forbidden("Only an operator may change a node.", code="operator_only")
    node, reason = cluster.node_get(user=request.user, name=name), request.POST.get("reason", "")
    if verb == "drain":
        operating.node_drain(node=node, actor=request.user, reason=reason)
        messages.success(request, f"{name} takes no new jobs; what runs there goes on.")
    elif verb == "resume":
        operating.node_resume(node=node, actor=request.user)
        messages.success(request, f"{name} takes jobs again.")
    elif verb == "dead":
        operating.node_declare_dead(node=node, actor=request.user, reason=reason)
        messages.success(request, f"{name} is declared dead; its jobs that may be requeued wait for another node.")
    elif verb in {"gpu-cordon", "gpu-resume"}:
        _gpu_action(request, node, verb, reason)
    else:
        raise NotFound("action")
    return redirect(_back(request) or "cluster")


def _gpu_action(request: HttpRequest, node: Node, verb: str, reason: str) -> None:
    raw = request.POST.get("resume" if verb == "gpu-resume" else "index", "")
    if not (raw.isascii() and raw.isdigit() and len(raw) < 5):
        raise NotFound("GPU")
    if verb == "gpu-cordon":
        health.gpu_cordon(node=node, index=int(raw), actor=request.user, reason=reason)
        messages.success(request, f"GPU {raw} of {node.name} goes to no new job; what runs on it goes on.")
    else:
        health.gpu_resume(node=node, index=int(raw), actor=request.user)
        messages.success(request, f"GPU {raw} of {node.name} takes jobs again.")


def _back(request: HttpRequest) -> str | None:
    """Return the page that the form stood on, if it is one of ours."""
    referer = request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(referer, {request.get_host()}, require_https=request.is_secure())
    return referer if ours else None


def banner(request: HttpRequest) -> HttpResponse:
    """The line above each page, which an operator may change while the page is open."""
    return render(request, "parts/_banner.html")


# ---- account ---------------------------------------------------------------------------------------------------------


@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's tokens; a POST makes one and shows its secret in this answer only."""
    if request.method == "GET":
        return render(request, "tenants/tokens.html", account.tokens_context(request.user))
    try:
        fresh = account.token_from_form(request.user, request.POST)
    except BerthError as error:
        context = account.tokens_context(request.user, form=request.POST, error=error)
        return render(request, "tenants/tokens.html", context, status=error.status)
    return render(request, "tenants/tokens.html", account.tokens_context(request.user, fresh=fresh), status=201)


def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    token = account.token_end(request.user, token_id)
    messages.success(request, f"{token.name} is revoked; whatever used it is refused from now on.")
    return redirect("tokens")


# ---- search ----------------------------------------------------------------------------------------------------------


def search_page(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    context = search.search_context(request.user, text)
    target = search.search_target(request.user, text) if text else None
    return redirect(target) if target else render(request, "dashboard/search.html", context)
