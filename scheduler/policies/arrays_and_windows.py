"""What `coda` and `berth` share (algorithms.md sections 4 and 7): arrays, progressive windows, stages, giving back.

In a re-plan running elastic jobs take part in the first stage, and what they hold counts as idle for windows and solves.
The windows are filled over all GPU arrays; starving first jobs get their reservation; the fronts are placed, then the
backfills, each stage jointly by one ILP or job by job; what a gap or a limit left open is topped up; owners' jobs that
borrowers keep out call back the fewest of them; CPU jobs come last, in the order of their tenants' shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.fairness import drf, progressive, sensitivity
from scheduler.fairness.arrays import UNDIVIDED, Array, divide
from scheduler.fairness.borrowing import Homes, Terms
from scheduler.fairness.cpu_queue import place_cpu_queue
from scheduler.fairness.keeping import GPU_ARRAYS, note_kept
from scheduler.fairness.progressive import ArrayWindow, Windows
from scheduler.fairness.reservation import soonest, starving
from scheduler.fairness.standings import shares_of, standings_of, views_of
from scheduler.fairness.sweep import LIMIT_SHARE, NO_SWEEP, Sweep
from scheduler.model import Chosen, SolverFigures
from scheduler.placement import configurations, cpu, turn
from scheduler.placement.gain import LINEAR, efficient
from scheduler.placement.greedy import best_fit
from scheduler.placement.joint import is_located, place_jointly, together
from scheduler.placement.running import joint_weights
from scheduler.placement.work import Outcome
from scheduler.replan import early
from scheduler.replan.better import Rules, take_better
from scheduler.replan.call_backs import call_back
from scheduler.replan.making_room import make_room
from scheduler.replan.nearby import replan_nearby
from scheduler.replan.participants import by_class, joint
from scheduler.replan.paying import under
from scheduler.replan.realise import realise, spare_owners, tidy
from scheduler.rules import RESERVATIONS, STAGES, TOPPING_UP, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.fairness.arrays import Division
    from scheduler.model import Configuration, Ranked, Reservation, Running, ShareView
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.gain import Gain
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Work

CPU = (0,)
"""The requirement of a CPU job."""
FRONT_TIME_SHARE = 0.6
"""Of the time left, what the first of two stages may use."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Which parts are on. `rigid`: every job asks for its smallest size alone. `reserve_lr` None: no reservations.

    `sweep`: see `fairness.sweep`.
    """

    arrays: bool
    fair: bool
    borrow: bool
    joint: bool
    rigid: bool
    reserve_lr: float | None
    efficient: bool = False  # whether the worth of a size asks how well the jobs scale
    sweep: bool = False


def place(work: Work, mode: Mode) -> Outcome:
    """One planning's placing by these rules."""
    began_s = work.clock()
    division = _division(work, mode)
    gpu_queue, cpu_queue = _apart(work.queue, mode)
    homes = Homes(division, work.ledger)
    at_home = homes.of_all(each.job for each in gpu_queue)
    whole, work = work, work.before(LIMIT_SHARE * mode.sweep + cpu.LIMIT_SHARE * bool(cpu_queue))
    gain, work = _gained(gpu_queue, work, mode)
    solving = joint(work)  # in a re-plan what participants hold is idle too, until `realise`
    windows, shares = _fill(gpu_queue, solving, mode, division, at_home)
    if mode.joint and work.adjusts_sensitivity and sensitivity.tells_apart(work.estimator):
        windows = _adjust(windows, gpu_queue, work, homes)
    window_s = work.clock() - began_s
    waiting = {*map(Array, set(windows.homes.values())), *([Array.CPU] if cpu_queue else [])}
    terms = Terms(division, homes, work.ledger, work.state.running, waiting, borrow=mode.borrow, gain=gain)
    terms.limit(each.job for each in gpu_queue)
    outcome = Outcome({}, {each.job.id for each in windows.picked}, set(windows.sated), gain=gain)
    outcome.homes = {  # those who have a promise are in no window of this planning
        **windows.homes,
        **{job.id: homes.of(job) for job in work.state.jobs if job.promise is not None and not job.is_cpu},
    }
    outcome.standings, outcome.windows = standings_of(windows), views_of(windows)
    outcome.shares, outcome.window_s = shares, window_s
    outcome.window_gpus = sum(window.capacity for window in windows.by_array.values())
    outcome.weights = {
        **joint_weights(windows.picked, work.changeable, work.parameters.lambda_, floor=gain.floor),
        # At the head of its array nobody weighs more.
        **{each.job.id: 1.0 for each in windows.picked if each.job.gave_back},
    }
    outcome.turn_shares, outcome.factors = dict(windows.share_when_picked) if mode.fair else {}, terms.factor
    outcome.may_end_round = mode.joint
    urgent = _note_pressing(windows, work, mode, outcome)
    _reserve(windows, work, mode, terms, outcome)
    work, solving = work.with_least(), solving.with_least()
    if work.participants and (is_located(work) or by_class(work)):
        _replan(windows, solving, mode, terms, outcome)
        realise(work, outcome)
    else:
        if work.participants:
            replan_nearby(_first_stage(windows, outcome), solving, work, outcome, lambda near: _shared(near, terms))
            work = replace(work, participants={})
            _drop_reservations(terms, outcome)
        _place_stages(windows, work, mode, terms, outcome)
        _settle(windows, work, terms, outcome)
    rules = Rules(_offers_beside(work, terms), terms.factor, _taking(shares if mode.fair else ()))
    make_room(urgent, _first_stage(windows, outcome), work, outcome, rules)
    _drop_reservations(terms, outcome)
    terms.refresh()
    note_kept(() if mode.sweep else windows.picked, work, terms, outcome)
    if mode.borrow and mode.arrays:
        call_back(windows.by_array, work, terms, division, outcome, replans=mode.joint)
    sweep = Sweep(gpu_queue, windows.picked, whole, terms, outcome, fair=mode.fair) if mode.sweep else NO_SWEEP
    sweep.start()
    place_cpu_queue(cpu_queue, whole, outcome, terms, division, fair=mode.fair, borrow=mode.borrow)
    sweep.finish()
    if work.left_out:
        take_better(replace(whole, left_out=work.left_out), outcome, rules)
    return outcome


