"""Why a job waits (algorithms.md section 7): its one reason, the figures behind it, and the sentence.

Figures are JSON-able and may be shown to the job's tenant: nodes by name, the tenant's own jobs by id, jobs of others
only as a number. The *binding* constraint of a rejected candidate is the first resource that fails when it is added
to the final plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scheduler.model import Reason
from scheduler.placement.feasibility import (
    Level,
    Offer,
    aggregated_gpus,
    domain_allowed,
    first_failing,
    idle_offers,
    largest_nodes,
    type_allowed,
    usable,
    whole_offers,
)
from scheduler.placement.ledger import Shortfall
from scheduler.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Configuration, Job, Placement
    from scheduler.placement.ledger import Ledger
    from scheduler.work import Chosen, Outcome, Ranked

__all__ = ["Explainer", "Queue", "Why", "sentence"]

NODES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Why:
    """A reason with its figures."""

    reason: Reason
    figures: dict[str, Any]


class Queue:
    """The queue as the pages number it: all jobs by rank, and the GPU jobs alone, among which a window is drawn."""

    def __init__(self, ranked: Sequence[Ranked]) -> None:
        self.ranked = ranked
        gpu_jobs = (each.job.id for each in ranked if not each.job.is_cpu)
        self.gpu_places = {job: place for place, job in enumerate(gpu_jobs, start=1)}


LEVEL_REASONS = {
    Level.GPUS: Reason.NOT_ENOUGH_IDLE_GPUS,
    Level.CHECKPOINT: Reason.CHECKPOINT_ELSEWHERE,
    Level.TRUST: Reason.TENANT_NOT_TRUSTED,
    Level.MEMORY: Reason.NOT_ENOUGH_MEMORY,
    Level.CORES: Reason.NOT_ENOUGH_CORES,
}


class Explainer:
    """Answers for one planning: what was idle at its start, on whole nodes, and what the plan left."""

    def __init__(self, start: Ledger, limit_s: float) -> None:
        self._start = start
        self._limit_s = limit_s
        self._idle = idle_offers(start)
        self._up = whole_offers(room.node for room in start.rooms.values())
        self._all = whole_offers(start.nodes)
        self._largest = largest_nodes(start.nodes)
        self._never: dict[tuple[object, ...], Why | None] = {}

    # -- before the queue: jobs that cannot take part ---------------------------------------------------------------

    def why_aside(self, job: Job) -> Why | None:
        """Why the job takes no part in this planning whatever is idle; None = it queues."""
        if not job.eligible:
            return Why(job.ineligible_reason or Reason.HELD, dict(job.ineligible_figures))
        if (short := self._start.over_quota(job)) is not None:
            return self.quota(job, short)
        shape = (job.requirement[0], job.gpu_types, job.min_cores, job.memory_mib, job.checkpoint_domain)
        if shape not in self._never:
            self._never[shape] = self._why_never(job)
        return self._never[shape]

    def _why_never(self, job: Job) -> Why | None:
        """Why not even empty nodes would hold the job: those that are up, or all of them."""
        if not any(type_allowed(job, offer.node) for offer in self._all) and not job.is_cpu:
            return Why(Reason.NO_NODE_WITH_TYPE, {"needs": needs(job), "types": self._types()})
        if first_failing(job, self._up, self._largest) is None:
            return None
        level = first_failing(job, self._all, self._largest)
        if self._is_kept_by_checkpoint(job):
            return self._short_of(job, Level.CHECKPOINT, self._up, ever=True)
        if level is None or not self._all:
            away = [
                offer.node for offer in self._all if not offer.node.schedulable and usable(job, offer, Level.CHECKPOINT)
            ]
            unavailable = [{"node": node.name, "why": node.unavailable_because} for node in away]
            return Why(Reason.NODES_UNAVAILABLE, {"needs": needs(job), "unavailable": unavailable})
        return self._short_of(job, level, self._all, ever=False)

    def _is_kept_by_checkpoint(self, job: Job) -> bool:
        """Nodes that are up could hold the job, but not those that can read its checkpoint."""
        anywhere = replace(job, checkpoint_domain=None)
        return job.checkpoint_domain is not None and first_failing(anywhere, self._up, self._largest) is None

    def quota(self, job: Job, short: Shortfall) -> Why:
        """Over quota: what the quota is, what is held, what is needed."""
        tenant = self._start.quotas[job.tenant]
        gpus = short.resource == "gpu_quota"
        quota = (tenant.gpu_quota if gpus else tenant.core_quota) or 0
        figures = {"needs": needs(job), "resource": "gpus" if gpus else "cores", "quota": quota}
        return Why(
            Reason.TENANT_QUOTA,
            {**figures, "held": quota - short.available, "left": max(0, short.available), "needed": short.needed},
        )

    # -- after the plan ---------------------------------------------------------------------------------------------

    def why_waiting(self, ranked: Ranked, final: Ledger, outcome: Outcome, queue: Queue) -> Why:
        """Why a queued job was not placed."""
        job = ranked.job
        if job.id in outcome.out_of_time:
            reason = Reason.NOT_PLANNED_YET if job.is_cpu else Reason.SOLVER_LIMIT
            return Why(reason, {"limit_s": self._limit_s})
        if (short := final.over_quota(job)) is not None:
            return self.quota(job, short)
        if job.id in outcome.sated:
            quota = self._start.quotas[job.tenant].gpu_quota or 0
            left = final.allowances[job.tenant].gpus or 0
            why = self.quota(job, Shortfall("gpu_quota", None, job.min_gpus, left))
            return Why(why.reason, {**why.figures, "asked_ahead": quota})
        if job.id not in outcome.window:
            return self._outside(ranked, outcome, queue)
        level = first_failing(job, self._idle, self._largest)
        if level is not None:
            return self._short_of(job, level, self._idle, ever=True)
        return self._lost(ranked, final, outcome, queue)

    def _outside(self, ranked: Ranked, outcome: Outcome, queue: Queue) -> Why:
        strict = outcome.blocked_by is not None
        figures: dict[str, Any] = {
            "needs": needs(ranked.job),
            "place": ranked.rank if strict else queue.gpu_places[ranked.job.id],
            "queue_length": len(queue.ranked) if strict else len(queue.gpu_places),
            "window_jobs": len(outcome.window) if strict else len(outcome.window & queue.gpu_places.keys()),
            "window_gpus": outcome.window_gpus,
        }
        if (blocked := outcome.blocked_by) is not None:
            own = blocked.job.tenant == ranked.job.tenant
            figures["blocked_by"] = {"place": blocked.rank, "job": blocked.job.id if own else None}
        return Why(Reason.OUTSIDE_WINDOW, figures)

    def _short_of(self, job: Job, level: Level, offers: Sequence[Offer], *, ever: bool) -> Why:
        """The level's reason with what is needed and what there is. `ever` false: whole nodes were looked at."""
        reason = LEVEL_REASONS[level]
        figures: dict[str, Any] = {"needs": needs(job), "offered": offered(job, offers), "ever": ever}
        if level is Level.GPUS:
            total = sum(offer.gpus for offer in offers if type_allowed(job, offer.node))
            enough = figures["offered"]["most_of_a_type"] >= job.min_gpus
            reason = Reason.GPUS_SCATTERED if enough else reason
            figures["total_gpus"] = total
        elif level is Level.CHECKPOINT:
            names = [offer.node.name for offer in offers if domain_allowed(job, offer.node)]
            figures |= {"domain": job.checkpoint_domain, "nodes": names[:NODES_SHOWN]}
        elif level is Level.TRUST:
            barred = [o.node.name for o in offers if usable(job, o, Level.CHECKPOINT) and not o.admits(job.tenant)]
            figures["nodes"] = barred[:NODES_SHOWN]
        else:
            figures |= _most(job, offers, level)
        return Why(reason, figures)

    def _lost(self, ranked: Ranked, final: Ledger, outcome: Outcome, queue: Queue) -> Why:
        """It fitted at the start; what it could have used is taken, or the solver stopped before settling it."""
        job = ranked.job
        nodes = {offer.node.id for offer in self._idle if usable(job, offer, Level.TRUST)}
        takers = [
            each
            for each in queue.ranked
            if each.job.id in outcome.chosen and _on(outcome.chosen[each.job.id].placement, nodes)
        ]
        ahead = sum(taker.rank < ranked.rank for taker in takers)
        figures: dict[str, Any] = {"needs": needs(job), "offered": offered(job, idle_offers(final))}
        figures |= rejected(job, outcome, final)
        if not takers or (outcome.solver.status in {"time-limit", "failed"} and not ahead):
            return Why(Reason.SOLVER_LIMIT, {**figures, "limit_s": self._limit_s, "gap": outcome.solver.gap})
        own = [taker.job.id for taker in takers if taker.job.tenant == job.tenant]
        figures["lost_to"] = {
            "own_jobs": own[:NODES_SHOWN],
            "other_tenants_jobs": len(takers) - len(own),
            "ranked_ahead": ahead,
            "ranked_behind": len(takers) - ahead,
        }
        return Why(Reason.LOST_TO_HIGHER_PRIORITY, figures)

    def _types(self) -> list[str]:
        return sorted({offer.node.gpu_type for offer in self._all if offer.node.gpu_type and offer.gpus})


