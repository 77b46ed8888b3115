"""Register nodes, hear from them, drain, resume and declare them dead."""

from __future__ import annotations

import math
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.bulk import among
from portal.cluster import followers
from portal.cluster.models import Gpu, GpuType, JoinToken, Node, NodeEvent
from portal.errors import BerthError, Conflict
from portal.events.services import node_wake, page_event, plan_nudge
from portal.tenants.services import audit_record, secret_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.tenants.models import User

JOIN_PREFIX, NODE_PREFIX = "berthjoin_", "berthnode_"
DISK_NOTED_SHARE = 200
"""A change of free disk by less than this part of the whole is not worth a write."""
CONTACT_EVERY_S = 2
"""A contact is written at most so often: agents call several times in that time, and each write takes a lock."""


@transaction.atomic
def join_token_create(
    *, actor: User | None, name: str | None = None, expires_in_s: float = 86400, uses: int = 1
) -> tuple[JoinToken, str]:
    """Make a token with which a machine may register; its secret is shown once."""
    if uses < 1:
        raise BerthError("invalid", "A join token needs at least one use.", field="uses")
    secret = JOIN_PREFIX + secrets.token_urlsafe(32)
    row = JoinToken.objects.create(
        digest=secret_digest(secret),
        node_name=name or "",
        uses_left=uses,
        expires_at=timezone.now() + timedelta(seconds=expires_in_s),
        created_by=actor,
    )
    audit_record(actor=actor, action="join-token.create", target=f"join-token:{row.pk}", detail={"node": name or "any"})
    return row, secret


@transaction.atomic
def join_token_revoke(*, join_token: JoinToken, actor: User | None) -> None:
    """Let nothing more join with a token; nodes that did keep theirs."""
    if JoinToken.objects.filter(pk=join_token.pk, uses_left__gt=0).update(uses_left=0):
        audit_record(actor=actor, action="join-token.revoke", target=f"join-token:{join_token.pk}")


@transaction.atomic
def gpu_type_upsert(
    *,
    name: str,
    memory_mib: int | None = None,
    relative_speed: float | None = None,
    share_weight: float | None = None,
    actor: User | None = None,
) -> GpuType:
    """Make a type or change what is given of it. A new speed or weight is audited and heeded by the next planning."""
    row, created = GpuType.objects.get_or_create(name=name, defaults={"memory_mib": memory_mib})
    if memory_mib is not None:
        row.memory_mib = memory_mib
    given = {"relative_speed": relative_speed, "share_weight": share_weight}
    before = {field: getattr(row, field) for field in given}
    for field, value in given.items():
        if value is None:
            continue
        if not 0 < value < math.inf:
            words = field.replace("_", " ")
            raise BerthError("invalid", f"A {words} is a number above 0.", field=field)
        setattr(row, field, value)
    row.save()
    changed = {field: [old, getattr(row, field)] for field, old in before.items() if getattr(row, field) != old}
    if created or changed:
        audit_record(actor=actor, action="gpu-type.set", target=f"gpu-type:{row.pk}", detail={"name": name, **changed})
        plan_nudge()
    return row


@transaction.atomic
def node_register(*, join_secret: str, inventory: Mapping[str, Any]) -> tuple[Node, str]:
    """Make a node from a join token and its inventory; return it with its own token."""
    row = JoinToken.objects.select_for_update().filter(digest=secret_digest(join_secret)).first()
    name = inventory["name"]
    known = Node.objects.filter(name=name).first()
    # An agent that died before it kept the answer asks again with the same join token: that is the same joining.
    again = row is not None and known is not None and known.joined_with_id == row.pk and known.greeted_at is None
    if row is None or row.expires_at < timezone.now() or (row.uses_left < 1 and not again):
        raise BerthError("bad_token", "This join token is unknown, used up or expired; make a new one.", status=401)
    if row.node_name and row.node_name != name:
        raise BerthError(
            "bad_token",
            f"This join token is for node {row.node_name}, not {name}: start it with --name {row.node_name}.",
            status=401,
        )
    if known and known.token_revoked_at is None and not again:
        raise Conflict(
            "name_taken",
            f"There is a node {name} already. Start this agent with another --name, or revoke that node's token first.",
            field="name",
        )
    if not again:
        JoinToken.objects.filter(pk=row.pk).update(uses_left=F("uses_left") - 1)
    secret = NODE_PREFIX + secrets.token_urlsafe(32)
    values = _inventory_values(inventory) | {
        "token_digest": secret_digest(secret),
        "token_revoked_at": None,
        "joined_with": row,
        "greeted_at": None,
        "last_contact_at": timezone.now(),
        "dead_at": None,
    }
    if known and known.boot_id != inventory["boot_id"]:
        followers.node_lost(node=known, detail=f"{name} joined again after a reboot")
    node, created = Node.objects.update_or_create(name=name, defaults=values)
    _gpus_sync(node=node, gpus=inventory["gpus"])
    NodeEvent.objects.create(node=node, kind="registered" if created else "registered again")
    audit_record(actor=row.created_by, action="node.register", target=f"node:{node.pk}", detail={"name": name})
    followers.node_described(node=node)
    _tell_arrival()
    return node, secret


