"""Read plannings: why a job waits or where it was placed, the cluster's figures, decisions as a reader may see them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.models import Planning
from portal.planning.rounds.read.figures import Turns
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.listing import jobs_for
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import ANOTHERS
from scheduler.explaining.sentences import sentence

CHUNK = 1000
"""The number of a planning's decisions that are looked up at a time."""


def planning_last() -> Planning | None:
    """Return the latest planning whose plan was applied."""
    return Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number").first()


def reason_sentence(reason: str | None, figures: dict[str, Any]) -> str:
    """Return one plain sentence for a reason of the fixed vocabulary; for None, where the job was placed."""
    return sentence(reason or None, figures)


def waited_s(job: Job) -> float:
    """Return the eligible waiting time so far, the present stretch included."""
    stretch = (timezone.now() - job.waiting_since).total_seconds() if job.waiting_since else 0.0
    return job.waited_s + max(0.0, stretch)


def latency_ratio(job: Job, *, age_s: float | None = None) -> float | None:
    """Return waiting time over expected run time as of now (algorithms, section 3); None before the first planning."""
    age = job.age_s if job.started_at else age_s or job.age_s
    return waited_s(job) / age if age else None


def planning_decisions(
    planning: Planning, user: User, *, tenant: Tenant | None = None, start: int = 0, count: int | None = None
) -> list[dict[str, Any]]:
    """Return a planning's decisions in queue order; of jobs that `user` may not see only their place and result.

    `tenant` narrows what is seen to the one that a token is restricted to. Foreign ones have `job` None, `name` "a job of
    another tenant", and neither figures nor nodes. Two queries for each thousand decisions.
    """
    decisions = decisions_read(planning)
    turns = Turns(decisions, planning)
    stop = len(decisions) if count is None else min(len(decisions), start + count)
    shown: list[dict[str, Any]] = []
    for first in range(start, stop, CHUNK):
        entries = [decisions.entry(place) for place in range(first, min(first + CHUNK, stop))]
        ids = [entry["job"] for entry in entries]
        visible = jobs_for(user=user, tenant=tenant).in_bulk(ids)
        details = explanations_of(list(visible), number=planning.number)
        for row, entry in enumerate(entries, start=first):
            if (job := visible.get(entry["job"])) is None:
                kept = {name: entry[name] for name in ("rank", "result", "reason", "array", "side", "inside_window")}
                unseen = dict.fromkeys(("job", "number", "tenant", "placement", "latency_ratio"))
                shown.append({**kept, **unseen, "name": ANOTHERS, "figures": {}})
                continue
            figures = turns.told(row, job, figures_of(entry, job, details.get(job.pk)))
            named = {"number": job.number, "name": job.name, "tenant": job.tenant.name, "figures": figures}
            shown.append(entry | named)
    return shown


def figures_of(entry: dict[str, Any], job: Job, detail: dict[str, Any] | None) -> dict[str, Any]:
    """Return the figures behind a decision: its detail's, else those that the job keeps for the same reason."""
    if detail is not None and detail["reason"] == entry["reason"]:
        return detail["figures"]
    return job.reason_figures if entry["reason"] and job.reason == entry["reason"] else {}


def cluster_metrics() -> dict[str, Any]:
    """Return the figures of the last planning: `{"planning", "at", "policy", **metrics}`; {} before the first.

    Without its faults: they name jobs, of every tenant.
    """
    last = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    planning = last.only("number", "started_at", "policy", "queue_length", "metrics").first()
    if planning is None:
        return {}
    return {
        "planning": planning.number,
        "at": planning.started_at,
        "policy": planning.policy,
        "queue_length": planning.queue_length,
        **{name: value for name, value in planning.metrics.items() if name != "faults"},
    }
