"""A node joins, and says what it has; the console and `./berth join-token` print the line by which it joins."""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.cluster import followers
from portal.cluster.gpu_states import instance_of
from portal.cluster.models import Gpu, GpuType, JoinToken, Node, NodeEvent
from portal.cluster.services.contact import arrival_tell
from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import plan_nudge
from portal.people.tenants.services import audit_record, secret_digest

if TYPE_CHECKING:
    from portal.people.tenants.models import User


def join_line(*, url: str, mode: Mapping[str, Any], secret: str, name: str) -> str:
    """Return the whole command: with the node's name when the token is for one node only, and our authority's SHA-256.

    `mode` is what `./berth up` wrote of itself (empty elsewhere).
    """
    words = ["./berth", "node", "--join", url, "--token", secret, *(["--name", name] if name else [])]
    return shlex.join([*words, *trust_flags(url=url, mode=mode)])


def trust_flags(*, url: str, mode: Mapping[str, Any]) -> list[str]:
    """Return the flags by which a node or a bridge trusts this portal."""
    if mode.get("ca_sha256"):
        return ["--ca-sha256", mode["ca_sha256"]]
    return ["--insecure"] if url.startswith("http://") else []


CORDON = ("cordoned_at", "cordon_check", "cordon_reason", "cordon_remedy")
JOIN_PREFIX, NODE_PREFIX = "berthjoin_", "berthnode_"


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
    """Let no more nodes join with a token. Nodes that joined with it keep their own tokens."""
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
    """Make a GPU type, or change the given values of it. A change is audited, and the next planning uses it."""
    part = instance.share if (instance := instance_of(name)) else 1.0
    first = {"memory_mib": memory_mib, "relative_speed": part, "share_weight": part}
    row, created = GpuType.objects.get_or_create(name=name, defaults=first)
    if memory_mib is not None:
        row.memory_mib = memory_mib
    given = {"relative_speed": relative_speed, "share_weight": share_weight}
    before = {field: getattr(row, field) for field in given}
    for field, value in given.items():
        if value is None:
            continue
        if not 0 < value < math.inf:
            words = field.replace("_", " ")
            raise BerthError("invalid", f"The {words} must be a number above 0.", field=field)
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
    row, known = _join_token_use(join_secret, name=inventory["name"])
    if known is not None and row.takes_over and not is_over(known):
        inventory, known = _named_anew(inventory)
    name = inventory["name"]
    secret = NODE_PREFIX + secrets.token_urlsafe(32)
    values = _inventory_values(inventory, known) | {
        "token_digest": secret_digest(secret),
        "token_revoked_at": None,
        "joined_with": row,
        "is_allocation": row.takes_over,
        "greeted_at": None,
        "last_contact_at": timezone.now(),
        "dead_at": None,
        "left_at": None,
    }
    if known and (row.takes_over or known.boot_id != inventory["boot_id"]):
        followers.node_lost(node=known, detail=f"{name} joined again")
    node, created = Node.objects.update_or_create(name=name, defaults=values)
    _gpus_sync(node=node, gpus=_typed(inventory))
    NodeEvent.objects.create(node=node, kind="registered" if created else "registered again")
    audit_record(actor=row.created_by, action="node.register", target=f"node:{node.pk}", detail={"name": name})
    followers.node_described(node=node)
    followers.node_joined(node=node, join_token=row)
    arrival_tell()
    return node, secret


def join_token_spend(secret: str) -> JoinToken:
    """Lock a join token that is for any name, and count one use of it. Raises BerthError (401)."""
    row = JoinToken.objects.select_for_update().filter(digest=secret_digest(secret), node_name="").first()
    if row is None or row.expires_at < timezone.now() or row.uses_left < 1:
        raise _no_use()
    JoinToken.objects.filter(pk=row.pk).update(uses_left=F("uses_left") - 1)
    return row


def _no_use() -> BerthError:
    return BerthError("bad_token", "This join token is unknown, used up or expired; make a new one.", status=401)


