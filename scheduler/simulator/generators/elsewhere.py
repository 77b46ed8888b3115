"""Drawn jobs on GPU types that their generator does not know, for a simulation on a cluster of one's own.

There a job is as fast as on the generator's reference type, times the relative speed that the cluster's description gives for the
type (1 if it gives none). The scheduler itself assumes the same of a type on which nothing was measured (algorithms.md section 2,
layer 4).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.copies import replace

if TYPE_CHECKING:
    from scheduler.simulator.world.truth import Law, Spot, TracedJob, World


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`law` on the types that it knows; on others that of `reference`, times their relative speed."""

    law: Law
    known: Container[str]
    reference: str
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)

    def rate(self, spots: Sequence[Spot]) -> float:
        return self.law.rate(
            [
                spot
                if (name := spot.gpu_type or "") in self.known
                else replace(spot, gpu_type=self.reference, speed=spot.speed * self.gpu_speeds.get(name, 1.0))
                for spot in spots
            ]
        )


def at_home(jobs: Iterable[TracedJob], world: World, *, known: Sequence[str], reference: str) -> list[TracedJob]:
    """The jobs as they go in that world: themselves where their generator knows all its GPU types."""
    strange = {node.gpu_type for node in world.nodes if node.gpu_type and node.gpus_total} - set(known)
    if not strange:
        return list(jobs)
    return [replace(each, law=Elsewhere(each.law, known, reference, world.gpu_speeds)) for each in jobs]
