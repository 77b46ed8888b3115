"""The queue of one planning under `coda` and `berth`: in windows, with the rules by which its jobs use what is idle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.estimator.lengths import trusts_of
from scheduler.fairness import progressive
from scheduler.fairness.arrays import UNDIVIDED, Array, Division, divide, gpu_shares, least_units
from scheduler.fairness.borrowing import AccessRules, HomeArrays
from scheduler.fairness.keeping import GPU_ARRAYS
from scheduler.fairness.progressive import ArrayWindow, Windows, shares_of, standings_of, views_of
from scheduler.fairness.sweep import LIMIT_SHARE, WALKS
from scheduler.model import Queue, Ranked, ShareView, labelled
from scheduler.placement import cpu
from scheduler.placement.objective import LINEAR, Gain, Objective, gain_for
from scheduler.placement.outcome import Standings
from scheduler.placement.running import joint_weights
from scheduler.replan.participants import joint
from scheduler.replan.paying import under
from scheduler.rules import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.fairness.cpu_queue import CpuTurns
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Mode:
    """Which parts are on. `rigid`: every job asks only for its smallest size. `reserve_lr` None: no reservations.

    `sweep`: see `fairness.sweep`.
    """

    arrays: bool
    fair: bool
    borrow: bool
    joint: bool
    rigid: bool
    reserve_lr: float | None
    efficient: bool = False  # a size has less value the worse the jobs scale
    sweep: bool = False
    doubts: bool = False  # the arrays' border stands only where lengths are known


SAMPLE = 256
"""The first waiting and the first running jobs, this number of each, show how the jobs of a planning scale."""
HALF = 0.5
"""The arrays' border stands where at least this part of the asked GPUs is for jobs of a known length (`divided`)."""
CPU = (0,)
"""The requirement of a CPU job."""


def apart(queue: Sequence[Ranked], mode: Mode) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    """The GPU jobs and the CPU jobs."""
    gpu_queue, cpu_queue = _split(queue)
    return [_rigid(each) for each in gpu_queue] if mode.rigid else gpu_queue, cpu_queue


def _rigid(ranked: Ranked) -> Ranked:
    if len(ranked.job.requirement) == 1:
        return ranked
    return replace(ranked, job=replace(ranked.job, requirement=(ranked.job.min_gpus,)))


def _split(queue: Sequence[Ranked]) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    if isinstance(queue, Queue):
        kinds = [kind for kind, head in queue.heads.items() if head.job.requirement == CPU]
        if not kinds:
            return queue, []
        of_cpu = np.isin(queue.kinds, kinds)
        return queue.only(~of_cpu), queue.only(of_cpu)
    gpu_queue = [each for each in queue if each.job.requirement != CPU]
    return gpu_queue, [each for each in queue if each.job.requirement == CPU] if len(gpu_queue) < len(queue) else []


def divided(work: Work, mode: Mode) -> Division:
    """Divide the nodes; not between small and large jobs where the lengths of most of them are guesses."""
    if not mode.arrays:
        return UNDIVIDED
    knobs = work.parameters
    return divide(
        work.ledger.nodes,
        work.state.array_history,
        reserved_per_gpu=knobs.reserved_cores_per_gpu,
        large_share=knobs.large_array_share if not mode.doubts or _known_share(work) >= HALF else 0.0,
    )


def _known_share(work: Work) -> float:
    """The part of the GPUs that waiting and running jobs ask for or hold whose jobs have a known length."""
    queue, running = work.queue, work.state.running
    if isinstance(queue, Queue):
        gpus = np.zeros(len(queue.counts))
        for kind, head in queue.heads.items():
            gpus[kind] = head.job.min_gpus
        asked, spreads = gpus[queue.kinds], queue.columns["spreads"]
    else:
        asked = np.array([each.job.min_gpus for each in queue], dtype=np.float64)
        spreads = np.array([each.spread for each in queue], dtype=np.float64)
    asked = np.append(asked, [live.gpus for live in running])
    sure = trusts_of(np.append(spreads, [live.spread for live in running])) >= 1.0
    return float(asked[sure].sum() / asked.sum()) if asked.any() else 1.0


def fill(
    gpu_queue: Sequence[Ranked], work: Work, mode: Mode, division: Division, homes: HomeArrays
) -> tuple[Windows, list[ShareView]]:
    windows: dict[Array, ArrayWindow] = {}
    for array in GPU_ARRAYS:
        capacities = [free for number, free in work.ledger.free.items() if division.array_of_node(number) is array]
        capacity = round(sum(free.node.gpus_total for free in capacities) * work.parameters.window_size)
        windows[array] = ArrayWindow(capacity, sum(len(free.gpus) for free in capacities))
    lines = labelled(gpu_queue, lambda each: (each.job.tenant, homes.of(each.job)))
    if mode.borrow and mode.joint and work.parameters.placement == "ilp":
        _lend(windows, lines)
    state, nodes = work.state, [free.node for free in work.ledger.free.values()]
    by_type: dict[str, int] = {}
    for node in nodes:
        by_type[node.gpu_type or ""] = by_type.get(node.gpu_type or "", 0) + node.gpus_total
    shares = gpu_shares(nodes, state.running, state.tenants, state.gpu_weights)
    held, gpu_units = dict(shares.held), shares.capacity
    if not mode.fair:
        shares.capacity = math.inf  # then every share is 0, and only the queue's order decides
    filled = progressive.fill(
        gpu_queue,
        lines,
        windows,
        shares,
        work.ledger,
        array=lambda each: homes.of(each.job),
        units=lambda each: least_units(each.job, by_type, state.gpu_weights),
    )
    if not mode.fair or STAGES in work.parameters.off:
        for window in windows.values():
            window.tenants.clear()
    return filled, shares_of("gpus", held, shares, gpu_units)


