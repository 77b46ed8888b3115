"""Cores of a running attempt on one node: the cores within reach, the order to its node, and the acknowledgement.

Growing is reserved here first and ordered then. Shrinking is ordered first: the cores that leave stay in `core_ids`, held and
counted by all who count, until the node says that the order holds. So two parts never share a core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone

from portal.cluster.services import node_touch
from portal.foundation.events.services import node_wake, page_event, plan_nudge
from portal.work.jobs.models import Allocation, Attempt, CoreSearch, Promise
from portal.work.jobs.services.locks import attempt_lock, tenants_lock
from portal.work.jobs.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.cluster.models import Node
    from portal.people.tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class CorePlace:
    """A running attempt on one node, under lock: its part, its node, and the idle cores there that it may take."""

    attempt: Attempt
    part: Allocation
    node: Node
    idle: tuple[int, ...]


def core_place(*, attempt_id: int) -> CorePlace | None:
    """Lock an attempt's road and say what it could have; None where nothing can be ordered.

    That is: it no longer runs, is being stopped, is spread over nodes, has an order open, or its agent takes none. The caller
    holds a transaction. Idle are cores that no part holds, that no promise counts on, and that the tenant's quota leaves.
    """
    found = Attempt.objects.filter(pk=attempt_id).values_list("job__tenant_id", flat=True).first()
    if found is None:
        return None
    tenant = tenants_lock([found])[found]
    attempt = attempt_lock(attempt_id=attempt_id)
    parts = list(Allocation.objects.filter(attempt_id=attempt_id, released_at=None).select_related("node"))
    if attempt is None or attempt.state != AttemptState.RUNNING or attempt.stop_reason or len(parts) != 1:
        return None
    part = parts[0]
    if part.cores_acknowledged is None or part.cores_acknowledged != part.cores_sequence:
        return None
    return CorePlace(attempt, part, part.node, _idle(part.node, tenant))


def _idle(node: Node, tenant: Tenant) -> tuple[int, ...]:
    held = Allocation.objects.filter(node=node, released_at=None).values_list("core_ids", flat=True)
    used = {core for ids in held for core in ids}
    idle = [core for core in range(node.cores) if core not in used]
    shares = Promise.objects.values_list("shares", flat=True)
    promised = sum(cores for rows in shares for node_id, _, cores, *_ in rows if node_id == node.pk)
    most = len(idle) - promised
    if tenant.core_quota is not None:
        live = Attempt.objects.filter(job__tenant=tenant, ended_at=None).aggregate(n=Sum("cores"))
        most = min(most, tenant.core_quota - (live["n"] or 0))
    return tuple(idle[: max(0, most)])


def cores_order(*, place: CorePlace, cores: int, share: float = 1.0) -> bool:
    """Order this number of cores for the attempt, as `core_place` found it; False when it has them already.

    `share`: that it keeps of the memory bandwidth, or CPU time, that it takes; its node must be able to hold it to that.

    Raises ValueError for fewer than one, or more than there are.
    """
    held = tuple(place.part.core_ids)
    wanted = held[:cores] + place.idle[: max(0, cores - len(held))]
    if cores < 1 or len(wanted) != cores:
        raise ValueError(f"{cores} cores: the attempt has {len(held)} and may take {len(place.idle)}")
    if wanted == held and share == place.part.share:
        return False
    kept = wanted if cores > len(held) else held
    # A number that never comes again, also not in a database restored from a backup: a node acknowledges it by that.
    sequence = max(place.part.cores_sequence + 1, int(timezone.now().timestamp() * 1000))
    Allocation.objects.filter(pk=place.part.pk).update(
        core_ids=list(kept), core_ids_ordered=list(wanted), cores_sequence=sequence, share=share
    )
    Attempt.objects.filter(pk=place.attempt.pk).update(cores=len(kept))
    node_touch(node_id=place.node.pk)
    node_wake(node_id=place.node.pk)
    page_event(stream=f"job:{place.attempt.job_id}", topic="job", id=place.attempt.job_id)
    return True


def cores_acknowledge(*, parts: Sequence[tuple[Allocation, int]]) -> None:
    """Take note of which orders hold on a node: (part as it was read before, the order's number) of all that it named.

    Only the last order counts. Any other number is an older message's, or from a time that a restored database does not know;
    then the node follows the list that it gets, and names that list's number.
    """
    news = [part for part, sequence in parts if sequence == part.cores_sequence != part.cores_acknowledged]
    able = [part.pk for part in news if not part.cores_sequence]
    if able:  # its agent takes orders, and there was none yet
        untold = Allocation.objects.filter(pk__in=able, cores_sequence=0, cores_acknowledged=None)
        untold.update(cores_acknowledged=0)
    for part in news:
        if part.cores_sequence:
            _acknowledge(part, part.cores_sequence)


@transaction.atomic
def _acknowledge(part: Allocation, sequence: int) -> None:
    attempt = attempt_lock(attempt_id=part.attempt_id)
    live = Allocation.objects.filter(pk=part.pk, released_at=None, cores_sequence=sequence)
    fresh = live.exclude(cores_acknowledged=sequence).first()
    if attempt is None or fresh is None or fresh.core_ids_ordered is None:
        return
    freed = len(fresh.core_ids) - len(fresh.core_ids_ordered)
    live.update(cores_acknowledged=sequence, core_ids=fresh.core_ids_ordered)
    now = timezone.now()
    CoreSearch.objects.filter(attempt=attempt, done_at=None, since=None).update(since=now, due_at=now, ordered_at=None)
    if freed:
        Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(cores=F("cores") - freed)
        plan_nudge()
    page_event(stream=f"job:{attempt.job_id}", topic="job", id=attempt.job_id)