def _join_token_use(secret: str, *, name: str) -> tuple[JoinToken, Node | None]:
    """Lock a join token and count one use of it; return it with the node `name`, if there is one already.

    Raises BerthError (401, the token does not serve for this node) and Conflict (another agent has the name).
    """
    row = JoinToken.objects.select_for_update().filter(digest=secret_digest(secret)).first()
    known = Node.objects.filter(name=name).first()
    # An agent that died before it kept the answer asks again with the same join token: that is the same joining.
    again = row is not None and known is not None and known.joined_with_id == row.pk and known.greeted_at is None
    if row is None or row.expires_at < timezone.now() or (row.uses_left < 1 and not again):
        raise _no_use()
    if row.node_name and row.node_name != name:
        raise BerthError(
            "bad_token",
            f"This join token is for node {row.node_name}, not {name}: start it with --name {row.node_name}.",
            status=401,
        )
    if known and known.token_revoked_at is None and not again and not (row.takes_over and known.is_allocation):
        raise Conflict(
            "name_taken",
            f"There is a node {name} already. Start this agent with another --name, or revoke that node's token first.",
            field="name",
        )
    if not again:
        JoinToken.objects.filter(pk=row.pk).update(uses_left=F("uses_left") - 1)
    return row, known


def is_over(known: Node) -> bool:
    """Say whether nothing of an allocation lives: it has left, or all its leases are over.

    The other scheduler may have forgotten an allocation that still runs, so its word that the GPUs are free is not enough.
    """
    leases = timedelta(seconds=env("BERTH_LEASE_S") + env("BERTH_LEASE_GRACE_S"))
    silent = known.last_contact_at is None or known.last_contact_at < timezone.now() - leases
    return known.left_at is not None or silent


def _named_anew(inventory: Mapping[str, Any]) -> tuple[Mapping[str, Any], Node | None]:
    """Return the inventory under a name that no allocation has now, and the node that had it before."""
    for number in count(2):
        name = f"{inventory['name']}.{number}"
        known = Node.objects.filter(name=name).first()
        if known is None or (known.is_allocation and is_over(known)):
            return {**inventory, "name": name}, known
    raise AssertionError


def _inventory_values(inventory: Mapping[str, Any], known: Node | None) -> dict[str, Any]:
    types = _types(inventory)
    return {
        "address": inventory["address"],
        "boot_id": inventory["boot_id"],
        "agent_version": inventory["agent_version"],
        "is_virtual": inventory["virtual"],
        "single_account": inventory["single_account"],
        "trusts_tenants": inventory["trusts_tenants"],
        "isolation": inventory.get("isolation") or {},
        "links": dict(inventory.get("links") or {}),
        "software": inventory.get("software") or {},
        "memory_traffic": dict(inventory.get("memory_traffic") or {}),
        "gpu_type": _own_type(inventory, types, known),
        "cores": inventory["cores"],
        "memory_mib": inventory["memory_mib"],
        "storage_domain": inventory.get("storage_domain") or f"node:{inventory['name']}",
        "ends_at": datetime.fromtimestamp(inventory["ends_at"], UTC) if "ends_at" in inventory else None,
    }


def _types(inventory: Mapping[str, Any]) -> dict[str, GpuType]:
    """Return the GPU types of an inventory by name, made where they are new."""
    memory: dict[str, int | None] = {inventory["gpu_type"]: None} if inventory.get("gpu_type") else {}
    for gpu in _typed(inventory):
        if memory.get(gpu["gpu_type"]) is None:
            memory[gpu["gpu_type"]] = gpu["memory_mib"]
    return {name: gpu_type_upsert(name=name, memory_mib=memory_mib) for name, memory_mib in memory.items()}


