"""Cores of running attempts (algorithms, section 8): orders for other ones, and results kept for the owners' later jobs.

Growing is reserved here first and ordered then. Shrinking is ordered first: the cores that leave stay in `core_ids`, held and
counted by all who count, until the node says that the order holds. So two parts never share a core.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F, Max, Sum
from django.utils import timezone

from portal.cluster.services.contact import node_touch
from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.foundation.events.services import node_wake, page_event, plan_nudge
from portal.work.jobs.declaration.table import MAX_CORES
from portal.work.jobs.models import Allocation, Attempt, CoreSearch, CoreTuning, Promise
from portal.work.jobs.services.locks import attempt_lock, tenants_lock
from portal.work.jobs.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from portal.cluster.models import Node
    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.models import Job


PAST, SHOWN = 200, 8
"""The most of an owner's latest results that are looked through, and that are shown."""


def core_tuning_record(*, job: Job, cores_per_gpu: int, steps: int = 0) -> CoreTuning:
    """Store the cores per GPU that suit a job best; a later result of the same job replaces the earlier.

    `steps`: how many settings were measured; 0 = the number was given by hand. Raises BerthError for a CPU job and for a
    number that is none.
    """
    if list(job.gpus) == [0]:
        raise BerthError("not_for_cpu_jobs", "A CPU job has no cores per GPU to tune.", field="job")
    values = {
        "owner_id": job.owner_id,
        "category": job.category or "",
        "cores_per_gpu": checks.whole(cores_per_gpu, "cores_per_gpu", 1, MAX_CORES),
        "steps": checks.whole(steps, "steps", 0, 1000),
        "tuned_at": timezone.now(),
    }
    return CoreTuning.objects.update_or_create(job=job, defaults=values)[0]


def cores_tuned(*, owner_ids: Iterable[int] | None = None) -> dict[int, dict[str | None, int]]:
    """Return, by owner, the largest tuned number per category of its past jobs (None = no category). One query."""
    rows = CoreTuning.objects.all() if owner_ids is None else CoreTuning.objects.filter(owner_id__in=set(owner_ids))
    found: dict[int, dict[str | None, int]] = defaultdict(dict)
    for owner, category, most in rows.values_list("owner_id", "category").annotate(most=Max("cores_per_gpu")):
        found[owner][category or None] = most
    return dict(found)


def cores_past(*, owner: User, tenant: Tenant, category: str, label: str) -> tuple[list[int], bool]:
    """Return the cores a GPU that were found for the owner's latest jobs in the tenant with this label, and True; where none
    has it those of the category ("": without one), and False. The last first, those set by hand left out. One query.
    """
    rows = CoreTuning.objects.filter(owner=owner, job__owner=owner, job__tenant=tenant, steps__gt=0)
    found = rows.order_by("-tuned_at").values_list("category", "job__model", "cores_per_gpu")[:PAST]
    same = [cores for _, model, cores in found if label and model == label]
    alike = [cores for kind, _, cores in found if kind == category]
    return (same or alike)[:SHOWN], bool(same)


def cores_tuned_since(moment: datetime) -> list[int]:
    """Return the tuned cores per GPU of every job tuned since then, for the arrays' division (section 4)."""
    rows = CoreTuning.objects.filter(tuned_at__gte=moment).order_by("pk")
    return list(rows.values_list("cores_per_gpu", flat=True))


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
