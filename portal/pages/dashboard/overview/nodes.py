"""The per-node grid: one cell for each GPU, with its holder as the reader may see it."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from django.urls import reverse

from portal.cluster.gpu_states import GpuState, gpu_state
from portal.cluster.instances import count_words
from portal.pages.dashboard.parts.formatting import duration
from portal.pages.dashboard.parts.neighbours import names_words, part_words
from portal.work.jobs.occupancy import active_share
from portal.work.jobs.selectors import ANOTHERS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from portal.cluster.models import Gpu, Node
    from portal.pages.dashboard.parts.context import GpuCell, GpuGroup
    from portal.pages.dashboard.parts.snapshot import Reader, Snapshot
    from portal.work.jobs.held_time import ActiveRates
    from portal.work.jobs.models import Allocation


def node_contexts(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [_node(node, snapshot) for node in snapshot.nodes]


def _node(node: Node, snapshot: Snapshot) -> dict[str, Any]:
    parts = snapshot.parts_by_node[node.pk]
    return {
        "name": node.name,
        "url": reverse("node-detail", args=[node.name]),
        "gpu_count": len(node.gpus_present),
        "gpu_words": gpu_words(node),
        "virtual": node.is_virtual,
        "health": node.health,
        "health_word": health_word(node, snapshot.now),
        "cores_used": sum(len(part.core_ids) for part in parts),
        "cores_total": node.cores,
        "memory_percent": memory_percent(node, parts),
        "active": active_words(snapshot.rates[node.pk]),
        "groups": gpu_groups(node, snapshot),
        "cpu_job_count": sum(1 for part in parts if not part.gpu_allocations.all()),
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


def memory_percent(node: Node, parts: list[Allocation]) -> float | None:
    """Return the share of the memory that jobs asked for; None when none of them asked for any."""
    asked_mib = sum(part.memory_mib for part in parts)
    return 100 * asked_mib / node.memory_mib if asked_mib else None


def gpu_groups(node: Node, snapshot: Snapshot) -> list[GpuGroup]:
    """Return the node's cells in order of index; neighbours held by one job make one group."""
    parts = snapshot.parts_by_node[node.pk]
    holders: dict[int, list[Allocation]] = defaultdict(list)
    for part in parts:
        for held in part.gpu_allocations.all():
            holders[held.gpu_id].append(part)
    idle_cores = node.cores - sum(len(part.core_ids) for part in parts)
    cells = [
        (
            cell,
            [part.pk for part in holders[gpu.pk]],
            _holder(gpu, node, holders[gpu.pk], snapshot, idle_cores=idle_cores),
        )
        for gpu, cell in zip(node.gpus_present, gpu_cells(node, snapshot), strict=True)
    ]
    groups: list[GpuGroup] = []
    # Two foreign jobs side by side have equal captions, and are two groups all the same.
    for _, members in groupby(cells, key=lambda row: row[1]):
        groups += group_cells((cell, holder) for cell, _, holder in members)
    return groups


def _holder(gpu: Gpu, node: Node, parts: list[Allocation], snapshot: Snapshot, *, idle_cores: int) -> Holder:
    if not parts:
        if gpu.closed_because:
            return Holder(gpu.closed_because, note=gpu.cordon_remedy or None)
        note = f"{idle_cores} idle core{'s' if idle_cores != 1 else ''}"
        if gpu.mode == gpu.Mode.SHARED:
            return Holder("for jobs that share a GPU", note=f"none on GPU {gpu.index} now; {note}")
        return Holder(_idle_words(gpu, node, snapshot), note=note)
    return (
        shared_holder(gpu, parts, snapshot.reader)
        if gpu.mode == gpu.Mode.SHARED
        else job_holder(parts[0], snapshot.reader)
    )


def shared_holder(gpu: Gpu, parts: list[Allocation], reader: Reader) -> Holder:
    """Return the jobs on a shared GPU: numbers of those that the reader may see, and a count of the others."""
    seen = [part for part in parts if reader.sees(part.attempt.job.tenant_id)]
    held = [row for part in parts for row in part.gpu_allocations.all() if row.gpu_id == gpu.pk]
    words = part_words(sum(row.compute for row in held), sum(row.memory_mib or 0 for row in held))
    names = names_words([f"#{part.attempt.job.number}" for part in seen], len(parts) - len(seen))
    only = seen[0].attempt.job if len(seen) == 1 else None
    number = None if only is None else only.number
    url = None if only is None else reverse("job-detail", args=[only.number])
    return Holder(f"shared by {names}", number, url, f"{words} given of GPU {gpu.index}")


def job_holder(part: Allocation, reader: Reader) -> Holder:
    job = part.attempt.job
    if not reader.sees(job.tenant_id):
        return Holder(ANOTHERS)
    return Holder(job.name, job.number, reverse("job-detail", args=[job.number]), job.tenant.name)


def _idle_words(gpu: Gpu, node: Node, snapshot: Snapshot) -> str:
    """Say for how long a GPU has been idle, as far back as h looks, and no further than the node is known."""
    released = [end for _, end in snapshot.intervals.get(gpu.pk, []) if end is not None]
    if released:
        return f"idle {duration((snapshot.now - max(released)).total_seconds())}"
    if node.registered_at > snapshot.since:
        return f"idle {duration((snapshot.now - node.registered_at).total_seconds())}"
    return f"idle over {duration(snapshot.hours * 3600)}"


def gpu_cells(node: Node, snapshot: Snapshot) -> list[GpuCell]:
    """Return a cell for each GPU present: use and memory from the last sample, active from the held time."""
    live = snapshot.live_gpus(node)
    held = {row.gpu_id for part in snapshot.parts_by_node[node.pk] for row in part.gpu_allocations.all()}
    since = max(snapshot.since, node.registered_at)
    cells: list[GpuCell] = []
    for gpu in node.gpus_present:
        sample = live.get(str(gpu.index), {})
        memory_mib = sample.get("memory_mib")
        cell: GpuCell = {
            "index": gpu.index,
            "active": active_share(snapshot.intervals.get(gpu.pk, []), since=since, now=snapshot.now),
            "use_percent": sample.get("utilisation"),
            "memory_percent": None if memory_mib is None else 100 * memory_mib / gpu.memory_mib,
            "idle": gpu.pk not in held,
        }
        closed, shared = bool(gpu.closed_because), gpu.mode == gpu.Mode.SHARED
        if gpu_state(held=gpu.pk in held, closed=closed, shared=shared) is GpuState.FOR_SHARING:
            cell |= {"idle": False, "sharing": True}
        if gpu.closed_because:
            cell["tone"] = "fail"
        cells.append(cell)
    return cells


class Holder(NamedTuple):
    """The holder of a GPU, as this reader may see it; an idle GPU's caption says for how long."""

    caption: str
    job_id: int | str | None = None
    job_url: str | None = None
    note: str | None = None


def group_cells(cells: Iterable[tuple[GpuCell, Holder]]) -> list[GpuGroup]:
    """Fold cells, in order of GPU index, into groups of neighbours with an equal holder.

    A job on GPUs 0, 1 and 5 makes two groups: a caption stands under the cells it names.
    """
    groups: list[GpuGroup] = []
    for holder, members in groupby(cells, key=lambda pair: pair[1]):
        group: GpuGroup = {
            "cells": [cell for cell, _ in members],
            "caption": holder.caption,
            "job_id": holder.job_id,
            "job_url": holder.job_url,
            "note": holder.note,
        }
        groups.append(group)
    return groups
