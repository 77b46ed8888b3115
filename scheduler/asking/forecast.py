"""Predicted starts (algorithms.md section 7): the queue simulated forward with the policy's own code, several times over.

Each *draw* (`starts.draws`) starts from the snapshot and a virtual clock. Run times come from the past, as a distribution
(`runtimes`); on clusters small enough for it a draw re-plans as the service does, so that running elastic jobs shrink and move.
In the slowest draw the new jobs of the recent past come again (`scene`), in the others no job comes: their number is the
least certain of all.

A job's earliest, median and latest start are the 10, 50 and 90 % quantiles over the draws, then widened by the record of past
forecasts (`ranges`).

Left out, so that the answer comes in time: failures, and on large clusters re-plans; the record's width stands for them. Only
the first jobs of the queue are followed, and time ends at a horizon (`Reach`); when `limit_s` is over, fewer draws count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.asking.starts.draws import Draw
from scheduler.asking.starts.ranges import LONGEST_S, Calibration, Drawn, StartRange
from scheduler.asking.starts.scene import Experience, Scene
from scheduler.copies import replace
from scheduler.intake.take_in import sound_knowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.model import Clock, ClusterState, Configuration
    from scheduler.parameters import Parameters

NORMAL = NormalDist()
LOW, HIGH = 0.1, 0.9
"""Quantiles over the draws that a range reaches between, before calibration."""
NOTHING = Experience()


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a forecast goes: seconds of virtual time, draws, and how many jobs of the queue are followed."""

    horizon_s: float = LONGEST_S
    draws: int = 5
    jobs: int = 2_000


FAR = Reach()


class Drew(NamedTuple):
    """One draw's answers: job -> when it starts, and its configuration."""

    starts_s: Mapping[int, float]
    got: Mapping[int, Configuration]


def forecast(
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    limit_s: float = 20.0,
    reach: Reach = FAR,
    experience: Experience = NOTHING,
) -> Mapping[int, StartRange]:
    """The ranges of the waiting jobs that may start by themselves; held, dependent and impossible ones are not in it.

    The same arguments give the same answer unless `limit_s` (on `clock`) cuts draws off. Bad nodes, jobs and speeds are left out.
    ValueError for a reach without horizon, draws or jobs.
    """
    if min(reach.draws, reach.horizon_s, reach.jobs) < 1:
        raise ValueError(f"{reach}: each must be at least 1")
    deadline_s = clock() + limit_s
    state = replace(state, knowledge=sound_knowledge(state.knowledge))
    scene = Scene(state, now_s, parameters, reach.jobs, experience)
    starts = _starts(scene, reach, rng, lambda: clock() >= deadline_s)
    calibration = Calibration(experience.foretold)
    found = {job.id: _range(job.id, starts, now_s, calibration) for job in scene.jobs}
    return found | {job: found[job].not_before(at_s) for job, at_s in scene.comes_s.items() if job in found}


def _starts(scene: Scene, reach: Reach, rng: Generator, late: Callable[[], bool]) -> list[Drew]:
    """With time up the middle draw and pairs about it, the first one in any case."""
    draws = reach.draws
    seeds = rng.integers(2**31 - 1, size=draws)
    phase = float(rng.random())
    starts: list[Drew] = []
    # The middle draw first, then the outermost pair, and inwards.
    pairs = [each for k in range(draws // 2) for each in (k, draws - 1 - k)]
    for number in (draws // 2, *(each for each in pairs if each != draws // 2)):
        common = NORMAL.inv_cdf((number + 0.5) / draws)
        draw = Draw(scene, common, phase if number == draws - 1 else None, int(seeds[number]), late)
        found = draw.starts(reach.horizon_s)
        if not draw.cut or not starts:  # a draw that came to its end says more
            starts.append(Drew(found, draw.got))
        if draw.cut:
            del starts[len(starts) - (len(starts) + 1) % 2 :]  # the middle one and pairs about it
            break
    return starts


def _range(job: int, drew: Sequence[Drew], now_s: float, calibration: Calibration) -> StartRange:
    """The job's range over the draws. A job that starts in no draw has none."""
    waits_s = [each.starts_s.get(job, math.inf) - now_s for each in drew]
    if all(math.isinf(each) for each in waits_s):
        return StartRange(None, None, None, len(waits_s))
    ends_s = np.quantile(np.minimum(waits_s, LONGEST_S), [LOW, 0.5, HIGH])
    drawn = Drawn(*(float(each) for each in ends_s))
    shown = calibration.applied(drawn)
    earliest_s, median_s, latest_s = (
        None if each >= LONGEST_S else now_s + each for each in (shown.low_s, shown.middle_s, shown.high_s)
    )
    on = tuple(each.got[job] for each in drew if job in each.got)
    return StartRange(earliest_s, median_s, latest_s, len(waits_s), drawn, on)
