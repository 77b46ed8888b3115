"""A planning from end to end: take the lease, load a snapshot, ask the scheduler, apply the plan, record it.

The solve stands outside any write transaction; applying checks the planning's number and validates every placement
against fresh rows, so a planning that was overtaken changes nothing (invariant 6).
"""

from __future__ import annotations

import gc
import logging
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import transaction

from portal.disk import disk_state
from portal.estimation.probes import probes_start
from portal.events.services import page_event
from portal.leases import holder_new
from portal.rounds.models import Planning, Round
from portal.rounds.planning.apply import plan_apply
from portal.rounds.planning.lease import (
    Renewal,
    idle_count,
    lease_begin,
    lease_release,
    lease_take,
    lease_thorough,
    planned_since,
)
from portal.rounds.planning.memory import memory_taken
from portal.rounds.planning.past import array_history_read
from portal.rounds.planning.running import cores_asked
from portal.rounds.planning.snapshot import snapshot_load
from portal.rounds.record.decisions import decisions_before, decisions_pack
from portal.rounds.record.explanations import BUDGET_SHARE, explanations_make
from portal.rounds.record.metrics import planning_metrics, round_close
from portal.rounds.record.packing import columns_of
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.planning.plan import plan_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from portal.rounds.planning.memory import Memory
    from scheduler.model import Plan
    from scheduler.parameters import Parameters

log = logging.getLogger(__name__)

NUDGED_S = 1.0
"""Of a planning that was nudged and only fills what is idle, from its beginning to its end; the tick does the proof."""
LEAST_SHARE, APPLY_SHARE = 0.25, 0.5
"""Of the time limit, what the scheduler has at least, and what is kept for applying at most: a first applying, which
writes down why each job waits, says nothing of the next ones."""

DETAILS_SHARE = 0.1
"""Of the time limit, what details of jobs may take beside their share of a tick: a nudged planning has but a second."""

REPEATS = 20
"""A holder plans again for nudges that came meanwhile, so often at most; beat's tick sees to the rest."""


def planning_run(*, nudged_at: datetime | None = None) -> Planning | None:
    """Plan now unless somebody else does, or has since `nudged_at`. Returns the last planning made, or None."""
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
                planning, made = _plan_once(turn)
        finally:
            again = lease_release(holder=holder, number=number)
        ends_round = made.replan_early
        at_once = ends_round or (planning.placed > 0 and made.window_ran_out)
        if not again and not at_once:
            break
        nudged, pauses = nudged or not at_once, not at_once
    return planning


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector out of a planning: with 100 000 jobs in memory each of its walks costs a second.

    Nothing leaks: a planning makes no cycles to speak of, and the collector goes on after it.
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
class Turn:
    """One planning to be made under the lease. `new_round`: the present round ends here, before its time.

    `nudged`: it only fills what is idle and takes little time, unless its round's re-plan or a thorough one is due;
    `pauses`: first it lets more nudges come.
    """

    holder: str
    number: int
    values: dict[str, Any]
    memory: Memory
    nudged: bool = False
    pauses: bool = False
    new_round: bool = False


