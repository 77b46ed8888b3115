"""The cluster now, in plain columns: lists of equal length, with a place for each node or each GPU.

Nothing here names a job, a tenant or a user, so every signed-in reader may see figures made of it. Eight queries at any size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from django.utils import timezone

from portal.cluster.gpu_states import GpuState, gpu_state, instance_of
from portal.cluster.models import HEALTHS, SAMPLE_FRESH_S, Gpu, Node
from portal.planning.rounds.read.kept import kept_gpus
from portal.work.jobs.held_time import Length
from portal.work.jobs.models import Allocation, GpuAllocation
from portal.work.jobs.use import gpus_of

UP, DEAD = HEALTHS.index("up"), HEALTHS.index("dead")
NODE_COLUMNS = "name rack label cores registered_at last_contact_at dead_at drained_at disk_low live".split()
GpuRow = tuple[int, int, int, bool, bool, str | None]
"""Row id, index, memory in MiB, whether no new job gets it, and its type where it is not the one that its node goes by."""


class Block(NamedTuple):
    """GPUs of one type on a node: how many, how many of them are idle, and the node's idle cores."""

    gpu_type: str | None
    gpus: int
    idle: int
    cores: int

    @property
    def is_cut(self) -> bool:
        """Whether they are instances (MIG), of which no job has two."""
        return instance_of(self.gpu_type) is not None

    @property
    def most(self) -> int:
        """The idle GPUs that one job could have together."""
        return min(self.idle, 1) if self.is_cut else self.idle


@dataclass
class Facts:
    """Columns a node (`names` ... `kept`), then columns a GPU in the order of nodes and indices (`gpu_ids` ...).

    `types`: GPU type, None without GPUs; all of several: "A100 + T4". `beside`: a GPU's type that is not the one in `own_types`,
    by which its node goes. `kept`: GPUs kept for a job, at most the idle ones. `uses`, `memories`: per cent of a fresh sample,
    else None; `unused`: since when it has not computed, Unix time. `closed`: no new job gets the GPU; `shared`: several may have
    parts of it, so it is not idle. `cores_measured`: held cores of jobs whose use is known; `cores_used`: of them in use.
    `held_by_tenant`: by id, parts counted.
    """

    at: float
    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    types: list[str | None] = field(default_factory=list)
    own_types: list[str | None] = field(default_factory=list)
    racks: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    health: list[int] = field(default_factory=list)
    heard: list[float | None] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)
    cores: list[int] = field(default_factory=list)
    cores_held: list[int] = field(default_factory=list)
    cores_measured: list[int] = field(default_factory=list)
    cores_used: list[float] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    gpus_held: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    gpu_ids: list[int] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    closed: list[bool] = field(default_factory=list)
    shared: list[bool] = field(default_factory=list)
    beside: list[str | None] = field(default_factory=list)
    uses: list[float | None] = field(default_factory=list)
    memories: list[float | None] = field(default_factory=list)
    unused: list[float | None] = field(default_factory=list)
    held_by_tenant: dict[str, float] = field(default_factory=dict)

    @property
    def alive(self) -> list[int]:  # the places of the nodes that are not declared dead
        return [place for place, health in enumerate(self.health) if health != DEAD]

    @cached_property
    def gpus_total(self) -> int:
        return sum(self.gpus[place] for place in self.alive)

    @cached_property
    def cores_total(self) -> int:
        return sum(self.cores[place] for place in self.alive)

    @cached_property
    def starts(self) -> list[int]:
        """The place of each node's first GPU."""
        return [0, *accumulate(self.gpus)][:-1]

    @cached_property
    def _states(self) -> list[list[GpuState]]:
        each = zip(self.held, self.closed, self.shared, strict=True)
        return [
            [gpu_state(held=h, closed=c, shared=s, is_up=health == UP) for h, c, s in islice(each, count)]
            for health, count in zip(self.health, self.gpus, strict=True)
        ]

    def states(self, place: int) -> list[GpuState]:
        """Return the states of a node's GPUs; nobody has decided which of the idle ones are kept."""
        return self._states[place]

    def idle(self, place: int) -> tuple[int, int]:
        """Return a node's idle GPUs and cores; none on one that takes no jobs."""
        if self.health[place] != UP:
            return 0, 0
        return self.states(place).count(GpuState.IDLE), self.cores[place] - self.cores_held[place]

    def for_sharing(self, place: int) -> int:
        """Return how many of a node's GPUs are for jobs that share one, and have none."""
        return self.states(place).count(GpuState.FOR_SHARING)

    @cached_property
    def blocks(self) -> list[list[Block]]:
        """Each node's GPUs by type: one block; of several types one each, which share the node's idle cores."""
        return [self._blocks(place) for place in range(len(self.names))]

    def _blocks(self, place: int) -> list[Block]:
        gpus, cores = self.idle(place)
        first, count, own = self.starts[place], self.gpus[place], self.own_types[place]
        beside = self.beside[first : first + count]
        if not any(beside):
            return [Block(own, count, gpus, cores)]
        names = [name or own for name in beside]
        free = Counter(name for name, state in zip(names, self.states(place), strict=True) if state is GpuState.IDLE)
        return [Block(name, total, free[name], cores) for name, total in Counter(names).items()]


