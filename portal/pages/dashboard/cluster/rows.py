"""A node in one row: its hardware, the holders of its GPUs, and how much of it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.gpu_states import GpuState, gpu_state
from portal.cluster.models import Gpu
from portal.pages.dashboard.overview.nodes import gpu_types, gpu_words
from portal.pages.dashboard.parts.formatting import GIB_MIB, count_of, duration, number
from portal.pages.dashboard.parts.gpus import gpu_groups
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from datetime import datetime

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.snapshot import Snapshot

FRACTIONS = {0.5: "\u00bd", 0.25: "\u00bc", 0.75: "\u00be"}


def node_row(node: Node, snapshot: Snapshot) -> dict[str, Any]:
    """Return the context of `cluster/_node_row.html`."""
    free = Free(node, snapshot)
    return {
        "name": node.name,
        "url": reverse("node-detail", args=[node.name]),
        "what": hardware_words(node),
        "health": "left" if node.left_at else node.health,
        "health_word": health_words(node, snapshot.now),
        "virtual": node.is_virtual,
        "gpus": gpu_groups(node, snapshot) if node.gpus_present and not node.left_at else None,
        "free": free.gpus if node.gpus_present else free.cores,
        "free_words": free.words(),
        "notes": free.notes(),
    }


class Free:
    """The part of a node that a job could have now: GPUs (not those kept for a job), shares of GPUs for sharing, cores."""

    def __init__(self, node: Node, snapshot: Snapshot) -> None:
        parts = snapshot.parts_by_node[node.pk]
        given = [held for part in parts for held in part.gpu_allocations.all()]
        self._node, self._held = node, {held.gpu_id for held in given}
        is_up = node.health == "up"
        states = [self._state(gpu) for gpu in node.gpus_present] if is_up else []
        self.kept = snapshot.kept_counts.get(node.name, 0)
        self.gpus = states.count(GpuState.IDLE) - self.kept if is_up else 0
        self.cores = node.cores - sum(len(part.core_ids) for part in parts) if is_up else 0
        self.shared = [gpu for gpu in node.gpus_present if gpu.mode == Gpu.Mode.SHARED and not gpu.closed_because]
        used = sum(held.compute for held in given if held.mode == Gpu.Mode.SHARED)
        self.for_sharing = max(0.0, len(self.shared) - used / WHOLE)

    def _state(self, gpu: Gpu) -> GpuState:
        is_shared = gpu.mode == Gpu.Mode.SHARED
        return gpu_state(held=gpu.pk in self._held, closed=bool(gpu.closed_because), shared=is_shared)

    def lead(self) -> str:
        """Say in a sentence what is free; of a node that takes no jobs nothing is."""
        if self._node.left_at:
            return "It holds nothing any more."
        if not self._node.gpus_present:
            return f"{count_of(self.cores, 'core')} of {number(self._node.cores)} {'is' if self.cores == 1 else 'are'} free."
        if not self.gpus:
            return "No GPU is free."
        return f"{count_of(self.gpus, 'GPU')} {'is' if self.gpus == 1 else 'are'} free."

    def words(self) -> str:
        if not self._node.gpus_present:
            return f"{count_of(self.cores, 'core')} free"
        return f"{number(self.gpus)} free" if self.gpus else "none free"

    def notes(self) -> list[str]:
        notes = [f"{_quarters(self.for_sharing)} for sharing"] if self.shared else []
        if 0 < self.gpus > self.cores and self._node.gpus_present:
            notes.append(f"{count_of(self.cores, 'core')} free" if self.cores else "no core free")
        return notes


def _quarters(count: float) -> str:
    """1.5 -> "1½"; other parts than quarters have a decimal."""
    whole, part = divmod(round(count * 4) / 4, 1)
    return f"{int(whole) or ''}{FRACTIONS[part]}" if part else str(int(whole))


def hardware_words(node: Node) -> str:
    """Say what a node has, in few words: eight GPUs of 80 GB; 64 cores."""
    sizes = {round(gpu.memory_mib / GIB_MIB) for gpu in node.gpus_present}
    named = any("GB" in name for name in gpu_types(node))
    memory = f", {sizes.pop()} GB" if len(sizes) == 1 and not named else ""
    return gpu_words(node) + memory if node.gpus_present else count_of(node.cores, "core")


def health_words(node: Node, now: datetime) -> str:
    """Say whether a node takes jobs, and why not."""
    if node.health == "unreachable":
        silent = node.last_contact_at and duration((now - node.last_contact_at).total_seconds())
        return f"Not heard for {silent}" if silent else "Never heard of"
    if node.health == "drained":
        return f"Out: {node.drain_reason}" if node.drain_reason else "Out"
    if node.left_at:
        return "Given back" if node.is_allocation else "Left"
    return {"disk-low": "Disk almost full", "dead": "Declared dead"}.get(node.health, "Up")
