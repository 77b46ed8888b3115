"""A job's detail in one planning (algorithms.md section 7), computed only when somebody asks: `Decision.detail`.

Shape (JSON-able; nodes by name, nothing of other tenants; {} for jobs that were not in the queue):

    array           "gpu-small" | "gpu-large" | "cpu" | null (the policy has no arrays)
    share           the tenant's weighted dominant share in the array when the job's turn came, the job itself not
                    counted; of a job outside, once the window had closed; null where shares do not count
    window          {inside, place, part, jobs, front_jobs, asked_gpus, capacity_gpus, idle_gpus, last_rank, closed}
                    place: among the picks, 1 = first, null = outside; part: "front" | "backfill" | null. The boundary:
                    the window has `jobs` jobs of `asked_gpus` GPUs at their smallest sizes and closes at
                    `capacity_gpus`; the front ended at `idle_gpus`; the last job inside has queue rank `last_rank`.
                    {inside} alone for CPU jobs and policies without a window.
    formulation     "located" | "aggregated" | "none"
    weight          w, null for CPU jobs
    candidates      the best CANDIDATES_SHOWN classes of candidates by value, each {gpu_type, gpus, cores, memory_mib,
                    spread, nodes, ways, throughput, source, gain, factor, value}. ways: how many nodes (sets of nodes)
                    had it when the planning began, null where not told apart; nodes: some of their names; throughput in
                    samples/s where `source` is entity, type or theory, else in the assumed unit; gain G = throughput
                    over the job's least; factor 0.95 when borrowed, else 1; value = w * G * factor, the objective's
    classes         how many classes there were in all
    chosen          null, or a candidate with `nodes` as {name: {gpus, cores, memory_mib}}
    best_rejected   null, or a candidate with `binding`: {resource, node, needed, available}, the first resource that
                    fails when it is added to the final plan: gpus | cores | memory_mib (on `node`) | gpu_quota |
                    core_quota | trust; else why it was not taken although it fits: "kept" (its nodes are kept for
                    another job or array), "value" (worth less than what was chosen: needed and available are the
                    values), "solver" (the search stopped at its gap or limit before trying it)

Cost: grows with the job's candidates and, by class, with the nodes of its types; a placed job copies the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.candidates import Alike, Candidates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.estimator.layers import Estimator
    from scheduler.model import Configuration, Figures, Job
    from scheduler.placement.ledger import Ledger, Shortfall
    from scheduler.work import Chosen, Outcome, Ranked

CANDIDATES_SHOWN = 6
NODES_NAMED = 4


class Details:
    """The details of one planning, by job id; what it reads is not changed any more."""

    def __init__(
        self, start: Ledger, final: Ledger, outcome: Outcome, queue: Sequence[Ranked], estimator: Estimator
    ) -> None:
        self._start, self._outcome, self._queue = start, outcome, queue
        self._by_job: Mapping[int, Ranked] | None = None
        self._candidates = Candidates(start, final, outcome, estimator)

    def __call__(self, job_id: int) -> Figures:
        if self._by_job is None:
            self._by_job = {each.job.id: each for each in self._queue}
        ranked = self._by_job.get(job_id)
        return {} if ranked is None else self._of(ranked.job)

    def rejected(self, job: Job) -> dict[str, Any]:
        """For a waiting job's reason: its best candidate and what binds it; {} when none was generated."""
        found = self._candidates.of(job)
        if not found:
            return {}
        best = found[0]
        verdict = self._candidates.verdict(job, best, None)
        nodes = {} if verdict.nearest is None else self._nodes(verdict.nearest)
        return {
            "candidates": sum(len(each.located) or 1 for each in found),
            "best_rejected": {
                "nodes": nodes,
                "throughput": best.throughput,
                "source": best.source,
                "gain": best.gain,
                "weight": self._outcome.weights.get(job.id, 1.0),
                "value": best.value,
            },
            "binding": None if verdict.short is None else self._described(verdict.short),
        }

    def _of(self, job: Job) -> dict[str, Any]:
        found = self._candidates.of(job)
        made = "aggregated" if job.id in self._outcome.classed else "located"
        return {**self._standing(job), "formulation": made if found else "none", **self._choice(job, found)}

    def _standing(self, job: Job) -> dict[str, Any]:
        outcome, standing = self._outcome, self._outcome.standing
        inside = job.id in outcome.window
        if standing is None:
            return {"array": None, "share": None, "window": {"inside": inside}}
        array, place = standing.place(job)
        share = outcome.shares.get(job.id)
        if share is None and not job.is_cpu:
            share = standing.share_at_close(job.tenant)
        window: dict[str, Any] = {"inside": inside}
        if boundary := standing.boundary(array):
            front = place is not None and standing.is_front(array, place)
            part = None if place is None else "front" if front else "backfill"
            window |= {"place": place, "part": part, **boundary}
        return {"array": array, "share": share, "window": window}

    def _choice(self, job: Job, found: Sequence[Alike]) -> dict[str, Any]:
        """Weight, candidates, the chosen and the best rejected one with what bound it."""
        outcome, chosen = self._outcome, self._outcome.chosen.get(job.id)
        best = self._best_rejected(found, chosen)
        rejected = None
        if best is not None:
            rejected = {**self._candidate(job, best), "binding": self._binding(job, best, chosen)}
        return {
            "weight": None if job.is_cpu else outcome.weights.get(job.id, 1.0),
            "candidates": [self._candidate(job, each) for each in found[:CANDIDATES_SHOWN]],
            "classes": len(found),
            "chosen": None if chosen is None else self._chosen(job, chosen),
            "best_rejected": rejected,
        }

    def _candidate(self, job: Job, alike: Alike) -> dict[str, Any]:
        ways = self._candidates.ways(job, alike)
        shares = [share for each in (ways or ())[:NODES_NAMED] for share in each.shares]
        return {
            "gpu_type": alike.gpu_type,
            "gpus": alike.gpus,
            "cores": alike.cores,
            "memory_mib": job.memory_mib,
            "spread": alike.spread,
            "nodes": [self._name(node) for node in dict.fromkeys(share.node for share in shares)][:NODES_NAMED],
            "ways": None if ways is None else len(ways),
            "throughput": alike.throughput,
            "source": alike.source,
            "gain": alike.gain,
            "factor": alike.factor,
            "value": alike.value,
        }

    def _name(self, node: int) -> str:
        return self._start.rooms[node].node.name

    def _nodes(self, made: Configuration) -> dict[str, dict[str, int]]:
        return {
            self._name(share.node): {"gpus": share.gpus, "cores": share.cores, "memory_mib": share.memory_mib}
            for share in made.shares
        }

    def _chosen(self, job: Job, chosen: Chosen) -> dict[str, Any]:
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
        }

    def _value(self, job: Job, chosen: Chosen) -> float:
        return chosen.weight * chosen.gain * self._candidates.factor(job, chosen.configuration)

    def _best_rejected(self, found: Sequence[Alike], chosen: Chosen | None) -> Alike | None:
        """The best class but the chosen one's own: the same elsewhere is no other choice."""
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
        """What kept the candidate out of the final plan."""
        short = self._candidates.verdict(job, alike, chosen).short
        if short is not None:
            return self._described(short)
        if chosen is not None and alike.value <= self._value(job, chosen):
            value = self._value(job, chosen)
            return {"resource": "value", "node": None, "needed": value, "available": alike.value}
        resource = "kept" if job.id in self._outcome.kept else "solver"
        return {"resource": resource, "node": None, "needed": None, "available": None}

    def _described(self, short: Shortfall) -> dict[str, Any]:
        node = None if short.node is None else self._name(short.node)
        return {"resource": short.resource, "node": node, "needed": short.needed, "available": short.available}
