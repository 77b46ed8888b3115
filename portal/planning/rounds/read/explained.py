"""Why a job waits, or where and why it was placed: the whole answer, for REST and for the job's page (section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.utils import timezone

from portal.planning.rounds.models import Planning
from portal.planning.rounds.read.figures import JobNumbers, KeepersNow, Turns
from portal.planning.rounds.read.forecasts import forecast_record, range_missing, starts_of
from portal.planning.rounds.read.selectors import figures_of, latency_ratio, planning_last, reason_sentence, waited_s
from portal.planning.rounds.record.decisions import Decisions, decisions_or_none
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.models import Job
from portal.work.jobs.states import QUEUED, JobState


def larger_sentence(chosen: dict[str, Any] | None) -> str | None:
    """4 GPUs rather than 8: the other 4 would add 40 % speed while job 71 waits. None: nobody waits for them."""
    larger = (chosen or {}).get("larger")
    if chosen is None or not larger:
        return None
    who = f"job {_number(larger['job'])} waits" if larger["job"] is not None else "a job of another tenant waits"
    more = larger["gpus"] - chosen["gpus"]
    return (
        f"{chosen['gpus']} GPU{'s' if chosen['gpus'] > 1 else ''} rather than {larger['gpus']}: the other {more} would "
        f"add {100 * larger['adds']:.0f} % speed while {who}."
    )


def _number(job: int) -> str:
    """Return a job's number: 1044_6 for an array's task. One that is gone keeps its id."""
    found = Job.objects.filter(pk=job).only("pk", "array_id", "array_index").first()
    return found.number if found else str(job)


ENTRY = ("rank", "age_s", "age_source", "inside_window", "eligible", "placement", "array", "side", "turn")


def explanation(job: Job, *, recorded: bool = True) -> dict[str, Any]:
    """Return why a job waits, or where and by which planning it was last placed, with the figures behind it.

    All viewers of the job may see all of it: figures never hold another tenant's ids. None where nothing is known:
    `queue`, `place`, `queue_length` and `ahead` (where it stands now: `explaining.places`), `rank` (by priority, of all jobs that
    the planning ordered) and `turn` (in its array's window, jobs that started counted), `window` and `tenant_share` (of its
    array); `share_at_turn`, `formulation`, `weight`, `candidates`, `classes`, `chosen`,
    `best_rejected` and what `larger_sentence` says are those of `scheduler.explaining.detail`, as of `detail_planning`.
    `recorded`: with `past_predictions`; a job that runs needs none.
    """
    planning = planning_last() if job.state in QUEUED else _placing(job)
    decisions = decisions_or_none(planning)
    place = decisions.find(job.pk)
    known = decisions.entry(place) if place is not None else {}
    detail = explanations_of([job.pk], number=planning.number).get(job.pk) if planning else None
    reason, figures = _reason(job, known, detail)
    if place is not None and reason == known["reason"]:
        figures = Turns(decisions, planning).told(place, job, figures)
    if job.state in QUEUED:
        figures = KeepersNow(timezone.now()).told(job, reason, figures)
    return {
        **_answer(job, reason, figures),
        **_planning(planning),
        **_decided(job, known),
        **decisions.where(place if job.state in QUEUED else None),
        "window": _window(decisions, known.get("array"), planning),
        "tenant_share": _share(job, decisions),
        **_choice(detail),
        **_predicted(job, known, recorded=recorded),
    }


def _answer(job: Job, reason: str | None, figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": job.number,
        "state": job.state,
        "reason": reason if job.state in QUEUED else None,
        "sentence": _sentence(job=job, reason=reason, figures=JobNumbers().told(figures)),
        "figures": figures,
    }


def _planning(planning: Planning | None) -> dict[str, Any]:
    if planning is None:
        return dict.fromkeys(("planning", "at", "policy", "solver"))
    return {
        "planning": planning.number,
        "at": planning.started_at,
        "policy": planning.policy,
        "solver": planning.solver,
    }


def _decided(job: Job, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planning's decision; where it knew nothing of the job, its row's."""
    return {
        "wait_s": waited_s(job),
        "latency_ratio": latency_ratio(job, age_s=known.get("age_s")),
        **{name: known.get(name) for name in ENTRY},
        "age_s": known.get("age_s") or job.age_s,
        "age_source": known.get("age_source") or job.age_source,
        "inside_window": known.get("inside_window", job.in_window),
    }


