"""One row of the queue page: a job's place with its reason, why it waits, and its need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.overview.queue import needs_words
from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import share
from portal.planning.rounds.read.figures import JobNumbers, KeepersNow, Turns
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.read.needs import start_need
from portal.planning.rounds.read.selectors import figures_of, reason_sentence, waited_s
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.states import QUEUED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.record.decisions import Decisions


NO_WAIT: dict[str, Any] = {"reason": None, "sentence": None, "to_start": None, "starts": None}


def _anothers(position: int, side: str) -> dict[str, Any]:
    """Return the row of a job that the reader may not see."""
    return {
        "position": position,
        "side": side,
        "name": ANOTHERS,
        "job_id": None,
        "url": None,
        "tenant": None,
        "needs": None,
        "state": None,
        "lr": None,
        "waited_s": None,
        "share": None,
        "turn": None,
        **NO_WAIT,
    }


class Rows:
    """Reads what the rows at `places` need, at once: jobs that the reader may see, their details and forecasts."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions, places: Sequence[int]) -> None:
        self._keepers = KeepersNow(snapshot.now)
        self._decisions, self._turns = decisions, Turns(decisions, snapshot.planning)
        self.swept = self._turns.sweeps
        ids = [int(decisions.jobs[place]) for place in places]
        self._jobs = Job.objects.visible_to(snapshot.user).select_related("tenant", "array").in_bulk(ids)
        number = snapshot.planning.number if snapshot.planning else None
        self._details = explanations_of(list(self._jobs), number=number)
        self._starts = starts_of(self._jobs.values(), snapshot.now)
        details = (detail["figures"] for detail in self._details.values())
        self._numbers = JobNumbers([*details, *(job.reason_figures for job in self._jobs.values())])

    def row(self, place: int, position: int) -> dict[str, Any]:
        """Return the row of the decision at `place`, which is the array's `position`-th."""
        entry = self._decisions.entry(place)
        job = self._jobs.get(entry["job"])
        if job is None:
            return _anothers(position, entry["side"])
        return {
            "position": position,
            "side": entry["side"],
            "job_id": job.number,
            "url": reverse("job-detail", args=[job.number]),
            "name": job.name,
            "tenant": job.tenant.name,
            "needs": needs_words(job.gpus),
            "state": None if job.state in QUEUED else job.state,
            "lr": entry["latency_ratio"],
            "waited_s": waited_s(job),
            "share": self._share(job),
            "turn": self._turn(entry),
            **(self._waits(place, job, entry) if job.state in QUEUED else NO_WAIT),
        }

    def _waits(self, place: int, job: Job, entry: dict[str, Any]) -> dict[str, Any]:
        """Say why a job waits, and its need."""
        figures = self._turns.told(place, job, figures_of(entry, job, self._details.get(job.pk)))
        figures = self._numbers.told(self._keepers.told(job, entry["reason"], figures))
        return {
            "reason": entry["reason"],
            "sentence": None if entry["reason"] == "outside-window" else _sentence(entry["reason"], figures),
            "to_start": start_need(entry["reason"], figures),
            "starts": starts_make(self._starts.get(job.pk)),
        }

    def _share(self, job: Job) -> float | None:
        found = self._decisions.share(job.tenant_id, "cores" if job.gpus == [0] else "gpus")
        units = found["capacity"] * found["weight"] if found else 0
        return found["held"] / units if found and units else None

    def _turn(self, entry: dict[str, Any]) -> str | None:
        """Say why the job has this place: whose turn it was, and which of their jobs."""
        if entry["side"] == "outside":
            return None
        told = (self._details.get(entry["job"]) or {}).get("detail") or {}
        if told.get("share") is None:
            return "by its latency ratio"
        return f"its tenant had {share(told['share'], 1)} at its turn"


def _sentence(reason: str | None, figures: dict[str, Any]) -> str | None:
    try:
        return reason_sentence(reason or "not-planned-yet", figures)
    except (KeyError, TypeError):
        return None  # the figures are of another reason: the next planning brings the right ones
