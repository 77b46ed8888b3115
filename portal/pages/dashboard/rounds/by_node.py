"""Active rates, use and free GPUs of each node, or of each GPU type where nodes are many."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.gpu_states import count_words
from portal.pages.dashboard.board.feed import SHARES_PER_H_S
from portal.pages.dashboard.rounds.metrics import TODAY
from portal.work.jobs.held_time import core_held_s, node_gpu_held_s

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.pages.dashboard.rounds.metrics import Span

MOST_S = 60.0
"""The longest time for which sums of nodes' shares are shown, in s."""


def nodes_make(snapshot: Snapshot, span: Span) -> dict[str, Any]:
    """Return the rows, whose rates are of the span, or since the node joined. Three queries beside the board's facts.

    The nodes' shares are summed once for all readers, as for the board: they differ by 0.3 % of the span at most.
    """
    facts, (start_s, now_s) = snapshot.facts, span.seconds
    which = span.asked.isoformat() if span.name == TODAY else span.name
    every_s = min(MOST_S, SHARES_PER_H_S * (now_s - start_s) / 3600)
    read = snapshot.sharing.get(f"held:{which}", lambda _: _held(span), every_s=every_s, longest_s=every_s)
    start_s, now_s = read["span"]
    gpu_s, core_s = ({int(node): held_s for node, held_s in read[key].items()} for key in ("gpus", "cores"))
    groups: dict[str, list[int]] = defaultdict(list)
    for place in facts.alive:
        groups[facts.types[place] or "no GPUs" if snapshot.is_large else facts.names[place]].append(place)
    rows = [_row(name, places, snapshot) for name, places in groups.items()]
    for row, places in zip(rows, groups.values(), strict=True):
        spans = {place: min(now_s - start_s, now_s - facts.joined[place]) for place in places}
        for key, held, counts in (("gpus", gpu_s, facts.gpus), ("cores", core_s, facts.cores)):
            whole = sum(spans[place] * counts[place] for place in places)
            row[key] = min(1.0, sum(held.get(facts.ids[place], 0.0) for place in places) / whole) if whole > 0 else None
    return {"rows": rows, "by": "type" if snapshot.is_large else "node"}


def _held(span: Span) -> dict[str, Any]:
    """Return the GPU and core seconds that jobs held by node (row id), and from when to when."""
    hours, now = (span.now - span.since).total_seconds() / 3600, span.now
    return {
        "span": span.seconds,
        "gpus": node_gpu_held_s(hours=hours, now=now),
        "cores": core_held_s(hours=hours, now=now),
    }


def _row(name: str, places: list[int], snapshot: Snapshot) -> dict[str, Any]:
    facts, count = snapshot.facts, sum(snapshot.facts.gpus[place] for place in places)
    own = [slice(facts.starts[place], facts.starts[place] + facts.gpus[place]) for place in places]
    uses = [
        use
        for each in own
        for use, held in zip(facts.uses[each], facts.held[each], strict=True)
        if held and use is not None
    ]
    types = facts.types[places[0]]
    return {
        "name": name,
        "url": None if snapshot.is_large else reverse("node-detail", args=[name]),
        "has": count_words(count, types) if types else "\u2013",
        "busy": sum(uses) / len(uses) if uses else None,
        "free": sum(facts.idle(place)[0] for place in places),
    }
