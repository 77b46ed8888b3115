"""A job's curves, read once for all readers: from Redis for five seconds, or for ten times what reading took."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from portal.artefacts.remote import StoreAway
from portal.artefacts.selectors import artefact_bytes, artefacts_of
from portal.errors import NotFound
from portal.events.shared import Sharing
from portal.jobs.states import FINAL
from portal.previews.curves.files import curve_files, points_of
from portal.previews.source import Source

if TYPE_CHECKING:
    from portal.artefacts.models import Artefact
    from portal.jobs.models import Job
    from portal.previews.curves.points import Points

EVERY_S = 5.0
MOST_ROWS = 1000
FIRST_NAMES = ("loss", "acc", "reward", "top", "lr")


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
            return {"digest": digest, **_told(points_of([source_of(job, row) for row in rows]))}
        except StoreAway as error:
            return {"digest": "", "series": {}, "times": {}, "notes": [error.detail]}

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


def source_of(job: Job, row: Artefact) -> Source:
    """Return a kept file for a preview. What was replaced or removed meanwhile reads as empty; reading raises StoreAway."""

    def read(start: int, length: int) -> bytes:
        try:
            return artefact_bytes(job, row, start=start, most=length)
        except (NotFound, OSError):
            return b""

    return Source(row.path, row.size or 0, read)


def _told(points: Points) -> dict[str, Any]:
    series, times = {}, {}
    for name in sorted(points.curves, key=_rank):
        steps, values = points.curves[name].thinned()
        series[name] = [steps, [None if value is None else float(f"{value:.6g}") for value in values]]
        known = [points.curves[name].times.get(step) for step in steps]
        if None not in known:
            times[name] = known
    return {"series": series, "times": times, "notes": _notes(points)}


def _rank(name: str) -> tuple[int, str]:
    """Put what people look at first before the rest."""
    lower = name.lower()
    return next((place for place, word in enumerate(FIRST_NAMES) if word in lower), len(FIRST_NAMES)), name


def _notes(points: Points) -> list[str]:
    notes = []
    if points.others:
        notes.append(f"{len(points.others)} more names are not drawn.")
    if points.not_finite:
        notes.append(f"{points.not_finite} values were not finite (NaN or infinite): gaps.")
    if points.damaged:
        notes.append(f"{points.damaged} lines or records could not be read.")
    if points.thinned:
        notes.append("The files are long: not every point was read.")
    return notes
