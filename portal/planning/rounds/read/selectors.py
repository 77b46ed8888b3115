"""Read plannings: why a job waits or where it was placed, the cluster's figures, decisions as a reader may see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.model_jobs import cores_wanted
from portal.planning.rounds.read.figures import Turns
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.listing import jobs_for
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.services.cores import cores_tuned
from scheduler.estimator.cores import LARGE_MODEL_PARAMETERS, start_cores
from scheduler.explaining.sentences import sentence

CATEGORIES = ("cv", "nlp", "speech", "other", "")
"""As the submit form offers them for GPU jobs; the empty one: none is said."""
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


def cores_effects(user: User) -> dict[str, str]:
    """Return the effect of each hint on the cores a GPU that a job of the user starts with (algorithms, section 8)."""
    tuned = cores_tuned(owner_ids=[user.pk]).get(user.pk, {})
    effects = {f"category:{name}": _start_words(name or None, tuned) for name in CATEGORIES}
    base = start_cores(category=None, tuned=tuned)
    changes = {
        "pipelined": start_cores(category=None, tuned={}, pipelined=True) - start_cores(category=None, tuned={}),
        "heavy": start_cores(category=None, tuned={}, heavy_between_iterations=True)
        - start_cores(category=None, tuned={}),
    }
    effects |= {name: f"{change:+d} core".replace("-", "\u2212") for name, change in changes.items()}
    effects["parameters"] = f"Above {LARGE_MODEL_PARAMETERS / 1e6:g} M it starts with one core per GPU less."
    return effects | {"cores": f"Empty: by the hints, {base} without any. Of a CPU job: in all."}


def _start_words(category: str | None, tuned: Mapping[str | None, int]) -> str:
    cores = start_cores(category=category, tuned=tuned)
    past = ", as your earlier jobs" if category in tuned or (category is None and tuned) else ""
    return f"{cores} core{'s' if cores != 1 else ''} a GPU{past}"


def cores_wanted_of(jobs: Iterable[Job]) -> dict[int, int]:
    """Return how many cores each job would get at its smallest size: its own wish, else the start rule. One query."""
    jobs = list(jobs)
    tuned = cores_tuned(owner_ids={job.owner_id for job in jobs})
    return {job.pk: cores_wanted(job=job, tuned=tuned) * max(1, job.gpus[0]) for job in jobs}