def _inventory_values(inventory: Mapping[str, Any]) -> dict[str, Any]:
    gpu_type = None
    if inventory.get("gpu_type"):
        memory_mib = inventory["gpus"][0]["memory_mib"] if inventory["gpus"] else None
        gpu_type = gpu_type_upsert(name=inventory["gpu_type"], memory_mib=memory_mib)
    return {
        "address": inventory["address"],
        "boot_id": inventory["boot_id"],
        "agent_version": inventory["agent_version"],
        "is_virtual": inventory["virtual"],
        "single_account": inventory["single_account"],
        "trusts_tenants": inventory["trusts_tenants"],
        "isolation": inventory.get("isolation") or {},
        "links": dict(inventory.get("links") or {}),
        "gpu_type": gpu_type,
        "cores": inventory["cores"],
        "memory_mib": inventory["memory_mib"],
        "storage_domain": inventory.get("storage_domain") or f"node:{inventory['name']}",
    }


def _gpus_sync(*, node: Node, gpus: Sequence[Mapping[str, Any]]) -> None:
    """Make the GPU rows what the agent sees; one that it no longer sees is marked, never deleted (it has a history)."""
    seen = []
    for gpu in gpus:
        Gpu.objects.update_or_create(
            node=node,
            index=gpu["index"],
            defaults={"uuid": gpu["uuid"], "memory_mib": gpu["memory_mib"], "missing_since": None},
        )
        seen.append(gpu["index"])
    Gpu.objects.filter(node=node, missing_since=None).exclude(index__in=seen).update(missing_since=timezone.now())


def _tell_arrival() -> None:
    page_event(stream="cluster", topic="node")
    plan_nudge()


@transaction.atomic
def node_hello(*, node: Node, inventory: Mapping[str, Any]) -> Node:
    """Take an agent's start: refresh the inventory; a new boot id ends at once all that ran here (invariant 2)."""
    followers.node_lock(node=node)
    # The fresh row: a second hello, sent again by an impatient agent, must not end what came after the first.
    rebooted = Node.objects.values_list("boot_id", flat=True).get(pk=node.pk) != inventory["boot_id"]
    Node.objects.filter(pk=node.pk).update(**_inventory_values(inventory), last_contact_at=timezone.now())
    Node.objects.filter(pk=node.pk, greeted_at=None).update(greeted_at=timezone.now())
    followers.node_back(node=node)
    _gpus_sync(node=node, gpus=inventory["gpus"])
    if rebooted:
        lost = followers.node_lost(node=node, detail=f"{node.name} rebooted")
        NodeEvent.objects.create(node=node, kind="rebooted", detail=f"{lost} parts of jobs lost")
    node.refresh_from_db()
    followers.node_described(node=node)
    _tell_arrival()
    return node


def node_seen(*, node: Node, live: dict[str, Any] | None = None) -> None:
    """Note that a node called, and its last sample. One that had been unreachable is back: pages and planner are told."""
    now = timezone.now()
    fresh = node.last_contact_at and now - node.last_contact_at < timedelta(seconds=CONTACT_EVERY_S)
    if fresh and live is None:
        return
    was_away = not node.is_reachable
    measured = {} if live is None else {"live": live}
    Node.objects.filter(pk=node.pk).update(last_contact_at=now, **measured)
    if was_away:
        with transaction.atomic():
            followers.node_back(node=node)
            NodeEvent.objects.create(node=node, kind="back", detail="in contact again")
            _tell_arrival()


def node_problems(*, node: Node, problems: Sequence[Mapping[str, Any]]) -> None:
    """Keep what is wrong with a node; what is new becomes an event of its history. The same again writes nothing."""
    known = {each["subject"]: each["detail"] for each in node.problems}
    told = {each["subject"]: each["detail"] for each in problems}
    if told == known:
        return
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(problems=list(problems))
        new = [detail for subject, detail in told.items() if subject not in known]
        NodeEvent.objects.bulk_create(NodeEvent(node=node, kind="problem", detail=detail) for detail in new)
        page_event(stream="cluster", topic="node")


