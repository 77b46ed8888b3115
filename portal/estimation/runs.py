"""What the tables are filled from: a part of an attempt, and what it recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.estimation.models import Signature
    from portal.jobs.models import Allocation

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

    @property
    def gpu_type_id(self) -> int | None:
        return self.part.node.gpu_type_id if self.gpus else None
