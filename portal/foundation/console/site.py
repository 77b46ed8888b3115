"""The operator's console: its name, colours (the portal's own tokens) and the groups of its sidebar, for UNFOLD."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy


def _link(title: str, icon: str, model: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{model}_changelist")}


NAVIGATION = [
    {
        "title": "Scheduling",
        "separator": False,
        "items": [
            _link("Policy settings", "tune", "rounds_operatorsetting"),
            _link("Plannings", "account_tree", "rounds_planning"),
            _link("Rounds", "history", "rounds_round"),
            _link("Jobs", "list_alt", "jobs_job"),
        ],
    },
    {
        "title": "Cluster",
        "separator": True,
        "items": [
            _link("Nodes", "dns", "cluster_node"),
            _link("GPU types", "memory", "cluster_gputype"),
            _link("Neighbours on a GPU", "grid_on", "estimation_pairspeed"),
            _link("Environments", "deployed_code", "cluster_namedenvironment"),
            _link("Join tokens", "add_link", "cluster_jointoken"),
        ],
    },
    {
        "title": "People",
        "separator": True,
        "items": [
            _link("Tenants", "groups", "tenants_tenant"),
            _link("Users", "person", "tenants_user"),
            _link("API tokens", "key", "tenants_apitoken"),
            _link("Audit trail", "receipt_long", "tenants_auditevent"),
        ],
    },
    {
        "title": "System",
        "separator": True,
        "items": [
            _link("Failed sign-ins", "lock", "axes_accessattempt"),
            _link("Beat's schedule", "schedule", "django_celery_beat_periodictask"),
        ],
    },
]

BASE = {
    "50": "#f6f7f9",
    "100": "#f1f3f6",
    "200": "#e2e6eb",
    "300": "#c6cdd6",
    "400": "#8b98a9",
    "500": "#5f6b7b",
    "600": "#465263",
    "700": "#3c4755",
    "800": "#262e38",
    "900": "#151a21",
    "950": "#0d1116",
}
PRIMARY = {
    "50": "#e9f1fc",
    "100": "#d9e7fa",
    "200": "#b9d3f6",
    "300": "#9fc3ec",
    "400": "#78aefc",
    "500": "#4f8ad2",
    "600": "#1d5bbf",
    "700": "#1a51aa",
    "800": "#16273f",
    "900": "#122138",
    "950": "#0a1626",
}

CONFIGURATION: dict[str, Any] = {
    "SITE_TITLE": "Berth operator",
    "SITE_HEADER": "Berth",
    "SITE_SUBHEADER": "Operator's console",
    "SITE_SYMBOL": "anchor",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda _: static("img/favicon.svg")}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "COLORS": {"base": BASE, "primary": PRIMARY},
    "STYLES": [lambda _: static("css/console.css")],
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": NAVIGATION},
    "DASHBOARD_CALLBACK": "portal.console_index.index_context",
}
