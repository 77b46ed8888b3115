"""The planner's offers as rows: what changes, when it would start, who would start later."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from portal.dashboard.parts.formatting import duration

if TYPE_CHECKING:
    from portal.dashboard.jobs.waiting.context import OfferRow
    from portal.offers.services import Kept
    from portal.rounds.read.forecasts import Start

NODES_SHOWN = 2
SOONER_MIN_S = 30.0


def offer_rows(kept: Kept, said: dict[str, Any] | None, told: Start | None) -> list[OfferRow]:
    """Return the rows, best end first. `said`: what became of a press, by its change and value; `told`: the job's start as
    it stands, which they are compared with.
    """
    rows = [_row(each, kept, said, told) for each in kept.answer["offers"]]
    first = next((row for row in rows if row["gains"]), None)
    if first is not None:
        first["primary"] = True
    return rows


def _row(offer: dict[str, Any], kept: Kept, said: dict[str, Any] | None, told: Start | None) -> OfferRow:
    start, nodes, value = offer["start"] or {}, list(offer["nodes"]), json.dumps(offer["value"])
    button, mine = offer["words"].removesuffix(" too"), said is not None and said["change"] == offer["change"]
    return {
        "change": offer["change"],
        "value": value,
        "title": offer["words"],
        "note": offer["cost"],
        "now": offer["starts"],
        "nodes": ", ".join(nodes[:NODES_SHOWN]) + (" ..." if len(nodes) > NODES_SHOWN else ""),
        "earliest": start.get("earliest_at"),
        "latest": start.get("latest_at"),
        "sooner": _sooner(offer, kept, told),
        "over": offer["over_at"],
        "others": offer["later"] if offer["gains"] else offer["why"],
        "gains": offer["gains"],
        "primary": False,
        "button": f"{button}, start now" if offer["starts"] else button,
        "said": said["text"] if mine and said and said["value"] == value else None,
    }


def _sooner(offer: dict[str, Any], kept: Kept, told: Start | None) -> str:
    if told is None or told.median_at is None or told.passed:
        return ""
    median = (offer["start"] or {}).get("median_at")
    then = kept.at if offer["starts"] else median and datetime.fromisoformat(median)
    sooner_s = (told.median_at - then).total_seconds() if then else 0.0
    return f"{duration(sooner_s)} sooner" if sooner_s >= SOONER_MIN_S else ""


def moment_iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()
