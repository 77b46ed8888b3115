"""Jobs, clusters and spans of time as the laboratory's pages name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import number
from portal.pages.laboratory.run.answer import Size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.laboratory.models import Simulation


def jobs_words(simulation: Simulation) -> str:
    if simulation.trace is not None:
        return f"{simulation.trace.name}, {simulation.trace.jobs} jobs"
    return f"{simulation.generator}, {simulation.generated_jobs} jobs drawn"


def cluster_words(cluster: Mapping[str, Any]) -> str:
    """3 nodes, 24 GPUs."""
    groups = cluster.get("nodes") or []
    counts = [(each.get("count", 1), _gpus(each.get("gpus", 0))) for each in groups]
    size = Size(sum(count for count, _ in counts), sum(count * gpus for count, gpus in counts))
    return size_words(size) if groups else "no node yet"


def _gpus(told: int | dict[str, int]) -> int:
    return sum(told.values()) if isinstance(told, dict) else told


def span_words(span_s: float) -> str:
    """2.5 h, or 12 min."""
    return f"{number(span_s / 3600, 1)} h" if span_s >= 3600 else f"{number(span_s / 60, 0)} min"


def size_words(size: Size) -> str:
    nodes, gpus = size
    return f"{nodes} node{'s' if nodes != 1 else ''}, {gpus} GPU{'s' if gpus != 1 else ''}"
