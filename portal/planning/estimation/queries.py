"""How fast a server answers: its queries by how long they took, as the instrument counts them, and how many were late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

QUERY_EDGES_MS = (1, 2, 5, 10, 20, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10000)
"""workers.instrument.berth_instrument.QUERY_EDGES_MS"""


@dataclass(frozen=True)
class Queries:
    """Figures of an attempt's queries. Percentiles are drawn within the counted ranges; None: beyond the last of them."""

    answered: int
    late: int
    median_ms: float | None
    p99_ms: float | None

    @property
    def late_share(self) -> float:
        return self.late / self.answered


def queries_summary(counts: Sequence[int], late: int) -> Queries | None:
    """Return the figures; None for a job that answers none."""
    answered = sum(counts)
    return Queries(answered, late, percentile_ms(counts, 0.5), percentile_ms(counts, 0.99)) if answered else None


def percentile_ms(counts: Sequence[int], share: float) -> float | None:
    """Return the time that this share of the queries did not exceed, evenly drawn within the range where it falls."""
    wanted = share * sum(counts)
    edges = (0, *QUERY_EDGES_MS)
    for place, through in enumerate(accumulate(counts)):
        if through >= wanted and counts[place]:
            if place >= len(QUERY_EDGES_MS):
                return None
            inside = 1 - (through - wanted) / counts[place]
            return round(edges[place] + inside * (edges[place + 1] - edges[place]), 1)
    return None


def queries_add(before: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Return both together."""
    return [one + other for one, other in zip(before or [0] * len(counts), counts, strict=True)]
