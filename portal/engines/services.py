"""Keep the words of a bridge on its partition and its orders; answer with the orders to carry out, and to end."""

from __future__ import annotations

import secrets
import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from portal.cluster.models import JoinToken, Node
from portal.cluster.services.contact import node_leave
from portal.cluster.services.joining import JOIN_PREFIX, is_over, join_token_spend, trust_flags
from portal.engines.models import Engine, EngineJob
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import page_event
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import audit_record, secret_digest
from workers.protocol.engine import MOST_REASON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workers.protocol.engine import Follow, Order

ENGINE_PREFIX, PILOT_PREFIX = "berthengine_", "berth-pilot-"
JOIN_WITHIN_S = 30 * 86_400
"""An order may wait in the other scheduler's queue for days before its agent joins."""
GONE_AFTER = timedelta(seconds=120)
"""An order that was not listed for so long, and whose node is not there, counts as ended."""
KEEP = timedelta(days=30)
S = EngineJob.State


def bridge_line(*, url: str, mode: Mapping[str, Any], secret: str, partition: str, gpus_max: int) -> str:
    """Return the whole command that attaches a partition. `mode`: as of `join_line`."""
    words = ["./berth", "bridge", "slurm", "--join", url, "--token", secret, "--partition", partition]
    return shlex.join([*words, "--gpus-max", str(gpus_max), *trust_flags(url=url, mode=mode)])


@transaction.atomic
def engine_attach(*, join_secret: str, description: Mapping[str, Any]) -> tuple[Engine, str]:
    """Attach a partition, or attach it anew; return it with the bridge's own token. Raises BerthError (401) and Conflict."""
    row = join_token_spend(join_secret)
    name = f"{description['cluster']}/{description['partition']}"[:100]
    known = Engine.objects.filter(name=name).first()
    if known is not None and known.detached_at is None and known.silent_since is None:
        raise Conflict(
            "name_taken",
            f"A bridge of {name} is in contact already. End it, or detach {name} in the console first.",
            field="partition",
        )
    secret = ENGINE_PREFIX + secrets.token_urlsafe(32)
    values = _described(description) | {
        "token_digest": secret_digest(secret),
        "token_revoked_at": None,
        "detached_at": None,
        "joined_by": row.created_by,
    }
    engine, _ = Engine.objects.update_or_create(name=name, defaults=values)
    audit_record(actor=row.created_by, action="engine.attach", target=f"engine:{engine.pk}", detail={"name": name})
    page_event(stream="cluster", topic="node")
    return engine, secret


def _described(description: Mapping[str, Any]) -> dict[str, Any]:
    names = ("kind", "cluster", "partition", "form", "version", "gpus_max", "gpus_per_pilot", "limit_s", "idle_s")
    tenant = None
    if wanted := description.get("tenant"):
        tenant = Tenant.objects.filter(name=wanted).first()
        if tenant is None:
            raise BerthError("unknown_tenant", f"There is no tenant {wanted}; see --tenant.", field="tenant")
    return {name: description[name] for name in names} | {"tenant": tenant}


@transaction.atomic
def engine_detach(*, engine: Engine, actor: Any) -> None:
    """Ask for nothing more there. Idle pilots are given back at once, others when their jobs end; then the bridge ends."""
    if Engine.objects.filter(pk=engine.pk, detached_at=None).update(detached_at=timezone.now()):
        audit_record(actor=actor, action="engine.detach", target=f"engine:{engine.pk}", detail={"name": engine.name})
        page_event(stream="cluster", topic="node")


def engine_let_go(*, engine: Engine) -> None:
    """Let the bridge of a detached partition call no more when nothing of it is left there."""
    if engine.detached_at is not None and not engine.jobs.open().exists():
        Engine.objects.filter(pk=engine.pk).update(token_revoked_at=timezone.now())


@transaction.atomic
def engine_seen(*, engine: Engine, body: Mapping[str, Any]) -> Engine:
    """Take in what the bridge saw. While the other scheduler is away nothing is concluded from silence."""
    now = timezone.now()
    row = Engine.objects.select_for_update().get(pk=engine.pk)
    for name, value in _described(body["engine"]).items():
        setattr(row, name, value)
    was_silent, row.last_contact_at = row.silent_since is not None, now
    away = body["away"]
    row.away_since = None if away is None else min(now, _moment(away["since"]) or now)
    row.away_reason = "" if away is None else away["reason"]
    if body["nodes"] is not None:
        row.nodes, row.nodes_at = body["nodes"], now
    for each in body["refused"]:
        _end(row.jobs.filter(name=each["name"]), each["reason"], now)
        row.refused_at, row.refused_reason = now, each["reason"]
    row.save()
    if away is None:
        _orders_take(row, body["orders"], now)
        _nodes_end(row)
    if was_silent != (row.silent_since is not None):
        page_event(stream="cluster", topic="node")
    return row


def _moment(unix: float | None) -> datetime | None:
    return None if unix is None else datetime.fromtimestamp(unix, tz=UTC)


