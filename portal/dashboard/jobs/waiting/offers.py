"""The planner's offers as rows of the card."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from portal.dashboard.parts.formatting import duration

if TYPE_CHECKING:
    from portal.offers.services import Kept
    from portal.rounds.read.forecasts import Start

NODES_SHOWN = 2
SOONER_MIN_S = 30.0


def offer_rows(kept: Kept, said: dict[str, Any] | None, told: Start | None) -> list[dict[str, Any]]:
    """Return the offers, best end first, as `portal.offers` keeps them, with what the page adds.

    `said`: what became of a press, by its change and value; `told`: the job's start as it stands, which they are compared with.
    """
    first = next((offer for offer in kept.answer["offers"] if offer["gains"]), None)
    return [
        {
            **offer,
            "pressed": (value := json.dumps(offer["value"])),
            "on": ", ".join(list(offer["nodes"])[:NODES_SHOWN]) + (" ..." if len(offer["nodes"]) > NODES_SHOWN else ""),
            "sooner": _sooner(offer, kept, told),
            "button": offer["words"].removesuffix(" too") + (", start now" if offer["starts"] else ""),
            "primary": offer is first,
            "said": said["text"] if said and (said["change"], said["value"]) == (offer["change"], value) else None,
        }
        for offer in kept.answer["offers"]
    ]


def _sooner(offer: dict[str, Any], kept: Kept, told: Start | None) -> str:
    if told is None or told.median_at is None or told.passed:
        return ""
    median = (offer["start"] or {}).get("median_at")
    then = kept.at if offer["starts"] else median and datetime.fromisoformat(median)
    sooner_s = (told.median_at - then).total_seconds() if then else 0.0
    return f"{duration(sooner_s)} sooner" if sooner_s >= SOONER_MIN_S else ""
