"""A plan -> the database, in one transaction: attempts for placed jobs, stops, promises, reasons for the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.lease import lease_confirm
from portal.planning.rounds.planning.notes import notes_of
from portal.planning.rounds.planning.promises import plan_promises_apply, plan_stops_apply
from portal.planning.rounds.record.explanations import Details, explanations_store
from portal.planning.rounds.record.packing import Columns, columns_of
from portal.work.jobs.models import Job
from portal.work.jobs.services.events import events_record
from portal.work.jobs.services.placing import attempts_start, placing_lock
from portal.work.jobs.services.placings import Part, Placing, Profile
from portal.work.jobs.services.preempting import stops_nodes
from portal.work.jobs.services.promises import promises_withdraw
from portal.work.jobs.services.waiting import waiting_note
from portal.work.jobs.sharing.harvesting import grants_lower
from scheduler.model import Decision, Piece, Plan, Reason

if TYPE_CHECKING:
    from portal.planning.rounds.planning.queued import QueuedJob

log = logging.getLogger(__name__)


class Ready(NamedTuple):
    """The part of applying that is prepared before the transaction, so that the transaction is short.

    `columns`: those of its decisions, made when needed where None; `details`: what to store of jobs in detail;
    `cores_wanted`: by job, the cores that the plan went by, which stay with the attempts and promises.
    """

    columns: Columns | None = None
    details: Details | None = None
    cores_wanted: Mapping[int, int] = MappingProxyType({})


NOTHING_READY = Ready()


@transaction.atomic
def plan_apply(
    *,
    made: Plan,
    record: Planning,
    holder: str,
    now: datetime,
    queued: Sequence[QueuedJob],
    ready: Ready = NOTHING_READY,
) -> None:
    """Apply a plan if its planning still holds the lease; the record, with the placed jobs, is part of the transaction.

    `queued`: the queue as the snapshot read it. A job is locked and read again only where the plan says something new of it.
    """
    applied_before = Planning.objects.filter(number=record.number).exists()
    if applied_before or not lease_confirm(holder=holder, number=record.number):
        record.status = Planning.Status.SUPERSEDED
        return
    placed = [decision for decision in made.decisions if decision.placement is not None]
    notes = notes_of(made.decisions, ready.columns or columns_of(made.decisions), queued)
    _lock_all(made, placed, noted=[note.job_id for note in notes])
    _profile_all(made, record)
    if texts := grants_lower({each.job: each.memory_mib for each in made.harvests}):
        events_record(kind="harvested", texts=texts)
    _place_all(placed, record, ready.cores_wanted)
    plan_stops_apply(made=made, record=record)
    plan_promises_apply(made=made, record=record, cores_wanted=ready.cores_wanted)
    waiting_note(notes=notes, now=now)
    if ready.details is not None:
        explanations_store(ready.details)
    record.status = Planning.Status.APPLIED
    record.save()


def _lock_all(made: Plan, placed: Sequence[Decision], *, noted: Sequence[int]) -> None:
    """Lock all that applying may touch, at once and so in the one order: two who lock by turns would wait for each other."""
    stopped = [stop.job for stop in made.stops]
    nodes = [piece.node for decision in placed if decision.placement for piece in decision.placement.pieces]
    nodes += [order.piece.node for order in made.profiles]
    placing_lock(
        job_ids=[*(order.job for order in made.profiles), *(decision.job for decision in placed)],
        node_ids=[*nodes, *stops_nodes(job_ids=stopped)],
        others=[*noted, *stopped, *(each.job for each in made.promises), *made.lapsed],
    )


def _place_all(placed: list[Decision], record: Planning, cores_wanted: Mapping[int, int]) -> None:
    placings = [_placing(decision, cores_wanted.get(decision.job)) for decision in placed]
    refused = attempts_start(placings=placings, planning_number=record.number)
    for job_id, error in refused.items():
        log.info("planning %s: job %s not placed after all: %s", record.number, job_id, error)
    promises_withdraw(job_ids=[decision.job for decision in placed if decision.job not in refused])
    record.placed += len(placed) - len(refused)
    record.dropped += len(refused)


def _profile_all(made: Plan, record: Planning) -> None:
    """Begin the profiles, each by itself: there are few, and a job may have one on each of several types.

    A job that waited for another profile before has its figures renewed, which its unchanged reason would leave as they are.
    """
    told = {each.job: each.figures for each in made.decisions} if made.profiles else {}
    for order in made.profiles:
        profile = Profile(order.signature, order.gpu_type, max(1, int(order.limit_s)))
        placing = Placing(order.job, [_part(order.piece)], profile=profile)
        refused = attempts_start(placings=[placing], planning_number=record.number)
        if refused:
            log.info("planning %s: job %s not profiled after all: %s", record.number, order.job, refused[order.job])
        elif order.job in told:
            Job.objects.filter(pk=order.job, reason=Reason.PROFILING).update(reason_figures=dict(told[order.job]))
        entry = {"job": order.job, "gpu_type": order.gpu_type, "node": order.piece.node, "limit_s": profile.limit_s}
        record.profiles.append({**entry, "begun": not refused})


def _part(piece: Piece) -> Part:
    if (held := piece.part) is None:
        return Part(node_id=piece.node, gpu_indices=piece.gpus, core_ids=piece.cores, memory_mib=piece.memory_mib)
    own = {"gpu_compute": held.compute, "gpu_memory_mib": held.memory_mib}
    return Part(piece.node, (held.gpu,), piece.cores, piece.memory_mib, **own)


def _placing(decision: Decision, cores_wanted: int | None) -> Placing:
    parts = [_part(piece) for piece in decision.placement.pieces] if decision.placement else []
    age = (decision.age_s, decision.age_source) if decision.age_s is not None else None
    return Placing(decision.job, parts, age, cores_wanted=cores_wanted)
