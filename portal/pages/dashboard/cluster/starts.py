"""When a job could start, as a table of GPU types and counts: the answers of dry runs that were made in the background."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.dashboard.parts.formatting import count_of, number
from portal.people.tenants.selectors import tenants_of
from portal.planning.rounds.asking.first_starts import AT, LATER, NEVER, NOW, first_starts

if TYPE_CHECKING:
    from portal.pages.dashboard.board.facts import Facts
    from portal.people.tenants.models import User

FAR = timedelta(hours=3)
NODES_NAMED = 2


def starts_context(user: User) -> dict[str, Any]:
    """Return the table for the reader's first tenant; without rows before its first answers. At most two queries."""
    tenants = tenants_of(user)
    found = first_starts(tenants[0].pk) if tenants else None
    known = dict(found or [])
    sizes = sorted({size for _, size in known})
    kinds = list(dict.fromkeys(kind for kind, _ in known))
    now = timezone.now()
    return {
        "tenant": tenants[0].name if len(tenants) > 1 else None,
        "empty": "It is worked out for members of a tenant."
        if not tenants
        else "Not worked out yet. It takes about half a minute."
        if found is None
        else "No node here has a GPU.",
        "sizes": sizes,
        "rows": [
            {"name": kind or "any type", "cells": [_cell(known.get((kind, size)), now) for size in sizes]}
            for kind in kinds
        ],
    }


def _cell(answer: dict[str, Any] | None, now: datetime) -> dict[str, Any]:
    """Return `says` (None: not known yet), and the time of a start within FAR or, of a later one, the full hour after FAR."""
    if answer is None or answer["says"] in {NOW, NEVER}:
        return {"says": answer and answer["says"], "at": None}
    at = datetime.fromisoformat(answer["at"]) if answer["says"] == AT else None
    if at is not None and at <= now + FAR:
        return {"says": AT, "at": max(at, now).isoformat()}
    hour = (now + FAR).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return {"says": LATER, "at": hour.isoformat()}


def sharing_words(facts: Facts) -> str | None:
    """Say which GPUs are set aside for jobs that share one; None where there are none."""
    counts = {
        facts.names[place]: sum(facts.shared[facts.starts[place] : facts.starts[place] + facts.gpus[place]])
        for place in facts.alive
    }
    nodes, count = [name for name, own in counts.items() if own], sum(counts.values())
    if not count:
        return None
    where = " and ".join(nodes) if len(nodes) <= NODES_NAMED else f"{number(len(nodes))} nodes"
    return f"{count_of(count, 'GPU')} of {where} {'is' if count == 1 else 'are'} set aside for small jobs"