def _plan_once(turn: Turn) -> tuple[Planning, Plan]:
    """Make a planning; return its record and the plan."""
    number, values = turn.number, turn.values
    parameters = scheduler_parameters(values)
    begun = lease_begin(holder=turn.holder, number=number, pauses=turn.pauses)
    now, began = begun.at, time.monotonic()
    present = _round(now=now, values=values, over=turn.new_round)
    record = Planning(
        number=number,
        round=present,
        replan=replan_due(present),
        started_at=now,
        status=Planning.Status.FAILED,
        policy=parameters.policy,
        parameters=values,
    )
    whole = not turn.nudged or record.replan or thorough_due(begun.thorough_at, now=now, tick_s=parameters.tick_s)
    if whole:
        lease_thorough(holder=turn.holder, number=number, at=now)
    try:
        with Renewal(holder=turn.holder, number=number, limit_s=parameters.limit_s) as renewal:
            snapshot = snapshot_load(now=now, parameters=parameters, memory=turn.memory)
            record.load_s = renewal.clock() - began
            allowed = replace(parameters, time_limit_s=limit_s(parameters, whole=whole, load_s=record.load_s))
            rng = np.random.default_rng(number)
            made = plan(
                snapshot.state, now.timestamp(), allowed, rng, renewal.clock, replan=record.replan, memory=turn.memory
            )
            record.plan_s = renewal.clock() - began - record.load_s
            columns = columns_of(made.decisions)
            budget_s = min(BUDGET_SHARE * parameters.tick_s, DETAILS_SHARE * allowed.limit_s)
            before = decisions_before(number)
            details = explanations_make(made=made, columns=columns, before=before, record=record, budget_s=budget_s)
            packed = decisions_pack(made, details.marks, columns, number=number, before=before)
            record.decisions, record.keyframe = packed.bytes, packed.keyframe
            _fill(record=record, made=made, now=now)
            cores = cores_asked(made, snapshot.state)
        plan_apply(
            made=made,
            record=record,
            holder=turn.holder,
            now=now,
            queued=snapshot.queued,
            details=details,
            cores_wanted=cores,
            columns=columns,
        )
        if record.status == Planning.Status.APPLIED:
            probes_start(orders=made.probes, planning_number=number)
            idle_count(made.metrics.idle_beside_fitting, number=number)
        record.apply_s = time.monotonic() - began - record.load_s - record.plan_s
    except Exception as error:
        record.error = f"{type(error).__name__}: {error}"
        _undone(record)
        log.exception("planning %s failed", number)
        _save(record)
        raise
    _save(record)
    return record, made


def plan(*given: Any, replan: bool, memory: Memory) -> Plan:
    """Ask the scheduler, with what its last planning in this process left. `given`: as for `plan_on`, from the state on."""
    made, memory.solved = plan_on(memory.solved, *given, replan=replan)
    return made


def thorough_due(last: datetime | None, *, now: datetime, tick_s: float) -> bool:
    """Say whether no planning had its whole time limit for a tick: nudges in a row must not put it off for ever."""
    return last is None or (now - last).total_seconds() >= tick_s


def limit_s(parameters: Parameters, *, whole: bool, load_s: float) -> float:
    """Return how long the scheduler may take: what the limit leaves after loading, with applying allowed for as it was
    last time. Some is left whatever these take, for a planning that ends in time and places nothing helps nobody.
    """
    limit = parameters.limit_s if whole else min(NUDGED_S, parameters.limit_s)
    last = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    apply_s = last.values_list("apply_s", flat=True).first() or 0.0
    return round(max(limit - load_s - min(apply_s, APPLY_SHARE * limit), LEAST_SHARE * limit), 2)


def _undone(record: Planning) -> None:
    """Record a failure: what was applied of the plan is rolled back with its transaction."""
    record.status, record.placed, record.dropped = Planning.Status.FAILED, 0, 0
    record.stops, record.promises, record.lapsed, record.reservations = [], [], [], []
    record.profiles = []


def replan_due(present: Round) -> bool:
    """Say whether a round still lacks its re-plan. One that was overtaken is made good; one that failed is not tried again,
    so that a fault in re-planning never keeps waiting jobs from starting.
    """
    return not present.plannings.filter(replan=True).exclude(status=Planning.Status.SUPERSEDED).exists()


def _round(*, now: datetime, values: dict[str, Any], over: bool = False) -> Round:
    """Return the present round; a new one begins once the last is `replan_s` old, or is `over` before."""
    last = Round.objects.order_by("-number").first()
    if last is not None and not over and (now - last.started_at).total_seconds() < values["replan_s"]:
        return last
    if last is not None:
        round_close(round_=last, now=now, tick_s=values["tick_s"])
    history = array_history_read(now=now, days=values["array_history_days"])
    fresh = {"started_at": now, "array_history": history}
    return Round.objects.get_or_create(number=last.number + 1 if last else 1, defaults=fresh)[0]


def _fill(*, record: Planning, made: Plan, now: datetime) -> None:
    record.queue_length = made.queue_length
    record.window_jobs = made.window_jobs
    record.solver = asdict(made.solver)
    record.metrics = planning_metrics(made=made, now=now)


def _save(record: Planning) -> None:
    with transaction.atomic():
        record.save()
        page_event(stream="cluster", topic="planning")
        if record.started_at == record.round.started_at:
            page_event(stream="cluster", topic="round")
