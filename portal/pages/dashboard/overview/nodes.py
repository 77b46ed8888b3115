"""The per-node grid: one cell for each GPU, with its holder as the reader may see it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.gpu_states import count_words
from portal.pages.dashboard.parts import gpus as calm
from portal.pages.dashboard.parts.formatting import duration

if TYPE_CHECKING:
    from datetime import datetime

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.work.jobs.held_time import ActiveRates


def node_contexts(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [_node(node, snapshot) for node in snapshot.nodes]


def _node(node: Node, snapshot: Snapshot) -> dict[str, Any]:
    parts, rates = snapshot.parts_by_node[node.pk], snapshot.rates[node.pk]
    return {
        "name": node.name,
        "url": reverse("node-detail", args=[node.name]),
        "gpu_words": gpu_words(node),
        "health": node.health,
        "health_word": health_word(node, snapshot.now),
        "gpus_active": rates.gpus,
        "cores_active": rates.cores,
        "gpus": calm.gpu_groups(node, snapshot),
        "cpu_jobs": sum(1 for part in parts if not part.gpu_allocations.all()),
    }


def gpu_types(node: Node) -> Counter[str]:
    """Count the GPUs present by type; none where the node has reported no type."""
    return Counter(name for gpu in node.gpus_present if (name := gpu.type_of(node)) is not None)


def gpu_words(node: Node) -> str:
    """Say how many GPUs of which types a node has; empty where it has none."""
    counts = gpu_types(node)
    if len(counts) < 2:
        return count_words(len(node.gpus_present), next(iter(counts))) if counts else ""
    return ", ".join(count_words(count, name) for name, count in counts.most_common())


def active_words(rates: ActiveRates) -> str:
    """Return a node's active rates over h in words; empty where none is known."""
    known = {"GPUs": rates.gpus, "cores": rates.cores}
    return ", ".join(
        f"{name} {share:.0%}".replace("%", "\u00a0%") for name, share in known.items() if share is not None
    )


def health_word(node: Node, now: datetime) -> str:
    if node.health == "unreachable":
        if node.last_contact_at is None:
            return "never heard of"
        return f"unreachable for {duration((now - node.last_contact_at).total_seconds())}"
    if node.health == "drained":
        return f"drained: {node.drain_reason}" if node.drain_reason else "drained"
    if node.health == "disk-low":
        return "disk almost full"
    return "declared dead" if node.health == "dead" else "up"