def _gained(gpu_queue: Sequence[Ranked], work: Work, mode: Mode) -> tuple[Gain, Work]:
    """What sizes are worth in this planning, and the planning in which a restart counts by that."""
    if not mode.efficient:
        return LINEAR, work
    gain = efficient((each.job for each in gpu_queue), work)
    return gain, under(work, gain)


def _replan(windows: Windows, solving: Work, mode: Mode, terms: Terms, outcome: Outcome) -> None:
    """The stages with running jobs in the first of them, on what is idle and what those hold."""
    shared = _shared(solving, terms)
    _place_stages(windows, solving, mode, shared, outcome)
    _settle(windows, solving, shared, outcome)
    terms.reservations = shared.reservations


def _shared(solving: Work, terms: Terms) -> Terms:
    """The terms on the resources that participants and waiting jobs share."""
    others = [live for live in solving.state.running if live.job not in solving.participants]
    shared = terms.on(solving.ledger, others)
    waiting = (each.job for each in solving.queue if not each.job.is_cpu)
    shared.limit([*(each.job for each in solving.participants.values()), *waiting])
    return shared


def _offers_beside(work: Work, terms: Terms) -> Callable[[Ranked, Ledger], Sequence[Offer]]:
    """By these terms, what a running job may use on a ledger on which what it holds is idle."""

    def offers(ranked: Ranked, ledger: Ledger) -> Sequence[Offer]:
        return terms.on(ledger, [live for live in work.state.running if live.job != ranked.job.id]).offers(ranked)

    return offers


def _apart(queue: Sequence[Ranked], mode: Mode) -> tuple[list[Ranked], list[Ranked]]:
    """The GPU jobs and the CPU jobs."""
    gpu_queue = [each for each in queue if each.job.requirement != CPU]
    cpu_queue = [each for each in queue if each.job.requirement == CPU] if len(gpu_queue) < len(queue) else []
    return [_rigid(each) for each in gpu_queue] if mode.rigid else gpu_queue, cpu_queue


def _division(work: Work, mode: Mode) -> Division:
    if not mode.arrays:
        return UNDIVIDED
    knobs = work.parameters
    return divide(
        work.ledger.nodes,
        work.state.array_history,
        reserved_per_gpu=knobs.reserved_cores_per_gpu,
        large_share=knobs.large_array_share,
    )


def _rigid(ranked: Ranked) -> Ranked:
    return replace(ranked, job=replace(ranked.job, requirement=(ranked.job.min_gpus,)))


def _fill(
    gpu_queue: Sequence[Ranked], work: Work, mode: Mode, division: Division, homes: Mapping[int, Array]
) -> tuple[Windows, list[ShareView]]:
    windows: dict[Array, ArrayWindow] = {}
    for array in GPU_ARRAYS:
        rooms = [room for number, room in work.ledger.rooms.items() if division.array_of_node(number) is array]
        capacity = round(sum(room.node.gpus_total for room in rooms) * work.parameters.window_size)
        windows[array] = ArrayWindow(capacity, sum(len(room.gpus) for room in rooms))
    if mode.borrow and mode.joint and work.parameters.placement == "ilp":
        _lend(windows, gpu_queue, homes)
    state, nodes = work.state, [room.node for room in work.ledger.rooms.values()]
    by_type: dict[str, int] = {}
    for node in nodes:
        by_type[node.gpu_type or ""] = by_type.get(node.gpu_type or "", 0) + node.gpus_total
    shares = drf.gpu_shares(nodes, state.running, state.tenants, state.gpu_weights)
    held, gpu_units = dict(shares.held), shares.capacity
    if not mode.fair:
        shares.capacity = math.inf  # nobody has a share: the queue's order decides alone
    filled = progressive.fill(
        gpu_queue,
        windows,
        shares,
        work.ledger,
        array=lambda each: homes[each.job.id],
        units=lambda each: drf.least_units(each.job, by_type, state.gpu_weights),
    )
    if not mode.fair or STAGES in work.parameters.off:
        for window in windows.values():
            window.tenants.clear()
    return filled, shares_of("gpus", held, shares, gpu_units)