def _predicted(job: Job, known: Mapping[str, Any], *, recorded: bool) -> dict[str, Any]:
    """Return when a waiting job will probably start, or why that is not known, and how past ranges fared."""
    predicted, missing = None, None
    if job.state == JobState.PENDING:
        predicted = starts_of([job], timezone.now()).get(job.pk)
        if predicted is None:
            missing = range_missing(job=job, rank=known.get("rank"), eligible=bool(known.get("eligible")))
    return {
        "predicted_start": asdict(predicted) if predicted else None,
        "predicted_start_missing": missing,
        "past_predictions": forecast_record() if recorded else None,
    }


def _window(decisions: Decisions, array: str | None, planning: Planning | None) -> dict[str, Any] | None:
    """Return where the array's window closed; a policy without arrays has one window, for the GPU jobs."""
    if array in {None, "cpu"} or planning is None:
        return None
    closes_at = planning.metrics.get("window_gpus")
    whole = {"array": array, "capacity": closes_at, "idle": None, "counted": None, "jobs": planning.window_jobs}
    return decisions.window(array or "") or ({**whole, "front_jobs": planning.window_jobs} if closes_at else None)


def _choice(detail: dict[str, Any] | None) -> dict[str, Any]:
    """Return the candidates with their objective values, the chosen one, and the best rejected with its bound.

    `detail_planning`: the planning whose figures these are.
    """
    told = (detail["detail"] if detail else None) or {}
    names = ("formulation", "weight", "candidates", "classes", "chosen", "best_rejected")
    own = {"share_at_turn": told.get("share"), "detail_planning": detail["planning"] if detail else None}
    larger = {"larger_sentence": larger_sentence(told.get("chosen"))}
    return {**own, **{name: told.get(name) for name in names}, **larger}


def _reason(job: Job, known: dict[str, Any], detail: dict[str, Any] | None) -> tuple[str | None, dict[str, Any]]:
    """Return reason and figures; `known`: the planning's entry, empty where it knew nothing of the job.

    A job that was placed and waits all the same, since it no longer fitted, awaits the next planning.
    """
    if job.state not in QUEUED:
        return None, figures_of(known, job, detail) if known else {}
    if job.state == "HELD":
        return "held", {}
    if not known or known["reason"] is None:
        return job.reason or "not-planned-yet", job.reason_figures
    return known["reason"], figures_of(known, job, detail)


def _share(job: Job, decisions: Decisions) -> dict[str, Any] | None:
    """Return the tenant's share as this planning began, and with its picks: 0..1, divided by its weight."""
    found = decisions.share(job.tenant_id, "cores" if job.gpus == [0] else "gpus")
    if found is None:
        return None
    units = found["capacity"] * found["weight"]
    kept = {name: found[name] for name in ("resource", "held", "with_picks", "capacity", "weight")}
    share, with_picks = (found[name] / units if units else None for name in ("held", "with_picks"))
    return {**kept, "share": share, "share_with_picks": with_picks}


def _sentence(*, job: Job, reason: str | None, figures: dict[str, Any]) -> str:
    if job.array_size:
        return "An array: its tasks are planned one by one."
    if job.state in QUEUED:
        try:
            return reason_sentence(reason or "not-planned-yet", figures)
        except KeyError:  # the job's figures are of another reason, or older than this version
            return reason_sentence("not-planned-yet", {})
    return reason_sentence(None, figures) if figures.get("nodes") else ""


def _placing(job: Job) -> Planning | None:
    """Return the planning that placed a job's last attempt."""
    number = job.attempts.runs().order_by("-epoch").values_list("planning_number", flat=True).first()
    return Planning.objects.filter(number=number).first() if number else None
