"""One planning with its decisions, as its reader may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.models import Node
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.pages.dashboard.rounds.listing import fragments_of, page_links, page_number, planning_row, solve_ms
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.history import planning_by_number, planning_neighbours
from portal.planning.rounds.read.outcomes import planning_outcomes, profile_sentence, promise_sentence, stop_sentence
from portal.planning.rounds.read.selectors import planning_decisions, reason_sentence
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.settings.knobs import KNOBS

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Fact
    from portal.people.tenants.models import User
    from portal.planning.rounds.models import Planning

DECISIONS_A_PAGE = 200


def planning_context(number: int, user: User, page: str | None = None) -> dict[str, Any]:
    """Return a planning with one page of its decisions. Raises NotFound, and BerthError for a page that is no number."""
    place = page_number(page)
    start = (place - 1) * DECISIONS_A_PAGE
    planning = planning_by_number(number)
    before, after = planning_neighbours(number)
    decisions = decisions_read(planning)
    rows = planning_decisions(planning, user, start=start, count=DECISIONS_A_PAGE)
    # A foreign decision keeps its rank and reason; where it was placed the overview's cells show to all.
    placements = [decisions.entry(start + row)["placement"] for row in range(len(rows))]
    return {
        "planning": planning_row(planning),
        "figures": _figures(planning),
        "parameters": _parameters(planning),
        "decisions": _decisions(rows, placements),
        "outcomes": _outcomes(planning, user),
        "paging": page_links(
            reverse("planning-detail", args=[number]),
            "decision",
            place,
            start=start,
            shown=len(rows),
            total=len(decisions),
        ),
        "error": planning.error if user.is_operator and planning.error else None,
        "previous_url": reverse("planning-detail", args=[before]) if before is not None else None,
        "next_url": reverse("planning-detail", args=[after]) if after is not None else None,
    }


def _decisions(rows: list[dict[str, Any]], placements: list[list[dict[str, Any]] | None]) -> list[dict[str, Any]]:
    nodes = dict(Node.objects.values_list("pk", "name"))
    numbers = JobNumbers(row["figures"] for row in rows)
    told = [{**row, "figures": numbers.told(row["figures"])} for row in rows]
    return [_decision(row, placement, nodes) for row, placement in zip(told, placements, strict=True)]


def _outcomes(planning: Planning, user: User) -> list[dict[str, Any]]:
    """Return a row for each profile, stop, promise, promise given up and reservation."""
    found = planning_outcomes(planning, user)
    rows = [("Profiled", each["job"], profile_sentence(each)) for each in found["profiles"]]
    rows += [("Stopped", each["job"], stop_sentence(each)) for each in found["stops"]]
    rows += [("Promised", each["job"], f"{promise_sentence(each)}, kept until it starts") for each in found["promises"]]
    rows += [("Promise lapsed", job, "what was kept for it is free again") for job in found["lapsed"]]
    rows += [
        ("Reserved", each["job"], f"{', '.join(each['nodes'])}, until about {each['until'][11:16]} UTC")
        for each in found["reservations"]
    ]
    return [
        {
            "what": what,
            "job_id": job["number"],
            "url": reverse("job-detail", args=[job["number"]]) if job["number"] else None,
            "name": job["name"],
            "words": words,
        }
        for what, job, words in rows
    ]


def _decision(row: dict[str, Any], placement: list[dict[str, Any]] | None, nodes: dict[int, str]) -> dict[str, Any]:
    own = row["job"] is not None
    chosen = row["result"] == "placed"
    return {
        "rank": row["rank"],
        "job_id": row["number"],
        "url": reverse("job-detail", args=[row["number"]]) if own else None,
        "name": row["name"],
        "tenant": row["tenant"],
        "lr": row["latency_ratio"],
        "chosen": chosen,
        "configuration": configuration_words(placement or [], nodes) if chosen else None,
        "reason": row["reason"],
        "detail": reason_sentence(row["reason"], row["figures"]) if own and row["reason"] and row["figures"] else None,
    }


def configuration_words(placement: list[dict[str, Any]], nodes: dict[int, str]) -> str:
    """a100-01 x 4, 12 cores; pieces of a distributed job are joined by plus."""
    return " + ".join(_piece(piece, nodes.get(piece["node"], "a node that is gone")) for piece in placement)


def _piece(piece: dict[str, Any], name: str) -> str:
    cores = f"{piece['cores']} core{'s' if piece['cores'] != 1 else ''}"
    return f"{name} \u00d7 {len(piece['gpus'])}, {cores}" if piece["gpus"] else f"{name}, {cores}"


def _figures(planning: Planning) -> list[Fact]:
    solver, metrics, solved = planning.solver, planning.metrics, solve_ms(planning) is not None
    closing = metrics.get("window_gpus")
    timing = f"load {_ms(planning.load_s)}, plan {_ms(planning.plan_s)}, apply {_ms(planning.apply_s)}"
    facts = [
        _fact("Queue", planning.queue_length, "jobs in order"),
        _fact(
            "Window",
            planning.window_jobs,
            None if closing is None else f"{count_of(closing, 'GPU')} close{'s' if closing == 1 else ''} it",
        ),
        _fact("Placed", planning.placed, f"{planning.dropped} no longer fitted" if planning.dropped else None),
        _fact(
            "Formulation",
            solver.get("formulation") if solved else None,
            (solver.get("status") or "").replace("-", " ") or None,
        ),
        _fact("Candidates", solver.get("candidates") if solved else None, _count(solver.get("variables"), "variable")),
        _fact("Objective", _said("{:.4g}", solver.get("objective")), _said("bound {:.4g}", solver.get("bound"))),
        _fact("Gap", _said("{:.4g}", solver.get("gap")), _said("allowed {:.4g}", solver.get("gap_allowed"))),
        _fact(
            "Not looked at",
            solver.get("unseen") or None,
            "jobs of the window, for want of time; the gap is without them",
        ),
        _fact("In all", _ms(planning.load_s + planning.plan_s + planning.apply_s), timing),
        _fact("GPUs held", metrics.get("gpus_allocated"), f"of {metrics.get('gpus_total')} after it"),
        _fact("Fragments", fragments_of(metrics), None),
        _fact("Wait over run time", _ratio(metrics.get("raqlr")), _recent(metrics)),
        _fact("Wait over run time so far", _ratio(metrics.get("live_lr_mean")), "mean of those that wait"),
    ]
    return [fact for fact in facts if fact["value"] != "None"]


def _fact(label: str, value: Any, note: str | None) -> Fact:
    return {"label": label, "value": str(value), "note": note}


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


def _said(words: str, value: float | None) -> str | None:
    return None if value is None else words.format(value)


def _ratio(value: float | None) -> str | None:
    """Return a latency ratio as every page shows it: with two decimals."""
    return None if value is None else number(value, 2)


def _count(count: int | None, noun: str) -> str | None:
    return None if count is None else f"{count} {noun}{'s' if count != 1 else ''}"


def _recent(metrics: dict[str, Any]) -> str | None:
    return (
        f"mean of {count_of(metrics['raqlr_jobs'], 'job')} that ended in {metrics['raqlr_hours']:g} h"
        if metrics.get("raqlr_hours")
        else None
    )


def _parameters(planning: Planning) -> list[Fact]:
    """Return the knobs that were in force, with their units; None means that the scheduler chooses by itself."""
    known = [knob for knob in KNOBS if knob.name in planning.parameters]
    return [_fact(knob.name, _knob_words(planning.parameters[knob.name], knob.unit), None) for knob in known]


def _knob_words(value: Any, unit: str) -> str:
    if value is None:
        return "by itself"
    shown = f"{value:g}" if isinstance(value, float) else number(value) if isinstance(value, int) else str(value)
    return f"{shown} {unit}".strip()
