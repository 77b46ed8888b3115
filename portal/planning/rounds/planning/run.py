"""A planning from end to end: take the lease, load a snapshot, ask the scheduler, apply the plan, record it.

The solve stands outside any write transaction; applying checks the planning's number and validates every placement
against fresh rows, so a planning that was overtaken changes nothing (invariant 6).
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from django.db import transaction

from portal.cluster.services.sharing import gpu_modes_balance
from portal.foundation.disk import disk_state
from portal.foundation.events.services import page_event
from portal.foundation.leases import holder_new
from portal.planning.estimation.probes import probes_start
from portal.planning.rounds.endless import within
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.apply import Ready, plan_apply
from portal.planning.rounds.planning.beginning import Turn, limit_s, record_begin
from portal.planning.rounds.planning.lease import (
    Renewal,
    idle_count,
    lease_begin,
    lease_release,
    lease_take,
    lease_thorough,
    planned_since,
)
from portal.planning.rounds.planning.memory import Memory, memory_taken
from portal.planning.rounds.planning.nodes import on_whole_nodes
from portal.planning.rounds.planning.running import cores_asked, lengths_of
from portal.planning.rounds.planning.shadowed import shadow_tell
from portal.planning.rounds.planning.snapshot import Snapshot, snapshot_load
from portal.planning.rounds.planning.without_failing_jobs import plan_without_failing_jobs
from portal.planning.rounds.record.decisions import decisions_before, decisions_pack
from portal.planning.rounds.record.explanations import BUDGET_SHARE, explanations_make
from portal.planning.rounds.record.metrics import planning_metrics
from portal.planning.rounds.record.packing import columns_of
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.parameters import Parameters
from scheduler.placement.work import NOTHING
from scheduler.planning.plan import REPEATS, plan_on

if TYPE_CHECKING:
    from scheduler.model import Clock, ClusterState, Plan

log = logging.getLogger(__name__)

DETAILS_SHARE = 0.1
"""The share of the time limit for details of jobs beside their share of a tick: a nudged planning has but a second."""


TRIAL_S = 1.0
"""Seconds of a planning from nothing, after one that failed (`without_failing_jobs`)."""
ENDLESS_S, TRIAL_ENDLESS_S = 30.0, 10.0
"""The multiple of its limit, and the seconds of one from nothing, after which a planning counts as endless."""


def planning_run(*, nudged_at: datetime | None = None) -> Planning | None:
    """Plan now unless somebody else does, or has since `nudged_at`. Returns the last planning made, or None.

    It plans again for nudges that came meanwhile; those after `REPEATS` plannings are left to beat's tick.
    """
    if nudged_at is not None and planned_since(nudged_at):
        return None
    if (disk := disk_state()).low:
        log.warning("no planning: %s", disk.sentence)
        return None
    holder = holder_new()
    planning, nudged, pauses, ends_round = None, nudged_at is not None, nudged_at is not None, False
    for _ in range(REPEATS):
        values = knobs_current()
        number = lease_take(holder=holder)
        if number is None:
            return planning
        try:
            with collector_paused(), memory_taken() as memory:
                turn = Turn(holder, number, values, memory, nudged=nudged, pauses=pauses, new_round=ends_round)
                planning, wish = _plan_once(turn)
        finally:
            again = lease_release(holder=holder, number=number)
        ends_round = wish.replan
        at_once = ends_round or (planning.placed > 0 and wish.more)
        if not again and not at_once:
            break
        nudged, pauses = nudged or not at_once, not at_once
    return planning


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector out of a planning: with 100 000 jobs in memory it would take a second at each pass.

    Nothing leaks: a planning makes hardly any cycles, and the collector works again after it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan, its snapshot, and the scheduler's time limit."""

    made: Plan
    snapshot: Snapshot
    allowed_s: float


class Wish(NamedTuple):
    """A plan's requests to the next planning. The plan itself is not kept: its parts are gone when the collector comes back,
    which saves a walk over each of 100 000 decisions.
    """

    replan: bool  # at once, in a new round
    more: bool  # another planning could start more jobs at once


