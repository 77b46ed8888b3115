"""Read plannings: why a job waits or where it was placed, the cluster's figures, decisions as a reader may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.jobs.listing import jobs_for
from portal.jobs.states import QUEUED
from portal.rounds.decisions import decisions_unpack
from portal.rounds.knobs import knobs_current, scheduler_parameters
from portal.rounds.models import Planning
from portal.rounds.snapshot import cores_wanted
from scheduler.estimator.cores import start_cores
from scheduler.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.jobs.models import Job
    from portal.tenants.models import Tenant, User

CATEGORIES = ("cv", "nlp", "speech", "other", "")
ANOTHERS = "a job of another tenant"
"""What stands in place of a foreign job's id and name."""


def planning_last() -> Planning | None:
    """Return the latest planning whose plan was applied."""
    return Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number").first()


def reason_sentence(reason: str | None, figures: dict[str, Any]) -> str:
    """Return one plain sentence for a reason of the fixed vocabulary; for None, where the job was placed."""
    return sentence(reason or None, figures)


def explanation(job: Job, user: User) -> dict[str, Any]:
    """Return why a job waits, or where and by which planning it was last placed, with the figures behind it.

    Keys: `job, state, reason, sentence, planning, at, rank, queue_length, wait_s, age_s, age_source, latency_ratio,
    inside_window, eligible, figures, placement`; None where the planning says nothing. Figures never hold another
    tenant's ids: the scheduler leaves them out.
    """
    del user  # whoever may see the job may see its figures
    planning = planning_last() if job.state in QUEUED else _placing(job)
    decision = _decision(planning, job.pk)
    reason, figures = (
        (decision["reason"], decision["figures"]) if decision else (job.reason or None, job.reason_figures)
    )
    if job.state in QUEUED and decision is None:
        reason, figures = ("held" if job.state == "HELD" else job.reason or "not-planned-yet"), job.reason_figures
    known = decision or {}
    return {
        "job": job.number,
        "state": job.state,
        "reason": reason if job.state in QUEUED else None,
        "sentence": _sentence(job=job, reason=reason, figures=figures),
        "planning": planning.number if planning else None,
        "at": planning.started_at if planning else None,
        "rank": known.get("rank"),
        "queue_length": planning.queue_length if planning else None,
        "wait_s": waited_s(job),
        "age_s": known.get("age_s") or job.age_s,
        "age_source": known.get("age_source") or job.age_source,
        "latency_ratio": latency_ratio(job, age_s=known.get("age_s")),
        "inside_window": known.get("inside_window", job.in_window),
        "eligible": known.get("eligible"),
        "figures": figures,
        "placement": known.get("placement"),
        "policy": planning.policy if planning else None,
        "solver": planning.solver if planning else None,
    }


def _sentence(*, job: Job, reason: str | None, figures: dict[str, Any]) -> str:
    if job.array_size:
        return "An array: its tasks are planned one by one."
    if job.state in QUEUED:
        return reason_sentence(reason or "not-planned-yet", figures)
    return reason_sentence(None, figures) if figures.get("nodes") else ""


def _placing(job: Job) -> Planning | None:
    """Return the planning that placed a job's last attempt."""
    number = job.attempts.order_by("-epoch").values_list("planning_number", flat=True).first()
    return Planning.objects.filter(number=number).first() if number else None


def _decision(planning: Planning | None, job_id: int) -> dict[str, Any] | None:
    if planning is None:
        return None
    return next((entry for entry in decisions_unpack(planning) if entry["job"] == job_id), None)


def waited_s(job: Job) -> float:
    """Return the eligible waiting time so far, the present stretch included."""
    stretch = (timezone.now() - job.waiting_since).total_seconds() if job.waiting_since else 0.0
    return job.waited_s + max(0.0, stretch)


def latency_ratio(job: Job, *, age_s: float | None = None) -> float | None:
    """Return waiting time over expected run time as of now (algorithms, section 3); None before the first planning."""
    age = job.age_s if job.started_at else age_s or job.age_s
    return waited_s(job) / age if age else None


def planning_decisions(planning: Planning, user: User, *, tenant: Tenant | None = None) -> list[dict[str, Any]]:
    """Return a planning's decisions in queue order; of jobs that `user` may not see only rank, result and sizes.

    `tenant` narrows what is seen to the one that a token is restricted to. Foreign ones have `job` None, `name` "a job of
    another tenant", and neither figures nor nodes.
    """
    entries = decisions_unpack(planning)
    jobs = jobs_for(user=user, tenant=tenant).filter(pk__in=[entry["job"] for entry in entries])
    visible = jobs.in_bulk()
    return [_shown(entry, visible.get(entry["job"])) for entry in entries]


def _shown(entry: dict[str, Any], job: Job | None) -> dict[str, Any]:
    if job is None:
        kept = {name: entry[name] for name in ("rank", "result", "reason", "latency_ratio", "inside_window")}
        return {**kept, "job": None, "number": None, "name": ANOTHERS, "tenant": None, "figures": {}, "placement": None}
    return {**entry, "number": job.number, "name": job.name, "tenant": job.tenant.name}


def cluster_metrics() -> dict[str, Any]:
    """Return the figures of the last planning: `{"planning", "at", "policy", **metrics}`; {} before the first.

    Without its faults: they name jobs, of every tenant.
    """
    planning = planning_last()
    if planning is None:
        return {}
    return {
        "planning": planning.number,
        "at": planning.started_at,
        "policy": planning.policy,
        "queue_length": planning.queue_length,
        **{name: value for name, value in planning.metrics.items() if name != "faults"},
    }


def cores_effects() -> dict[str, str]:
    """Return what each hint does to the number of cores a GPU that a job starts with (algorithms, section 8)."""
    effects = {f"category:{name}": f"{start_cores(category=name or None, tuned={})} cores a GPU" for name in CATEGORIES}
    base = start_cores(category=None, tuned={})
    changes = {
        "pipelined": start_cores(category=None, tuned={}, pipelined=True) - base,
        "heavy": start_cores(category=None, tuned={}, heavy_between_iterations=True) - base,
    }
    effects |= {name: f"{change:+d} core".replace("-", "\u2212") for name, change in changes.items()}
    limit = knobs_current()["large_model_parameters"]
    effects["parameters"] = f"Above {limit / 1e6:g} M it starts with one core a GPU fewer."
    return effects | {"cores": f"Empty: by the hints, {base} without any. CPU only: in all."}


def cores_wanted_of(jobs: Iterable[Job]) -> dict[int, int]:
    """Return how many cores each job would get at its smallest size: what it asked, else the start rule."""
    parameters = scheduler_parameters(knobs_current())
    return {job.pk: cores_wanted(job=job, parameters=parameters) * max(1, job.gpus[0]) for job in jobs}
