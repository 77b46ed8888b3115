"""A node's page: its hardware, its jobs, its events, and its last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.instances import instance_of
from portal.cluster.selectors import node_events
from portal.foundation.errors import NotFound
from portal.pages.dashboard.cluster.hardware import finding_rows, gpu_rows
from portal.pages.dashboard.cluster.page import EVENTS_SHOWN, event_rows, node_row
from portal.pages.dashboard.cluster.plots import figure_make, plot_contexts, range_choices, range_seconds
from portal.pages.dashboard.overview.nodes import active_words, gpu_groups, gpu_types, gpu_words
from portal.pages.dashboard.parts.formatting import GIB_MIB, number
from portal.pages.dashboard.parts.neighbours import on_node, part_words, slowed_rows
from portal.pages.dashboard.parts.snapshot import OTHER_TENANT
from portal.planning.estimation.links import links_words
from portal.planning.estimation.models import Link
from portal.planning.estimation.selectors import node_speed
from portal.work.jobs.selectors import ANOTHERS

if TYPE_CHECKING:
    from portal.cluster.models import Node
    from portal.pages.dashboard.parts import figures
    from portal.pages.dashboard.parts.context import Fact
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.work.jobs.models import Allocation, Job


def node_get(snapshot: Snapshot, name: str) -> Node:
    """Return a node with its GPUs. Raises NotFound."""
    found = next((node for node in snapshot.nodes if node.name == name), None)
    if found is None:
        raise NotFound("node")
    return found


def node_context(snapshot: Snapshot, name: str, *, chosen: str | None = None) -> dict[str, Any]:
    node = node_get(snapshot, name)
    range_seconds(chosen)
    return {
        "node": node_row(node, snapshot),
        "facts": _facts(node, snapshot),
        "groups": gpu_groups(node, snapshot),
        "gpu_words": gpu_words(node),
        "rack": node.rack,
        "jobs": [_job(part, snapshot) for part in snapshot.parts_by_node[node.pk]],
        "events": event_rows(node_events(limit=EVENTS_SHOWN, node=node), snapshot.user),
        "plots": plot_contexts(node, chosen),
        "ranges": range_choices(node, chosen),
        "problems": node.problems if snapshot.user.is_operator else [],
        "findings": finding_rows(node, snapshot),
        "hardware": gpu_rows(node, snapshot),
        "slowed": _slowed(node, snapshot),
        "can_operate": snapshot.user.is_operator,
    }


def _slowed(node: Node, snapshot: Snapshot) -> list[dict[str, Any]]:
    def called(job: Job) -> str:
        return f"#{job.number}" if snapshot.reader.sees(job.tenant_id) else ANOTHERS

    def link(job: Job) -> str | None:
        return reverse("job-detail", args=[job.number]) if snapshot.reader.sees(job.tenant_id) else None

    return slowed_rows(on_node(node), called, link)


def _disk_facts(node: Node) -> list[Fact]:
    """Return how much is free where jobs write; nothing before the agent has reported it."""
    if node.disk_free_mib is None or node.disk_total_mib is None:
        return []
    free, total = (f"{number(mib / GIB_MIB, 1)} GiB" for mib in (node.disk_free_mib, node.disk_total_mib))
    note = "almost full: no new jobs until there is room" if node.disk_low else f"of {total}"
    return [{"label": "Disk free", "value": free, "note": note}]


def _facts(node: Node, snapshot: Snapshot) -> list[Fact]:
    facts: list[Fact] = [
        {"label": "Cores", "value": str(node.cores)},
        {"label": "Memory", "value": f"{number(node.memory_mib / GIB_MIB)} GiB"},
        *_disk_facts(node),
        {"label": "Storage", "value": node.storage_domain, "note": "shares checkpoints within it"},
        {"label": "Joined", "value": "", "at": node.registered_at.isoformat()},
    ]
    if words := gpu_words(node):
        cut = any(instance_of(name) for name in gpu_types(node))
        note = "an instance (MIG) takes jobs of one GPU" if cut else ""
        facts.insert(0, {"label": "GPUs", "value": words, "note": note})
    if speed := node_speed(node_id=node.pk):
        note = f"of its type's, over {speed.signatures} models or jobs"
        facts.append({"label": "Speed", "value": f"{speed.factor:.0%}", "note": note})
    if words := active_words(snapshot.rates[node.pk]):
        facts.append({"label": "Active, last hour", "value": words, "note": "held by jobs"})
    facts += _link_facts(node)
    facts += _memory_facts(node)
    if node.isolation:
        value, note = isolation_words(node.isolation)
        facts.append({"label": "Isolation of jobs", "value": value, "note": note})
        facts += _wall_facts(node.isolation)
    facts += software_facts(node.software)
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
    labels = {"within": "Links between its GPUs", "between": "Links to other nodes"}
    names = list(gpu_types(node)) or ([node.gpu_type.name] if node.gpu_type else [])
    names = [name for name in names if instance_of(name) is None]  # between instances there are none
    links = Link.objects.filter(gpu_type__name__in=names).select_related("gpu_type").order_by("gpu_type__name")
    return [
        {
            "label": labels[side] + (f", {link.gpu_type.name}" if len(names) > 1 else ""),
            "value": _rate(each["gbps"]),
            "note": each["how"],
        }
        for link in links
        for side, each in links_words(link).items()
        if each is not None
    ]


METERS = {
    "resctrl": "counted by the processor (resctrl)",
    "probe": "felt by small copies",
    "simulated": "simulated",
    "": "not measured",
}
THROTTLES = {
    "mba": "by the processor (MBA)",
    "quota2": "by CPU time (cgroup v2)",
    "quota1": "by CPU time (cgroup v1)",
    "cores": "by fewer cores",
    "": "not at all",
}


def _memory_facts(node: Node) -> list[Fact]:
    """Return how much of its memory's bandwidth is in use, and how CPU jobs are kept from taking too much."""
    known = node.memory_traffic
    if not known:
        return []
    used = "" if node.memory_share is None or not node.is_reachable else f"{node.memory_share:.0%} in use"
    able = f"{known['gb_s']:.3g} GB/s" if known["gb_s"] else ""
    note = f"{METERS[known['meter']]}; CPU jobs are held back {THROTTLES[known['throttle']]}"
    return [{"label": "Memory bandwidth", "value": ", ".join(filter(None, (able, used))) or "not known", "note": note}]


