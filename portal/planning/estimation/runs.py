"""The tables' sources: a part of an attempt, and its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.planning.estimation.models import Signature
    from portal.work.jobs.models import Allocation

Record = dict[str, Any]
"""workers.protocol.wire.Iterations"""


@dataclass(frozen=True, slots=True)
class Run:
    """The part that records come from, as the tables see it."""

    part: Allocation
    signature: Signature
    gpus: int
    nodes: int
    leads: bool  # the lowest rank speaks for the attempt and for the type
    beside: int | None = None  # the type of its GPUs, where it is not the one that the node goes by

    @property
    def gpu_type_id(self) -> int | None:
        return (self.beside or self.part.node.gpu_type_id) if self.gpus else None

    @property
    def is_beside(self) -> bool:
        """Whether its GPUs are not of the type that the node goes by: then it says nothing of the node's own speed."""
        return self.beside is not None


def type_beside(part: Allocation) -> int | None:
    """Return the type of a part's GPUs where it is not the one that its node goes by. One query."""
    return part.gpu_allocations.exclude(gpu__gpu_type=None).values_list("gpu__gpu_type_id", flat=True).first()
