"""A plan -> the database, in one transaction: attempts for placed jobs, stops, promises, reasons for the others.

Of the plan's words about waiting jobs only news are written. They are found in columns, for most of 100 000 jobs nothing is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from django.db import transaction

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.lease import lease_confirm
from portal.planning.rounds.planning.promises import plan_promises_apply, plan_stops_apply
from portal.planning.rounds.planning.queued import QueuedJob, cell
from portal.planning.rounds.record.explanations import Details, explanations_store
from portal.planning.rounds.record.packing import REASONS, RESULTS, Columns, columns_of
from portal.work.jobs.models import Job
from portal.work.jobs.services.events import events_record
from portal.work.jobs.services.placing import attempts_start, placing_lock
from portal.work.jobs.services.placings import Part, Placing, Profile
from portal.work.jobs.services.preempting import stops_nodes
from portal.work.jobs.services.waiting import AGE_STEP, HELD, WaitingNote, promises_withdraw, waiting_note
from portal.work.jobs.sharing import grants_lower
from portal.work.jobs.states import JobState
from scheduler.estimator.lengths import Length
from scheduler.explaining.places import PLACE_FIGURES
from scheduler.model import Decision, Piece, Plan, Reason, Result

PLACED = RESULTS.index(str(Result.PLACED))
WINDOWS = {None: -1, False: 0, True: 1}
UNKNOWN = len(REASONS)
"""The number of a reason that this version does not know."""


def notes_of(decisions: Sequence[Decision], columns: Columns, queued: Sequence[QueuedJob]) -> list[WaitingNote]:
    """Return the notes of jobs that were not placed; `waiting_note` looks again under locks.

    `columns`: those of the decisions; `queued`: the queue as the snapshot read it, by ascending job.
    """
    if not len(decisions) or not queued:
        return []
    known = columns.values
    count = len(queued)
    jobs = np.fromiter(map(cell("pk"), queued), np.int64, count)
    place = np.minimum(np.searchsorted(jobs, known["job"]), count - 1)
    placed = known["result"] == PLACED
    news = _differs(known, decisions, queued, place) & (jobs[place] == known["job"]) & ~placed
    told: dict[int, dict[str, Any]] = {}
    return [note_of(decisions[each], told) for each in np.flatnonzero(news).tolist()]


def _differs(
    known: dict[str, np.ndarray], decisions: Sequence[Decision], queued: Sequence[QueuedJob], place: np.ndarray
) -> np.ndarray:
    """Return, for each decision, whether it would change its job's row: the rules of `waiting_note`, as columns."""
    count, codes = len(queued), {reason: code for code, reason in enumerate(REASONS)}

    def column(values: Iterable[Any], dtype: Any) -> np.ndarray:
        return np.fromiter(values, dtype, count)[place]

    held = column(map(str(JobState.HELD).__eq__, map(cell("state"), queued)), bool)
    reasons = column(map(codes.get, map(cell("reason"), queued), repeat(UNKNOWN)), np.int64)
    windows = column(map(WINDOWS.__getitem__, map(cell("in_window"), queued)), np.int8)
    counted = ~np.isnan(column(list(map(cell("waiting_since_s"), queued)), np.float64))
    started = column(map(cell("started"), queued), bool)
    ages = column(list(map(cell("age_s"), queued)), np.float64)
    inside = np.fromiter(map(attrgetter("inside_window"), decisions), np.int8, len(decisions))
    told = (reasons != known["reason"]) | (windows != inside)
    counts = (known["eligible"] > 0) & ~held
    age = known["age_s"]
    with np.errstate(invalid="ignore"):
        moved = (np.isnan(ages) | (np.abs(age - ages) > AGE_STEP * ages)) & ~np.isnan(age) & (age != 0)
    concerns = held == (known["reason"] == codes[HELD])
    return concerns & (told | (counts != counted) | (moved & ~started))


def note_of(decision: Decision, told: dict[int, dict[str, Any]]) -> WaitingNote:
    """Return a decision's note. The mapping has, by identity, the notes of figures met before; many jobs share theirs."""
    figures = told.get(id(decision.figures))
    if figures is None:
        figures = {name: value for name, value in decision.figures.items() if name not in PLACE_FIGURES}
        told[id(decision.figures)] = figures
    return WaitingNote(
        job_id=decision.job,
        reason=str(decision.reason or ""),
        figures=figures,
        inside_window=decision.inside_window,
        counts=decision.eligible,
        age_s=decision.age_s,
        age_source=decision.age_source,
    )


log = logging.getLogger(__name__)


class Ready(NamedTuple):
    """The part of applying that is prepared before the transaction, so that the transaction is short.

    `columns`: those of its decisions, made when needed where None; `details`: what to store of jobs in detail;
    `cores_wanted`: by job, the cores that the plan went by, which stay with the attempts and promises. `lengths`: of the jobs
    that it places.
    """

    columns: Columns | None = None
    details: Details | None = None
    cores_wanted: Mapping[int, int] = MappingProxyType({})
    lengths: Mapping[int, Length] = MappingProxyType({})


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
    _place_all(placed, record, ready)
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


def _place_all(placed: list[Decision], record: Planning, ready: Ready) -> None:
    placings = [_placing(decision, ready) for decision in placed]
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


def _placing(decision: Decision, ready: Ready) -> Placing:
    parts = [_part(piece) for piece in decision.placement.pieces] if decision.placement else []
    length = ready.lengths.get(decision.job)
    is_of_it = length is not None and length.source == decision.age_source  # else its samples tell it
    sure = (length.spread, length.runs) if length is not None and is_of_it else (None, None)
    age = (decision.age_s, decision.age_source, *sure) if decision.age_s is not None else None
    return Placing(decision.job, parts, age, cores_wanted=ready.cores_wanted.get(decision.job))
