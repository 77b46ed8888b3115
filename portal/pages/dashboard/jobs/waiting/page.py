"""Fill a waiting job's card: its start range on a line of time, how far to trust it, and the planner's offers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.waiting.line import axis_make, line_make, range_mark, steps_of
from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import duration, number, share
from portal.planning.offers.services import is_offered, offers_kept
from portal.planning.rounds.models import StartForecast
from portal.planning.rounds.read.forecasts import MARKS, RANGE_SHARE, forecast_record, record_at, start_told

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.waiting.line import Axis
    from portal.planning.offers.services import Kept
    from portal.planning.rounds.read.forecasts import Start
    from portal.work.jobs.models import Job


NODES_SHOWN = 2
SOONER_MIN_S = 30.0


POINTS = 5
FAR_S = 6 * 3600.0
"""A range without an end is drawn so far beyond its beginning."""
OUTCOMES = ("held", "later", "earlier")


def waiting_make(
    job: Job, kept: Kept | None = None, *, said: dict[str, Any] | None = None, note: str | None = None
) -> dict[str, Any] | None:
    """Fill the card of a job that waits for its turn; None for any other. `kept`: offers just worked out."""
    if not is_offered(job):
        return None
    kept = kept or offers_kept(job)
    forecast, now = StartForecast.objects.filter(job_id=job.pk).first(), timezone.now()
    told, now_s = start_told(forecast, now), now.timestamp()
    start = _ends_s(told)
    way = kept.answer["gathering"]
    last = [start[1]] if start else []
    last += [end["at"] for end in way["ends"]] if way else []
    axis = axis_make(submitted_s=job.submitted_at.timestamp(), now_s=now_s, last_s=max(last, default=now_s + 600.0))
    shown, more = _points(way, now_s)
    line = line_make(
        axis,
        now_s=now_s,
        submitted_s=job.submitted_at.timestamp(),
        way=steps_of(way, now_s) if way else None,
        start=None if told and told.passed else start,
        ends=told is not None and told.latest_at is not None,
    )
    card: dict[str, Any] = {
        "number": job.number,
        "at": told.at.isoformat() if told else None,
        "starts": starts_make(told),
        "percent": f"{RANGE_SHARE:.0%}".replace("%", "\u00a0%"),
        "line": line if start or way else None,
        "node": way["node"] if way else None,
        "need": way["need"] if way else 0,
        "points": shown,
        "more": more,
        "ranges": _ranges(forecast, told, axis),
        "trust": _trust(told, now) if told else None,
        **_offers(kept, told, said, note),
    }
    return card


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _ends_s(told: Start | None) -> tuple[float, float] | None:
    if told is None:
        return None
    earliest_s = told.earliest_at.timestamp()
    return earliest_s, told.latest_at.timestamp() if told.latest_at else earliest_s + FAR_S


def _points(way: dict[str, Any] | None, now_s: float) -> tuple[list[dict[str, Any]], str | None]:
    """Return the ends in the way, the last `POINTS` of them, and how many came before these, in words."""
    if not way:
        return [], None
    ends, need = way["ends"], way["need"]
    hidden = len(ends) - POINTS
    points: list[dict[str, Any]] = [
        {
            "at": datetime.fromtimestamp(end["at"], UTC).isoformat(),
            "is_due": end["at"] < now_s,  # it was expected by now
            "job": end["name"],
            "url": reverse("job-detail", args=[end["job"]]) if end["job"] else None,
            "free": end["free"],  # of the needed GPUs, after it
            "cells": [place < end["free"] for place in range(need)] if need <= 16 else [],
        }
        for end in ends[-POINTS:]
    ]
    return points, f"{hidden} more end{'s' if hidden == 1 else ''} before these" if hidden > 0 else None


def _ranges(forecast: StartForecast | None, told: Start | None, axis: Axis) -> list[dict[str, Any]]:
    """Return the range as first given and as it is now, where they differ."""
    if forecast is None or told is None or forecast.first_at == forecast.at:
        return []
    rows = [
        (forecast.first_at, forecast.first_earliest_at, forecast.first_latest_at),
        (None, told.earliest_at, told.latest_at),
    ]
    return [
        {
            "said_at": _iso(said),  # None: now
            "earliest": early.isoformat(),
            "latest": _iso(late),
            "mark": range_mark(
                axis,
                (early.timestamp(), late.timestamp() if late else early.timestamp() + FAR_S),
                now=said is None,
            ),
        }
        for said, early, late in rows
    ]


def _trust(told: Start, now: datetime) -> dict[str, Any]:
    """Say how past ranges given at the same distance fared."""
    ahead_s = FAR_S if told.median_at is None else (told.median_at - now).total_seconds()
    part = record_at(forecast_record(), ahead_s)
    starts = part["starts"] if part else 0
    if part is None or starts < MARKS:
        said = f"Too few starts to say: {number(starts)} so far of ranges given as far ahead, and {MARKS} are needed."
        return {"sentence": said, "marks": [], "counts": []}
    held = f"{number(round(part['held'] * starts))} of {number(starts)} starts ({share(part['held'])})"
    sentence = f"Ranges given as far ahead held for {held}, median error {duration(part['median_error_s'])}."
    marks = part["last"]
    return {"sentence": sentence, "marks": marks, "counts": [(each, marks.count(each)) for each in OUTCOMES]}


def _offers(kept: Kept, told: Start | None, said: dict[str, Any] | None, note: str | None) -> dict[str, Any]:
    over = kept.answer["over_at"]
    if over and told and datetime.fromisoformat(over) < told.earliest_at:
        over, told = None, None  # the range is newer than the answer: they are not compared
    rows = offer_rows(kept, said, told)
    if note is None and kept.at and not rows:
        note = "It starts as it stands." if kept.answer["starts_now"] else "No single change would have it over sooner."
    apart = said["text"] if said and not any(row["said"] for row in rows) else None
    return {
        "offers": rows,
        "over": over,
        "offers_at": kept.at.isoformat() if kept.at else None,
        "note": note,
        "pending": not kept.fresh and note is None,  # they are being worked out: ask again
        "said": apart,
    }


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
