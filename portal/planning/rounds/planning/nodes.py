"""Nodes of the database as the scheduler's values. A node with GPUs of several types is several: one bay for each type.

A plan comes back in terms of whole nodes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db.models import F

from portal.cluster.models import Gpu, GpuType, Node
from portal.planning.rounds.planning.model_jobs import may_harvest
from portal.planning.rounds.planning.sharing import Seen
from portal.work.jobs.models import Attempt
from portal.work.jobs.software import node_offers
from scheduler import model
from scheduler.estimator.measured import signature_of
from scheduler.intake.bays import Shared, deal, promised_on, wants_of

TOGETHER: Mapping[int, frozenset[str]] = MappingProxyType({})
NOT_SEEN = Seen()
AWAY = {"disk-low": "its disk is almost full"}
"""Words for a node that gets no jobs, where its health is no word for a sentence."""


@dataclass(slots=True)
class Held:
    """The resources of a node that live parts hold."""

    gpus: set[int] = field(default_factory=set)
    cores: set[int] = field(default_factory=set)
    memory_mib: int = 0
    tenants: set[int] = field(default_factory=set)
    by_bay: dict[int, tuple[int, int]] = field(default_factory=dict)  # cores and memory
    parts: dict[int, list[model.Holder]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by the index of a shared GPU


def nodes_described(
    parts: Iterable[Any],
    jobs: Sequence[model.Job],
    promises: Mapping[int, model.Promise],
    seen: Seen = NOT_SEEN,
    apart: Mapping[int, frozenset[str]] = TOGETHER,
    *,
    now: datetime,
) -> list[model.Node]:
    """Describe the nodes. `parts`: the live allocations, with `gpus_held`, `part_held` and `bay`; `jobs`: those that wait.
    `seen`: the use of shared GPUs; `apart`: the signatures that a job is kept apart from. Two queries.
    """
    held = _held(parts, apart, seen.attempts, now)
    present: dict[int, There] = defaultdict(There)
    beside: dict[int, dict[int, There]] = defaultdict(dict)
    rows = Gpu.objects.present().order_by("index")
    names = ("node_id", "index", "cordoned_at", "outside_since", "gpu_type_id", "mode", "memory_mib")
    for node, index, cordoned, outside, other, mode, memory_mib in rows.values_list(*names):
        own = present[node] if other is None else beside[node].setdefault(other, There())
        is_open = cordoned is None and outside is None
        if mode == Gpu.Mode.SHARED:
            holders = tuple(held[node].parts.get(index, ()))
            if is_open or holders:
                used = seen.gpus.get((node, index), ())
                own.shared.append(model.PartedGpu(index, memory_mib, holders, used, open=is_open))
        # One that no job may get is left out, unless a job has it: then it is that job's as long as it runs.
        elif is_open or index in held[node].gpus:
            own.gpus.append(index)
    alive = Node.objects.alive().select_related("gpu_type").order_by("pk").annotate(speed_factor=F("speed__factor"))
    plain = {each.pk: _node(each, present[each.pk], held[each.pk]) for each in alive}
    if not any(number in plain for number in beside):
        return list(plain.values())
    types = dict(GpuType.objects.values_list("pk", "name"))
    wants, promised = wants_of(jobs), promised_on(each.shares for each in promises.values())
    return [
        bay
        for number, node in plain.items()
        for shared in [Shared(node.idle_cores, node.idle_memory_mib, node.cores_total, node.memory_total_mib)]
        for bay in (
            deal(_bays(node, beside[number], types, held[number]), shared, wants, promised)
            if number in beside
            else [node]
        )
    ]


@dataclass(slots=True)
class There:
    """The GPUs of one type on a node: the indices of those that are handed out whole, and the shared ones."""

    gpus: list[int] = field(default_factory=list)
    shared: list[model.PartedGpu] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.gpus or self.shared)


def _held(
    parts: Iterable[Any], apart: Mapping[int, frozenset[str]], used: Mapping[str, float], now: datetime
) -> defaultdict[int, Held]:
    held: defaultdict[int, Held] = defaultdict(Held)
    for part in parts:
        own = held[part.node_id]
        own.gpus.update(part.gpus_held)
        if (share := part.part_held) is not None:
            own.parts[share.gpu].append(_holder(part.attempt, share, apart, used.get(part.attempt.key), now))
        own.cores.update(part.core_ids)
        own.memory_mib += part.memory_mib
        own.tenants.add(part.attempt.job.tenant_id)
        cores, memory_mib = own.by_bay.get(part.bay, (0, 0))
        own.by_bay[part.bay] = (cores + len(part.core_ids), memory_mib + part.memory_mib)
    return held


def _holder(
    attempt: Attempt, share: model.HeldPart, apart: Mapping[int, frozenset[str]], used_mib: float | None, now: datetime
) -> model.Holder:
    job = attempt.job
    name = signature_of(job.tenant_id, job.model or None, job.pk)
    ran_s = (now - attempt.started_at).total_seconds() if attempt.started_at else 0.0
    return model.Holder(
        job.pk,
        job.tenant_id,
        name,
        share.compute,
        share.memory_mib,
        used_mib or 0.0,
        apart_from=apart.get(job.pk, frozenset()),
        ran_s=max(0.0, ran_s),
        harvest=used_mib is not None and may_harvest(job),
    )


def _node(node: Any, present: There, held: Held) -> model.Node:
    only = frozenset() if node.only_tenant_id is None else frozenset({node.only_tenant_id})
    return model.Node(
        id=node.pk,
        name=node.name,
        gpu_type=node.gpu_type.name if node.gpu_type and present else None,
        gpus_total=len(present.gpus),
        idle_gpus=tuple(index for index in present.gpus if index not in held.gpus),
        shared=tuple(present.shared),
        cores_total=node.cores,
        idle_cores=tuple(core for core in range(node.cores) if core not in held.cores),
        memory_total_mib=node.memory_mib,
        idle_memory_mib=max(0, node.memory_mib - held.memory_mib),
        storage_domain=node.storage_domain,
        schedulable=node.is_schedulable,
        unavailable_because="" if node.is_schedulable else AWAY.get(node.health, node.health),
        single_account=node.single_account,
        trusts_tenants=node.trusts_tenants or settings.DEMO,
        tenants=frozenset(held.tenants) | only,
        only=only,
        offers=node_offers(node.software),
        place=tuple(filter(None, map(str.strip, node.rack.split("/")))),
        speed=node.speed_factor or 1.0,
        tunes=node.tunes_cores,
        closes_s=math.inf if node.ends_at is None else node.ends_at.timestamp(),
    )


def _bays(node: model.Node, beside: Mapping[int, There], types: Mapping[int, str], held: Held) -> list[model.Node]:
    """Return the bays of a node, with the jobs' totals there: `deal` adds the idle rest. Its own type comes first.

    A node's measured speed is that of its own type.
    """
    bays = [node]
    for number, there in sorted(beside.items()):
        idle = tuple(index for index in there.gpus if index not in held.gpus)
        bay = replace(node, id=model.bay_id(node.id, number), name=f"{node.name} ({types[number]})", speed=1.0)
        name = types[number] if there else None
        shared = tuple(there.shared)
        bays.append(replace(bay, gpu_type=name, gpus_total=len(there.gpus), idle_gpus=idle, shared=shared))
    return [
        replace(bay, cores_total=cores, memory_total_mib=memory_mib)
        for bay in bays
        for cores, memory_mib in [held.by_bay.get(bay.id, (0, 0))]
    ]


def on_whole_nodes(made: model.Plan, nodes: Iterable[model.Node]) -> model.Plan:
    """Return the plan with nodes in the place of bays. Promises keep their bays: the next planning is to find them again."""
    if not any(model.number_of(node.id) for node in nodes):
        return made
    for decision in made.decisions:
        if decision.placement is not None:
            pieces = tuple(map(_on_node, decision.placement.pieces))
            decision.placement = replace(decision.placement, pieces=pieces)
    return replace(
        made,
        profiles=tuple(replace(each, piece=_on_node(each.piece)) for each in made.profiles),
        probes=tuple(replace(each, pieces=tuple(map(_on_node, each.pieces))) for each in made.probes),
        reservations=tuple(
            replace(each, nodes=tuple(dict.fromkeys(map(model.node_of, each.nodes)))) for each in made.reservations
        ),
    )


def _on_node(piece: model.Piece) -> model.Piece:
    return replace(piece, node=model.node_of(piece.node))
