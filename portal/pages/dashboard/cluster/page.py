"""The cluster page: free GPUs, the holders of each node's GPUs, and when a job could start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.paginator import Paginator
from django.urls import reverse
from django.utils.http import urlencode

from portal.cluster.selectors import event_told, node_events
from portal.foundation.errors import BerthError, NotFound
from portal.foundation.layout import Layout, read_json
from portal.pages.dashboard.board.board import group_titles, groupings
from portal.pages.dashboard.cluster.engines import engine_rows
from portal.pages.dashboard.cluster.rows import node_row
from portal.pages.dashboard.cluster.starts import sharing_words, starts_context
from portal.pages.dashboard.overview.page import board_context, board_url, grown_html
from portal.pages.dashboard.parts.formatting import number
from portal.pages.dashboard.parts.gpus import gpu_key
from portal.pages.dashboard.parts.snapshot import Snapshot, shared_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.cluster.models import NodeEvent
    from portal.people.tenants.models import User


ROWS_A_PAGE = 25


EVENTS_SHOWN = 20


def cluster_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and in `html` its fragments as readers share them."""
    is_large, operates = snapshot.is_large, snapshot.user.is_operator
    names = ["free", "engines", "starts", *([] if is_large else ["nodes"])]
    return {
        "html": {name: fragment_html(name, snapshot) for name in names},
        "horizon_label": f"{snapshot.hours:g} h",
        "show_memory": any(memory is not None for memory in snapshot.facts.memories),
        "board": board_context(snapshot) if is_large else None,
        "board_url": board_url(int(snapshot.hours)),
        "sharing": sharing_words(snapshot.facts),
        "events": event_rows(node_events(limit=EVENTS_SHOWN), snapshot.user) if operates else [],
        "can_operate": operates,
        "join_command": _join_command() if operates else None,
    }


def fragment_html(name: str, snapshot: Snapshot) -> str:
    """Return a fragment's HTML; operators share it, else the tabs of one reader. Raises NotFound for an unknown name."""
    if name not in FRAGMENTS:
        raise NotFound("fragment")
    if name == "nodes" and snapshot.is_large:
        return grown_html()
    masked = name not in {"free", "engines"}  # which name nobody, so all readers share them
    whose = f":{snapshot.user.pk}" if masked and not snapshot.user.is_operator else ""
    return shared_html(snapshot, f"cluster:{name}{whose}", f"cluster/_{name}.html", FRAGMENTS[name], masked=masked)


def free_words(snapshot: Snapshot) -> dict[str, Any]:
    """Return how many GPUs are free (not those kept for a job), and the largest job that one node could start now."""
    facts = snapshot.facts
    up = [place for place in facts.alive if facts.gpus[place]]
    spare = {place: max(0, facts.idle(place)[0] - facts.kept[place]) for place in up}
    largest = {
        place: min(spare[place], max((min(each.most, each.cores) for each in facts.blocks[place]), default=0))
        for place in up
    }
    best = max(largest, key=lambda place: largest[place], default=None)
    count = sum(spare.values())
    return {
        "nodes": len(facts.names),
        "gpus": facts.gpus_total,
        "free": f"{number(count)} GPU{' is' if count == 1 else 's are'} free" if count else "No GPU is free",
        "largest": largest[best] if best is not None and count else 0,
        "on": None if best is None else facts.names[best],
    }


FRAGMENTS: dict[str, Callable[[Snapshot], dict[str, Any]]] = {
    "free": free_words,
    "nodes": lambda snapshot: {
        "key": gpu_key(snapshot),
        "rows": [node_row(node, snapshot) for node in sorted(snapshot.nodes, key=lambda node: node.name)],
        "can_operate": snapshot.user.is_operator,
    },
    "engines": engine_rows,
    "starts": lambda snapshot: {"starts": starts_context(snapshot.user)},
}


def event_rows(events: list[NodeEvent], user: User) -> list[dict[str, Any]]:
    """Return events in sentences, as far as this user may read them."""
    told = [(event, *event_told(event, user)) for event in events]
    return [
        {"at": event.at.isoformat(), "node": event.node.name, "text": event_words(event.kind, detail), "by": actor}
        for event, detail, actor in told
    ]


EVENTS = {
    "registered": "Joined",
    "registered again": "Joined again after a restart",
    "drained": "Taken out",
    "resumed": "Takes jobs again",
    "GPU cordoned": "GPU taken out",
    "GPU resumed": "GPU takes jobs again",
    "back": "Heard again",
    "problem": "Its agent has a problem",
    "job slowed": "Slowed",
    "job let go": "No longer slowed",
}


def event_words(kind: str, detail: str) -> str:
    detail = "" if kind == "back" else detail
    said = EVENTS.get(kind, kind[:1].upper() + kind[1:])
    return f"{said}: {detail.rstrip('.')}." if detail else f"{said}."


def _join_command() -> str | None:
    """Return the line for another machine, without a token (`./berth join-token` prints it with one)."""
    mode = read_json(Layout.at(settings.DATA_DIR).mode)
    url = (mode or {}).get("base_url") or settings.BASE_URL
    return f"./berth node --join {url} --token TOKEN" if url else None


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