def _rate(gbps: float) -> str:
    return f"{gbps:.3g} GB/s" if gbps >= 1 else f"{1000 * gbps:.3g} MB/s"


WALLS = {
    "accounts": ("Tenants' accounts", "each tenant's jobs run under an account of their own"),
    "mounts": ("Own view of files", "other jobs' files are not there, and /tmp is the job's own"),
    "processes": ("Own processes", "a job sees and signals none but its own"),
    "devices": ("Own GPUs", "the device files of other GPUs are closed to a job"),
    "pids": ("Limit of processes", "held by the kernel"),
    "memory": ("Limit of memory", "held by the kernel"),
    "cores": ("Cores", "held by the kernel"),
}
"""A property that a node can report: the label, and its use where it holds."""


def _wall_facts(isolation: dict[str, Any]) -> list[Fact]:
    """Return the walls that stand on the node, as it tried them at its start; a missing wall says why."""
    told = {wall["name"]: wall for wall in isolation.get("walls", ())}
    facts: list[Fact] = [
        {"label": label, "value": f"yes ({told[name]['by']})", "note": good}
        if told[name]["by"]
        else {"label": label, "value": "no", "note": told[name]["why"]}
        for name, (label, good) in WALLS.items()
        if name in told
    ]
    return facts + _network_fact(told.get("network")) + _sharing_fact(told.get("gpus"))


NETWORKS = {
    "namespace": (
        "apart",
        "a tenant's parts on one node have a network of their own; of jobs over several nodes, lists of connections are seen",
    ),
    "groups": (
        "apart, but lists of connections are seen",
        "another tenant's job is refused at a job's ports; jobs on one node have no network of their own",
    ),
    "": ("not apart", "any job may connect to another's ports on this node: give servers in jobs a password"),
}
"""How far tenants are kept from each other's ports, by the means that a node tells."""


def _network_fact(told: dict[str, str] | None) -> list[Fact]:
    """Return how far the node's network is apart, and which walls are missing; nothing from an older agent."""
    if not told or told["by"] not in NETWORKS:
        return []
    value, note = NETWORKS[told["by"]]
    return [{"label": "Network", "value": value, "note": f"{note}. {told['why']}" if told["why"] else note}]


def _sharing_fact(told: dict[str, str] | None) -> list[Fact]:
    """Return the means by which jobs share a GPU of the node; nothing from an older agent."""
    if not told:
        return []
    note = "the shares of threads and memory that jobs were granted are held by NVIDIA's MPS daemon" * (not told["why"])
    return [{"label": "Jobs on one GPU", "value": told["by"], "note": note or told["why"]}]


def software_facts(told: dict[str, Any]) -> list[Fact]:
    """Return the software that the node offers to jobs, and the remedy where it cannot; nothing from an older agent."""
    if not told:
        return []
    builder = f"{told['installer']}, for Python {told['python']}" if told["installer"] else "none"
    facts: list[Fact] = [{"label": "Builds environments", "value": builder}]
    if why := told["missing"].get("build"):
        facts[0]["note"] = why
    images: Fact = {"label": "Runs images", "value": told.get("images") or "no"}
    facts.append({**images, "note": why} if (why := told["missing"].get("image")) else images)
    if told["environments"]:
        facts.append({"label": "Environments", "value": ", ".join(told["environments"])})
    broken = [(what.partition(":")[2], why) for what, why in told["missing"].items() if what.startswith("environment:")]
    facts += [{"label": f"Environment {name}", "value": "not offered", "note": why} for name, why in broken]
    return facts


def isolation_words(isolation: dict[str, Any]) -> tuple[str, str]:
    """Return the value and the note of the fact on the files that the node's jobs cannot reach."""
    why = isolation["why"]
    if not isolation["files"]:
        return "none", f"a job may read whatever the agent may: {why}"
    return "on", why or "jobs are kept out of Berth's files and processes and of each other's"


def _job(part: Allocation, snapshot: Snapshot) -> dict[str, Any]:
    attempt, job = part.attempt, part.attempt.job
    shown = snapshot.reader.sees(job.tenant_id)
    indices = [
        f"{held.gpu.index} ({part_words(held.compute, held.memory_mib)})"
        if held.mode == "shared"
        else str(held.gpu.index)
        for held in part.gpu_allocations.all()
    ]
    return {
        "job_id": job.number if shown else None,
        "url": reverse("job-detail", args=[job.number]) if shown else None,
        "name": job.name if shown else ANOTHERS,
        "tenant": job.tenant.name if shown else OTHER_TENANT,
        "state": job.state,
        "gpus": ", ".join(indices) or "none",
        "cores": len(part.core_ids),
        "since": (attempt.started_at or attempt.created_at).isoformat(),
    }


def node_figure(snapshot: Snapshot, name: str, figure: str, *, chosen: str | None = None) -> figures.Figure:
    """Return one measure of a node over a range of time. Raises NotFound for an unknown node or figure."""
    return figure_make(node_get(snapshot, name), figure, seconds=range_seconds(chosen))
