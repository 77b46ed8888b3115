"""Read the cluster: its nodes and GPUs, and whether any set of nodes could ever hold a job."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Exists, Max, OuterRef, Prefetch

from portal.cluster import followers
from portal.cluster.gpu_states import ONE_EACH, instance_of, only_instances
from portal.cluster.models import Gpu, GpuType, NamedEnvironment, Node, NodeEvent
from portal.foundation.errors import BerthError, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from portal.people.tenants.models import User


def nodes_visible_to(user: User) -> Any:
    """Return a queryset of the nodes. Every signed-in user sees them all: users share them."""
    if not user.is_authenticated:
        return Node.objects.none()
    return Node.objects.select_related("gpu_type")


TOLD_TO_OPERATORS = "told to the operators"
TOLD_AT_LENGTH = "isolation links software memory_traffic problems live findings overruled outside".split()
"""The columns of JSON of a node: some hold thousands of characters."""


def nodes_listed_for(user: User) -> Any:
    """Return the same for a list of them, without nodes that left, and without the columns that are long."""
    return nodes_visible_to(user).listed().defer(*TOLD_AT_LENGTH)


def node_get(*, user: User, name: str) -> Node:
    node = nodes_visible_to(user).filter(name=name).first()
    if node is None:
        raise NotFound("node")
    return node


def nodes_with_gpus(user: User) -> Any:
    """Return a queryset of every node with `gpus_present`: its GPUs that the agent sees, by index. Two queries."""
    present = Gpu.objects.present().select_related("gpu_type").order_by("index")
    return nodes_visible_to(user).order_by("name").prefetch_related(Prefetch("gpus", present, to_attr="gpus_present"))


def nodes_unsettled() -> list[tuple[str, datetime]]:
    """Return the nodes that have not said what runs on them since a restore, and when that was. One query."""
    waited_for = Node.objects.alive().filter(unsettled_since__isnull=False, token_revoked_at=None).order_by("name")
    return list(waited_for.values_list("name", "unsettled_since"))


def node_events(*, limit: int, node: Node | None = None) -> list[NodeEvent]:
    """Return the latest events of all nodes or of one, the last first, with their node."""
    events = NodeEvent.objects.select_related("node")
    if node is not None:
        events = events.filter(node=node)
    return list(events[:limit])


def event_told(event: NodeEvent, user: User) -> tuple[str, str]:
    """Return an event's detail, and the person behind it ("" for Berth itself), as this user may read them.

    An agent's message to the operator can name any tenant's job, directory or file; operators' names are shown to operators.
    """
    if user.is_operator:
        return event.detail, event.actor_name
    detail = TOLD_TO_OPERATORS if event.kind == NodeEvent.PROBLEM and event.detail else event.detail
    return detail, "an operator" if event.actor_name else ""


def capacity_check(*, gpus: Sequence[int], gpu_types: Sequence[str], cores: int | None, memory_mib: int | None) -> None:
    """Refuse a job that no set of the registered nodes could ever hold, even empty; an empty registry refuses nothing.

    One configuration uses nodes of one GPU type, so the smallest requirement must fit the GPUs of some allowed type.
    """
    known = set(GpuType.objects.values_list("name", flat=True))
    for name in gpu_types:
        if known and name not in known:
            raise BerthError(
                "unknown_gpu_type", f"No GPU type {name!r} here; known: {', '.join(sorted(known))}.", field="gpu_types"
            )
    nodes = list(Node.objects.possible().only("cores", "memory_mib"))
    if not nodes:
        return
    smallest = min(gpus)
    if smallest > 0:
        _gpus_check(need=smallest, gpu_types=gpu_types)
    elif (cores or 1) > max(node.cores for node in nodes):
        most = max(node.cores for node in nodes)
        raise BerthError("unsatisfiable", f"The largest node has {most} cores; ask for at most that.", field="cores")
    if memory_mib and smallest <= 1 and memory_mib > max(node.memory_mib for node in nodes):
        most = max(node.memory_mib for node in nodes)
        raise BerthError(
            "unsatisfiable",
            f"The largest node has {most / 1024:.4g} GiB of memory ({most} MiB); ask for at most that.",
            field="memory_mib",
        )


def gpu_memory_check(*, gpu_types: Sequence[str], memory_mib: int | None) -> None:
    """Refuse a part of a GPU that no GPU of an allowed type has the memory for; an empty registry refuses nothing."""
    if memory_mib is None:
        return
    alive = Gpu.objects.present().filter(node__in=Node.objects.possible()).with_type().order_by()
    alive = alive.filter(type_name__in=gpu_types) if gpu_types else alive
    most = alive.aggregate(most=Max("memory_mib"))["most"]
    if most is not None and memory_mib > most:
        detail = f"The largest GPU of an allowed type has {most / 1024:.4g} GiB of memory ({most} MiB); ask for at most that."
        raise BerthError("unsatisfiable", detail, field="gpu_memory_mib")


def software_offered() -> list[dict[str, Any]]:
    """Return the software that each living node reports."""
    return list(Node.objects.possible().values_list("software", flat=True))


def software_told() -> dict[str, dict[str, Any]]:
    """Return the same by the node's name."""
    return dict(Node.objects.alive().values_list("name", "software"))


def environments_named() -> dict[str, str]:
    """Return the directory of each software environment that an operator named for all nodes."""
    return dict(NamedEnvironment.objects.values_list("name", "directory"))


def _gpus_check(*, need: int, gpu_types: Sequence[str]) -> None:
    alive = Gpu.objects.present().filter(node__dead_at=None, node__is_allocation=False)
    by_type = Counter(
        dict(alive.with_type().exclude(type_name=None).order_by().values_list("type_name").annotate(n=Count("pk")))
    )
    for engine in followers.gpus_may_come():
        by_type.update(engine)
    if not by_type and not Node.objects.possible().exclude(gpu_type=None).exists():
        raise BerthError("unsatisfiable", "No node here has a GPU; ask for gpus: 0.", field="gpus")
    allowed = [name for name in by_type if not gpu_types or name in gpu_types]
    most = max((by_type[name] for name in allowed if need == 1 or not instance_of(name)), default=0)
    if need > most and only_instances(allowed):
        detail = f"The job needs {need} GPUs, and all that it may use are instances (MIG): {ONE_EACH}. Ask for gpus: 1."
        raise BerthError("unsatisfiable", detail, field="gpus")
    if need > most:
        raise BerthError(
            "unsatisfiable",
            f"The job needs {need} GPU{'s' if need != 1 else ''} of one type at least; "
            f"the most there are of an allowed type is {most}.",
            field="gpus",
        )


def gpu_type_names() -> list[str]:
    """Return the GPU types that some living node has, or an allocation that may come again."""
    beside = Gpu.objects.filter(gpu_type=OuterRef("pk"), node__in=Node.objects.possible())
    own = Node.objects.possible().filter(gpu_type=OuterRef("pk"))
    return list(GpuType.objects.filter(Exists(own) | Exists(beside)).values_list("name", flat=True))


def gpus_by_type() -> dict[int, dict[str, int]]:
    """Return how many GPUs of each type the agent of each node sees, by node id, the most first. One query."""
    rows = Gpu.objects.present().with_type().order_by().values_list("node_id", "type_name").annotate(n=Count("pk"))
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for node, name, count in sorted(rows, key=lambda row: (row[0], -row[2], row[1] or "")):
        if name is not None:
            found[node][name] = count
    return found
