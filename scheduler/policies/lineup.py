"""The queue of one planning under `coda` and `berth`: in windows, with the rules by which its jobs use what is idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.arrays import Array
from scheduler.fairness.borrowing import AccessRules, HomeArrays
from scheduler.fairness.standings import standings_of, views_of
from scheduler.fairness.sweep import LIMIT_SHARE, WALKS
from scheduler.placement import cpu
from scheduler.placement.gain import LINEAR, Gain, Worth, efficient
from scheduler.placement.outcome import Standings
from scheduler.placement.running import joint_weights
from scheduler.policies.filling import apart, divided, fill
from scheduler.replan.participants import joint
from scheduler.replan.paying import under

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.arrays import Division
    from scheduler.fairness.cpu_queue import CpuTurns
    from scheduler.fairness.progressive import Windows
    from scheduler.model import Ranked, ShareView
    from scheduler.placement.work import Work
    from scheduler.policies.mode import Mode


@dataclass(frozen=True, slots=True)
class Lineup:
    """Which job stands where before anything is placed.

    `work`: its deadline leaves time for the sweep and the CPU jobs. `solving`: the same work as the solve sees it, where
    what the running jobs of a re-plan hold counts as idle.
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

    def worth(self) -> Worth:
        """What configurations are worth. The weight of a job that gave back what it borrowed is 1."""
        picked, work = self.windows.picked, self.work
        knobs = work.parameters
        slight = self.gain.slight if knobs.priority == "lrf" else 0.0
        weights = joint_weights(picked, work.changeable, knobs.lambda_, floor=self.gain.floor, slight=slight)
        first = {each.job.id: 1.0 for each in picked if each.job.gave_back}
        return Worth(self.gain, {**weights, **first}, self.access_rules.factor)

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
    gain, work = _gained(gpu_queue, work, mode)
    solving = joint(work)
    windows, shares = fill(gpu_queue, solving, mode, division, homes)
    window_s = work.clock() - began_s
    waiting = {*windows.arrays, *([Array.CPU] if cpu_queue else [])}
    access_rules = AccessRules(division, homes, work.ledger, work.state.running, waiting, borrow=mode.borrow, gain=gain)
    access_rules.limit(each.job for each in gpu_queue)
    return Lineup(gpu_queue, cpu_queue, division, windows, shares, access_rules, gain, work, solving, window_s)


def _gained(gpu_queue: Sequence[Ranked], work: Work, mode: Mode) -> tuple[Gain, Work]:
    """What sizes are worth in this planning, and the work in which restarts are valued by the same rule."""
    if not mode.efficient:
        return LINEAR, work
    gain = efficient((each.job for each in gpu_queue), work)
    return gain, under(work, gain)
