"""Read the laboratory: a user's simulations and traces, and the cluster as it is now, as a description to simulate."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.cluster.models import GpuType, Node
from portal.cluster.selectors import gpus_by_type
from portal.foundation.errors import BerthError, NotFound
from portal.pages.laboratory.errors import CurvesError, SimulationError
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.sources.history import history_rows, restart_s_of
from portal.people.tenants.models import Tenant
from portal.people.tenants.selectors import tenants_of
from portal.work.jobs.models import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet

    from portal.people.tenants.models import User

SHOWN = 100
_NUMBER = re.compile(r"[1-9][0-9]{0,17}\Z", re.ASCII)


def simulations_for(*, user: User, tenant: Tenant | None = None) -> QuerySet[Simulation]:
    """The rows that the user may see; `tenant` narrows to the one that a token is restricted to."""
    rows = Simulation.objects.visible_to(user).within(tenant)
    return rows.select_related("tenant", "owner", "trace").defer("trace__content")


def traces_for(*, user: User, tenant: Tenant | None = None) -> QuerySet[LabTrace]:
    """The traces that the user may see, without their text; `tenant` as for simulations."""
    return LabTrace.objects.visible_to(user).within(tenant).select_related("tenant", "owner").defer("content")


def simulations_listed(user: User) -> QuerySet[Simulation]:
    """The newest that the user may see, without their answers."""
    return simulations_for(user=user).defer("curves", "figures", "trace__content")[:SHOWN]


def traces_listed(user: User) -> QuerySet[LabTrace]:
    return traces_for(user=user)[:SHOWN]


def simulation_get(*, user: User, number: int | str, tenant: Tenant | None = None) -> Simulation:
    """The simulation of a number. Missing, foreign, malformed: the same NotFound."""
    return _one(simulations_for(user=user, tenant=tenant), number, "simulation")


def trace_get(*, user: User, number: int | str, tenant: Tenant | None = None) -> LabTrace:
    return _one(traces_for(user=user, tenant=tenant), number, "trace")


def _one(rows: QuerySet[Any], number: int | str, what: str) -> Any:
    found = rows.filter(pk=int(number)).first() if _NUMBER.match(str(number)) else None
    if found is None:
        raise NotFound(what)
    return found


def acting_check(*, row: LabTrace | Simulation, user: User, verb: str) -> None:
    """Only its owner changes it; an operator may cancel a simulation that he sees. Raises NotFound for anybody else."""
    if row.owner_id != user.pk and not (verb == "cancel" and user.is_operator):
        raise NotFound("trace" if isinstance(row, LabTrace) else "simulation")


def tenant_chosen(*, user: User, name: str | None, only: Tenant | None = None) -> Tenant:
    """The tenant of that name among the user's; the only one where none is named. `only`: a restricted token's."""
    tenants = [each for each in tenants_of(user) if only is None or each.pk == only.pk]
    if not name and len(tenants) == 1:
        return tenants[0]
    for tenant in tenants:
        if tenant.name == name:
            return tenant
    names = ", ".join(each.name for each in tenants) or "none"
    raise BerthError("invalid", f"Choose one of your tenants: {names}.", field="tenant")


def simulations_ahead(simulation: Simulation) -> int:
    """How many wait or run before a queued one."""
    before = Simulation.objects.filter(pk__lt=simulation.pk, state=Simulation.State.QUEUED)
    running = Simulation.objects.filter(state=Simulation.State.RUNNING)
    return before.count() + running.count()


def simulations_open() -> bool:
    """Say whether any simulation waits, or runs and may have lost its worker."""
    return Simulation.objects.filter(state__in=(Simulation.State.QUEUED, Simulation.State.RUNNING)).exists()


def simulations_waiting() -> QuerySet[Simulation, int]:
    """The numbers of those that wait for their turn."""
    return Simulation.objects.filter(state=Simulation.State.QUEUED).values_list("pk", flat=True)


def curves_of(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """Policy -> what the plots show; {} until it has completed. Raises CurvesError."""
    packed = bytes(simulation.curves)
    try:
        return json.loads(zlib.decompress(packed)) if packed else {}
    except (zlib.error, ValueError) as error:  # zlib's checksum finds any damage
        raise CurvesError(simulation.pk) from error


def simulations_chosen(user: User, numbers: Sequence[int]) -> list[Simulation]:
    """Those of them that the user may see and that have an answer, in the order given."""
    rows = Simulation.objects.visible_to(user).filter(state=Simulation.State.COMPLETED).in_bulk(list(numbers))
    return [rows[number] for number in dict.fromkeys(numbers) if number in rows]


def cluster_described(*, user: User, tenant: Tenant | None = None) -> dict[str, Any]:
    """Return this cluster as a description: groups of equal nodes, the GPU types' relative speeds. {} without nodes.

    The length of a restart is the mean of the jobs that the user may see. For operators it has every tenant's weight and quota.
    `tenant`: the only one that the token is restricted to.
    """
    rows = Node.objects.alive().select_related("gpu_type", "speed").order_by("pk")
    nodes, gpus = (
        list(rows.only("storage_domain", "cores", "memory_mib", "gpu_type__name", "speed__factor")),
        gpus_by_type(),
    )
    domains = Counter(node.storage_domain for node in nodes)
    groups: dict[str, dict[str, Any]] = {}
    for node in nodes:
        group = _group(node, gpus.get(node.pk, {}), shared=domains[node.storage_domain] > 1)
        groups.setdefault(json.dumps(group), {"count": 0} | group)["count"] += 1
    if not groups:
        return {}
    speeds = {kind.name: kind for kind in GpuType.objects.all()}
    used = sorted({name for by_type in gpus.values() for name in by_type} & set(speeds))
    types = {name: {"speed": speeds[name].relative_speed, "weight": speeds[name].share_weight} for name in used}
    everybodys = user.is_operator and tenant is None
    tenants = [_tenant(each) for each in Tenant.objects.filter(is_active=True).order_by("pk")] if everybodys else []
    jobs = Job.objects.visible_to(user) if tenant is None else Job.objects.visible_to(user).filter(tenant=tenant)
    manners = {"restart_s": restart_s_of(jobs), "shared_storage": False}
    described = {"nodes": list(groups.values()), "gpu_types": types, "tenants": tenants, "manners": manners}
    return {name: part for name, part in described.items() if part}


def _group(node: Node, gpus: Mapping[str, int], *, shared: bool) -> dict[str, Any]:
    """A node as a group of nodes of its kind is described. `gpus`: by type; `shared`: another node reads its checkpoints too."""
    gpu_type = next(iter(gpus), None)
    several = {name: gpus[name] for name in sorted(gpus, key=lambda each: each != str(node.gpu_type))}
    speed = node.speed.factor if hasattr(node, "speed") else None
    return (
        ({"gpus": several} if len(gpus) > 1 else {"gpu_type": gpu_type, "gpus": gpus[gpu_type]} if gpu_type else {})
        | {"cores": node.cores, "memory_gib": round(node.memory_mib / 1024, 3)}
        | ({"speed": speed} if speed and speed != 1.0 else {})
        | ({"storage_domain": node.storage_domain} if shared and node.storage_domain else {})
    )


def _tenant(tenant: Tenant) -> dict[str, Any]:
    quotas = {"gpu_quota": tenant.gpu_quota, "core_quota": tenant.core_quota}
    return {"name": tenant.name, "weight": tenant.weight} | {k: v for k, v in quotas.items() if v is not None}


def history_taken(*, tenant: Tenant | None, days: float) -> bytes:
    """Return the jobs of the last days, the tenant's or (None) all, as lines of `berth-jsonl`. Raises BerthError."""
    tenants = None if tenant is None else [tenant.pk]
    try:
        rows = list(history_rows(days=days, now=timezone.now(), tenants=tenants))
    except SimulationError as error:
        raise BerthError("invalid", error.detail, field="days") from error
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
