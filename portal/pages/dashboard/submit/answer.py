"""The card beside the form: how a planning would treat the job now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.dashboard.queue.page import record_words
from portal.planning.rounds.asking.dryrun import dry_run as plan_dry_run
from portal.planning.rounds.read.figures import queue_words
from portal.planning.rounds.read.forecasts import forecast_record
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.services import submission_check

if TYPE_CHECKING:
    from datetime import datetime

    from portal.foundation.errors import BerthError
    from portal.pages.dashboard.parts.context import Fact, StartsContext
    from portal.pages.dashboard.submit.context import DryRunContext, DryRunRow
    from portal.people.tenants.models import User


def dry_run_context(user: User, description: dict[str, Any]) -> DryRunContext:
    """Return the result of a planning of a valid description now. Raises BerthError where it is refused after all."""
    tenant, parsed = submission_check(user=user, description=description, r_num=knobs_current()["r_num"])
    answer = plan_dry_run(description=parsed, tenant=tenant, user=user)
    none = "part of a GPU" if parsed.shareable else "CPU"
    rows: list[DryRunRow] = [
        {
            "configuration": f"{part['node']} \u00d7 {part['gpus'] or none}",
            "text": f"{part['cores']} core{'s' if part['cores'] != 1 else ''}",
            "note": None,
            "verdict": "chosen",
            "chosen": True,
        }
        for part in answer["placement"] or []
    ]
    place: list[Fact] = []
    if answer["place"]:
        place.append({"label": "Place", "value": queue_words(answer).removeprefix("place ")})
    unit = "Cores" if parsed.gpus == (0,) else "Cores a GPU"
    return {
        "at": answer["at"].isoformat(),
        "outcome": "placeable" if answer["placeable"] else "waits",
        "word": "Placeable" if answer["placeable"] else "Would wait",
        "sentence": answer["sentence"].replace("Placed on", "The next planning would place it on"),
        "rows": rows,
        "starts": _starts(answer),
        "facts": [
            *place,
            {"label": f"{unit} wanted", "value": str(answer["cores"])},
            {"label": "Tenant", "value": tenant.name},
        ],
    }


def _starts(answer: dict[str, Any]) -> StartsContext | None:
    """Return the expected start of a job that would wait."""
    found = answer["start"]
    if answer["placeable"] or found is None:
        return None
    return {
        "earliest": found["earliest_at"].isoformat(),
        "median": _iso(found["median_at"]),
        "latest": _iso(found["latest_at"]),
        "passed": False,
        "record": record_words(forecast_record()),
    }


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def refused_context(problems: list[BerthError]) -> DryRunContext:
    """Return the words of a card without anything to plan yet."""
    impossible = problems[0].code == "unsatisfiable" and len(problems) == 1
    more = f" {len(problems) - 1} more beside the fields." if len(problems) > 1 else ""
    return {
        "at": timezone.now().isoformat(),
        "outcome": "impossible" if impossible else "invalid",
        "word": "Impossible here" if impossible else "Not valid yet",
        "sentence": problems[0].detail + more,
        "rows": [],
        "starts": None,
        "facts": [],
    }
