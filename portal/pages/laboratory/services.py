"""Acts of users in the laboratory: bring traces, ask for simulations, cancel, share and delete them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.foundation.disk import disk_require
from portal.foundation.errors import BerthError, Conflict, Forbidden
from portal.pages.laboratory.checking import SimulationOrder, order_check, trace_measure
from portal.pages.laboratory.live import simulations_moved
from portal.pages.laboratory.models import LabTrace, SharedWith, Simulation
from portal.pages.laboratory.selectors import history_taken, simulations_waiting
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import role_of, work_check
from portal.people.tenants.services import audit_record
from portal.planning.rounds.settings.knobs import knobs_current

OPEN = (Simulation.State.QUEUED, Simulation.State.RUNNING)


def trace_add(
    *,
    user: User,
    tenant: Tenant,
    name: str,
    form: str,
    content: bytes,
    origin: str = LabTrace.Origin.UPLOAD,
    all_tenants: bool = False,
) -> LabTrace:
    """Keep a trace once its every line was read. Raises BerthError naming the file's line and column that is wrong."""
    disk_require()
    _member(user, tenant)
    name, knobs = _name(name), knobs_current()
    _length_check(content, limit_mib=knobs["laboratory_trace_mib"])
    jobs, span_s = trace_measure(form=form, content=content, most=knobs["laboratory_jobs"])
    about = {"name": name, "origin": origin, "all_tenants": all_tenants, "format": form, "jobs": jobs, "span_s": span_s}
    with transaction.atomic():
        _tenant_lock(tenant)
        _count_check(tenant, most=knobs["laboratory_traces"])
        packed = zlib.compress(content)
        trace: LabTrace = LabTrace.objects.create(
            tenant=tenant, owner=user, content=packed, size_bytes=len(content), **about
        )
        audit_record(actor=user, action="trace.add", target=f"trace:{trace.pk}", tenant=tenant, detail={"jobs": jobs})
    return trace


def _length_check(content: bytes, *, limit_mib: int) -> None:
    if len(content) > limit_mib * 2**20:
        detail = (
            f"The trace is too long: the laboratory takes at most {limit_mib} MiB. Cut it, or use ./berth simulate."
        )
        raise BerthError("too_large", detail, field="file", status=413)


def _count_check(tenant: Tenant, *, most: int) -> None:
    if LabTrace.objects.filter(tenant=tenant).count() >= most:
        raise Conflict("quota_exceeded", f"{tenant.name} keeps {most} traces already; delete one.", field="file")


def history_add(*, user: User, tenant: Tenant, days: float, name: str, within: Tenant | None = None) -> LabTrace:
    """Keep the jobs of the last days as a trace: the tenant's; every tenant's for an operator, unless `within` one."""
    everybody = user.is_operator and within is None
    return trace_add(
        user=user,
        tenant=tenant,
        name=name or f"the last {days:g} day{'s' if days != 1 else ''}",
        form="berth-jsonl",
        content=history_taken(tenant=None if everybody else tenant, days=days),
        origin=LabTrace.Origin.HISTORY,
        all_tenants=everybody,
    )


def trace_delete(*, trace: LabTrace, actor: User) -> None:
    """Delete a trace and its simulations. Raises Conflict while a simulation of it is open."""
    work_check(actor, trace.tenant)
    with transaction.atomic():
        rows = Simulation.objects.select_for_update().filter(trace=trace)
        if any(row.is_open for row in rows):
            raise Conflict("in_use", "A simulation of this trace waits or runs; cancel it first.")
        rows.delete()
        audit_record(actor=actor, action="trace.delete", target=f"trace:{trace.pk}", tenant=trace.tenant)
        trace.delete()


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The mark of a repeated request: the sender's key, and the digest of the body that came with it."""

    key: str = ""
    digest: str = ""


def simulation_known(*, user: User, request: RequestKey) -> Simulation | None:
    """The simulation that this request made before, if any. Raises Conflict where the key came with another body."""
    known = Simulation.objects.filter(owner=user, request_key=request.key).first() if request.key else None
    if known is not None and known.request_digest != request.digest:
        detail = "This Idempotency-Key was used with another body; use a new key for a new simulation."
        raise Conflict("idempotency_conflict", detail, field="Idempotency-Key")
    return known


