"""Act for an operator on a node: drain, resume, describe, declare dead, revoke its token; and on named environments.

All nodes get each change of a named software environment with their next lists of parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from portal.cluster import followers
from portal.cluster.models import NamedEnvironment, Node, NodeEvent
from portal.cluster.services.contact import arrival_tell, node_touch
from portal.cluster.services.health import NODE, findings_overrule
from portal.foundation import checks
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import node_wake, page_event
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from portal.people.tenants.models import User


@transaction.atomic
def node_drain(*, node: Node, actor: User | None, reason: str) -> Node:
    """Let no new job start on a node. Its running jobs end by themselves."""
    if not reason.strip():
        raise BerthError("blank", "Say why, for those who find the node drained.", field="reason")
    if node.drained_at is None or node.drained_by_check:
        values = {"drained_by_check": ""} if node.drained_at else {"drained_at": timezone.now(), "drained_by_check": ""}
        Node.objects.filter(pk=node.pk).update(**values, drain_reason=reason.strip()[:200])
        _node_changed(node=node, actor=actor, kind="drained", detail=reason.strip()[:200])
    node.refresh_from_db()
    return node


@transaction.atomic
def node_describe(*, node: Node, actor: User | None, rack: str, label: str) -> Node:
    """Set a node's rack and label. Pages group nodes by them; jobs over several nodes keep to one rack where they can."""
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
def node_tuning(*, node: Node, actor: User | None, allowed: bool) -> Node:
    """Say whether the cores of jobs that run on a node may be tuned; searches there end at their next step."""
    if node.tunes_cores != allowed:
        Node.objects.filter(pk=node.pk).update(tunes_cores=allowed)
        detail = "may be tuned" if allowed else "are left as they are"
        _node_changed(node=node, actor=actor, kind="core tuning", detail=f"The cores of jobs here {detail}.")
    node.refresh_from_db()
    return node


@transaction.atomic
def node_resume(*, node: Node, actor: User | None) -> Node:
    """Place jobs on a node again, whether it was drained or declared dead."""
    if node.drained_at or node.dead_at:
        findings_overrule(node=node, subject=NODE)
        Node.objects.filter(pk=node.pk).update(
            drained_at=None, drain_reason="", drained_by_check="", dead_at=None, left_at=None
        )
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
    arrival_tell()


MOST_ENVIRONMENTS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


@transaction.atomic
def environment_add(*, name: str, directory: str, note: str = "", actor: User | None) -> NamedEnvironment:
    """Name an environment. Raises BerthError for a wrong value, Conflict where the name is taken."""
    if not _NAME.match(name):
        raise BerthError("bad_name", "A name is 1 to 63 letters, digits and `._-`.", field="name")
    if NamedEnvironment.objects.count() >= MOST_ENVIRONMENTS:
        raise BerthError("too_many", f"There are {MOST_ENVIRONMENTS} environments, the most; remove one first.")
    try:
        with transaction.atomic():
            made = NamedEnvironment.objects.create(name=name, **_checked(directory, note))
    except IntegrityError:
        raise Conflict("name_taken", f"There is an environment {name} already.", field="name") from None
    _changed("add", made, actor, {"directory": made.directory})
    return made


@transaction.atomic
def environment_change(
    *, environment: NamedEnvironment, directory: str, note: str, actor: User | None
) -> NamedEnvironment:
    """Change its directory and its note. Jobs that run in it go on. Raises BerthError."""
    row = NamedEnvironment.objects.select_for_update().get(pk=environment.pk)
    values = _checked(directory, note)
    detail = {name: [getattr(row, name), value] for name, value in values.items() if getattr(row, name) != value}
    if detail:
        for name, value in values.items():
            setattr(row, name, value)
        row.save()
        _changed("change", row, actor, detail)
    return row


@transaction.atomic
def environment_remove(*, environment: NamedEnvironment, actor: User | None) -> None:
    """Name it no more. Its files stay on the nodes; waiting jobs that ask for it say why they wait."""
    NamedEnvironment.objects.filter(pk=environment.pk).delete()
    _changed("remove", environment, actor, {"directory": environment.directory})


def _checked(directory: str, note: str) -> dict[str, str]:
    path = checks.text(directory, "directory", max_chars=1024).rstrip("/")
    if not path.startswith("/") or ".." in path.split("/") or ":" in path:
        detail = "Give an absolute directory below /, without `..` and `:`, as in /opt/torch."
        raise BerthError("path_escape", detail, field="directory")
    checks.credentials_refuse(note, "note")
    return {"directory": path, "note": checks.text(note, "note", max_chars=200, blank=True)}


def _changed(verb: str, environment: NamedEnvironment, actor: User | None, detail: dict[str, Any]) -> None:
    """Record it, and let all nodes' long polls answer."""
    audit_record(
        actor=actor,
        action=f"environment.{verb}",
        target=f"environment:{environment.name}",
        detail={"name": environment.name, **detail},
    )
    Node.objects.alive().update(revision=F("revision") + 1)
    for pk in Node.objects.alive().values_list("pk", flat=True):
        node_wake(node_id=pk)
    page_event(stream="cluster", topic="node")
