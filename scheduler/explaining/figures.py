"""The figures behind a reason: JSON-able, and fit to be shown to the job's tenant.

They name nodes by name and the tenant's own jobs by id. Jobs of other tenants are only counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.model import Chosen, Job, Reason, Tenant
from scheduler.placement.feasibility import (
    Level,
    aggregated_gpus,
    distributed_gpus,
    domain_allowed,
    open_long_enough,
    possible,
    software_allowed,
    type_allowed,
    usable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.placement.free_capacity import Offer, Shortfall
    from scheduler.placement.ledger import Ledger

NODES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Why:
    """A reason with its figures."""

    reason: Reason
    figures: dict[str, Any]


LEVEL_REASONS = {
    Level.GPUS: Reason.NOT_ENOUGH_IDLE_GPUS,
    Level.SOFTWARE: Reason.SOFTWARE_MISSING,
    Level.CHECKPOINT: Reason.CHECKPOINT_ELSEWHERE,
    Level.CLOSING: Reason.NODES_CLOSE,
    Level.TRUST: Reason.TENANT_NOT_TRUSTED,
    Level.MEMORY: Reason.NOT_ENOUGH_MEMORY,
    Level.CORES: Reason.NOT_ENOUGH_CORES,
}


def needs(job: Job) -> dict[str, Any]:
    """The job's sizes, types, cores (hard minimum and wanted per GPU) and memory."""
    return {
        "gpus": list(job.requirement),
        "min_gpus": job.min_gpus,
        "gpu_types": sorted(job.gpu_types),
        "cores": job.min_cores,
        "cores_per_gpu": None if job.is_cpu else job.cores,
        "memory_mib": job.memory_mib,
        **({} if job.part is None else {"gpu_compute": job.part.compute, "gpu_memory_mib": job.part.memory_mib}),
    }


def offered(job: Job, offers: Iterable[Offer]) -> dict[str, Any]:
    """The offers of the job's types: idle GPUs per type, the largest block and its nodes, the best nodes."""
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


def for_sharing(by_type: dict[str, int], offers: Iterable[Offer]) -> int:
    """How many GPUs of the type with the most whole ones are for jobs that share a GPU."""
    most = max(by_type, key=by_type.__getitem__, default=None)
    return sum(len(offer.node.shared) for offer in offers if most is not None and offer.node.gpu_type == most)


def set_aside(job: Job, offers: Sequence[Offer], *, ever: bool) -> dict[str, Any] | None:
    """The GPUs for jobs that share one, if with them the job would fit: how many, and the nodes (none: over several of them).

    None: they do not keep it from fitting. `ever` false: whole nodes were looked at, so those with jobs count too.
    """
    if job.is_cpu or not any(offer.node.shared for offer in offers):
        return None
    grown = [_add_set_aside(offer, ever=ever) for offer in offers]
    largest: dict[str, int] = {}
    for offer in grown:
        name = offer.node.gpu_type or ""
        largest[name] = max(largest.get(name, 0), offer.node.gpus_total)
    if not possible(job, grown, Level.CORES, largest):
        return None
    more = [(after, after.gpus - before.gpus) for before, after in zip(offers, grown, strict=True)]
    alone = [(offer, gpus) for offer, gpus in more if gpus and possible(job, [offer], Level.CORES, {})]
    there = alone or [(offer, gpus) for offer, gpus in more if gpus and usable(job, offer, Level.TRUST)]
    nodes = [offer.node.name for offer, _ in alone][:NODES_SHOWN]
    return {"gpus": sum(gpus for _, gpus in there), "nodes": nodes}


def _add_set_aside(offer: Offer, *, ever: bool) -> Offer:
    """The offer as if no GPU of its node were for jobs that share one."""
    free = [gpu for gpu in offer.node.shared if not ever or (gpu.open and not gpu.holders)]
    if not free:
        return offer
    node = replace(offer.node, gpus_total=offer.node.gpus_total + len(free))
    return replace(offer, node=node, gpus=offer.gpus + len(free))