def _typed(inventory: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs of an inventory, each with its type."""
    return [{**gpu, "gpu_type": gpu.get("gpu_type") or inventory.get("gpu_type")} for gpu in inventory["gpus"]]


def _own_type(inventory: Mapping[str, Any], types: Mapping[str, GpuType], known: Node | None) -> GpuType | None:
    """Return the type that names the node. It stays while the node has a GPU of it, since promises go by it."""
    before = known.gpu_type if known is not None else None
    if before is not None and before.name in types:
        return before
    return types.get(inventory.get("gpu_type") or "")


def _gpus_sync(*, node: Node, gpus: Sequence[Mapping[str, Any]]) -> None:
    """Make the GPU rows match what the agent sees. A GPU that it no longer sees is marked, not deleted: it has a history.

    A cordon is of the card (`uuid`), not of its number: where one fell off the bus, the driver numbers the others anew.
    """
    cards = {row.uuid: {name: getattr(row, name) for name in CORDON} for row in Gpu.objects.filter(node=node)}
    renumbered, seen, types = [], [], dict(GpuType.objects.values_list("name", "pk"))
    for gpu in gpus:
        index, uuid = gpu["index"], gpu["uuid"]
        values = {"uuid": uuid, "memory_mib": gpu["memory_mib"], "missing_since": None}
        beside = types.get(gpu["gpu_type"])
        values["gpu_type_id"] = beside if beside != node.gpu_type_id else None
        row = Gpu.objects.filter(node=node, index=index).first()
        if row is not None and row.uuid != uuid and uuid in cards:
            values |= cards[uuid]
            renumbered.append(index)
        Gpu.objects.update_or_create(node=node, index=index, defaults=values)
        seen.append(index)
    Gpu.objects.filter(node=node, missing_since=None).exclude(index__in=seen).update(missing_since=timezone.now())
    if renumbered:
        _absent_keep(node, cards, now={gpu["uuid"] for gpu in gpus})
        numbers = ", ".join(map(str, sorted(renumbered)))
        detail = f"other cards are now GPU {numbers}; cordons went with the cards"[:300]
        NodeEvent.objects.create(node=node, kind="GPUs renumbered", detail=detail)


def _absent_keep(node: Node, cards: Mapping[str, Mapping[str, Any]], *, now: Collection[str]) -> None:
    """Keep cards that are gone, with their cordons, in the rows of numbers that no card has: they may come back."""
    rows = list(Gpu.objects.filter(node=node).exclude(missing_since=None).order_by("index"))
    kept = {row.uuid for row in rows}
    gone = iter([uuid for uuid in cards if uuid not in now and uuid not in kept])
    for row in rows:
        if row.uuid in now and (uuid := next(gone, None)) is not None:
            Gpu.objects.filter(pk=row.pk).update(uuid=uuid, **cards[uuid])


@transaction.atomic
def node_hello(*, node: Node, inventory: Mapping[str, Any]) -> Node:
    """Handle an agent's start: update the inventory. A new boot id ends at once all that ran here (invariant 2)."""
    followers.node_lock(node=node)
    # The fresh row: a second hello, sent again by an impatient agent, must not end what came after the first.
    rebooted = Node.objects.values_list("boot_id", flat=True).get(pk=node.pk) != inventory["boot_id"]
    Node.objects.filter(pk=node.pk).update(**_inventory_values(inventory, node), last_contact_at=timezone.now())
    Node.objects.filter(pk=node.pk, greeted_at=None).update(greeted_at=timezone.now())
    Node.objects.filter(pk=node.pk).exclude(left_at=None).update(dead_at=None, left_at=None)
    followers.node_back(node=node)
    node.refresh_from_db(fields=["gpu_type"])
    _gpus_sync(node=node, gpus=_typed(inventory))
    if rebooted:
        lost = followers.node_lost(node=node, detail=f"{node.name} rebooted")
        NodeEvent.objects.create(node=node, kind="rebooted", detail=f"{lost} parts of jobs lost")
    node.refresh_from_db()
    followers.node_described(node=node)
    arrival_tell()
    return node
