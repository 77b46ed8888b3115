"""Every page of the portal: its path, its view, its name, its readers and its title. Each list of pages reads this.

URL patterns, sign-in, the navigation and titles are made from it. The tests of rights, the benchmark, the accessibility
test and the pictures ask for its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_http_methods

from portal.foundation.errors import NotFound
from portal.pages.dashboard import views
from portal.pages.dashboard.artefacts import views as artefacts
from portal.pages.dashboard.cluster import views as cluster
from portal.pages.dashboard.console import home as console
from portal.pages.dashboard.help import views as help_views
from portal.pages.dashboard.home import views as home
from portal.pages.dashboard.jobs import saved
from portal.pages.dashboard.jobs import views as jobs
from portal.pages.dashboard.jobs.array import views as arrays
from portal.pages.dashboard.jobs.compare import views as compare
from portal.pages.dashboard.jobs.ended import job_run_mended
from portal.pages.dashboard.jobs.ran.sent import job_sent
from portal.pages.dashboard.jobs.running import job_extend, job_keep_running
from portal.pages.dashboard.jobs.waiting import views as waiting
from portal.pages.dashboard.people import hooks_and_secrets, usage
from portal.pages.dashboard.people import views as people
from portal.pages.dashboard.ports.views import job_port
from portal.pages.dashboard.queue import views as queue
from portal.pages.dashboard.rounds import views as round_views
from portal.pages.dashboard.sharing import views as sharing
from portal.pages.dashboard.shell.banner import frame_told
from portal.pages.dashboard.shell.frame import own_tenants, shell_of
from portal.pages.dashboard.submit import views as submit
from portal.pages.dashboard.templating import views as templating
from portal.pages.dashboard.terminal.views import job_terminal
from portal.pages.laboratory.pages import views as laboratory
from portal.people.accounts.forms import SignInForm

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.pages.dashboard.parts.context import Choice, Shell

Menu = Literal["everyone", "operators"]
"""Some of the operators' entries stand before tenants too, where an operator shows them (`SHOWN_BY`)."""
View = Callable[..., HttpResponseBase]
Kind = Literal["page", "part", "file", "act"]
"""A page; a fragment or figure of one; a picture or a download; an action."""
Readers = Literal["everyone", "signed in", "tenant", "owner", "operators"]
"""`tenant`: members of the tenant that the thing belongs to, and operators. `owner`: only its owner, unless it is shared."""


@dataclass(frozen=True)
class Page:
    """`readers`: others find nothing there. A view for `everyone` checks its own methods.

    `title` is the browser's; a template says it where it depends on what is shown. `menu`: users who have it in the navigation.
    `queries`: the most that it may send to the database.
    """

    path: str
    view: View
    name: str
    readers: Readers = "signed in"
    title: str = ""
    kind: Kind = "page"
    methods: tuple[str, ...] = ("GET",)
    menu: Menu | None = None
    queries: int = 30


part = partial(Page, kind="part")
file = partial(Page, kind="file")
act = partial(Page, kind="act", methods=("POST",))
form = partial(Page, methods=("GET", "POST"))

