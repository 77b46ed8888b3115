"""The queue page: each waiting job, its reason and its expected start; for operators also how the queue is divided.

A constant number of queries whatever the length of the queue: only the jobs of the rows shown are read. Of another tenant's jobs
stands nothing that names them (invariant 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import DASH, count_of, duration, number
from portal.pages.dashboard.queue.divided import divided_context
from portal.pages.dashboard.queue.order import OWN_MOST, own_waiting, waiting_order
from portal.pages.dashboard.queue.rows import Rows
from portal.planning.rounds.record.decisions import decisions_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.dashboard.parts.context import PageLinks, Rich
    from portal.pages.dashboard.parts.snapshot import Snapshot

PAGE_ROWS = 25
MINE = "mine"


def queue_context(snapshot: Snapshot, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the page. Raises BerthError for a `page` that is no positive number, or another `whose` than mine."""
    page, whose = _page(asked.get("page")), asked.get("whose", "")
    if whose not in {"", MINE}:
        raise BerthError("invalid", f"`whose` must be {MINE}, or left out.", field="whose")
    decisions = decisions_or_none(snapshot.planning)
    order, own = waiting_order(decisions), own_waiting(snapshot.user)
    if whose:
        order = order[np.isin(order, own)]
    first = (page - 1) * PAGE_ROWS
    shown = [int(job) for job in order[first : first + PAGE_ROWS]]
    return {
        "sentence": _sentence(snapshot, len(own)),
        "rows": Rows(snapshot, decisions, shown).made(),
        "choices": [
            {"label": label, "url": _url(1, value), "selected": value == whose}
            for value, label in ((MINE, "Mine"), ("", "All"))
        ],
        "whose": whose,
        "paging": _paging(page, whose, shown=len(shown), total=len(order)) if len(order) > PAGE_ROWS else None,
        "divided": divided_context(snapshot, decisions) if snapshot.user.is_operator else None,
        "can_operate": snapshot.user.is_operator,
        "query": _query(page, whose),
    }


def _page(text: str | None) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) > 0):
        raise BerthError("invalid", "`page` must be a whole number from 1.", field="page")
    return int(text)


def _sentence(snapshot: Snapshot, own: int) -> Rich:
    """As: 6 jobs wait, 3 of them yours. The oldest has waited 1 h 12 min."""
    queue = snapshot.queue
    if not queue.waiting:
        return [{"text": "Nobody waits.", "bold": True}]
    mine = f"{'more than ' if own >= OWN_MOST else ''}{number(own)}"
    yours = f", {mine} of them yours" if own else ""
    oldest = "" if queue.oldest_s is None else f" The oldest has waited {duration(queue.oldest_s)}."
    lead = f"{count_of(queue.waiting, 'job')} wait{'s' if queue.waiting == 1 else ''}"
    return [{"text": lead, "bold": True}, {"text": f"{yours}.{oldest}"}]


def _query(page: int, whose: str) -> str:
    asked = {name: value for name, value in (("whose", whose), ("page", page if page > 1 else "")) if value}
    return f"?{urlencode(asked)}" if asked else ""


def _url(page: int, whose: str) -> str:
    return f"{reverse('queue')}{_query(page, whose)}"


def _paging(page: int, whose: str, *, shown: int, total: int) -> PageLinks:
    first = (page - 1) * PAGE_ROWS
    spread = f"{number(first + 1)}{DASH}{number(first + shown)}" if shown else "none"
    return {
        "summary": f"{spread} of {number(total)}",
        "previous_url": _url(page - 1, whose) if page > 1 else None,
        "next_url": _url(page + 1, whose) if first + shown < total else None,
    }