def short_of(job: Job, level: Level, offers: Sequence[Offer], *, ever: bool) -> Why:
    """The reason of the failed level, with needs and offers. `ever` false: whole nodes were looked at."""
    reason = LEVEL_REASONS[level]
    figures: dict[str, Any] = {"needs": needs(job), "offered": offered(job, offers), "ever": ever}
    if level is Level.GPUS:
        total = sum(offer.gpus for offer in offers if type_allowed(job, offer.node))
        enough = figures["offered"]["most_of_a_type"] >= job.min_gpus
        reason = Reason.GPUS_SCATTERED if enough else reason
        figures["total_gpus"] = total
        if not ever and not enough:
            figures["for_sharing"] = for_sharing(figures["offered"]["idle_gpus"], offers)
    elif level is Level.SOFTWARE:
        names = [offer.node.name for offer in offers if software_allowed(job, offer.node)]
        figures |= {"software": job.software, "nodes": names[:NODES_SHOWN]}
    elif level is Level.CHECKPOINT:
        names = [offer.node.name for offer in offers if domain_allowed(job, offer.node)]
        figures |= {"domain": job.checkpoint_domain, "nodes": names[:NODES_SHOWN]}
    elif level is Level.CLOSING:
        figures |= _closing(job, offers)
    elif level is Level.TRUST:
        barred = [o.node.name for o in offers if usable(job, o, Level.CLOSING) and not o.admits(job.tenant)]
        figures["nodes"] = barred[:NODES_SHOWN]
    else:
        figures |= most_of(job, offers, level)
    if "for_sharing" not in figures and (aside := set_aside(job, offers, ever=ever)) is not None:
        figures["set_aside"] = aside
    return Why(reason, figures)


def _closing(job: Job, offers: Sequence[Offer]) -> dict[str, Any]:
    """The nodes that close too soon for the job, when the last of them does, and whether it would go on elsewhere."""
    early = [offer.node for offer in offers if offer.gpus >= min(1, job.min_gpus) and _closes_early(job, offer)]
    return {
        "nodes": [node.name for node in early][:NODES_SHOWN],
        "closes_s": max((node.closes_s for node in early), default=None),
        "saves": job.saves,
        "movable": job.movable,
    }


def _closes_early(job: Job, offer: Offer) -> bool:
    return usable(job, offer, Level.CHECKPOINT) and not open_long_enough(job, offer.node)


def over_quota(job: Job, tenant: Tenant, short: Shortfall) -> Why:
    """Over quota: the quota, the held and the needed GPUs or cores."""
    gpus = short.resource == "gpu_quota"
    quota = (tenant.gpu_quota if gpus else tenant.core_quota) or 0
    figures = {"needs": needs(job), "resource": "gpus" if gpus else "cores", "quota": quota}
    return Why(
        Reason.TENANT_QUOTA,
        {**figures, "held": quota - short.available, "left": max(0, short.available), "needed": short.needed},
    )


def placed(chosen: Chosen, ledger: Ledger) -> dict[str, Any]:
    """The figures of a placed job: where, how fast, and its worth."""
    made = chosen.configuration
    nodes = {
        ledger.free[share.node].node.name: {"gpus": share.gpus, "cores": share.cores, "memory_mib": share.memory_mib}
        for share in made.shares
    }
    return {
        "nodes": nodes,
        "throughput": made.throughput,
        "source": made.source,
        "gain": chosen.gain,
        "weight": chosen.weight,
        "value": chosen.weight * chosen.gain,
        "candidates": chosen.candidates,
    }


def most_of(job: Job, offers: Iterable[Offer], level: Level) -> dict[str, Any]:
    """The need and the largest offer, on nodes that meet every need before this one.

    For a job that only several nodes can hold: the GPUs needed, and the GPUs that have enough beside them; see `spread`.
    """
    before = [offer for offer in offers if usable(job, offer, Level.TRUST)]
    if not job.is_cpu:
        single = [offer for offer in before if aggregated_gpus(job, offer, Level(level - 1)) >= job.min_gpus]
        if not single:
            return _spread(job, before, level)
        before = single
    elif level is Level.CORES:
        before = [offer for offer in before if offer.memory_mib >= job.memory_mib]
    key = "memory_mib" if level is Level.MEMORY else "cores"
    needed = job.memory_mib if level is Level.MEMORY else job.min_cores
    return {"needed": needed, "available": max((getattr(offer, key) for offer in before), default=0)}


def _spread(job: Job, offers: Iterable[Offer], level: Level) -> dict[str, Any]:
    """`spread`: the most `gpus` of one type with enough beside them, and the cores or MiB that each needs, `beside`."""
    by_type: dict[str | None, int] = {}
    for offer in offers:
        part = distributed_gpus(job, offer, job.min_gpus, level)
        by_type[offer.node.gpu_type] = by_type.get(offer.node.gpu_type, 0) + part
    most = max(by_type.values(), default=0)
    beside = job.least_cores if level is Level.CORES else -(-job.memory_mib // job.min_gpus)
    return {"needed": job.min_gpus, "available": most, "spread": {"gpus": most, "beside": beside}}