def needs(job: Job) -> dict[str, Any]:
    """What the job asks: sizes, types, cores (hard minimum and wanted per GPU) and memory."""
    return {
        "gpus": list(job.requirement),
        "min_gpus": job.min_gpus,
        "gpu_types": sorted(job.gpu_types),
        "cores": job.min_cores,
        "cores_per_gpu": None if job.is_cpu else job.cores,
        "memory_mib": job.memory_mib,
    }


def offered(job: Job, offers: Iterable[Offer]) -> dict[str, Any]:
    """What there is on nodes of the job's types: idle per type, the largest block and where, the best nodes."""
    fitting = [offer for offer in offers if type_allowed(job, offer.node)]
    by_type: dict[str, int] = {}
    for offer in fitting:
        if offer.node.gpu_type:
            by_type[offer.node.gpu_type] = by_type.get(offer.node.gpu_type, 0) + offer.gpus
    largest = max((offer.gpus for offer in fitting), default=0)
    blocks = [offer.node.name for offer in fitting if offer.gpus == largest and largest]
    best = sorted(fitting, key=lambda offer: (-offer.gpus, -offer.cores, offer.node.id))[:NODES_SHOWN]
    return {
        "idle_gpus": by_type,
        "idle_total": sum(by_type.values()),
        "most_of_a_type": max(by_type.values(), default=0),
        "largest_block": {"gpus": largest, "nodes": blocks[:NODES_SHOWN]},
        "nodes": [{"node": o.node.name, "gpus": o.gpus, "cores": o.cores, "memory_mib": o.memory_mib} for o in best],
    }


