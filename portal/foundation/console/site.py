"""The operator's console: its site, its pages by subject, and its one way in, which is the portal's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.shortcuts import redirect
from django.urls import reverse

from portal.foundation.errors import NotFound

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PAGES = (
    ("", (("Home", "index"),)),
    (
        "Scheduling",
        (
            ("Knobs", "rounds_operatorsetting_changelist"),
            ("Plannings", "rounds_planning_changelist"),
            ("Rounds", "rounds_round_changelist"),
            ("Jobs", "jobs_job_changelist"),
        ),
    ),
    (
        "Cluster",
        (
            ("Nodes", "cluster_node_changelist"),
            ("Attach a cluster", "engines_engine_add"),
            ("Attached clusters", "engines_engine_changelist"),
            ("GPU types", "cluster_gputype_changelist"),
            ("Neighbours on a GPU", "estimation_pairspeed_changelist"),
            ("Software", "cluster_namedenvironment_changelist"),
            ("Join tokens", "cluster_jointoken_changelist"),
        ),
    ),
    (
        "People",
        (
            ("Tenants", "tenants_tenant_changelist"),
            ("Users", "tenants_user_changelist"),
            ("Tokens", "tenants_apitoken_changelist"),
            ("Failed sign-ins", "axes_accessattempt_changelist"),
        ),
    ),
    (
        "System",
        (
            ("Announcements", "notifications_announcement_changelist"),
            ("Changes", "tenants_auditevent_changelist"),
            ("Timetable", "django_celery_beat_periodictask_changelist"),
        ),
    ),
)


class Console(AdminSite):
    site_title = site_header = index_title = "Console"

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Give the frame its list of pages; the chosen one is that of which the address is a part."""
        home = reverse("admin:index")
        groups = [(title, [(label, reverse(f"admin:{name}")) for label, name in pages]) for title, pages in PAGES]
        chosen = [url for _, pages in groups for _, url in pages if url != home and request.path.startswith(url)]
        return {
            "title": "Console",
            "console": groups,
            "chosen": chosen[0] if chosen else home,
            "has_permission": self.has_permission(request),
        }

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Lead to the portal's sign-in. Raises NotFound for a signed-in user that is no operator."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise NotFound("page")
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"), reverse("login"))

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> HttpResponse:
        return redirect("admin:index")