def _orders_take(engine: Engine, orders: Sequence[Mapping[str, Any]], now: datetime) -> None:
    seen = {each["name"]: each for each in orders}
    for job in engine.jobs.open().select_related("node"):
        told = seen.get(job.name)
        if told is None:
            if job.state not in {S.WANTED, S.SENT} and now - (job.seen_at or job.made_at) > GONE_AFTER:
                _end_unless_there(job, "no longer listed", now)
        elif told["state"] == S.ENDED:
            _end_unless_there(job, told["reason"], now)
            if job.node_id is None and job.stop_at is None:
                why = f"{job.name} ended before its agent joined: {told['reason']}"
                Engine.objects.filter(pk=engine.pk).update(refused_at=now, refused_reason=why[:MOST_REASON])
                engine.refused_at = now
        else:
            moved = {"state": told["state"], "ticket": told["ticket"], "reason": told["reason"], "host": told["node"]}
            moved |= {"since": _moment(told.get("since")), "ends_at": _moment(told.get("ends_at")), "seen_at": now}
            EngineJob.objects.filter(pk=job.pk).update(**moved)


def _end_unless_there(job: EngineJob, reason: str, now: datetime) -> None:
    """End an order whose node is not there. The other scheduler may have forgotten it, or say the end of a second copy."""
    if job.node is None or job.node.dead_at is not None or not job.node.is_reachable:
        _end(EngineJob.objects.filter(pk=job.pk), reason, now)


def _nodes_end(engine: Engine) -> None:
    """Let the nodes of ended orders leave, when nothing of them can live: their agents were killed and did not sign off."""
    ended = engine.jobs.exclude(ended_at=None).filter(node__dead_at=None).exclude(node=None).select_related("node")
    for job in ended:
        is_last = not EngineJob.objects.filter(node=job.node, pk__gt=job.pk).exists()
        if is_last and is_over(job.node):
            node_leave(node=job.node, detail=f"its allocation ended ({job.reason})")


def _end(jobs: Any, reason: str, now: datetime) -> None:
    tokens = list(jobs.open().values_list("join_token", flat=True))
    jobs.open().update(state=S.ENDED, reason=reason, ended_at=now)
    JoinToken.objects.filter(pk__in=[each for each in tokens if each is not None]).delete()


@transaction.atomic
def orders_hand_out(*, engine: Engine) -> tuple[list[Order], list[Follow], list[Follow]]:
    """Return the orders to submit, to follow, and to end. They are noted as sent first: an answer may be lost."""
    EngineJob.objects.filter(engine=engine, ended_at__lt=timezone.now() - KEEP).delete()
    submit: list[Order] = []
    follow: list[Follow] = []
    stop: list[Follow] = []
    for job in engine.jobs.open().order_by("pk"):
        known: Follow = {"name": job.name, "ticket": job.ticket}
        if job.stop_at is not None:
            if job.state == S.WANTED:
                _end(EngineJob.objects.filter(pk=job.pk), "not needed any more", timezone.now())
                continue
            stop.append(known)
        elif job.state in {S.WANTED, S.SENT}:
            submit.append(_order(job))
        follow.append(known)
    return submit, follow, stop


def _order(job: EngineJob) -> Order:
    again = job.state == S.SENT
    EngineJob.objects.filter(pk=job.pk).update(state=S.SENT)
    return {
        "name": job.name,
        "again": again,
        "gpus": job.engine.gpus_per_pilot,
        "gpu_type": "",
        "cores": 0,
        "memory_mib": 0,
        "limit_s": job.engine.limit_s,
        "join_token": _join_secret(job.name),
    }


def _join_secret(name: str) -> str:
    """Return the secret with which an order's agent joins. It is made of the portal's own key, so it is the same each time."""
    return JOIN_PREFIX + salted_hmac("portal.engines", name).hexdigest()


@transaction.atomic
def pilots_order(*, engine: Engine, number: int, gpus: int) -> None:
    """Want so many more pilots, of so many GPUs each."""
    for _ in range(number):
        name = f"{PILOT_PREFIX}{secrets.token_hex(8)}"
        token = JoinToken.objects.create(
            digest=secret_digest(_join_secret(name)),
            takes_over=True,
            expires_at=timezone.now() + timedelta(seconds=JOIN_WITHIN_S),
            created_by=engine.joined_by,
        )
        EngineJob.objects.create(engine=engine, name=name, gpus=gpus, join_token=token)


def pilot_joined(*, node: Node, join_token: JoinToken) -> None:
    """Note that the agent of an order has joined as this node."""
    job = EngineJob.objects.select_related("engine").filter(join_token=join_token).first()
    if job is not None:
        Node.objects.filter(pk=node.pk).update(only_tenant=job.engine.tenant_id)
        gpus = node.gpus.filter(missing_since=None).count()
        EngineJob.objects.filter(pk=job.pk).update(node=node, idle_since=timezone.now(), gpus=gpus)
