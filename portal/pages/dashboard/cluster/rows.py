"""The nodes of one group as rows, a page at a time: a large cluster's nodes in full, on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.urls import reverse
from django.utils.http import urlencode

from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.board.groups import group_titles, groupings
from portal.pages.dashboard.cluster.page import node_row
from portal.pages.dashboard.parts.snapshot import Snapshot

if TYPE_CHECKING:
    from portal.people.tenants.models import User

ROWS_A_PAGE = 25


def rows_context(user: User, *, by: str, group: str, page: str | None) -> dict[str, Any]:
    """Return one page of a group's nodes by name. Raises BerthError for an unknown grouping, NotFound for a group."""
    whole = Snapshot(user)
    if by not in groupings(whole.facts):
        raise BerthError("invalid", f"`by` must be one of {', '.join(groupings(whole.facts))}.", field="by")
    titles = group_titles(whole.facts, by)
    names = [name for name, title in zip(whole.facts.names, titles, strict=True) if title == group]
    if not names:
        raise NotFound("group")
    shown = Paginator(sorted(names), ROWS_A_PAGE).get_page(page)
    own = Snapshot(user, names=list(shown.object_list), reader=whole.reader)
    last = shown.paginator.num_pages
    return {
        "title": group,
        "rows": [node_row(node, own) for node in own.nodes],
        "can_operate": user.is_operator,
        "paging": {
            "summary": f"{shown.start_index()}\u2013{shown.end_index()} of {len(names)} nodes",
            "previous_url": _url(by, group, shown.number - 1) if shown.number > 1 else None,
            "next_url": _url(by, group, shown.number + 1) if shown.number < last else None,
        },
    }


def _url(by: str, group: str, page: int) -> str:
    return f"{reverse('cluster-rows')}?{urlencode({'by': by, 'group': group, 'page': page})}"
