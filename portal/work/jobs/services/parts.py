"""Nodes' reports about their parts of attempts. Every message is fenced by (attempt key, epoch, rank, sequence)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.contact import node_settled
from portal.foundation.events.services import page_event
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation
from portal.work.jobs.services.asked.bringing import commit_note
from portal.work.jobs.services.changes import job_move
from portal.work.jobs.services.control import nodes_wake
from portal.work.jobs.services.cores import cores_acknowledge
from portal.work.jobs.services.ending import attempt_settle, ended_unheard, loss_make_good
from portal.work.jobs.services.events import neighbours_tell
from portal.work.jobs.services.locks import attempt_lock
from portal.work.jobs.services.preempting import overran_note, restart_measure
from portal.work.jobs.states import AttemptState, JobState, StopReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

log = logging.getLogger(__name__)

Key = dict[str, str | int]
FORGOTTEN_S = 30
"""The time without a lease in which a node did not name a part, after which it counts as lost."""


@contextmanager
def each_apart(what: str) -> Iterator[None]:
    """Do one of many: an error in it is logged, and the others are done. A database that is away ends them all."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("failed: %s", what)


def report_apply(
    *, node: Node, reports: Iterable[Mapping[str, Any]], holding: Iterable[Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Apply a node's reports in order, then renew the leases of its parts. Returns the answer's four lists.

    A report that we fail over is in none of them.
    """
    answer: dict[str, list[dict[str, Any]]] = {"accepted": [], "refused": [], "leases": [], "stop": []}
    reports, holding = list(reports), list(holding)
    mine = _parts_of(node=node, keys={each["attempt"] for each in (*reports, *holding)})
    for report in reports:
        with each_apart(f"a report of {node.name} about attempt {report['attempt']}"):  # it is sent again
            code = _refusal(mine, report) or _report_one(node=node, report=report)
            entry = {**_key_of(report), "sequence": report["sequence"]}
            if code:
                answer["refused"].append({**entry, "code": code})
            else:
                answer["accepted"].append(entry)
    if answer["refused"]:
        Node.objects.filter(pk=node.pk).update(refused_messages=F("refused_messages") + len(answer["refused"]))
    orders = []
    for item in holding:
        known = mine.get((item["attempt"], item["rank"]))
        if known is None or known.released_at is not None:
            answer["stop"].append(_key_of(item))
        else:
            _hold_one(node=node, key=_key_of(item), answer=answer)
            if item.get("cores_sequence") is not None:
                orders.append((known, int(item["cores_sequence"])))
            if (ports := item.get("ports")) is not None and ports != known.ports:
                _ports_note(known, ports)
    cores_acknowledge(parts=orders)
    _forgotten_end(node=node, known={(each["attempt"], each["epoch"], each["rank"]) for each in (*reports, *holding)})
    if node.unsettled_since is not None and not answer["stop"]:
        node_settled(node=node)
    return answer


def _ports_note(part: Allocation, ports: list[int]) -> None:
    Allocation.objects.filter(pk=part.pk, released_at=None).update(ports=ports)
    page_event(stream=f"job:{part.attempt.job_id}", topic="job", id=part.attempt.job_id)


def _key_of(named: Mapping[str, Any]) -> Key:
    """Return a part's name in the agents' protocol."""
    return {name: named[name] for name in ("attempt", "epoch", "rank")}


def _parts_of(*, node: Node, keys: Collection[Any]) -> dict[tuple[Any, Any], Allocation]:
    """Return the node's parts of these attempts by (attempt key, rank). One query: a node may name many that are gone.

    For none of them Django would make the query all the same, and find that it need not be asked.
    """
    if not keys:
        return {}
    parts = Allocation.objects.filter(node=node, attempt__key__in=list(keys)).select_related("attempt")
    return {(part.attempt.key, part.rank): part for part in parts}


def _refusal(mine: Mapping[tuple[Any, Any], Allocation], report: Mapping[str, Any]) -> str | None:
    """Return why a report is refused by the state before this message; None: it must be looked at under lock.

    Such a refusal stays right: a part that ended stays ended, and a sequence only grows. A good end of a lost part is looked at.
    """
    part = mine.get((report["attempt"], report["rank"]))
    if part is None:
        return "unknown_part"
    if part.attempt.epoch != report["epoch"]:
        return None
    if part.state == Allocation.State.ENDED or part.attempt.ended_at is not None:
        return None if ended_unheard(part=part, report=report) else "ended"
    return "stale_sequence" if report["sequence"] <= part.sequence else None


@transaction.atomic
def _report_one(*, node: Node, report: Mapping[str, Any]) -> str | None:
    """Apply one report; return why it was refused, or None."""
    mine = Allocation.objects.filter(attempt__key=report["attempt"], rank=report["rank"], node=node)
    attempt_id = mine.values_list("attempt_id", flat=True).first()
    attempt = attempt_lock(attempt_id=attempt_id) if attempt_id is not None else None
    part = mine.first()
    if attempt is None or part is None:
        return "unknown_part"
    if attempt.epoch != report["epoch"]:
        return "stale_epoch"
    if part.state == Allocation.State.ENDED or attempt.ended_at is not None:
        good = ended_unheard(part=part, report=report) and loss_make_good(attempt=attempt, part=part)
        return None if good else "ended"
    # The conditional update is the fence: a repeated or overtaken message changes no row.
    if not Allocation.objects.filter(pk=part.pk, sequence__lt=report["sequence"]).update(sequence=report["sequence"]):
        return "stale_sequence"
    part.sequence = report["sequence"]
    {"prepared": _prepared, "running": _running, "ended": _ended}[report["state"]](attempt, part, report)
    return None


def _prepared(attempt: Attempt, part: Allocation, report: Mapping[str, Any]) -> None:
    wanted = Allocation.objects.filter(pk=part.pk, state=Allocation.State.WANTED)
    wanted.update(state=Allocation.State.PREPARED, missed_at=None)
    if not attempt.allocations.filter(state=Allocation.State.WANTED).exists():
        nodes_wake(attempt=attempt)


def _running(attempt: Attempt, part: Allocation, report: Mapping[str, Any]) -> None:
    Allocation.objects.filter(pk=part.pk).update(state=Allocation.State.RUNNING, pid=report.get("pid"), missed_at=None)
    if report.get("commit") and not commit_note(attempt=attempt, commit=report["commit"]):
        detail = f"its parts fetched different commits of its code: {attempt.commit[:12]} and {report['commit'][:12]}"
        part_end(attempt=attempt, part=part, reason="start_failed", detail=detail)
        return
    if attempt.allocations.filter(state__in=[Allocation.State.WANTED, Allocation.State.PREPARED]).exists():
        return
    now = timezone.now()
    moved = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.STARTING).update(
        state=AttemptState.RUNNING, started_at=now
    )
    if moved and attempt.is_profile:
        page_event(stream=f"job:{attempt.job_id}", topic="job", id=attempt.job_id)
    elif moved:
        restart_measure(attempt=attempt)
        names = ", ".join(attempt.allocations.values_list("node__name", flat=True))
        job_move(job_id=attempt.job_id, to=JobState.RUNNING, kind="started", text=f"Runs on {names}.")


def _ended(attempt: Attempt, part: Allocation, report: Mapping[str, Any]) -> None:
    told, now = datetime.fromtimestamp(report.get("at") or 0, UTC), timezone.now()
    if report.get("overran"):
        overran_note(attempt=attempt)
    part_end(
        attempt=attempt,
        part=part,
        reason=report.get("reason") or "exit",
        exit_code=report.get("exit_code"),
        signal=report.get("signal"),
        detail=report.get("detail") or "",
        at=told if attempt.created_at <= told <= now else now,  # else its node's clock is wrong
    )


def part_end(
    *,
    attempt: Attempt,
    part: Allocation,
    reason: str,
    exit_code: int | None = None,
    signal: int | None = None,
    detail: str = "",
    at: datetime | None = None,
) -> None:
    """End one part: give back what it holds, stop its partners if it failed, settle the attempt after the last one."""
    now = timezone.now()
    ended = Allocation.objects.filter(pk=part.pk).exclude(state=Allocation.State.ENDED)
    fate = {"state": Allocation.State.ENDED, "exit_code": exit_code, "signal": signal, "end_reason": reason}
    if not ended.update(**fate, released_at=now, lease_until=None):
        return
    neighbours_tell(attempts=[attempt])
    GpuAllocation.objects.filter(allocation=part, released_at=None).update(released_at=now)
    asked = reason == "stopped" and attempt.stop_reason  # its detail only repeats what the portal asked for
    if detail and not asked:
        Attempt.objects.filter(pk=attempt.pk, end_detail="").update(end_detail=detail[:300])
    left = attempt.allocations.exclude(state=Allocation.State.ENDED).exists()
    if not left:
        attempt_settle(attempt=attempt, at=at or now)
    elif reason != "exit" or exit_code != 0:
        Attempt.objects.filter(pk=attempt.pk, stop_reason="").update(stop_reason=StopReason.PARTNER, stop_at=now)
        nodes_wake(attempt=attempt)


def _hold_one(*, node: Node, key: Key, answer: dict[str, list[dict[str, Any]]]) -> None:
    """Renew one part's lease, or tell the node to stop a part that should no longer run there."""
    part = (
        Allocation.objects.filter(
            attempt__key=key["attempt"], attempt__epoch=key["epoch"], rank=key["rank"], node=node, released_at=None
        )
        .select_related("attempt")
        .first()
    )
    if part is None:
        answer["stop"].append(key)
        return
    lease_s = part.attempt.lease_s
    live = Allocation.objects.filter(pk=part.pk, released_at=None)
    if lease_s is None:
        if part.missed_at is not None:
            live.update(missed_at=None)
        return
    until = timezone.now() + timedelta(seconds=lease_s)
    # A longer lease (maintenance) is never shortened by a renewal. The update, not the look above, decides: a part
    # that was ended meanwhile must not hear that it may run on.
    if live.filter(lease_until__lt=until).update(lease_until=until, missed_at=None) or live.exists():
        answer["leases"].append({**key, "lease_s": lease_s})
    else:
        answer["stop"].append(key)


def _forgotten_end(*, node: Node, known: set[tuple[str, int, int]]) -> None:
    """End parts without a lease that this node reported once but has not named for FORGOTTEN_S: its journal is lost.

    One message proves nothing: it may be an old one that came late. A part with a lease ends by its lease: its
    process may live on without its agent, and would run twice (invariant 2).
    """
    started = (Allocation.State.PREPARED, Allocation.State.RUNNING)
    parts = Allocation.objects.filter(node=node, released_at=None, state__in=started, lease_until=None)
    # Of parts that the node does name, which nearly all are, nothing else is read.
    names = parts.order_by().values_list("pk", "attempt__key", "attempt__epoch", "rank")
    unnamed = [pk for pk, *name in names if tuple(name) not in known]
    now = timezone.now()
    for part in parts.filter(pk__in=unnamed).select_related("attempt") if unnamed else ():
        if part.missed_at is None:
            Allocation.objects.filter(pk=part.pk, missed_at=None).update(missed_at=now)
        elif part.missed_at < now - timedelta(seconds=FORGOTTEN_S):
            part_lose(part=part, detail=f"{node.name} no longer knows it", missed_before=now)


def node_silence_forget(*, node: Node) -> None:
    """Start to count the silence about a node's parts again: the node is in contact again, or its agent has started."""
    Allocation.objects.filter(node=node, released_at=None, missed_at__isnull=False).update(missed_at=timezone.now())


@transaction.atomic
def part_lose(
    *,
    part: Allocation,
    detail: str,
    lease_before: datetime | None = None,
    missed_before: datetime | None = None,
    only_in: Allocation.State | None = None,
) -> bool:
    """End a part as lost; return whether it was. Its lease is looked at again under lock: it may just have been renewed."""
    attempt = attempt_lock(attempt_id=part.attempt_id)
    live = Allocation.objects.select_for_update(no_key=True).filter(pk=part.pk, released_at=None)
    if lease_before is not None:
        live = live.filter(lease_until__lt=lease_before)
    if missed_before is not None:
        live = live.filter(missed_at__lt=missed_before)
    if only_in is not None:
        live = live.filter(state=only_in)
    if attempt is None or live.first() is None:
        return False
    part_end(attempt=attempt, part=part, reason="lost", detail=detail)
    return True


def jobs_on(*, node_id: int) -> list[int]:
    """Return the ids of the jobs that hold a part of a node."""
    return list(Allocation.objects.filter(node_id=node_id, released_at=None).values_list("attempt__job_id", flat=True))


def node_parts_lose(*, node: Node, detail: str) -> int:
    """End every part a node holds as lost: it rebooted, or an operator declared it dead. Return how many."""
    parts = list(Allocation.objects.filter(node=node, released_at=None).order_by("attempt_id"))
    return sum(part_lose(part=part, detail=detail) for part in parts)