SECTIONS: tuple[tuple[Page, ...], ...] = (
    (
        Page("", home.overview_page, "overview", title="Overview", menu="everyone", queries=60),
        part("home/parts/<slug:name>", home.home_part, "home-part"),
        part("home/offer", home.home_offer, "home-offer"),
        act("home/dismiss", home.home_dismiss, "home-dismiss"),
        part("fragments/overview/<slug:name>", views.overview_fragment, "overview-fragment", "operators"),
    ),
    (
        Page("jobs/", jobs.job_list, "job-list", title="Jobs", menu="everyone"),
        form("jobs/new", submit.submit, "job-submit", title="Submit a job"),
        act("jobs/new/script", submit.from_script, "job-from-script"),
        act("jobs/new/save", submit.form_save, "form-save"),
        act("jobs/plan", submit.dry_run, "job-dry-run"),
        act("jobs/alternatives", submit.alternatives, "job-alternatives"),
        act("jobs/bulk", jobs.job_bulk, "job-bulk"),
        act("jobs/columns", saved.job_columns, "job-columns"),
        act("jobs/views", saved.job_view_save, "job-view-save"),
        act("jobs/views/<str:number>/delete", saved.job_view_delete, "job-view-delete", "owner"),
        file("jobs/csv", jobs.job_csv, "job-csv"),
        Page("jobs/compare", compare.job_compare, "job-compare", title="Compare jobs"),
        part("jobs/compare/figures/<slug:name>", compare.job_compare_figure, "job-compare-figure", "tenant"),
        Page("jobs/<str:number>/", jobs.job_detail, "job-detail", "tenant", queries=34),
        part("jobs/<str:number>/sweep", arrays.array_figure, "array-figure", "tenant"),
        file("jobs/<str:number>/tasks.csv", arrays.array_csv, "array-csv", "tenant"),
        part("jobs/<str:number>/tasks", jobs.job_tasks, "job-tasks", "tenant"),
        part("jobs/<str:number>/log", jobs.job_log, "job-log", "tenant"),
        file("jobs/<str:number>/log/download", jobs.job_log_download, "job-log-download", "tenant"),
        part("jobs/<str:number>/explain.json", jobs.job_explain, "job-explain", "tenant"),
        part("jobs/<str:number>/figures/<str:name>", jobs.job_figure, "job-figure", "tenant"),
        part("jobs/<str:number>/fragments/<str:name>", jobs.job_fragment, "job-fragment", "tenant"),
        part("jobs/<str:number>/sent", job_sent, "job-sent", "tenant"),
        part("jobs/<str:number>/waiting", waiting.job_waiting, "job-waiting", "tenant"),
        act("jobs/<str:number>/offer", waiting.job_offer, "job-offer", "tenant"),
        act("jobs/<str:number>/mend", job_run_mended, "job-mend", "tenant"),
        act("jobs/<str:number>/extend", job_extend, "job-extend", "tenant"),
        act("jobs/<str:number>/ask", views.job_ask, "job-ask", "operators"),
        act("jobs/<str:number>/keep", job_keep_running, "job-keep", "tenant"),
        act("jobs/<str:number>/<str:verb>", jobs.job_action, "job-action", "tenant"),
        Page("jobs/<str:number>/terminal", job_terminal, "job-terminal", "tenant"),
        file("jobs/<str:number>/ports/<int:port>", job_port, "job-port", "tenant"),
        Page("jobs/<str:number>/artefacts", artefacts.job_artefacts, "job-artefacts", "tenant"),
        part("jobs/<str:number>/artefacts/figure", artefacts.job_artefacts_figure, "job-artefacts-figure", "tenant"),
        file("jobs/<str:number>/artefacts/picture", artefacts.job_artefacts_picture, "job-artefacts-picture", "tenant"),
        file(
            "jobs/<str:number>/artefacts/download", artefacts.job_artefacts_download, "job-artefacts-download", "tenant"
        ),
        act("jobs/<str:number>/artefacts/remove", artefacts.job_artefacts_remove, "job-artefacts-remove", "tenant"),
        part(
            "jobs/<str:number>/artefacts/parts/<slug:name>",
            artefacts.job_artefacts_fragment,
            "job-artefacts-fragment",
            "tenant",
        ),
        Page("templates/", templating.template_list, "template-list", title="Job templates"),
        form("templates/new", templating.template_new, "template-new", title="New template"),
        act("templates/saved/<int:number>/delete", templating.saved_drop, "saved-delete", "owner"),
        Page("templates/<int:number>/", templating.template_detail, "template-detail", "tenant"),
        form("templates/<int:number>/use", templating.template_use, "template-use", "tenant"),
        act("templates/<int:number>/plan", templating.template_plan, "template-plan", "tenant"),
        file("templates/<int:number>/yaml", templating.template_yaml, "template-yaml", "tenant"),
        act("templates/<int:number>/delete", templating.template_drop, "template-delete", "tenant"),
    ),
    (Page("queue/", queue.queue, "queue", title="Queue", menu="everyone"),),
    (
        Page("cluster/", views.cluster_list, "cluster", title="Cluster", menu="everyone"),
        part("cluster/board", views.cluster_board, "cluster-board"),
        part("cluster/rows", views.cluster_rows, "cluster-rows"),
        part("cluster/fragments/<slug:name>", views.cluster_fragment, "cluster-fragment"),
        Page("cluster/engines/<int:number>/", cluster.engine_detail, "engine-detail"),
        part("cluster/engines/<int:number>/fragments/<slug:fragment>", cluster.engine_fragment, "engine-fragment"),
        Page("cluster/<str:name>/", views.node_detail, "node-detail"),
        part("cluster/<str:name>/fragments/<slug:fragment>", views.node_fragment, "node-fragment"),
        part("cluster/<str:name>/figures/<slug:figure>", views.node_figure, "node-figure"),
        act("cluster/<str:name>/<slug:verb>", views.node_action, "node-action"),  # others are refused with the reason
        Page("sharing/", sharing.sharing_page, "sharing", "operators", "Sharing"),
        part("sharing/figures/use", sharing.sharing_figure, "sharing-figure", "operators"),
        act("sharing/proposals/new", sharing.sharing_train, "sharing-train", "operators"),
        part("sharing/proposals/<int:number>/curve", sharing.sharing_curve, "sharing-curve", "operators"),
        act("sharing/proposals/<int:number>/<slug:verb>", sharing.sharing_decide, "sharing-decide", "operators"),
    ),
    (
        Page("rounds/metrics/", round_views.rounds_metrics, "rounds-metrics", title="Figures", menu="operators"),
        Page("rounds/", round_views.rounds, "rounds", title="Plannings"),
        Page("rounds/plannings/<int:number>/", round_views.planning_detail, "planning-detail"),
        file("rounds/metrics/figures.csv", round_views.rounds_csv, "rounds-csv"),
        part("rounds/metrics/figures/<slug:name>", round_views.rounds_figure, "rounds-figure"),
    ),
    (
        Page("laboratory/", laboratory.laboratory, "laboratory", title="Laboratory", menu="operators"),
        form("laboratory/new", laboratory.new, "laboratory-new", title="New simulation"),
        Page("laboratory/compare", laboratory.compare, "laboratory-compare", "owner", "Compare - Laboratory"),
        part("laboratory/compare/figures/<slug:name>", laboratory.compare_figure, "laboratory-compare-figure", "owner"),
        form("laboratory/traces/", laboratory.traces, "laboratory-traces", title="Traces - Laboratory"),
        act("laboratory/traces/<int:number>/<slug:verb>", laboratory.trace_act, "laboratory-trace-act", "owner"),
        Page("laboratory/<int:number>/", laboratory.detail, "laboratory-detail", "owner"),
        part("laboratory/turns", laboratory.turns, "laboratory-turns"),
        part("laboratory/<int:number>/figures/<slug:name>", laboratory.figure, "laboratory-figure", "owner"),
        part("laboratory/<int:number>/answer.json", laboratory.answer, "laboratory-answer", "owner"),
        act("laboratory/<int:number>/<slug:verb>", laboratory.act, "laboratory-act", "owner"),
    ),
    (
        form("account/", people.account, "account", title="Account"),
        act("account/second", people.second, "second-factor"),
        act("account/sessions/<int:number>/end", people.sign_out_one, "session-end", "owner"),
        act("account/sessions/end", people.sign_out_others, "sessions-end"),
        act("account/time-zone", people.time_zone, "time-zone"),
        act("account/notifications", hooks_and_secrets.wishes, "notifications"),
        act("account/webhooks", hooks_and_secrets.hook_new, "account-webhooks"),
        act("account/webhooks/<int:number>/<slug:verb>", hooks_and_secrets.hook_act, "account-webhook", "owner"),
        form("account/tokens/", views.tokens, "tokens", title="API tokens"),
        act("account/tokens/<int:token_id>/revoke", views.token_revoke, "token-revoke", "owner"),
        Page("tenants/<slug:name>/", people.tenant, "tenant", "tenant"),
        Page("tenants/<slug:name>/usage", usage.tenant_usage, "tenant-usage", "tenant"),
        act("tenants/<slug:name>/webhooks", hooks_and_secrets.hook_new, "tenant-webhooks", "tenant"),
        act(
            "tenants/<slug:name>/webhooks/<int:number>/<slug:verb>",
            hooks_and_secrets.hook_act,
            "tenant-webhook",
            "tenant",
        ),
        act("tenants/<slug:name>/secrets", hooks_and_secrets.secret_new, "tenant-secrets", "tenant"),
        act(
            "tenants/<slug:name>/secrets/<str:secret>/remove",
            hooks_and_secrets.secret_end,
            "tenant-secret-remove",
            "tenant",
        ),
        act("tenants/<slug:name>/members/<str:username>", people.member, "tenant-member", "tenant"),
        act("tenants/<slug:name>/invite", people.invite, "tenant-invite", "tenant"),
        act(
            "tenants/<slug:name>/invitations/<int:number>/end", people.invitation_end, "tenant-invitation-end", "tenant"
        ),
        form("invitations/<str:secret>", people.invitation, "invitation", title="Invitation"),
    ),
    (
        part("banner", views.banner, "banner"),
        act("console/backup", console.backup_now, "console-backup", "operators"),
        Page("search", views.search_page, "search", title="Search"),
        Page("help/", help_views.help_index, "help", title="Help"),
        file("help/images/<str:name>", help_views.help_image, "help-image"),
        Page("help/<path:name>", help_views.help_guide, "help-guide"),
        form(
            "login",
            people.SignIn.as_view(redirect_authenticated_user=True, authentication_form=SignInForm),
            "login",
            "everyone",
        ),
        act("logout", LogoutView.as_view(), "logout", "everyone"),
    ),
)
PAGES = {page.name: page for section in SECTIONS for page in section}
HEADS = {page.name: section[0] for section in SECTIONS for page in section}
MENU = [section[0] for section in SECTIONS if section[0].menu]
SHOWN_BY = {"rounds-metrics": "figures_shown", "laboratory": "laboratory_shown"}
"""The operator's setting that shows a page's entry to tenants; the page itself opens for them by its address anyway."""
WORD_FIRST = ("", "<int", "<slug", "<str", "<path")


