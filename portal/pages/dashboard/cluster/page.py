"""The cluster page: nodes by GPU type, their events, and (for operators) the actions on a node."""

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
from portal.pages.dashboard.board.facts import UP
from portal.pages.dashboard.cluster.blocks import blocks_context
from portal.pages.dashboard.overview.nodes import active_words, gpu_cells, gpu_types, health_word
from portal.pages.dashboard.overview.page import board_context, board_url, fragments_plot, grown_html
from portal.pages.dashboard.parts.formatting import GIB_MIB, count_of, number
from portal.pages.dashboard.parts.neighbours import kept_rows
from portal.pages.dashboard.parts.snapshot import Snapshot, shared_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.cluster.models import Node, NodeEvent
    from portal.people.tenants.models import User


ROWS_A_PAGE = 25


EVENTS_SHOWN = 20
PLOT_HOURS = 6
NO_TYPE = "Without GPUs"


def cluster_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and in `html` its fragments as readers share them."""
    is_large = snapshot.is_large
    names = [name for name in FRAGMENTS if name != "nodes" or not is_large]
    return {
        "subtitle": _subtitle(snapshot),
        "html": {name: fragment_html(name, snapshot) for name in names},
        "has_blocks": any(snapshot.facts.gpus[place] for place in snapshot.facts.alive),
        "has_events": bool(node_events(limit=1)),
        "horizon_label": f"{snapshot.hours:g} h",
        "show_memory": any(memory is not None for memory in snapshot.facts.memories),
        "board": board_context(snapshot) if is_large else None,
        "board_url": board_url(int(snapshot.hours)),
        "plots": [{**fragments_plot(PLOT_HOURS), "height_px": 250}] if snapshot.last_plannings else [],
        "can_operate": snapshot.user.is_operator,
        "join_command": _join_command() if snapshot.user.is_operator else None,
    }


FRAGMENTS: dict[str, tuple[Callable[[Snapshot], dict[str, Any]], bool]] = {
    "blocks": (lambda snapshot: {"blocks": blocks_context(snapshot)}, False),
    "nodes": (
        lambda snapshot: {"groups": node_groups(snapshot), "can_operate": snapshot.reader.user.is_operator},
        True,
    ),
    "events": (lambda snapshot: {"events": event_rows(node_events(limit=EVENTS_SHOWN), snapshot.user)}, True),
}
"""Fragment -> what makes its context, and whether it differs by reader."""


def fragment_html(name: str, snapshot: Snapshot) -> str:
    """Return a fragment's HTML; readers with equal rights share it. Raises NotFound for an unknown name."""
    if name not in FRAGMENTS:
        raise NotFound("fragment")
    if name == "nodes" and snapshot.is_large:
        return grown_html()
    context, masked = FRAGMENTS[name]
    return shared_html(snapshot, f"cluster:{name}", f"cluster/_{name}.html", context, masked=masked)


def _subtitle(snapshot: Snapshot) -> str:
    facts = snapshot.facts
    nodes, up = len(facts.names), facts.health.count(UP)
    count = f"{number(up)} of {number(nodes)}" if up < nodes else number(up)
    has = f"{count_of(facts.gpus_total, 'GPU')}, {count_of(facts.cores_total, 'core')}"
    return f"{count} node{'s' if nodes != 1 else ''} up, {has}"


def node_groups(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the nodes under their GPU type; those without GPUs come last."""
    by_type: dict[str, list[dict[str, Any]]] = {}
    for node in sorted(snapshot.nodes, key=lambda node: (_type_of(node) == NO_TYPE, _type_of(node), node.name)):
        by_type.setdefault(_type_of(node), []).append(node_row(node, snapshot))
    return [{"title": title, "note": _group_note(rows), "rows": rows} for title, rows in by_type.items()]


def _type_of(node: Node) -> str:
    return " + ".join(name for name, _ in gpu_types(node).most_common()) or NO_TYPE


def _group_note(rows: list[dict[str, Any]]) -> str:
    nodes = count_of(len(rows), "node")
    gpus = sum(row["gpu_count"] for row in rows)
    return f"{nodes}, {sum(row['gpus_held'] for row in rows)} of {count_of(gpus, 'GPU')} held" if gpus else nodes


def node_row(node: Node, snapshot: Snapshot) -> dict[str, Any]:
    parts = snapshot.parts_by_node[node.pk]
    cells = gpu_cells(node, snapshot)
    cores = {True: 0, False: 0}
    for part in parts:
        cores[bool(part.gpu_allocations.all())] += len(part.core_ids)
    asked_mib = sum(part.memory_mib for part in parts)
    closed, sharing = sum(cell["idle"] and "tone" in cell for cell in cells), sum("sharing" in cell for cell in cells)
    idle_gpus, idle_cores = sum(cell["idle"] for cell in cells) - closed, node.cores - sum(cores.values())
    return {
        "name": node.name,
        "url": reverse("node-detail", args=[node.name]),
        "contact_at": node.last_contact_at.isoformat() if node.last_contact_at else None,
        "health": node.health,
        "health_word": health_word(node, snapshot.now),
        "cells": cells,
        "gpus_held": len(cells) - idle_gpus - closed - sharing,
        "gpu_count": len(cells),
        "active": active_words(snapshot.rates[node.pk]),
        "cores_gpu_jobs": cores[True],
        "cores_cpu_jobs": cores[False],
        "cores_total": node.cores,
        "memory_used_gib": asked_mib / GIB_MIB if asked_mib else None,
        "memory_total_gib": node.memory_mib / GIB_MIB,
        "note": _note(idle_gpus, idle_cores, closed, sharing),
        "kept": kept_rows(snapshot.kept_by_node[node.name]),
        "virtual": node.is_virtual,
    }


def _note(idle_gpus: int, idle_cores: int, closed: int, sharing: int) -> str | None:
    said = [f"{count_of(closed, 'GPU')} out"] if closed else []
    said += [f"{count_of(sharing, 'GPU')} for jobs that share one"] if sharing else []
    if idle_gpus and idle_cores < idle_gpus:
        said += [
            f"{idle_gpus} idle GPU{'s' if idle_gpus != 1 else ''}, {idle_cores} idle core{'s' if idle_cores != 1 else ''}"
        ]
    return "; ".join(said) or None


def event_rows(events: list[NodeEvent], user: User) -> list[dict[str, Any]]:
    """Return events, as far as this user may read them."""
    told = [(event, *event_told(event, user)) for event in events]
    return [
        {
            "at": event.at.isoformat(),
            "node": event.node.name,
            "what": event.kind,
            "reason": detail or None,
            "by": actor or "berth",
        }
        for event, detail, actor in told
    ]


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
