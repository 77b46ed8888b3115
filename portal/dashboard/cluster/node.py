"""A node's page: what it is, what runs there, what happened to it, and its last hour."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.selectors import node_events
from portal.cluster.telemetry import batches_between
from portal.dashboard.cluster.hardware import finding_rows, gpu_rows
from portal.dashboard.cluster.page import EVENTS_SHOWN, event_rows, node_row
from portal.dashboard.overview.nodes import MIB_OF_GIB, active_words, gpu_groups
from portal.dashboard.parts import figures
from portal.dashboard.parts.formatting import number
from portal.dashboard.parts.masking import ANOTHERS, OTHER_TENANT
from portal.errors import NotFound
from portal.estimation.links import links_words
from portal.estimation.models import Link
from portal.estimation.selectors import node_speed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.cluster.models import Node
    from portal.dashboard.cluster.context import NodeJob, NodePageContext
    from portal.dashboard.parts.context import Fact, PlotContext
    from portal.dashboard.parts.snapshot import Snapshot
    from portal.jobs.models import Allocation

BIN_S = 15
"""A plotted point is the mean of so many seconds of samples at 1 Hz: 240 an hour."""
PLOTS = {
    "gpu": ("GPU use", "mean of its GPUs, %", "plot-1"),
    "cores": ("Cores", "used, % of all", "plot-3"),
    "memory": ("Memory", "used, % of all", "plot-4"),
}


def node_get(snapshot: Snapshot, name: str) -> Node:
    """Return a node with its GPUs. Raises NotFound."""
    found = next((node for node in snapshot.nodes if node.name == name), None)
    if found is None:
        raise NotFound("node")
    return found


def node_context(snapshot: Snapshot, name: str) -> NodePageContext:
    node = node_get(snapshot, name)
    return {
        "node": node_row(node, snapshot),
        "facts": _facts(node, snapshot),
        "groups": gpu_groups(node, snapshot),
        "gpu_type": node.gpu_type.name if node.gpu_type else "",
        "rack": node.rack,
        "jobs": [_job(part, snapshot) for part in snapshot.parts_by_node[node.pk]],
        "events": event_rows(node_events(limit=EVENTS_SHOWN, node=node), snapshot.user),
        "plots": plot_contexts(node),
        "problems": node.problems if snapshot.user.is_operator else [],
        "findings": finding_rows(node, snapshot),
        "hardware": gpu_rows(node, snapshot),
        "can_operate": snapshot.user.is_operator,
    }


def _disk_facts(node: Node) -> list[Fact]:
    """Return how much is free where jobs write; nothing before the agent has reported it."""
    if node.disk_free_mib is None or node.disk_total_mib is None:
        return []
    free, total = (f"{number(mib / MIB_OF_GIB, 1)} GiB" for mib in (node.disk_free_mib, node.disk_total_mib))
    note = "almost full: no new jobs until there is room" if node.disk_low else f"of {total}"
    return [{"label": "Disk free", "value": free, "note": note}]


def _facts(node: Node, snapshot: Snapshot) -> list[Fact]:
    facts: list[Fact] = [
        {"label": "Cores", "value": str(node.cores)},
        {"label": "Memory", "value": f"{number(node.memory_mib / MIB_OF_GIB)} GiB"},
        *_disk_facts(node),
        {"label": "Storage", "value": node.storage_domain, "note": "shares checkpoints within it"},
        {"label": "Joined", "value": "", "at": node.registered_at.isoformat()},
    ]
    if node.gpus_present and node.gpu_type:
        facts.insert(0, {"label": "GPUs", "value": f"{len(node.gpus_present)} \u00d7 {node.gpu_type.name}"})
    if speed := node_speed(node_id=node.pk):
        note = f"of its type's, over {speed.signatures} models or jobs"
        facts.append({"label": "Speed", "value": f"{speed.factor:.0%}", "note": note})
    if words := active_words(snapshot.rates[node.pk]):
        facts.append({"label": "Active, last hour", "value": words, "note": "held by jobs"})
    facts += _link_facts(node)
    if node.isolation:
        value, note = isolation_words(node.isolation)
        facts.append({"label": "Isolation of jobs", "value": value, "note": note})
    if node.last_contact_at:
        facts.append({"label": "Last contact", "value": "", "at": node.last_contact_at.isoformat()})
    if snapshot.user.is_operator:
        facts += [
            {"label": "Address", "value": node.address or "not told"},
            {"label": "Agent", "value": node.agent_version},
            {"label": "Stale messages refused", "value": number(node.refused_messages)},
        ]
    return facts


def _link_facts(node: Node) -> list[Fact]:
    """Return how fast its GPUs exchange gradients and how that is known: jobs' speeds are predicted from it."""
    link = None if node.gpu_type is None else Link.objects.filter(gpu_type=node.gpu_type).first()
    if link is None:
        return []
    labels = {"within": "Links between its GPUs", "between": "Links to other nodes"}
    return [
        {"label": labels[side], "value": _rate(each["gbps"]), "note": each["how"]}
        for side, each in links_words(link).items()
        if each is not None
    ]