def _lend(windows: Mapping[Array, ArrayWindow], gpu_queue: Sequence[Ranked], homes: Mapping[int, Array]) -> None:
    """Count to each front what the other array's own queue leaves idle there, for its jobs may borrow that.

    Else the few that the own idle GPUs hold would be solved for alone, and an elastic job would take all that is lent.
    Greedy placement solves nothing: there, as in CODA, the other array's own front goes before who can only borrow.
    """
    asked: dict[tuple[Array, int], int] = {}  # by home and smallest size: how many
    for ranked in gpu_queue:
        job = ranked.job
        kind = (homes[job.id], job.requirement[0])
        asked[kind] = asked.get(kind, 0) + 1
    spare = {
        array: max(0, window.idle - sum(size * jobs for (home, size), jobs in asked.items() if home is array))
        for array, window in windows.items()
    }
    for array, window in windows.items():
        window.idle += sum(spare.values()) - spare[array]


def _adjust(windows: Windows, gpu_queue: Sequence[Ranked], work: Work, homes: Homes) -> Windows:
    """Low-sensitivity jobs join the windows as backfill, to fill what is scattered."""
    more: list[Ranked] = []
    sigma = work.parameters.sigma
    for array, window in windows.by_array.items():
        own = [each for each in gpu_queue if homes.of(each.job) is array]
        joined = sensitivity.joining(window.picked, own, windows.sated, window.idle, work.estimator, sigma)
        window.picked += joined
        more += joined
    return replace(windows, picked=(*windows.picked, *more))


def _reserve(windows: Windows, work: Work, mode: Mode, terms: Terms, outcome: Outcome) -> None:
    """Keep nodes for the starving jobs of each array, no node for two. What stopping attempts hold is promised already.

    One that fits now needs no nodes kept where the programme can be told to place it: the others may use the rest.
    """
    now_s, running = work.now_s, [live for live in work.state.running if not live.stopping]
    kept: list[Reservation] = []
    reserve_lr = None if RESERVATIONS in work.parameters.off else mode.reserve_lr
    for window in windows.by_array.values():
        taken: frozenset[int] = frozenset()
        for ranked in starving(window.picked, reserve_lr, work.parameters.reserve_jobs):
            offers = [each for each in terms.offers(ranked, home_only=True) if each.node.id not in taken]
            found = soonest(ranked.job, offers, running, work.ledger.largest, now_s)
            if found is None:
                continue
            taken |= found.nodes
            if found.until_s <= now_s and mode.joint and _may_demand(ranked, work, outcome):
                outcome.must_start.add(ranked.job.id)
            else:
                kept.append(found)
    outcome.reservations = kept
    terms.reservations = [(each, now_s) for each in kept]


def _drop_reservations(terms: Terms, outcome: Outcome) -> None:
    """Nothing need be kept for who has a place."""
    terms.reservations = [(each, now_s) for each, now_s in terms.reservations if not outcome.has_answer(each.job)]
    outcome.reservations = [each for each in outcome.reservations if not outcome.has_answer(each.job)]


def _note_pressing(windows: Windows, work: Work, mode: Mode, outcome: Outcome) -> list[Ranked]:
    """Fill `outcome.pressing`, and return those of all arrays that are urgent now."""
    if mode.reserve_lr is None or not mode.joint or URGENT in work.parameters.off:
        return []
    for window in windows.by_array.values():
        outcome.pressing |= early.pressing(window.picked, mode.reserve_lr, work.state.replanned_s, work.now_s)
    return [each for each in windows.picked if outcome.pressing.get(each.job.id, math.inf) <= work.now_s]


def _taking(shares: Sequence[ShareView]) -> Callable[[Ranked, Running], bool]:
    """Of whom an urgent job may take: of its own tenant, and of those that hold no less than its tenant does."""
    held = {each.tenant: each.held / each.weight for each in shares}

    def may_take(ranked: Ranked, live: Running) -> bool:
        return ranked.job.tenant == live.tenant or held.get(ranked.job.tenant, 0.0) <= held.get(live.tenant, 0.0)

    return may_take


