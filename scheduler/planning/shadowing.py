"""A shadow: another sharing policy answers the question of a planning's sharing step, and both answers are laid side by side.

It acts on nothing. Its answers are plain values, as JSON knows them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.estimator.measured import signature
from scheduler.model import Job, Reason, node_of
from scheduler.model.placements import WHOLE
from scheduler.planning.sharing import Asked, Sharing, choose
from scheduler.sharing.measured import ENOUGH, Measured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


MOST_JOBS = 5000
"""The most jobs with an answer of their own, the first of the queue; the others are counted."""
NAMED = 8
"""The most jobs on a GPU that are named."""

Place = tuple[int, int]
Told = dict[str, Any]


def compared(asked: Asked, acted: Sharing) -> Told:
    """Ask the shadow, and return both answers by job, and their totals."""
    parameters = replace(asked.parameters, sharing_policy=asked.parameters.sharing_shadow, sharing_shadow="off")
    shadow = choose(asked.sharers, asked.ledger.copy(), asked.state, parameters, fair=asked.fair)
    sides = {"acting": Answers(asked, acted), "shadow": Answers(asked, shadow)}
    jobs = [each.job for each in asked.sharers]
    decided = [job for job in jobs if any(side.decides(job) for side in sides.values())]
    rows = [_row(job, sides) for job in decided[:MOST_JOBS]]
    admitted = {name: sum(row[name]["admits"] for row in rows) for name in sides}
    agreed = sum(row["acting"]["admits"] == row["shadow"]["admits"] for row in rows)
    use = {name: side.use() for name, side in sides.items()}
    totals = {
        "asked": len(rows),
        "left_out": len(decided) - len(rows),
        "agreed": agreed,
        "admitted": admitted,
        "use": use,
    }
    return {
        "acting": asked.parameters.sharing_policy,
        "shadow": asked.parameters.sharing_shadow,
        "totals": totals,
        "rows": rows,
    }


def _row(job: Job, sides: Mapping[str, Answers]) -> Told:
    part = job.part
    assert part is not None
    own = {"job": job.id, "signature": signature(job), "compute": part.compute, "memory_mib": part.memory_mib}
    return own | {name: side.told(job) for name, side in sides.items()}


class Answers:
    """One policy's decisions, with the jobs that would then be on each shared GPU."""

    def __init__(self, asked: Asked, sharing: Sharing) -> None:
        self._sharing, self._uses = sharing, asked.state.uses
        self._measured = Measured.of(asked.state.pairs, None)
        self._nodes = {number: free.node for number, free in asked.ledger.free.items() if free.node.shared}
        self._people: dict[Place, list[tuple[int, str, int]]] = defaultdict(list)  # job, signature, thousandths
        for number, node in self._nodes.items():
            for gpu in node.shared:
                self._people[number, gpu.index] = [(each.job, each.signature, each.compute) for each in gpu.holders]
        jobs = {each.job.id: each.job for each in asked.sharers}
        self._told = {number: self._join(jobs[number]) for number in sharing.chosen}

    def decides(self, job: Job) -> bool:
        """Whether the policy was asked about the job: not where a quota kept it."""
        why = self._sharing.waiting.get(job.id)
        return job.id in self._told or (why is not None and why.reason is Reason.NO_SHARED_GPU)

    def told(self, job: Job) -> Told:
        if (found := self._told.get(job.id)) is not None:
            return found
        why = self._sharing.waiting.get(job.id)
        closed = why.figures["shared"]["closed"] if why is not None and "shared" in why.figures else {}
        return {"admits": False, "closed": dict(closed)}

    def use(self) -> Told:
        """The use of the GPUs with jobs on them, in per cent, if all jobs were as their last runs.

        `alone`: the use of a GPU by each of these jobs without the others.
        """
        there = [people for people in self._people.values() if people]
        means = [[self._mean(name, compute) for _, name, compute in people] for people in there]
        each = [mean for people in means for mean in people]
        return {
            "gpus": len(self._people),
            "taken": len(there),
            "jobs": len(each),
            "use": _percent([min(1.0, sum(people)) for people in means]),
            "alone": _percent(each),
        }

    def _join(self, job: Job) -> Told:
        """Let the job join the GPU that was chosen for it, and return the answer."""
        (piece,) = self._sharing.chosen[job.id].placement.pieces
        held, shared = piece.part, self._sharing.told[job.id]["shared"]
        assert held is not None
        people, node = self._people[piece.node, held.gpu], self._nodes[piece.node]
        found = {
            "admits": True,
            "node": node_of(piece.node),
            "gpu": held.gpu,
            "gpu_type": node.gpu_type or "",
            "memory_mib": held.memory_mib,
            "rule": shared["rule"],
            "figure": shared.get("correlation", shared.get("ahead_mib")),
            "beside": [[number, name] for number, name, _ in people[:NAMED]],
            "beside_more": max(0, len(people) - NAMED),
            "slowdown": self._slowdown(signature(job), people, node.gpu_type or ""),
            "closed": dict(shared["closed"]),
        }
        people.append((job.id, signature(job), held.compute))
        return found

    def _slowdown(self, own: str, people: Sequence[tuple[int, str, int]], gpu_type: str) -> float | None:
        """The worst of the measured pairs; None where one of them was not measured, 1 on an empty GPU."""
        told = [self._measured.told(own, name, gpu_type) for _, name, _ in people]
        known = [each[0] / each[1] for each in told if each is not None and each[1] >= ENOUGH]
        return round(1.0 + max(known, default=0.0), 3) if len(known) == len(people) else None

    def _mean(self, name: str, compute: int) -> float:
        """The mean use of the GPU under a signature; the granted part where nothing is known."""
        seen = self._uses.get(name, {}).get("gpu")
        return sum(seen) / len(seen) if seen else compute / WHOLE


def _percent(parts: Iterable[float]) -> float | None:
    found = list(parts)
    return round(100.0 * sum(found) / len(found), 1) if found else None