def _rate(gbps: float) -> str:
    return f"{gbps:.3g} GB/s" if gbps >= 1 else f"{1000 * gbps:.3g} MB/s"


def isolation_words(isolation: dict[str, Any]) -> tuple[str, str]:
    """Return what the node's jobs cannot reach, as the value and the note of a fact."""
    why = isolation["why"]
    if not isolation["files"]:
        return "none", f"a job may read whatever the agent may: {why}"
    return "on", why or "jobs are kept out of Berth's files and processes and of each other's"


def _job(part: Allocation, snapshot: Snapshot) -> NodeJob:
    attempt, job = part.attempt, part.attempt.job
    shown = snapshot.reader.sees(job.tenant_id)
    indices = [held.gpu.index for held in part.gpu_allocations.all()]
    return {
        "job_id": job.number if shown else None,
        "url": reverse("job-detail", args=[job.number]) if shown else None,
        "name": job.name if shown else ANOTHERS,
        "tenant": job.tenant.name if shown else OTHER_TENANT,
        "state": job.state,
        "gpus": ", ".join(map(str, indices)) or "none",
        "cores": len(part.core_ids),
        "since": (attempt.started_at or attempt.created_at).isoformat(),
    }


def plot_contexts(node: Node) -> list[PlotContext]:
    names = PLOTS if node.gpus_present else {name: PLOTS[name] for name in ("cores", "memory")}
    return [
        {
            "name": name,
            "title": title,
            "note": note,
            "url": reverse("node-figure", args=[node.name, name]),
            "legend": [],
            "topics": "telemetry",
        }
        for name, (title, note, _) in names.items()
    ]


def node_figure(snapshot: Snapshot, name: str, figure: str) -> figures.Figure:
    """Return one measure of the last h hours in per cent. Raises NotFound for an unknown node or figure."""
    if figure not in PLOTS:
        raise NotFound("figure")
    node = node_get(snapshot, name)
    batches = (batch for _, batch in batches_between(node_ids=[node.pk], since=snapshot.since, until=snapshot.now))
    rows = _binned(_samples(batches, node, figure), since_s=snapshot.since.timestamp())
    start, end = snapshot.since.isoformat(), snapshot.now.isoformat()
    return figures.node_use(rows, PLOTS[figure][2], start=start, end=end)


def _samples(batches: Iterable[dict[str, Any]], node: Node, figure: str) -> Iterable[tuple[float, float]]:
    """Yield (Unix time, per cent) of each sample that was measured."""
    for batch in batches:
        for position, percent in enumerate(_series(batch, node, figure)):
            if percent is not None:
                yield batch["start"] + position * batch["period_s"], percent


def _series(batch: dict[str, Any], node: Node, figure: str) -> list[float | None]:
    if figure == "gpu":
        uses = [gpu.get("utilisation") or [] for gpu in (batch.get("gpus") or {}).values()]
        known = [[use for use in uses_then if use is not None] for uses_then in zip(*filter(None, uses), strict=False)]
        return [fmean(values) if values else None for values in known]
    measure, whole = ("cpu_cores", node.cores) if figure == "cores" else ("memory_mib", node.memory_mib)
    values = (batch.get("host") or {}).get(measure) or []
    return [None if value is None else 100 * value / whole for value in values]


def _binned(samples: Iterable[tuple[float, float]], *, since_s: float) -> list[tuple[str, float | None]]:
    """Return (ISO time, mean) of each bin with samples; a gap of several bins is one None, which breaks the line."""
    bins: dict[int, list[float]] = defaultdict(list)
    for at, value in samples:
        if at >= since_s:
            bins[int(at // BIN_S)].append(value)
    rows: list[tuple[str, float | None]] = []
    last = None
    for place in sorted(bins):
        if last is not None and place > last + 2:
            rows.append((datetime.fromtimestamp((last + 1) * BIN_S, UTC).isoformat(), None))
        rows.append((datetime.fromtimestamp((place + 0.5) * BIN_S, UTC).isoformat(), round(fmean(bins[place]), 2)))
        last = place
    return rows
