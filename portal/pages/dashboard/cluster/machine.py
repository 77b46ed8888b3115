"""A node besides its GPUs: storage, speed, links, software and its agent, as facts of its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.gpu_states import instance_of
from portal.pages.dashboard.overview.nodes import active_words, gpu_types
from portal.pages.dashboard.parts.formatting import GIB_MIB, number
from portal.planning.estimation.links import links_words
from portal.planning.estimation.models import Link
from portal.planning.estimation.selectors import node_speed

if TYPE_CHECKING:
    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.context import Fact
    from portal.pages.dashboard.parts.snapshot import Snapshot


def machine_facts(node: Node, snapshot: Snapshot) -> list[Fact]:
    parts = snapshot.parts_by_node[node.pk]
    asked_mib = sum(part.memory_mib for part in parts)
    asked = number(asked_mib / GIB_MIB, 1) if asked_mib else "none"
    facts: list[Fact] = [
        {
            "label": "Cores held",
            "value": f"{number(sum(len(part.core_ids) for part in parts))} of {number(node.cores)}",
        },
        {"label": "Memory asked for", "value": f"{asked} of {number(node.memory_mib / GIB_MIB)} GiB"},
        *_disk_facts(node),
        {"label": "Storage", "value": node.storage_domain, "note": "shares checkpoints within it"},
        {"label": "Joined", "value": "", "at": node.registered_at.isoformat()},
    ]
    if speed := node_speed(node_id=node.pk):
        note = f"of its type's, over {speed.signatures} models or jobs"
        facts.append({"label": "Speed", "value": f"{speed.factor:.0%}", "note": note})
    if words := active_words(snapshot.rates[node.pk]):
        facts.append({"label": "Held, last hour", "value": words})
    facts += _link_facts(node)
    facts += _memory_facts(node)
    facts += software_facts(node.software)
    if node.last_contact_at:
        facts.append({"label": "Last contact", "value": "", "at": node.last_contact_at.isoformat()})
    if snapshot.user.is_operator:
        facts += [
            {"label": "Address", "value": node.address or "not known"},
            {"label": "Agent", "value": node.agent_version},
            {"label": "Stale messages refused", "value": number(node.refused_messages)},
        ]
    return facts


def _disk_facts(node: Node) -> list[Fact]:
    """Return how much is free where jobs write; nothing before the agent has reported it."""
    if node.disk_free_mib is None or node.disk_total_mib is None:
        return []
    free, total = (f"{number(mib / GIB_MIB, 1)} GiB" for mib in (node.disk_free_mib, node.disk_total_mib))
    note = "almost full: no new jobs until there is room" if node.disk_low else f"of {total}"
    return [{"label": "Disk free", "value": free, "note": note}]


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
