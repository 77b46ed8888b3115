"""A cluster as the cluster file that says the same; `clusters` reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import yaml

from portal.pages.laboratory.sources.clusters import MANNERS, SWITCHES
from scheduler.model import node_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.laboratory.sources.clusters import ClusterFile
    from scheduler.model import Node, Tenant
    from scheduler.simulator.world.truth import World


def cluster_text(cluster: ClusterFile) -> str:
    """The cluster file that says the same: equal neighbours are one group, and nodes get new names."""
    world = cluster.world
    groups: list[dict[str, Any]] = []
    bays: dict[int, list[Node]] = {}
    for node in world.nodes:
        bays.setdefault(node_of(node.id), []).append(node)
    for node, *others in bays.values():
        own = _describe(node, others, world)
        if groups and {**groups[-1], "count": 1} == {**own, "name": groups[-1]["name"]}:
            groups[-1]["count"] += 1
        else:
            groups.append(own)
    kinds = dict.fromkeys([*world.gpu_speeds, *world.gpu_weights])
    told: dict[str, Any] = {
        "nodes": groups,
        "gpu_types": {
            name: {"speed": world.gpu_speeds.get(name, 1.0), "weight": world.gpu_weights.get(name, 1.0)}
            for name in kinds
        },
        "tenants": [_told_tenant(name, own) for name, own in zip(cluster.tenants, world.tenants, strict=True)],
        "manners": {name: getattr(world, name) for name in (*MANNERS, *SWITCHES)},
    }
    return yaml.safe_dump({name: value for name, value in told.items() if value}, sort_keys=False, allow_unicode=True)


def _describe(node: Node, others: Sequence[Node], world: World) -> dict[str, Any]:
    """`others`: the node's further bays, where it has GPUs of several types."""
    own: dict[str, Any] = {"name": node.name, "count": 1}
    if others:
        own |= {"gpus": {each.gpu_type: each.gpus_total for each in (node, *others)}}
    elif node.gpus_total:
        own |= {"gpu_type": node.gpu_type, "gpus": node.gpus_total}
    own |= {"cores": node.most_cores, "memory_gib": node.most_memory_mib / 1024}
    if node.id in world.speeds:
        own["speed"] = world.speeds[node.id]
    if node.id in world.bandwidth_gbs:
        own["bandwidth_gbs"] = sum(world.bandwidth_gbs[each.id] for each in (node, *others))
    if node.storage_domain and node.storage_domain != f"node:{node.name}":
        own["storage_domain"] = node.storage_domain  # one of its own is what a node has where nothing is said
    if node.closes_s < math.inf:
        own["closes_s"] = node.closes_s
    return own


def _told_tenant(name: str, tenant: Tenant) -> dict[str, Any]:
    quotas = {"gpu_quota": tenant.gpu_quota, "core_quota": tenant.core_quota}
    return {
        "name": name,
        "weight": tenant.weight,
        **{each: value for each, value in quotas.items() if value is not None},
    }
