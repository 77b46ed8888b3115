"""The list of plannings; those in a row that changed nothing stand as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import DASH
from portal.planning.rounds.models import Planning
from portal.planning.rounds.read.history import plannings_listed

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import PageLinks

PAGE_SIZE = 50
OUTCOMES = {"applied": "applied", "nothing": "nothing placed", "stale": "overtaken", "failed": "failed"}


def rounds_context(page: str | None, *, each: bool = False) -> dict[str, Any]:
    """Return a page of plannings, the last first; without `each`, those in a row that changed nothing stand as one.

    Raises BerthError for a page that is no positive number.
    """
    place = page_number(page)
    total = Planning.objects.count()
    start = (place - 1) * PAGE_SIZE
    found = list(plannings_listed()[start : start + PAGE_SIZE])
    rows = [planning_row(row) for row in found]
    url = reverse("rounds") + ("?each=yes" if each else "")
    return {
        "subtitle": _subtitle(found[0] if found and place == 1 else None, total),
        "rows": rows if each else _fold(rows),
        "each": each,
        "paging": page_links(url, "planning", place, start=start, shown=len(found), total=total),
    }


def _fold(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the newest of plannings in a row that changed nothing stand for all: the clock asks for one at each tick."""
    shown: list[dict[str, Any]] = []
    for row in rows:
        if shown and _is_idle(row) and _is_idle(shown[-1]):
            shown[-1] = {**shown[-1], "before": shown[-1]["before"] + 1, "since": row["at"]}
        else:
            shown.append(row)
    return shown


def _is_idle(row: dict[str, Any]) -> bool:
    return row["kind"] == "fill" and row["outcome_word"] == OUTCOMES["nothing"]


def page_number(text: str | None) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise BerthError("invalid", "`page` must be a whole number from 1.", field="page")
    return int(text)


def page_links(url: str, noun: str, place: int, *, start: int, shown: int, total: int) -> PageLinks:
    mark = "&" if "?" in url else "?"
    spread = f"{start + 1}{DASH}{start + shown}" if shown else "none"
    return {
        "summary": f"{spread} of {total} {noun}{'s' if total != 1 else ''}",
        "previous_url": None if place == 1 else url if place == 2 else f"{url}{mark}page={place - 1}",
        "next_url": f"{url}{mark}page={place + 1}" if start + shown < total else None,
    }


def _subtitle(newest: Planning | None, total: int) -> str:
    count = f"{total} planning{'s' if total != 1 else ''} kept"
    return f"round {newest.round.number}, policy {newest.policy}; {count}" if newest else count


def planning_row(row: Planning) -> dict[str, Any]:
    outcome = outcome_of(row)
    return {
        "number": row.number,
        "url": reverse("planning-detail", args=[row.number]),
        "at": row.started_at.isoformat(),
        "round": row.round.number,
        "kind": "re-plan" if row.replan else "fill",
        "policy": row.policy,
        "queue": row.queue_length,
        "window": row.window_jobs,
        "placed": row.placed,
        "candidates": row.solver.get("candidates"),
        "gap": row.solver.get("gap"),
        "solve_ms": solve_ms(row),
        "total_ms": round(1000 * (row.load_s + row.plan_s + row.apply_s)),
        "fragments": fragments_of(row.metrics),
        "outcome": outcome,
        "outcome_word": _outcome_word(row, outcome),
        "before": 0,  # plannings before it that changed nothing either, for which it stands
        "since": None,  # when the first of them began
    }


def solve_ms(row: Planning) -> int | None:
    """Return the solver's time; None when there was nothing to solve."""
    if row.solver.get("formulation", "none") == "none":
        return None
    return round(1000 * row.solver["solve_s"])


def fragments_of(metrics: dict[str, Any]) -> float | None:
    if metrics.get("fragments_cores") is None:
        return None
    return metrics["fragments_cores"] + metrics["fragments_scattered"] + (metrics.get("fragments_kept") or 0)


def outcome_of(row: Planning) -> str:
    if row.status == Planning.Status.FAILED:
        return "failed"
    if row.status == Planning.Status.SUPERSEDED:
        return "stale"
    if row.solver.get("incumbent") == "greedy" and row.placed:
        return "greedy"
    return "applied" if row.placed else "nothing"


def _outcome_word(row: Planning, outcome: str) -> str:
    words = [OUTCOMES.get(outcome, "greedy plan applied")]
    if stopped := sum(entry["ordered"] for entry in row.stops):
        words.append(f"{stopped} stopped")
    if row.dropped:
        words.append(f"{row.dropped} no longer fitted")
    return ", ".join(words)
