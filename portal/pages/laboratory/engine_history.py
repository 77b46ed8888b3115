"""The past of an attached partition in the laboratory: a trace of its operator's, and a simulation of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.pages.laboratory.checking import SimulationOrder, description_of
from portal.pages.laboratory.models import LabTrace
from portal.pages.laboratory.services import simulation_order, trace_add, trace_delete
from portal.pages.laboratory.sources.history import knobs_in_force
from portal.people.tenants.selectors import tenants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.engines.models import Engine
    from portal.pages.laboratory.models import Simulation
    from portal.people.tenants.models import Tenant, User

AGAINST = "fifo"


def engine_history_simulate(
    *, engine: Engine, days: int, nodes: Sequence[Mapping[str, Any]], records: bytes
) -> Simulation:
    """Keep the records of `sacct` as a trace, and queue its simulation on the partition's own nodes. Raises BerthError.

    It runs the rule in force and `fifo`. Only operators see it: it tells of jobs of people that Berth does not know.
    """
    owner, tenant = _owner(engine)
    policy, knobs = knobs_in_force()
    name = f"{engine.name[:60]}, {days} days until {timezone.now():%Y-%m-%d}"
    trace = trace_add(
        user=owner,
        tenant=tenant,
        name=name,
        form="sacct",
        content=records,
        origin=LabTrace.Origin.HISTORY,
        all_tenants=True,
    )
    order = SimulationOrder(
        name=name,
        policies=list(dict.fromkeys([policy, AGAINST])),
        trace=trace,
        cluster=description_of({"nodes": [_group(each) for each in nodes if each["cores"] and each["memory_mib"]]}),
        cluster_name=engine.name,
        knobs=knobs,
    )
    try:
        return simulation_order(user=owner, tenant=tenant, order=order)
    except BerthError:
        trace_delete(trace=trace, actor=owner)
        raise


def _owner(engine: Engine) -> tuple[User, Tenant]:
    """Return the operator who let the bridge in, and the tenant in whose laboratory the trace is kept."""
    owner = engine.joined_by
    if owner is None or not owner.is_active or not owner.is_operator:
        detail = "The operator who made this bridge's join token is gone. Attach the partition anew, with a new token."
        raise BerthError("no_owner", detail, status=409)
    tenants = [engine.tenant] if engine.tenant is not None else tenants_of(owner)
    if not tenants:
        raise BerthError("no_tenant", "There is no tenant yet. Make one in the console, and try again.", status=409)
    return owner, tenants[0]


def _group(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return nodes of one kind as a description of a cluster has them."""
    gpus = {name: count for name, count in kind["gpus"].items() if count}
    only = next(iter(gpus), None)
    has = {"gpus": gpus} if len(gpus) > 1 else {"gpu_type": only, "gpus": gpus[only]} if only else {}
    return {"count": kind["count"], **has, "cores": kind["cores"], "memory_gib": kind["memory_mib"] / 1024}
