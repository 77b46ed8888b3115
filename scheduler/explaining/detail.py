"""A job's detail in one planning (algorithms.md section 7), computed only when somebody asks: `Decision.detail`.

Shape (JSON-able; nodes by name, nothing of other tenants; {} for jobs that were not in the queue):

    array           "gpu-small" | "gpu-large" | "cpu" | null (the policy has no arrays)
    share           the tenant's weighted dominant share when the job's turn came, without the job itself; for a job that
                    had no turn: with everything that was picked; null where the policy uses no shares
    window          {side, turn, jobs, front_jobs, asked_gpus, capacity_gpus, idle_gpus, last_rank}. side: "front" |
                    "backfill" | "outside"; turn: 1 = picked first, null = not picked. The boundary: the array's window
                    has `jobs` jobs of `asked_gpus` GPUs at their smallest sizes and closes at `capacity_gpus`; the
                    front ended at `idle_gpus` (null: no front); the last job inside has rank `last_rank` in the queue.
                    only {side, turn} for CPU jobs; for a strict queue: the jobs that had their turn
    formulation     "located" | "aggregated" | "none"
    weight          w, null for CPU jobs
    candidates      the best CANDIDATES_SHOWN classes of candidates by value, each {gpu_type, gpus, cores, memory_mib,
                    spread, nodes, ways, throughput, source, gain, factor, value}. ways: how many nodes (sets of nodes)
                    had it when the planning began, null where they are not distinguished; nodes: some of their names;
                    throughput in
                    samples/s where `source` is entity, type, theory or nodes, else in the assumed unit; gain G: see
                    `placement.objective`; factor 0.95 when borrowed, else 1; value = w * G * factor, the objective's
    classes         how many classes there were in all
    chosen          null, or a candidate with `nodes` as {name: {gpus, cores, memory_mib}} and `larger`, null or
                    {gpus, adds, job}: see `scheduler.explaining.rivals`
    best_rejected   null, or a candidate with `binding`: {resource, node, needed, available}, the first resource that
                    fails when it is added to the final plan: gpus | cores | memory_mib (on `node`) | gpu_quota |
                    core_quota | trust; else why it was not taken although it fits: "kept" (its nodes are kept for
                    another job or array), "value" (worth less than the chosen one: needed and available are the values),
                    "solver" (the search stopped at its gap or limit before trying it)

Cost: grows with the job's candidates and, by class, with the nodes of its types; a placed job copies the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scheduler.explaining.candidates import Alike, Candidates
from scheduler.explaining.rivals import next_larger
from scheduler.fairness.arrays import Array
from scheduler.model import Chosen, Configuration, Figures, Job, Ranked

if TYPE_CHECKING:
    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.free_capacity import Shortfall
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import Outcome

CANDIDATES_SHOWN = 6
NODES_NAMED = 4


class Details:
    """The details of one planning, by job id. Nobody changes what it reads any more."""

    def __init__(
        self, start: Ledger, final: Ledger, outcome: Outcome, queue: Sequence[Ranked], estimator: Estimator
    ) -> None:
        self._start, self._queue = start, queue
        self._draft, self._standings, self._objective = outcome.draft, outcome.standings, outcome.draft.objective
        self._classed, self._kept = outcome.draft.classed.keys(), outcome.obstacles.kept.keys()
        self._boundaries: dict[str, dict[str, Any]] = {}
        self._outside: dict[tuple[str, int], dict[str, Any]] = {}
        self._shares: dict[tuple[int, str], float] | None = None
        self._by_job: Mapping[int, Ranked] | None = None
        self._candidates = Candidates(start, final, outcome, estimator)
        # The plan's rest with promised resources: a candidate that fits it is bound by kept ones.
        self._unkept = Candidates(start, final.with_kept(), outcome, estimator) if final.withholds else None

    def __call__(self, job_id: int) -> Figures:
        if self._by_job is None:
            self._by_job = {each.job.id: each for each in self._queue}
        ranked = self._by_job.get(job_id)
        if ranked is None:
            return {}
        found = self._candidates.of(ranked.job)
        made = "aggregated" if job_id in self._classed else "located"
        return {**self._standing(ranked), "formulation": made if found else "none", **self._choice(ranked.job, found)}

    def rejected(self, job: Job) -> dict[str, Any]:
        """For a waiting job's reason: its best candidate and its binding constraint; {} when none was generated."""
        best, count = self._candidates.best(job)
        if best is None:
            return {}
        verdict = self._candidates.verdict(job, best, None)
        nodes = {} if verdict.nearest is None else self._nodes(verdict.nearest)
        return {
            "candidates": count,
            "best_rejected": {
                "nodes": nodes,
                "throughput": best.throughput,
                "source": best.source,
                "gain": best.gain,
                "weight": self._objective.weight(job.id),
                "value": best.value,
            },
            "binding": None if verdict.short is None else self._described(verdict.short),
        }

    def outside(self, ranked: Ranked) -> dict[str, Any]:
        """For the reason of a job outside its array's window: where that closed, and the tenant's share."""
        array, tenant = self._standings.of(ranked).array, ranked.job.tenant
        known = self._outside.get((array, tenant))
        if known is None:
            known = self._outside[array, tenant] = self._find_outside(array, ranked.job)
        return known

    def _find_outside(self, array: str, job: Job) -> dict[str, Any]:
        """`share` is None where it means nothing: the policy uses no shares, or no other tenant has one."""
        view = next((each for each in self._standings.windows if each.array == array), None)
        fair = bool(self._standings.turn_shares)
        several = fair and len({each.tenant for each in self._standings.shares if each.resource == "gpus"}) > 1
        return {
            "window_gpus": self._standings.window_gpus if view is None else view.capacity,
            "share": self._share_with_picks(job) if several else None,
        }

    def _standing(self, ranked: Ranked) -> dict[str, Any]:
        job, standings = ranked.job, self._standings
        standing = standings.of(ranked)
        if standing.array not in self._boundaries:
            self._boundaries[standing.array] = self._find_boundary(standing.array)
        window = {"side": str(standing.side), "turn": standing.turn, **self._boundaries[standing.array]}
        share = standings.turn_shares.get(job.id)
        if share is None:
            share = self._share_with_picks(job)
        return {"array": standing.array if standings.windows else None, "share": share, "window": window}

    def _share_with_picks(self, job: Job) -> float | None:
        resource = "cores" if job.is_cpu else "gpus"
        if self._shares is None:
            self._shares = {
                (each.tenant, each.resource): each.with_picks / (each.capacity or 1.0) / each.weight
                for each in self._standings.shares
            }
        known = any(each.resource == resource for each in self._standings.shares)
        return self._shares.get((job.tenant, resource), 0.0 if known else None)

    @cached_property
    def _window(self) -> list[Ranked]:
        """The window's GPU jobs, in queue order."""
        window = self._standings.window
        return [each for each in self._queue if each.job.id in window and not each.job.is_cpu]

    def _find_boundary(self, array: str) -> dict[str, Any]:
        """Where the array's window closed; {} for CPU jobs and policies without a window."""
        standings = self._standings
        if array == Array.CPU or not standings.window_gpus:
            return {}
        inside = [each for each in self._window if standings.of(each).array == array]
        view = next((each for each in standings.windows if each.array == array), None)
        return {
            "jobs": len(inside),
            "front_jobs": len(inside) if view is None else view.front_jobs,
            "asked_gpus": sum(each.job.min_gpus for each in inside),
            "capacity_gpus": standings.window_gpus if view is None else view.capacity,
            "idle_gpus": None if view is None else view.idle,
            "last_rank": max((each.rank for each in inside), default=None),
        }

    def _choice(self, job: Job, found: Sequence[Alike]) -> dict[str, Any]:
        """Weight, candidates, the chosen one, and the best rejected one with its binding constraint."""
        chosen = self._draft.chosen.get(job.id)
        best = self._best_rejected(found, chosen)
        rejected = None
        if best is not None:
            rejected = {**self._candidate(job, best), "binding": self._binding(job, best, chosen)}
        return {
            "weight": None if job.is_cpu else self._objective.weight(job.id),
            "candidates": [self._candidate(job, each) for each in found[:CANDIDATES_SHOWN]],
            "classes": len(found),
            "chosen": None if chosen is None else self._chosen(job, chosen, found),
            "best_rejected": rejected,
        }

    def _candidate(self, job: Job, alike: Alike) -> dict[str, Any]:
        ways, nodes = self._candidates.ways(job, alike)
        return {
            "gpu_type": alike.gpu_type,
            "gpus": alike.gpus,
            "cores": alike.cores,
            "memory_mib": job.memory_mib,
            "spread": alike.spread,
            "nodes": [self._name(node) for node in nodes[:NODES_NAMED]],
            "ways": ways,
            "throughput": alike.throughput,
            "source": alike.source,
            "gain": alike.gain,
            "factor": alike.factor,
            "value": alike.value,
        }

    def _name(self, node: int) -> str:
        return self._start.free[node].node.name

    def _nodes(self, made: Configuration) -> dict[str, dict[str, int]]:
        return {
            self._name(share.node): {"gpus": share.gpus, "cores": share.cores, "memory_mib": share.memory_mib}
            for share in made.shares
        }

    def _chosen(self, job: Job, chosen: Chosen, found: Sequence[Alike]) -> dict[str, Any]:
        made = chosen.configuration
        return {
            "gpu_type": self._candidates.gpu_type(made),
            "gpus": made.gpus,
            "cores": made.cores,
            "memory_mib": job.memory_mib,
            "spread": len(made.shares) > 1,
            "nodes": self._nodes(made),
            "throughput": made.throughput,
            "source": made.source,
            "gain": chosen.gain,
            "factor": self._candidates.factor(job, made),
            "value": self._value(job, chosen),
            "larger": next_larger(job, chosen, self._candidates.gpu_type(made), found, self._queue, self._draft),
        }

    def _value(self, job: Job, chosen: Chosen) -> float:
        return chosen.weight * chosen.gain * self._candidates.factor(job, chosen.configuration)

    def _best_rejected(self, found: Sequence[Alike], chosen: Chosen | None) -> Alike | None:
        """The best class other than the chosen one's: the same configuration on another node is no other choice."""
        if chosen is None:
            return found[0] if found else None
        made = chosen.configuration
        shape = (self._candidates.gpu_type(made), made.gpus, made.cores, len(made.shares) > 1)
        others = (
            each
            for each in found
            if (each.gpu_type, each.gpus, each.cores, each.spread) != shape or each.throughput > made.throughput
        )
        return next(others, None)

    def _binding(self, job: Job, alike: Alike, chosen: Chosen | None) -> dict[str, Any]:
        """The constraint that kept the candidate out of the final plan."""
        short = self._candidates.verdict(job, alike, chosen).short
        if short is not None and (self._unkept is None or self._unkept.verdict(job, alike, chosen).short is not None):
            return self._described(short)
        if short is None and chosen is not None and alike.value <= self._value(job, chosen):
            value = self._value(job, chosen)
            return {"resource": "value", "node": None, "needed": value, "available": alike.value}
        resource = "kept" if short is not None or job.id in self._kept else "solver"
        return {"resource": resource, "node": None, "needed": None, "available": None}

    def _described(self, short: Shortfall) -> dict[str, Any]:
        node = None if short.node is None else self._name(short.node)
        return {"resource": short.resource, "node": node, "needed": short.needed, "available": short.available}
