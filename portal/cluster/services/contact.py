"""Change a node at its contact with the portal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.cluster import followers
from portal.cluster.models import Node, NodeEvent
from portal.foundation.bulk import among
from portal.foundation.events.services import page_event, plan_nudge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

DISK_NOTED_SHARE = 200
"""A change of free disk by less than this part of the whole is not worth a write."""
KEEP_EVENTS = timedelta(days=90)
"""As long as telemetry: a check that comes and goes each minute makes thousands of events a day."""
CONTACT_EVERY_S = 2
"""The least time between two written contacts: agents call several times in it, and each write takes a lock."""


def node_seen(*, node: Node, live: dict[str, Any] | None = None, memory_share: float | None = None) -> None:
    """Note that a node called, its last sample, and its memory's traffic.

    One that had been unreachable is back: pages and planner hear of it.
    """
    now = timezone.now()
    fresh = node.last_contact_at and timedelta(0) <= now - node.last_contact_at < timedelta(seconds=CONTACT_EVERY_S)
    if fresh and live is None:
        return
    was_away = not node.is_reachable
    measured = {} if live is None else {"live": live, "memory_share": memory_share}
    Node.objects.filter(pk=node.pk).update(last_contact_at=now, **measured)
    if was_away:
        with transaction.atomic():
            followers.node_back(node=node)
            NodeEvent.objects.create(node=node, kind="back", detail="in contact again")
            arrival_tell()


def node_problems(*, node: Node, problems: Sequence[Mapping[str, Any]]) -> None:
    """Store the problems of a node. A new problem becomes an event in its history; the same problems write nothing."""
    known = {each["subject"]: each["detail"] for each in node.problems}
    told = {each["subject"]: each["detail"] for each in problems}
    if told == known:
        return
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(problems=list(problems))
        new = [detail for subject, detail in told.items() if subject not in known]
        NodeEvent.objects.bulk_create(NodeEvent(node=node, kind=NodeEvent.PROBLEM, detail=detail) for detail in new)
        page_event(stream="cluster", topic="node")


def node_disk_note(*, node: Node, disk: Mapping[str, Any]) -> None:
    """Store how full a node's disk is. Getting full, and having room again, are events. Small changes write nothing."""
    values = {f"disk_{name}": disk[name] for name in ("free_mib", "total_mib", "low")}
    same = node.disk_low == disk["low"] and node.disk_total_mib == disk["total_mib"]
    if same and abs((node.disk_free_mib or 0) - disk["free_mib"]) * DISK_NOTED_SHARE < disk["total_mib"]:
        return
    turned = Node.objects.filter(pk=node.pk).exclude(disk_low=disk["low"])
    with transaction.atomic():
        if turned.update(**values):
            kind, detail = ("disk almost full", "no new jobs") if disk["low"] else ("disk has room again", "")
            NodeEvent.objects.create(node=node, kind=kind, detail=detail or f"{disk['free_mib']} MiB free")
            arrival_tell()
        else:
            Node.objects.filter(pk=node.pk).update(**values)


def node_settled(*, node: Node) -> None:
    """Note that a node has said what runs on it, and that nothing does that is unknown here (after a restore)."""
    if Node.objects.filter(pk=node.pk, unsettled_since__isnull=False).update(unsettled_since=None):
        with transaction.atomic():
            NodeEvent.objects.create(node=node, kind="settled", detail="said what runs here since the restore")
            arrival_tell()


@transaction.atomic
def node_leave(*, node: Node, detail: str) -> None:
    """Note that an agent has ended, and all its parts with it: nobody waits for leases. Its next hello brings the node back."""
    followers.node_lock(node=node)
    now = timezone.now()
    Node.objects.filter(pk=node.pk, dead_at=None).update(dead_at=now, left_at=now)
    lost = followers.node_lost(node=node, detail=f"{node.name} left: {detail}")
    NodeEvent.objects.create(node=node, kind="left", detail=f"{detail}; {lost} parts lost"[:300])
    arrival_tell()


def node_touch(*, node_id: int) -> None:
    """Count a change of the node's parts. Its long poll then answers."""
    Node.objects.filter(pk=node_id).update(revision=F("revision") + 1)


def nodes_touch(*, node_ids: Iterable[int]) -> None:
    """Do the same as `node_touch` for many nodes, in one query."""
    Node.objects.filter(pk__in=among(node_ids)).update(revision=F("revision") + 1)


def node_events_expire(*, now: datetime | None = None) -> int:
    """Delete events that nodes reported over KEEP_EVENTS ago; people's own stay. Return how many events went."""
    limit = (now or timezone.now()) - KEEP_EVENTS
    gone, _ = NodeEvent.objects.filter(at__lt=limit, actor_name="").exclude(kind__startswith="registered").delete()
    return gone


def arrival_tell() -> None:
    page_event(stream="cluster", topic="node")
    plan_nudge()
