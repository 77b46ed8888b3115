"""The planner's offers as rows of the card."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration

if TYPE_CHECKING:
    from portal.planning.offers.services import Kept
    from portal.planning.rounds.read.forecasts import Start

NODES_SHOWN = 2
SOONER_MIN_S = 30.0


def offer_rows(kept: Kept, said: dict[str, Any] | None, stands: Start | None) -> list[dict[str, Any]]:
    """Return the offers, best end first, as `portal.planning.offers` keeps them, with more for the page.

    `said`: the result of a press, by its change and value. `stands`: the job's start as it stands, to compare them with.
    """
    first = next((offer for offer in kept.answer["offers"] if offer["gains"]), None)
    return [
        {
            **offer,
            "pressed": (value := json.dumps(offer["value"])),
            "on": ", ".join(list(offer["nodes"])[:NODES_SHOWN]) + (" ..." if len(offer["nodes"]) > NODES_SHOWN else ""),
            "sooner": _sooner(offer, kept, stands),
            "button": offer["words"].removesuffix(" too") + (", start now" if offer["starts"] else ""),
            "primary": offer is first,
            "said": said["text"] if said and (said["change"], said["value"]) == (offer["change"], value) else None,
        }
        for offer in kept.answer["offers"]
    ]


def _sooner(offer: dict[str, Any], kept: Kept, stands: Start | None) -> str:
    if stands is None or stands.median_at is None or stands.passed:
        return ""
    median = (offer["start"] or {}).get("median_at")
    then = kept.at if offer["starts"] else median and datetime.fromisoformat(median)
    sooner_s = (stands.median_at - then).total_seconds() if then else 0.0
    return f"{duration(sooner_s)} sooner" if sooner_s >= SOONER_MIN_S else ""