def _may_demand(ranked: Ranked, work: Work, outcome: Outcome) -> bool:
    """Only the located programme knows demands, and with a quota two of them could contradict each other."""
    free = ranked.job.tenant not in work.ledger.allowances
    return is_located(work) and (free or (not outcome.must_start and work.ledger.over_quota(ranked.job) is None))


def _stages(windows: Windows, outcome: Outcome) -> list[list[Ranked]]:
    """The fronts and the backfills, each in the order of picking; without those who have their answer."""
    place_in_order = {each.job.id: position for position, each in enumerate(windows.picked, start=1)}
    front = [
        each for window in windows.by_array.values() for each in window.front if not outcome.has_answer(each.job.id)
    ]
    backfill = [
        each for window in windows.by_array.values() for each in window.backfill if not outcome.has_answer(each.job.id)
    ]
    return [
        sorted((replace(each, rank=place_in_order[each.job.id]) for each in stage), key=lambda each: each.rank)
        for stage in (front, backfill)
        if stage
    ]


def _first_stage(windows: Windows, outcome: Outcome) -> list[Ranked]:
    return [each for stage in _stages(windows, outcome)[:1] for each in stage]


def _place_stages(windows: Windows, work: Work, mode: Mode, terms: Terms, outcome: Outcome) -> None:
    stages = _stages(windows, outcome)
    if work.participants:
        running = [each.ranked for each in work.participants.values()]
        stages = [running + (stages[0] if stages else []), *stages[1:]]
    figures: list[SolverFigures] = [outcome.solver]
    for position, stage in enumerate(stages):
        terms.refresh()
        if not mode.joint:
            _in_order(stage, work, terms, outcome)
            continue
        last = position == len(stages) - 1
        until_s = work.deadline_s if last else work.clock() + FRONT_TIME_SHARE * work.remaining_s
        outcome.solver = SolverFigures()
        own = work if not position else replace(work, participants={})
        place_jointly(stage, own if last else replace(own, deadline_s=until_s), outcome, terms=terms)
        figures.append(outcome.solver)
        tidy(own, outcome)
    spare_owners(work, outcome, terms.is_borrowed)
    if mode.joint:
        outcome.solver = together(figures)
    elif outcome.chosen:
        outcome.solver = SolverFigures(incumbent="greedy")


def _in_order(stage: Sequence[Ranked], work: Work, terms: Terms, outcome: Outcome) -> None:
    for position, ranked in enumerate(stage):
        if work.remaining_s <= 0:
            outcome.out_of_time.update(late.job.id for late in stage[position:])
            return
        _take_turn(ranked, work, terms, outcome)


def _settle(windows: Windows, work: Work, terms: Terms, outcome: Outcome) -> None:
    """Top up what the stages left."""
    _drop_reservations(terms, outcome)
    terms.refresh()
    if TOPPING_UP in work.parameters.off:
        return
    topped_up = 0
    failed: set[tuple[object, ...]] = (
        set()
    )  # what is idle only shrinks: where one found nothing, its like finds nothing
    promised = {given.job for given in outcome.promises}
    most = turn.most_on_a_node(work.ledger)
    for ranked in windows.picked:
        job = ranked.job
        if work.remaining_s <= 0:
            break
        if job.id in outcome.chosen or job.id in outcome.invalid or job.id in promised:
            continue
        if not turn.may_fit(job, most, work):
            continue
        kind = (turn.shape(job), terms.access(ranked))
        if kind in failed:
            continue
        if _take_turn(ranked, work, terms, outcome):
            topped_up += 1
            most = turn.most_on_a_node(work.ledger)
        else:
            failed.add(kind)
    outcome.solver = replace(outcome.solver, topped_up=topped_up)


def _take_turn(ranked: Ranked, work: Work, terms: Terms, outcome: Outcome) -> bool:
    """Place one job on its own array, else on what it may borrow."""
    job = ranked.job
    found: tuple[Configuration, ...] = ()
    for home_only in (True, False):
        found = _generated(ranked, terms.offers(ranked, home_only=home_only), work, outcome)
        best = best_fit(found, work.ledger, job.tenant)
        if best is not None:
            gain = outcome.gain_of(best, found)
            placement = work.ledger.take(best, job.tenant)
            weight = outcome.weights.get(job.id, 1.0)
            outcome.chosen[job.id] = Chosen(best, placement, gain, weight, len(found))
            outcome.candidates.setdefault(job.id, found)
            terms.refresh()
            return True
    outcome.candidates.setdefault(job.id, found)
    return False


def _generated(ranked: Ranked, offers: Sequence[Offer], work: Work, outcome: Outcome) -> tuple[Configuration, ...]:
    try:
        return configurations.generate_on(ranked.job, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob as error:
        outcome.invalid[ranked.job.id] = error
        return ()
