"""Act on the findings of a node's checks, and on an operator's answer to them (decision 0055).

A finding is `{subject, check, level, detail, remedy}`; its subject is the node or one GPU (`gpu:3`). `warn` is shown. `drain`
cordons its subject: no new job comes there. `fail` also stops what runs there, where it may run again. A cordon for what
may pass (heat, memory, a clock, the operator's own script) is lifted when the check is content; one for a fault of the
hardware stays until an operator has seen to it and resumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.cluster import followers
from portal.cluster.models import Gpu, Node, NodeEvent
from portal.cluster.services.contact import arrival_tell, node_touch
from portal.foundation.errors import BerthError, NotFound
from portal.foundation.events.services import node_wake, page_event
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from portal.people.tenants.models import User

STAYS = ("xid", "nvml", "ecc")
"""Checks whose cordon an operator lifts, by the first word of their names."""
NODE = "node"
REASON_CHARACTERS = 200
Finding = dict[str, Any]


def node_health_take(
    *, node: Node, findings: Sequence[Mapping[str, Any]], outside: Sequence[Mapping[str, Any]]
) -> None:
    """Take what a node tells of its health: the whole truth each time. The same again writes nothing, and reads nothing."""
    told = list({_key(each): _taken(each) for each in findings}.values())
    strangers = [{name: each[name] for name in ("gpu", "pid", "name")} for each in outside]
    if told == node.findings and strangers == node.outside:
        return
    with transaction.atomic():
        followers.node_lock(node=node)
        before = Node.objects.get(pk=node.pk)
        standing = {_key(each) for each in told}
        overruled = [key for key in before.overruled if key in standing]
        Node.objects.filter(pk=node.pk).update(findings=told, outside=strangers, overruled=overruled)
        known = {_key(each) for each in before.findings}
        NodeEvent.objects.bulk_create(
            NodeEvent(node=node, kind="check failed", detail=_words(each)[:300])
            for each in told
            if _key(each) not in known
        )
        _cordons_lift(before, standing)
        _cordon_all(before, [each for each in told if each["level"] != "warn" and _key(each) not in overruled], known)
        _outside_note(before, strangers)
        arrival_tell()
    node.findings, node.outside, node.overruled = told, strangers, overruled


def _taken(finding: Mapping[str, Any]) -> Finding:
    """Return a finding with the level that counts: one that may pass by itself stops no jobs, or it would do so often."""
    may_stop = finding["level"] != "fail" or _stays(finding["check"])
    return dict(finding) | ({} if may_stop else {"level": "drain"})


def _key(finding: Mapping[str, Any]) -> str:
    return f"{finding['subject']} {finding['check']}"


def _words(finding: Mapping[str, Any]) -> str:
    subject = finding["subject"]
    return finding["detail"] if subject == NODE else f"GPU {subject.removeprefix('gpu:')}: {finding['detail']}"


def _stays(check: str) -> bool:
    return check.partition(" ")[0] in STAYS


def _cordon_all(node: Node, findings: Iterable[Finding], known: Collection[str]) -> None:
    """Cordon the subjects of these findings, and stop what runs on those that failed."""
    for finding in findings:
        new = _node_cordon(node, finding) if finding["subject"] == NODE else _gpu_cordon(node, finding)
        if finding["level"] == "fail" and (new or _key(finding) not in known):
            indices = None if finding["subject"] == NODE else [int(finding["subject"].removeprefix("gpu:"))]
            followers.gpus_failed(node=node, indices=indices, detail=f"{node.name}: {_words(finding)}"[:220])


def _outweighs(check: str, before: str) -> bool:
    """Say whether a check's cordon takes the place of another's: one that stays, of one that passes by itself."""
    return bool(before) and _stays(check) and not _stays(before)


def _node_cordon(node: Node, finding: Finding) -> bool:
    row = Node.objects.get(pk=node.pk)
    if row.drained_at is not None and not _outweighs(finding["check"], row.drained_by_check):
        return False
    values = {
        "drained_at": row.drained_at or timezone.now(),
        "drain_reason": f"{finding['detail']} {finding['remedy']}"[:REASON_CHARACTERS],
        "drained_by_check": finding["check"],
    }
    Node.objects.filter(pk=node.pk).update(**values)
    NodeEvent.objects.create(node=node, kind="drained", detail=finding["detail"][:300])
    return True


def _gpu_cordon(node: Node, finding: Finding) -> bool:
    gpu = Gpu.objects.filter(node=node, index=int(finding["subject"].removeprefix("gpu:"))).first()
    if gpu is None or (gpu.cordoned_at is not None and not _outweighs(finding["check"], gpu.cordon_check)):
        return False
    values = {
        "cordoned_at": gpu.cordoned_at or timezone.now(),
        "cordon_check": finding["check"],
        "cordon_reason": finding["detail"],
        "cordon_remedy": finding["remedy"],
    }
    Gpu.objects.filter(pk=gpu.pk).update(**values)
    NodeEvent.objects.create(node=node, kind="GPU cordoned", detail=_words(finding)[:300])
    return True


def _cordons_lift(node: Node, standing: set[str]) -> None:
    """Lift the cordons for findings that have passed."""
    check = node.drained_by_check
    if check and not _stays(check) and f"{NODE} {check}" not in standing:
        Node.objects.filter(pk=node.pk).update(drained_at=None, drain_reason="", drained_by_check="")
        NodeEvent.objects.create(node=node, kind="resumed", detail=f"its check is content again: {check}")
    for gpu in Gpu.objects.filter(node=node, cordoned_at__isnull=False).exclude(cordon_check=""):
        if not _stays(gpu.cordon_check) and f"gpu:{gpu.index} {gpu.cordon_check}" not in standing:
            _gpu_open(gpu)
            detail = f"GPU {gpu.index}: its check is content again: {gpu.cordon_check}"
            NodeEvent.objects.create(node=node, kind="GPU resumed", detail=detail)


def _gpu_open(gpu: Gpu) -> None:
    Gpu.objects.filter(pk=gpu.pk).update(cordoned_at=None, cordon_check="", cordon_reason="", cordon_remedy="")


def _outside_note(node: Node, strangers: Sequence[Mapping[str, Any]]) -> None:
    used = {each["gpu"] for each in strangers}
    taken = Gpu.objects.filter(node=node, index__in=used, outside_since=None)
    begun = sorted(taken.values_list("index", flat=True))
    taken.update(outside_since=timezone.now())
    ended = Gpu.objects.filter(node=node, outside_since__isnull=False).exclude(index__in=used)
    over = sorted(ended.values_list("index", flat=True))
    ended.update(outside_since=None)
    for kind, indices, more in (
        ("GPU used outside", begun, ": by a process that Berth did not start"),
        ("GPU free again", over, ""),
    ):
        if indices:
            NodeEvent.objects.create(node=node, kind=kind, detail=f"GPU {', '.join(map(str, indices))}{more}")


@transaction.atomic
def gpu_cordon(*, node: Node, index: int, actor: User | None, reason: str) -> Gpu:
    """Give a GPU to no new job; jobs that have it go on."""
    if not reason.strip():
        raise BerthError("blank", "Say why, for those who find the GPU cordoned.", field="reason")
    gpu = _gpu_get(node, index)
    if gpu.cordoned_at is None:
        values = {"cordoned_at": timezone.now(), "cordon_reason": reason.strip()[:REASON_CHARACTERS]}
        Gpu.objects.filter(pk=gpu.pk).update(**values)
        _gpu_changed(
            node=node, index=index, actor=actor, kind="GPU cordoned", detail=reason.strip()[:REASON_CHARACTERS]
        )
    gpu.refresh_from_db()
    return gpu


@transaction.atomic
def gpu_resume(*, node: Node, index: int, actor: User | None) -> Gpu:
    """Give a GPU to jobs again; its present findings are set aside until its checks are content."""
    gpu = _gpu_get(node, index)
    if gpu.cordoned_at is not None:
        findings_overrule(node=node, subject=f"gpu:{index}")
        _gpu_open(gpu)
        _gpu_changed(node=node, index=index, actor=actor, kind="GPU resumed", detail="")
    gpu.refresh_from_db()
    return gpu


def findings_overrule(*, node: Node, subject: str) -> None:
    """Set aside what the checks of a subject find now: it cordons nothing until it was gone and came again."""
    row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    now = [_key(each) for each in row.findings if each["subject"] == subject]
    Node.objects.filter(pk=node.pk).update(overruled=sorted({*row.overruled, *now}))


def _gpu_get(node: Node, index: int) -> Gpu:
    gpu = Gpu.objects.filter(node=node, index=index).first()
    if gpu is None:
        raise NotFound("GPU")
    return gpu


def _gpu_changed(*, node: Node, index: int, actor: User | None, kind: str, detail: str) -> None:
    words = f"GPU {index}: {detail}" if detail else f"GPU {index}"
    NodeEvent.objects.create(node=node, kind=kind, detail=words, actor_name=actor.username if actor else "")
    action = "gpu.resume" if kind == "GPU resumed" else "gpu.cordon"
    audit_record(actor=actor, action=action, target=f"node:{node.pk}", detail={"gpu": index, "reason": detail})
    arrival_tell()


@transaction.atomic
def node_heartbeat_set(*, node: Node, actor: User | None, heartbeat_s: float) -> Node:
    """Say how often a node's agent reads its GPUs; it hears of it with its next list of parts."""
    if not 0.001 <= heartbeat_s <= 10.0:
        raise BerthError("out_of_range", "The heartbeat lies between 0.001 and 10 s.", field="heartbeat_s")
    Node.objects.filter(pk=node.pk).update(heartbeat_s=heartbeat_s)
    node_touch(node_id=node.pk)
    node_wake(node_id=node.pk)
    audit_record(actor=actor, action="node.heartbeat", target=f"node:{node.pk}", detail={"heartbeat_s": heartbeat_s})
    page_event(stream="cluster", topic="node")
    node.refresh_from_db()
    return node
