"""A job's curves: read once for all readers, from Redis for five seconds or for ten times what reading took; and drawn."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from portal.foundation.events.shared import Sharing
from portal.pages.dashboard.parts import lines
from portal.work.artefacts.looking import given_of
from portal.work.artefacts.remote import StoreAway
from portal.work.artefacts.selectors import artefacts_of
from portal.work.jobs.states import FINAL
from portal.work.previews.asking import Busy, OutOfTime, TooCostly, asked
from portal.work.previews.curves.files import curve_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.dashboard.parts.context import Choice
    from portal.work.artefacts.models import Artefact
    from portal.work.jobs.models import Job

SCALES = ("linear", "log")
AXES = ("step", "time")
SMOOTHINGS = ("0", "0.6", "0.9")
LABELS = {
    "linear": "Linear",
    "log": "Logarithmic",
    "step": "By step",
    "time": "By time",
    "0": "As written",
    "0.6": "Smoothed",
    "0.9": "Smoother",
}


def choices_of(now: str, values: Sequence[str], url: Callable[[str], str]) -> list[Choice]:
    return [{"value": each, "label": LABELS[each], "selected": each == now, "url": url(each)} for each in values]


def curve_figure(
    name: str,
    steps: Sequence[float],
    values: Sequence[float | None],
    *,
    times: Sequence[float] | None = None,
    scale: str = "linear",
    smooth: float = 0.0,
) -> dict[str, Any]:
    """Return the curve; smoothed, with the raw values pale behind it. A logarithmic scale leaves out values up to 0.

    `times` (Unix s): when each point was written; the curve is drawn over these then.
    """
    logarithmic = scale == "log"
    drawn = [value if value is not None and (value > 0 or not logarithmic) else None for value in values]
    smoothed = smoothed_of(drawn, smooth) if smooth else drawn
    places = steps if times is None else times
    shown = [lines.line("as written", "plot-1", places, drawn, look="pale")] if smooth else []
    shown.append(lines.line(name, "plot-1", places, smoothed, end=True))
    return {"x": {"kind": "step"} if times is None else {"kind": "time"}, "y": {"log": logarithmic}, "lines": shown}


def smoothed_of(values: Sequence[float | None], weight: float) -> list[float | None]:
    """Return the running mean with exponentially falling weights, without a bias to the first value; gaps stay gaps."""
    last, held = 0.0, 0.0
    found: list[float | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        last, held = weight * last + (1 - weight) * value, weight * held + 1 - weight
        found.append(last / held)
    return found


EVERY_S = 5.0
MOST_ROWS = 1000
PASSING = {"passing": True}
"""The refusals that pass: nobody can look now, and later somebody can."""


def curves_of(job: Job) -> dict[str, Any] | None:
    """Return `{"digest", "series": {name: [steps, values]}, "times": {name: Unix s of each}, "notes"}`; None: it
    has no such files.

    While the job runs it may be five seconds old. Once the job has ended it is of the files as they are.
    """
    rows = curve_rows(job)
    if not rows:
        return None
    digest = hashlib.sha256("\n".join(f"{row.path}\0{row.blob}" for row in rows).encode()).hexdigest()[:16]
    name, sharing = f"curves:{job.pk}", Sharing()

    def make(_: Sharing) -> dict[str, Any]:
        try:
            return {"digest": digest} | asked(
                f"{name}:{digest}", "curves", lambda: [given_of(job, row) for row in rows]
            )
        except StoreAway as error:
            return _none(error.detail) | PASSING
        except (Busy, OutOfTime) as error:
            return _none(str(error)) | PASSING
        except TooCostly as error:
            return _none(str(error))

    value: dict[str, Any] = sharing.get(name, make, every_s=EVERY_S)
    if value["digest"] != digest and job.state in FINAL:
        sharing.forget(name)
        value = sharing.get(name, make, every_s=EVERY_S)
    return value


def curve_rows(job: Job) -> list[Artefact]:
    """Return the kept files with curves, in the order in which they are read."""
    named = Q(path__endswith=".jsonl") | Q(path__endswith=".ndjson") | Q(path__contains="events.out.tfevents.")
    rows = {row.path: row for row in artefacts_of(job).filter(named, size__gt=0)[:MOST_ROWS]}
    return [rows[path] for path in curve_files(rows)]


def _none(why: str) -> dict[str, Any]:
    return {"digest": "", "series": {}, "times": {}, "notes": [why]}