def _plan_once(turn: Turn) -> tuple[Planning, Wish]:
    """Make a planning; return its record, and its follow-up."""
    begun = lease_begin(holder=turn.holder, number=turn.number, pauses=turn.pauses)
    began_s, parameters = time.monotonic(), scheduler_parameters(turn.values)
    record = record_begin(turn, policy=parameters.policy, now=begun.at)
    whole = turn.is_whole(record, begun, tick_s=parameters.tick_s)
    if whole:
        lease_thorough(holder=turn.holder, number=turn.number, at=begun.at)
    gpu_modes_balance(share=turn.values["shared_gpus"])
    try:
        with Renewal(holder=turn.holder, number=turn.number, limit_s=parameters.limit_s) as renewal:
            decided = _decide(turn, record, parameters, renewal.clock, began_s=began_s, whole=whole)
            ready, made = _ready(decided, record, parameters), decided.made
        queued = decided.snapshot.queued
        plan_apply(made=made, record=record, holder=turn.holder, now=begun.at, queued=queued, ready=ready)
        if record.status == Planning.Status.APPLIED:
            probes_start(orders=made.probes, planning_number=turn.number)
            idle_count(made.metrics.idle_beside_fitting, number=turn.number)
        record.apply_s = time.monotonic() - began_s - record.load_s - record.plan_s
    except Exception as error:
        record.error = f"{type(error).__name__}: {error}"
        # The applied part of the plan is rolled back with its transaction.
        record.status, record.placed, record.dropped = Planning.Status.FAILED, 0, 0
        record.stops, record.promises, record.lapsed, record.reservations, record.profiles = [], [], [], [], []
        log.exception("planning %s failed", turn.number)
        _save(record)
        raise
    _save(record)
    shadow_tell(record, made)
    return record, Wish(made.replan_early, made.window_ran_out)


def _decide(
    turn: Turn, record: Planning, parameters: Parameters, clock: Clock, *, began_s: float, whole: bool
) -> Decided:
    """Load a snapshot and ask the scheduler; the record says how long each took. `began_s`: on `clock`."""
    now = record.started_at
    snapshot = snapshot_load(now=now, parameters=parameters, memory=turn.memory)
    record.load_s = clock() - began_s
    allowed = replace(parameters, time_limit_s=limit_s(parameters, whole=whole, load_s=record.load_s))

    def plan_of(state: ClusterState, from_nothing: bool) -> Plan:
        knobs, most_s, rng = allowed, allowed.limit_s + ENDLESS_S, np.random.default_rng(turn.number)
        if from_nothing:
            knobs, turn.memory.solved = replace(allowed, time_limit_s=min(TRIAL_S, allowed.limit_s)), NOTHING
            most_s = TRIAL_ENDLESS_S
        given = (state, now.timestamp(), knobs, rng, clock)
        return within(most_s, lambda: plan(*given, replan=record.replan, memory=turn.memory))

    state, made = plan_without_failing_jobs(snapshot.state, plan_of, time.thread_time)
    made = on_whole_nodes(made, state.nodes)
    record.plan_s = clock() - began_s - record.load_s
    return Decided(made, replace(snapshot, state=state), allowed.limit_s)


def _ready(decided: Decided, record: Planning, parameters: Parameters) -> Ready:
    """Make what is to be stored of a plan, and fill the record with it, outside of the transaction that applies it."""
    made = decided.made
    columns, before = columns_of(made.decisions), decisions_before(record.number)
    budget_s = min(BUDGET_SHARE * parameters.tick_s, DETAILS_SHARE * decided.allowed_s)
    details = explanations_make(made=made, columns=columns, before=before, record=record, budget_s=budget_s)
    packed = decisions_pack(made, details.marks, columns, number=record.number, before=before)
    record.decisions, record.keyframe = packed.bytes, packed.keyframe
    record.queue_length, record.window_jobs = made.queue_length, made.window_jobs
    record.solver, record.metrics = asdict(made.solver), planning_metrics(made=made, now=record.started_at)
    return Ready(columns, details, cores_asked(made, decided.snapshot.state), lengths_of(made, decided.snapshot.state))


def plan(*given: Any, replan: bool, memory: Memory) -> Plan:
    """Ask the scheduler, with the rest of its last planning in this process. `given`: as for `plan_on`, from the state on."""
    made, memory.solved = plan_on(memory.solved, *given, replan=replan)
    return made


def _save(record: Planning) -> None:
    with transaction.atomic():
        record.save()
        page_event(stream="cluster", topic="planning")
        if record.started_at == record.round.started_at:
            page_event(stream="cluster", topic="round")