def node_disk_note(*, node: Node, disk: Mapping[str, Any]) -> None:
    """Keep what a node tells of its disk; one that runs full, or has room again, is an event. Small changes are no write."""
    values = {f"disk_{name}": disk[name] for name in ("free_mib", "total_mib", "low")}
    same = node.disk_low == disk["low"] and node.disk_total_mib == disk["total_mib"]
    if same and abs((node.disk_free_mib or 0) - disk["free_mib"]) * DISK_NOTED_SHARE < disk["total_mib"]:
        return
    turned = Node.objects.filter(pk=node.pk).exclude(disk_low=disk["low"])
    with transaction.atomic():
        if turned.update(**values):
            kind, detail = ("disk almost full", "no new jobs") if disk["low"] else ("disk has room again", "")
            NodeEvent.objects.create(node=node, kind=kind, detail=detail or f"{disk['free_mib']} MiB free")
            _tell_arrival()
        else:
            Node.objects.filter(pk=node.pk).update(**values)


def node_settled(*, node: Node) -> None:
    """Note that a node has said what runs on it, and that nothing does that is unknown here (after a restore)."""
    if Node.objects.filter(pk=node.pk, unsettled_since__isnull=False).update(unsettled_since=None):
        with transaction.atomic():
            NodeEvent.objects.create(node=node, kind="settled", detail="said what runs here since the restore")
            _tell_arrival()


def node_touch(*, node_id: int) -> None:
    """Count a change of what should run on a node; its long poll answers on it."""
    Node.objects.filter(pk=node_id).update(revision=F("revision") + 1)


def nodes_touch(*, node_ids: Iterable[int]) -> None:
    """The same of many nodes, in one query."""
    Node.objects.filter(pk__in=among(node_ids)).update(revision=F("revision") + 1)


@transaction.atomic
def node_drain(*, node: Node, actor: User | None, reason: str) -> Node:
    """Place nothing new on a node; what runs there ends by itself."""
    if not reason.strip():
        raise BerthError("blank", "Say why, for those who find the node drained.", field="reason")
    if node.drained_at is None:
        Node.objects.filter(pk=node.pk).update(drained_at=timezone.now(), drain_reason=reason.strip()[:200])
        _node_changed(node=node, actor=actor, kind="drained", detail=reason.strip()[:200])
    node.refresh_from_db()
    return node


@transaction.atomic
def node_describe(*, node: Node, actor: User | None, rack: str, label: str) -> Node:
    """Say where a node stands and what word it goes by: pages group by them, scheduling does not look at them."""
    found = {"rack": rack.strip(), "label": label.strip()}
    for name, value in found.items():
        if len(value) > 100:
            raise BerthError("too_long", f"A {name} has at most 100 characters.", field=name)
    Node.objects.filter(pk=node.pk).update(**found)
    audit_record(actor=actor, action="node.describe", target=f"node:{node.pk}", detail=found)
    page_event(stream="cluster", topic="node")
    node.refresh_from_db()
    return node


@transaction.atomic
def node_resume(*, node: Node, actor: User | None) -> Node:
    """Place jobs on a node again, whether it was drained or declared dead."""
    if node.drained_at or node.dead_at:
        Node.objects.filter(pk=node.pk).update(drained_at=None, drain_reason="", dead_at=None)
        _node_changed(node=node, actor=actor, kind="resumed", detail="")
    node.refresh_from_db()
    return node


@transaction.atomic
def node_declare_dead(*, node: Node, actor: User | None, reason: str) -> Node:
    """State that a node's processes are gone: everything it held is given back at once, without waiting for leases.

    Raises BerthError while the node is in contact: its jobs run, and would run twice.
    """
    if not reason.strip():
        raise BerthError("blank", "Say how you know that it is dead.", field="reason")
    followers.node_lock(node=node)
    node.refresh_from_db()
    if node.is_reachable:
        raise Conflict("node_reachable", f"{node.name} is in contact; drain it, or stop its agent and jobs first.")
    Node.objects.filter(pk=node.pk).update(dead_at=timezone.now())
    lost = followers.node_lost(node=node, detail=f"{node.name} was declared dead")
    _node_changed(node=node, actor=actor, kind="declared dead", detail=f"{reason.strip()[:200]}; {lost} parts lost")
    node.refresh_from_db()
    return node


@transaction.atomic
def node_token_revoke(*, node: Node, actor: User | None) -> Node:
    """Refuse every further call of a node's agent; it may join again with a new join token."""
    if node.token_revoked_at is None:
        Node.objects.filter(pk=node.pk).update(token_revoked_at=timezone.now())
        _node_changed(node=node, actor=actor, kind="token revoked", detail="")
    node.refresh_from_db()
    return node


def _node_changed(*, node: Node, actor: User | None, kind: str, detail: str) -> None:
    NodeEvent.objects.create(node=node, kind=kind, detail=detail, actor_name=actor.username if actor else "")
    audit_record(
        actor=actor, action=f"node.{kind.replace(' ', '-')}", target=f"node:{node.pk}", detail={"reason": detail}
    )
    node_touch(node_id=node.pk)
    node_wake(node_id=node.pk)
    _tell_arrival()