def facts_read() -> Facts:
    """Read all columns as of now."""
    facts = Facts(at=timezone.now().timestamp())
    present: dict[int, list[GpuRow]] = defaultdict(list)
    seen = Gpu.objects.present().order_by("index")
    for gpu, node, index, memory_mib, cordoned, outside, mode, beside in seen.values_list(
        "pk", "node_id", "index", "memory_mib", "cordoned_at", "outside_since", "mode", "gpu_type__name"
    ):
        closed, shared = cordoned is not None or outside is not None, mode == Gpu.Mode.SHARED
        present[node].append((gpu, index, memory_mib, closed, shared, beside))
    held_gpus, milli, by_tenant = set[int](), Counter[int](), Counter[int]()
    held = GpuAllocation.objects.filter(released_at=None).order_by()
    for gpu, allocation, compute in held.values_list("gpu_id", "allocation_id", "compute"):
        held_gpus.add(gpu)
        milli[allocation] += compute
    parts: dict[int, list[tuple[str, int]]] = defaultdict(list)
    live = Allocation.objects.filter(released_at=None).order_by()
    for allocation, node, key, tenant, cores in live.values_list(
        "pk", "node_id", "attempt__key", "attempt__job__tenant_id", Length("core_ids")
    ):
        parts[node].append((key, cores))
        by_tenant[tenant] += milli[allocation]
    facts.held_by_tenant = {str(tenant): gpus_of(count) for tenant, count in by_tenant.items() if count}
    kept, listed = kept_gpus(), Node.objects.listed().select_related("gpu_type")
    for node in listed.only(*NODE_COLUMNS, "gpu_type__name").order_by("name"):
        _node_add(facts, node, parts=parts[node.pk], gpus=present[node.pk], holders=held_gpus, kept=kept)
    return facts


def _node_add(
    facts: Facts,
    node: Node,
    *,
    parts: list[tuple[str, int]],
    gpus: list[GpuRow],
    holders: set[int],
    kept: dict[int, int | None],
) -> None:
    held = [gpu in holders for gpu, *_ in gpus]
    idle = sum(
        gpu_state(held=is_held, closed=closed, shared=shared) is GpuState.IDLE
        for is_held, (*_, closed, shared, _) in zip(held, gpus, strict=True)
    )
    facts.ids.append(node.pk)
    facts.names.append(node.name)
    own = node.gpu_type.name if node.gpu_type else None
    counts = Counter(name for *_, beside in gpus if (name := beside or own) is not None)
    facts.types.append(" + ".join(name for name, _ in counts.most_common()) or None)
    facts.own_types.append(own)
    facts.racks.append(node.rack)
    facts.labels.append(node.label)
    facts.health.append(HEALTHS.index(node.health))
    facts.heard.append(node.last_contact_at.timestamp() if node.last_contact_at else None)
    facts.joined.append(node.registered_at.timestamp())
    facts.cores.append(node.cores)
    _cores_add(facts, node, parts)
    facts.gpus.append(len(gpus))
    facts.gpus_held.append(sum(held))
    facts.kept.append(idle if (wanted := kept.get(node.pk, 0)) is None else min(idle, wanted))
    _gpus_add(facts, node, gpus, held)


def _cores_add(facts: Facts, node: Node, parts: list[tuple[str, int]]) -> None:
    live = node.live or {}
    fresh = facts.at - live.get("at", 0) < SAMPLE_FRESH_S
    uses = {key: measures.get("cpu_cores") for key, measures in live.get("attempts", {}).items()} if fresh else {}
    known = [(min(use, count), count) for key, count in parts if (use := uses.get(key)) is not None]
    facts.cores_held.append(sum(count for _, count in parts))
    facts.cores_measured.append(sum(count for _, count in known))
    facts.cores_used.append(round(sum(use for use, _ in known), 3))


def _gpus_add(facts: Facts, node: Node, gpus: list[GpuRow], held: list[bool]) -> None:
    samples, unused = node.live_gpus, node.unused_gpus
    for (gpu, index, memory_mib, closed, shared, beside), is_held in zip(gpus, held, strict=True):
        sample = samples.get(str(index), {})
        used_mib = sample.get("memory_mib")
        facts.gpu_ids.append(gpu)
        facts.held.append(is_held)
        facts.closed.append(closed)
        facts.shared.append(shared)
        facts.beside.append(beside)
        facts.unused.append(unused.get(str(index)))
        facts.uses.append(sample.get("utilisation"))
        facts.memories.append(None if used_mib is None else round(100 * used_mib / memory_mib, 1))