def _lend(windows: Mapping[Array, ArrayWindow], lines: Mapping[tuple[int, Array], Sequence[Ranked]]) -> None:
    """Add to each front the GPUs that the other array's own queue leaves idle, because the jobs of this array may borrow them.

    Otherwise the front would hold only the few jobs that fit the array's own idle GPUs, and in its solve an elastic job
    would take all that is lent. Greedy placement has no solve: there, as in CODA, the front of the other array comes first.
    """
    asked = dict.fromkeys(windows, 0)
    for (_, home), jobs in lines.items():
        asked[home] += sum(each.job.requirement[0] for each in jobs)
    spare = {array: max(0, window.idle - asked[array]) for array, window in windows.items()}
    for array, window in windows.items():
        window.idle += sum(spare.values()) - spare[array]


@dataclass(frozen=True, slots=True)
class Lineup:
    """Which job stands where before anything is placed.

    `work`: its deadline leaves time for the sweep and the CPU jobs. `solving`: the same work as the solve sees it, where
    the resources of a re-plan's running jobs count as idle.
    """

    gpu_queue: Sequence[Ranked]
    cpu_queue: Sequence[Ranked]
    division: Division
    windows: Windows
    shares: Sequence[ShareView]
    access_rules: AccessRules
    gain: Gain
    work: Work
    solving: Work
    window_s: float

    def objective(self) -> Objective:
        """The objective of the planning. The weight of a job that gave back borrowed GPUs is 1."""
        picked, work = self.windows.picked, self.work
        knobs = work.parameters
        slight = self.gain.slight if knobs.priority == "lrf" else 0.0
        weights = joint_weights(picked, work.changeable, knobs.lambda_, floor=self.gain.floor, slight=slight)
        first = {each.job.id: 1.0 for each in picked if each.job.gave_back}
        return Objective(self.gain, {**weights, **first}, self.access_rules.factor)

    def standings(self, turns: CpuTurns, *, fair: bool) -> Standings:
        """Where GPU and CPU jobs stood. Jobs with a promise are in no window of this planning, but have a home."""
        windows = self.windows
        return Standings(
            window={*(each.job.id for each in windows.picked), *turns.standings},
            sated=set(windows.sated),
            window_gpus=sum(window.capacity for window in windows.by_array.values()),
            window_s=self.window_s,
            turns={**standings_of(windows), **turns.standings},
            home=self.access_rules.home,
            windows=views_of(windows),
            shares=[*self.shares, *turns.shares],
            turn_shares={**windows.share_when_picked, **turns.shares_at_turn} if fair else {},
        )


def line_up(work: Work, mode: Mode) -> Lineup:
    """Divide the cluster, fill the windows, and say what each job may use."""
    began_s = work.clock()
    division = divided(work, mode)
    gpu_queue, cpu_queue = apart(work.queue, mode)
    homes = HomeArrays(division, work.ledger)
    later = [(LIMIT_SHARE, WALKS)] * mode.sweep + [(cpu.LIMIT_SHARE, cpu.WALKS)] * bool(cpu_queue)
    work = work.before(sum(share for share, _ in later), sum(walks for _, walks in later))
    gain = LINEAR
    if mode.efficient:
        gain = _efficient(gpu_queue, work)
        work = under(work, gain)
    solving = joint(work)
    windows, shares = fill(gpu_queue, solving, mode, division, homes)
    window_s = work.clock() - began_s
    waiting = {*windows.arrays, *([Array.CPU] if cpu_queue else [])}
    access_rules = AccessRules(division, homes, work.ledger, work.state.running, waiting, borrow=mode.borrow, gain=gain)
    access_rules.limit(each.job for each in gpu_queue)
    return Lineup(gpu_queue, cpu_queue, division, windows, shares, access_rules, gain, work, solving, window_s)


def _efficient(gpu_queue: Sequence[Ranked], work: Work) -> Gain:
    """The gain for a planning, by how its waiting and its changeable jobs with several sizes scale."""
    running = (each.job for each in islice(work.changeable.values(), SAMPLE))
    jobs = [*(each.job for each in gpu_queue[:SAMPLE]), *running]
    return gain_for(jobs, [free.node for free in work.ledger.free.values()], work.estimator)