def order_of(page: Page) -> list[int]:
    """Return where its pattern stands: a path with a word in a place comes before one that takes any word there."""
    return [WORD_FIRST.index(piece.partition(":")[0] if piece[:1] == "<" else "") for piece in page.path.split("/")]


def guard(page: Page) -> View:
    """Return the view behind what the entry says: sign-in first, then the methods, then operators."""
    if page.readers == "everyone":
        return page.view
    view = for_operators(page.view) if page.readers == "operators" else page.view
    return login_required(require_http_methods(page.methods)(view))


def for_operators(view: View) -> View:
    @wraps(view)
    def opened(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
        if not request.user.is_operator:
            raise NotFound("page")
        return view(request, **arguments)

    return opened


urlpatterns = [path(page.path, guard(page), name=page.name) for page in sorted(PAGES.values(), key=order_of)]


def frame(request: HttpRequest) -> dict[str, Any]:
    """Give each template the frame of a signed-in page as `shell`. It is lazy: a fragment has none and pays nothing."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    return {"shell": SimpleLazyObject(lambda: _shell(request))}


def _shell(request: HttpRequest) -> Shell:
    match = request.resolver_match
    page = PAGES.get((match and match.url_name) or "")
    head = page and HEADS[page.name]
    user, told = request.user, frame_told()
    entries = [
        each for each in MENU if each.menu == "everyone" or user.is_operator or SHOWN_BY.get(each.name) in told["shown"]
    ]
    menu: list[Choice] = [
        {"value": each.name, "label": each.title, "selected": each is head, "url": reverse(each.name)}
        for each in entries
    ]
    if not user.is_operator and (tenants := own_tenants(request)):
        own = tenants[0].name
        selected = bool(page and page.path.startswith("tenants/") and match.kwargs["name"] == own)
        menu.append({"value": "tenant", "label": own, "selected": selected, "url": reverse("tenant", args=[own])})
    return shell_of(request, title=page.title if page else "", menu=menu, announced=told["announced"])