def simulation_order(
    *, user: User, tenant: Tenant, order: SimulationOrder, request: RequestKey = RequestKey()
) -> Simulation:
    """Queue a simulation. Raises BerthError for an impossible one, Conflict above the tenant's limit."""
    disk_require()
    _member(user, tenant)
    order_check(user=user, order=order)
    try:
        return _queue(user, tenant, order, request)
    except IntegrityError:
        # Two requests with one key at once: the first to commit made it, the second answers with it.
        if known := simulation_known(user=user, request=request):
            return known
        raise


def _queue(user: User, tenant: Tenant, order: SimulationOrder, request: RequestKey) -> Simulation:
    with transaction.atomic():
        _tenant_lock(tenant)
        most = knobs_current()["laboratory_queue"]
        if Simulation.objects.filter(tenant=tenant, state__in=OPEN).count() >= most:
            detail = f"{tenant.name} has {most} simulations waiting or running; wait for one or cancel it."
            raise Conflict("quota_exceeded", detail)
        made = Simulation.objects.create(
            tenant=tenant,
            owner=user,
            name=_name(order.name),
            trace=order.trace,
            generator=order.generator,
            generated_jobs=order.generated_jobs,
            cluster=order.cluster,
            cluster_name=order.cluster_name,
            policies=list(order.policies),
            knobs=dict(order.knobs),
            seed=order.seed,
            until_h=order.until_h,
            progress=dict.fromkeys(order.policies, 0.0),
            request_key=request.key,
            request_digest=request.digest,
        )
        audit_record(actor=user, action="simulation.order", target=f"simulation:{made.pk}", tenant=tenant)
    return made


def simulation_cancel(*, simulation: Simulation, actor: User) -> None:
    """End it: at once when it waits; when it runs, its process stops within seconds. Raises Conflict when it has ended."""
    work_check(actor, simulation.tenant)
    now = timezone.now()
    rows = Simulation.objects.filter(pk=simulation.pk)
    queued = rows.filter(state=Simulation.State.QUEUED)
    running = rows.filter(state=Simulation.State.RUNNING)
    if not (
        queued.update(state=Simulation.State.CANCELLED, cancel_requested_at=now, ended_at=now)
        or running.update(cancel_requested_at=now)
    ):
        raise Conflict("terminal_state", "The simulation has ended already; there is nothing to cancel.")
    simulations_moved([simulation.pk, *simulations_waiting()])
    audit_record(
        actor=actor, action="simulation.cancel", target=f"simulation:{simulation.pk}", tenant=simulation.tenant
    )


def owned_share(*, row: LabTrace | Simulation, actor: User, shared_with: str) -> None:
    """Say who else sees it."""
    work_check(actor, row.tenant)
    if shared_with not in SharedWith.values:
        raise BerthError(
            "invalid", f"`shared_with` must be one of {', '.join(SharedWith.values)}.", field="shared_with"
        )
    trace = row if isinstance(row, LabTrace) else row.trace
    if shared_with == SharedWith.TENANT and trace is not None and trace.all_tenants:
        detail = "It holds jobs of every tenant, so only operators may see it."
        raise Forbidden(detail, field="shared_with")
    type(row).objects.filter(pk=row.pk).update(shared_with=shared_with)
    kind = "trace" if isinstance(row, LabTrace) else "simulation"
    told = {"with": shared_with}
    audit_record(actor=actor, action=f"{kind}.share", target=f"{kind}:{row.pk}", tenant=row.tenant, detail=told)


def simulation_delete(*, simulation: Simulation, actor: User) -> None:
    """Forget one that has ended."""
    work_check(actor, simulation.tenant)
    gone, _ = Simulation.objects.filter(pk=simulation.pk).exclude(state__in=OPEN).delete()
    if not gone:
        raise Conflict("in_use", "The simulation waits or runs; cancel it first.")
    audit_record(
        actor=actor, action="simulation.delete", target=f"simulation:{simulation.pk}", tenant=simulation.tenant
    )


def _tenant_lock(tenant: Tenant) -> None:
    """Two members at once do not pass a limit together."""
    Tenant.objects.select_for_update().get(pk=tenant.pk)


def _member(user: User, tenant: Tenant) -> None:
    if role_of(user=user, tenant=tenant) is None:
        raise Forbidden(f"You are not a member of {tenant.name}; choose one of your tenants.", field="tenant")
    work_check(user, tenant)


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise BerthError("invalid", "`name` must have 1 to 100 printable characters.", field="name")
    return name


def expire(*, keep_days: float) -> int:
    """Delete simulations that ended longer ago."""
    limit = timezone.now() - timedelta(days=keep_days)
    gone, _ = Simulation.objects.filter(ended_at__lt=limit).delete()
    return gone
