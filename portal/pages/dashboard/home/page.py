"""The overview that begins with my jobs: its parts, and how long each is kept for its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.template.loader import render_to_string

from portal.foundation.errors import NotFound
from portal.pages.dashboard.home.changes import changes_make
from portal.pages.dashboard.home.cluster import cluster_make
from portal.pages.dashboard.home.jobs import jobs_make
from portal.pages.dashboard.home.needs import needs_make
from portal.pages.dashboard.home.scope import Scope, view_choices
from portal.pages.dashboard.home.share import share_make
from portal.pages.dashboard.parts.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.foundation.events.shared import Sharing

EVERY_S = 3.0
"""A part is made anew for one reader no more often than this, however many events come and tabs are open."""

PARTS: dict[str, Callable[[Scope, Snapshot], Any]] = {
    "needs": lambda scope, _: needs_make(scope),
    "jobs": lambda scope, _: jobs_make(scope),
    "share": lambda scope, snapshot: share_make(scope, gpus_total=snapshot.gpus_total),
    "changes": lambda scope, _: changes_make(scope),
    "cluster": cluster_make,
}


def home_context(scope: Scope, snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and its parts in `html`."""
    return {
        "views": view_choices(scope.tenants, scope.view),
        "view": scope.view,
        "mine": scope.is_mine,
        "html": {name: part_html(name, scope, snapshot) for name in PARTS},
    }


def part_html(name: str, scope: Scope, snapshot: Snapshot) -> str:
    """Return one part's HTML, kept for a few seconds for its reader. Raises NotFound for an unknown name."""
    make = PARTS.get(name)
    if make is None:
        raise NotFound("part of the page")

    def rendered(inner: Sharing) -> str:
        own = Snapshot(snapshot.user, sharing=inner, reader=snapshot.reader)
        return render_to_string(f"home/_{name}.html", {name: make(scope, own), "view": scope.view})

    html: str = snapshot.sharing.get(f"home:{name}:{scope.key}", rendered, every_s=EVERY_S)
    return html
