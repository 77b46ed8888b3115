"""The operators' overview and its fragments. Each fragment reads only what it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse

from portal.cluster.models import HEALTHS
from portal.foundation.errors import NotFound
from portal.pages.dashboard.board.board import GROUPINGS, groupings
from portal.pages.dashboard.overview.nodes import node_contexts
from portal.pages.dashboard.overview.problems import problems_make
from portal.pages.dashboard.overview.queue import unused_make, waits_make
from portal.pages.dashboard.overview.tiles import tile_contexts
from portal.pages.dashboard.parts.formatting import number
from portal.pages.dashboard.parts.gpus import gpu_key
from portal.pages.dashboard.parts.snapshot import Snapshot, shared_html


def overview_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and in `html` its fragments as operators share them."""
    is_large = snapshot.is_large
    names = [name for name in FRAGMENTS if name != "nodes" or not is_large]
    return {
        "html": {name: fragment_html(name, snapshot) for name in names},
        "key": gpu_key(snapshot),
        "horizon_label": f"{snapshot.hours:g} h",
        "show_memory": any(memory is not None for memory in snapshot.facts.memories),
        "board": board_context(snapshot) if is_large else None,
        "board_url": board_url(int(snapshot.hours)),
        "can_operate": True,
    }


def board_url(hours: int) -> str:
    return f"{reverse('cluster-board')}?h={hours}"


def board_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the strips' frame; the figures come as JSON."""
    facts = snapshot.facts
    counts = Counter(HEALTHS[each] for each in facts.health)
    return {
        "groupings": [
            {"value": name, "label": GROUPINGS[name], "selected": name == "type"} for name in groupings(facts)
        ],
        "note": ", ".join(f"{number(counts[word])} {word}" for word in HEALTHS if counts[word]),
    }


def fragment_html(name: str, snapshot: Snapshot) -> str:
    """Return a fragment's HTML, which all operators share. Raises NotFound for an unknown name."""
    if name not in FRAGMENTS:
        raise NotFound("fragment")
    if name == "nodes" and snapshot.is_large:
        return grown_html()
    made_by = FRAGMENTS[name]
    return shared_html(
        snapshot, f"overview:{name}", f"dashboard/_{name}.html", lambda own: {name: made_by(own)}, masked=True
    )


def grown_html() -> str:
    """Return the answer for a page that was opened while the cluster was still small enough for cells."""
    return render_to_string("cluster/_grown.html")


FRAGMENTS: dict[str, Callable[[Snapshot], Any]] = {
    "problems": problems_make,
    "tiles": tile_contexts,
    "nodes": node_contexts,
    "waits": waits_make,
    "unused": unused_make,
}
"""Fragment, and the value's name in its template -> the function that makes it."""
