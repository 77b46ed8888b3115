"""The planner's offers as rows: what changes, when it would start, who would start later."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from portal.offers.words import change_words, cost_words, minutes, no_gain_words, others_words

if TYPE_CHECKING:
    from portal.dashboard.jobs.waiting.context import OfferRow
    from portal.rounds.read.forecasts import Start

NODES_SHOWN = 2


def offer_rows(answer: dict[str, Any], said: dict[str, Any] | None, told: Start | None) -> list[OfferRow]:
    """Return the rows, best end first. `said`: what became of a press, by its change and value; `told`: the job's start as
    it stands, which they are compared with.
    """
    rows = [_row(each, answer, said, told) for each in answer.get("offers", ())]
    first = next((row for row in rows if row["gains"]), None)
    if first is not None:
        first["primary"] = True
    return rows


def _row(offer: dict[str, Any], answer: dict[str, Any], said: dict[str, Any] | None, told: Start | None) -> OfferRow:
    start = offer["start"] or {}
    value, words = json.dumps(offer["value"]), change_words(offer)
    mine = said is not None and said["change"] == offer["change"] and said["value"] == value
    return {
        "change": offer["change"],
        "value": value,
        "title": words,
        "note": cost_words(offer),
        "now": offer["now"],
        "nodes": ", ".join(offer["nodes"][:NODES_SHOWN]) + (" ..." if len(offer["nodes"]) > NODES_SHOWN else ""),
        "earliest": moment_iso(start.get("earliest")),
        "latest": moment_iso(start.get("latest")),
        "sooner": _sooner(offer, answer, told),
        "over": moment_iso(offer.get("over")),
        "others": others_words(offer) if offer["gains"] else no_gain_words(offer),
        "gains": offer["gains"],
        "primary": False,
        "button": f"{words.removesuffix(' too')}, start now" if offer["now"] else words.removesuffix(" too"),
        "said": said["text"] if mine and said else None,
    }


def _sooner(offer: dict[str, Any], answer: dict[str, Any], told: Start | None) -> str:
    before = told.median_at.timestamp() if told and told.median_at and not told.passed else None
    then = answer["at"] if offer["now"] else (offer["start"] or {}).get("median")
    if before is None or then is None or before - then < 30:
        return ""
    return f"{minutes(before - then)} sooner"


def moment_iso(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat()