def rejected(job: Job, outcome: Outcome, final: Ledger) -> dict[str, Any]:
    """The best rejected candidate with its value and the constraint that binds it; {} when none was generated."""
    candidates = outcome.candidates.get(job.id, ())
    if not candidates:
        return {}
    best = max(candidates, key=lambda each: each.throughput)
    least = min(each.throughput for each in candidates)
    gain, weight = best.throughput / least, outcome.weights.get(job.id, 1.0)
    short = final.shortfall(best, job.tenant)
    return {
        "candidates": len(candidates),
        "best_rejected": {**_described(best, final), "gain": gain, "weight": weight, "value": weight * gain},
        "binding": None if short is None else _binding(short, final),
    }


def placed(chosen: Chosen, ledger: Ledger) -> dict[str, Any]:
    """The figures of a placed job: where, how fast, and what it was worth."""
    value = chosen.weight * chosen.gain
    figures = _described(chosen.configuration, ledger)
    return {**figures, "gain": chosen.gain, "weight": chosen.weight, "value": value, "candidates": chosen.candidates}


def _described(configuration: Configuration, ledger: Ledger) -> dict[str, Any]:
    nodes = {
        ledger.rooms[share.node].node.name: {"gpus": share.gpus, "cores": share.cores, "memory_mib": share.memory_mib}
        for share in configuration.shares
    }
    return {"nodes": nodes, "throughput": configuration.throughput, "source": configuration.source}


def _binding(short: Shortfall, ledger: Ledger) -> dict[str, Any]:
    node = None if short.node is None else ledger.rooms[short.node].node.name
    return {"resource": short.resource, "node": node, "needed": short.needed, "available": short.available}


def _most(job: Job, offers: Iterable[Offer], level: Level) -> dict[str, Any]:
    """Needed and the most there is, on nodes that meet every need before this one."""
    before = [offer for offer in offers if usable(job, offer, Level.TRUST)]
    if not job.is_cpu:
        single = [offer for offer in before if aggregated_gpus(job, offer, Level(level - 1)) >= job.min_gpus]
        before = single or before
    elif level is Level.CORES:
        before = [offer for offer in before if offer.memory_mib >= job.memory_mib]
    key = "memory_mib" if level is Level.MEMORY else "cores"
    needed = job.memory_mib if level is Level.MEMORY else job.min_cores
    return {"needed": needed, "available": max((getattr(offer, key) for offer in before), default=0)}


def _on(placement: Placement, nodes: set[int]) -> bool:
    return any(piece.node in nodes for piece in placement.pieces)
