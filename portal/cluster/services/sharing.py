"""Which GPUs jobs may share: an operator says it of one, a knob of a share of all. Only an idle GPU changes (a trigger)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from django.db import transaction

from portal.cluster.gpu_states import unheld
from portal.cluster.models import Gpu, Node, NodeEvent
from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.foundation.events.services import page_event, plan_nudge
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.people.tenants.models import User

Kept = Mapping[int, int]
"""By node, how many of its idle GPUs stay whole because they are kept for waiting jobs."""
_readers: list[Callable[[], Kept]] = []


def gpus_kept_by(reader: Callable[[], Kept]) -> None:
    """Look whether promises are kept before GPUs become shared. The room that knows of promises registers itself."""
    _readers.append(reader)


def _kept() -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for reader in _readers:
        for node, gpus in reader().items():
            found[node] += gpus
    return found


KINDS = {Gpu.Mode.SHARED: "may be shared", Gpu.Mode.EXCLUSIVE: "goes to one job at a time"}


@transaction.atomic
def gpu_mode_set(*, node: Node, index: int, mode: str, actor: User | None) -> Gpu:
    """Let jobs share an idle GPU, or hand it out whole; from now on the knob `shared_gpus` leaves it so.

    Raises Conflict where a job holds it, and where it would be shared and is kept for a waiting job.
    """
    if mode not in Gpu.Mode.values:
        raise BerthError("invalid_choice", f"A GPU is one of {', '.join(Gpu.Mode.values)}.", field="mode")
    Node.objects.select_for_update(no_key=True).filter(pk=node.pk).first()
    gpu = Gpu.objects.filter(node=node, index=index).first()
    if gpu is None:
        raise NotFound("GPU")
    if gpu.mode != mode and gpu.allocations.filter(released_at=None).exists():
        detail = (
            f"A job runs on GPU {index} of {node.name}; cordon the GPU, and try again when what runs on it has ended."
        )
        raise Conflict("gpu_in_use", detail, field="index")
    if mode == Gpu.Mode.SHARED != gpu.mode and _spare(node.pk, _kept()) < 1:
        detail = f"GPU {index} of {node.name} is kept for a waiting job; try again when that job has started."
        raise Conflict("gpu_kept", detail, field="index")
    Gpu.objects.filter(pk=gpu.pk).update(mode=mode, mode_by_operator=True)
    detail = f"GPU {index} {KINDS[Gpu.Mode(mode)]}"
    NodeEvent.objects.create(node=node, kind="GPU sharing", detail=detail, actor_name=actor.username if actor else "")
    audit_record(actor=actor, action="gpu.mode", target=f"node:{node.pk}", detail={"gpu": index, "mode": mode})
    page_event(stream="cluster", topic="node")
    plan_nudge()
    gpu.refresh_from_db()
    return gpu


def gpu_modes_balance(*, share: float) -> int:
    """Let jobs share so large a part of each type's GPUs, as far as idle ones can be changed; return how many were.

    Which, is always the same: the last GPUs of the last nodes are shared first, and handed out whole again last.
    """
    if share <= 0 and not Gpu.objects.filter(mode=Gpu.Mode.SHARED, mode_by_operator=False).exists():
        return 0
    rows: dict[str, list[tuple[int, str, bool]]] = defaultdict(list)
    alive = Gpu.objects.present().filter(node__dead_at=None).with_type().exclude(type_name=None)
    for pk, name, mode, by_operator in alive.order_by("node", "index").values_list(
        "pk", "type_name", "mode", "mode_by_operator"
    ):
        rows[name].append((pk, mode, by_operator))
    return sum(_balance(own, share) for own in rows.values())


def _balance(gpus: Sequence[tuple[int, str, bool]], share: float) -> int:
    """Balance the GPUs of one type, in the order of nodes and indices."""
    more = int(share * len(gpus) + 1e-9) - sum(mode == Gpu.Mode.SHARED for _, mode, _ in gpus)
    free = [(pk, mode) for pk, mode, by_operator in gpus if not by_operator]
    if more > 0:
        return _change([pk for pk, mode in reversed(free) if mode != Gpu.Mode.SHARED], Gpu.Mode.SHARED, more)
    return _change([pk for pk, mode in free if mode == Gpu.Mode.SHARED], Gpu.Mode.EXCLUSIVE, -more)


@transaction.atomic
def _change(candidates: Sequence[int], mode: str, most: int) -> int:
    """Change the first `most` of these that are idle, their nodes locked: nobody takes one meanwhile."""
    if not candidates or most <= 0:
        return 0
    free = dict(unheld(Gpu.objects.filter(pk__in=candidates)).values_list("pk", "node_id"))
    wanted = [pk for pk in candidates if pk in free]
    chosen = (_not_kept(wanted, free) if mode == Gpu.Mode.SHARED else wanted)[:most]
    nodes = Node.objects.select_for_update(no_key=True).filter(gpus__in=chosen).order_by("pk")
    list(nodes.values_list("pk", flat=True))
    changed = unheld(Gpu.objects.filter(pk__in=chosen)).update(mode=mode)
    if changed:
        page_event(stream="cluster", topic="node")
    return changed


def _not_kept(gpus: Sequence[int], nodes: Mapping[int, int]) -> list[int]:
    """Return those that may become shared: of a node no more than are idle there and kept for nobody. `nodes`: by GPU."""
    kept = _kept()
    left = {node: _spare(node, kept) for node in {nodes[pk] for pk in gpus} if node in kept}
    found = []
    for pk in gpus:
        node = nodes[pk]
        if left.get(node, 1) > 0:
            found.append(pk)
            if node in left:
                left[node] -= 1
    return found


def _spare(node: int, kept: Mapping[int, int]) -> int:
    """How many whole GPUs of a node that nobody holds are kept for nobody."""
    return unheld(Gpu.objects.filter(node=node, mode=Gpu.Mode.EXCLUSIVE)).count() - kept.get(node, 0)
