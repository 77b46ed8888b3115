"""Tuning a training job's cores on line by its GPU utilisation (CODA V-B.2; algorithms.md section 8).

One step is a number of cores per GPU held for a period of samples (90 s); the start is step 1. Then one core fewer; while that
is no worse than the best so far, within the noise band, on that way; if it is worse at once, one core more, and on while
utilisation improves beyond the band; neither: done. No worse with fewer counts as better. *Faster search* (operator's, for far
starts): the same first question, then the distance doubles until a step fails, then the interval is halved; on the way up, which
may have jumped over the optimum and still improved, first the interval that the last jump skipped (fewer without loss), then the
one to the failed step - unless that step was level with the best: utilisation rises up to the optimum (CODA V-B), so nothing in
between is better. At most 8 steps. *Idle cores* (docs/decisions/0180): where the CPU use of the first step is known and says
that more than one core a GPU idles, the second step goes straight to the fewest that the use fills to `BUSY_MOST`. If that is
worse, the use deceived (loading comes in bursts): the rule above goes on from the start, never again down to there. Loaders that
spin use all that they have, and are searched as ever. The faster search goes back in the same way where a jump up left cores
idle. A pure state machine: `begin`, then `advance` with each step's mean utilisation; the state is a value to be stored. The
service and the simulator call `search_begin`, then `step`: it asks only for cores that the attempt can have. An attempt that
found fewer than N_start idle is searched with those; where it then needs more than it can have, it is *short*: when some
become idle it takes them, N_start at most, and its search begins anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from scheduler.copies import replace

DEFAULT_BAND = 0.01
"""Noise band, in parts of full scale (utilisation from 0 to 1)."""

BUSY_MOST = 0.9
"""Cores that are busy for more of their time than this are all needed: loading is uneven, and a full core makes it wait."""
FAST_STEPS_MOST = 8
TINY = 1e-9
AGAIN_S = 3600.0
"""A search that is over is made again when a slowing on its node has ended, but not within this time of its beginning."""


class Way(StrEnum):
    """Where the search is going."""

    START = "start"
    FEWER = "fewer"
    MORE = "more"
    TRIM = "trim"  # back down within the last jump of the fast search
    SHORT = "short"  # more than it can have would be tried next, and it holds fewer than N_start
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The search: `cores` per GPU to hold now, `best` so far with its utilisation, how many steps were measured."""

    cores: int
    best: int
    most: int  # cores per GPU that the job could get at all
    best_utilisation: float = 0.0
    steps: int = 0
    way: Way = Way.START
    fast: bool = False
    stride: int = 1
    failed: int | None = None  # the nearest number known to be no better on this way; set = the fast search halves
    below: int | None = None  # on the way up: the nearest smaller number known to be worse
    leapt: int | None = (
        None  # the number that idle cores led to; stays when it turned out worse, and then none is believed
    )
    scale: float = 0.0  # of a search by throughput: the largest measured, which counts as full scale
    wanted: int = 0  # N_start; of one that is short: the number that it waits for

    @property
    def is_done(self) -> bool:
        return self.way is Way.DONE

    @property
    def wish(self) -> int:
        """The cores a GPU that a planning is to count as the attempt's wish."""
        return self.wanted if self.way is Way.SHORT else self.best


def begin(start: int, most: int, *, fast: bool = False) -> Tuning:
    """The search from N_start. ValueError unless 1 <= `most`; a start beyond it is cut to it."""
    if most < 1:
        raise ValueError(f"most is {most}; a job needs at least 1 core per GPU")
    cores = min(most, max(1, start))
    return Tuning(cores, cores, most, fast=fast)


@dataclass(frozen=True, slots=True)
class Room:
    """The cores of an attempt on one node: those `held`, and `idle` ones there that it may take."""

    gpus: int
    held: int
    idle: int

    @property
    def cores(self) -> int:
        return self.held + self.idle


def search_begin(start: int, held: int, node_cores: int, gpus: int, *, fast: bool = False) -> Tuning:
    """The search of an attempt on one node that holds `held` cores. It begins with N_start (`start` a GPU) or with fewer."""
    tuning = begin(min(start, max(1, held // gpus)), max(start, node_cores // gpus), fast=fast)
    return replace(tuning, wanted=start)


def step(
    tuning: Tuning, room: Room, utilisation: float, *, band: float = DEFAULT_BAND, used: float | None = None
) -> tuple[Tuning, int]:
    """The search after a period at this mean utilisation (0 to 1), and the cores to hold from now on.

    `used`: the cores that the attempt kept busy, all its GPUs together; None = not known. A number that it cannot have ends the
    search, at the best so far or the cores there; where these are fewer than N_start, or than the best, it is short. ValueError
    as `advance`.
    """
    most = room.cores // room.gpus
    if tuning.way is Way.SHORT:
        if min(tuning.wanted, most) <= tuning.best:
            return tuning, room.held
        tuning = search_begin(tuning.wanted, room.cores, tuning.most * room.gpus, room.gpus, fast=tuning.fast)
        return tuning, tuning.cores * room.gpus
    tuning = advance(tuning, utilisation, band=band, used=None if used is None else used / room.gpus)
    if tuning.cores > most:  # the search goes on only with cores that it can have
        wanted, best = tuning.best if tuning.is_done else max(tuning.best, tuning.wanted), min(tuning.best, most)
        way = Way.SHORT if best < wanted else Way.DONE
        tuning = replace(tuning, cores=best, best=best, wanted=wanted, way=way)
    return tuning, tuning.cores * room.gpus


def by_throughput(tuning: Tuning, rate: float) -> tuple[Tuning, float]:
    """The search and what to `step` it with, when what was measured is a throughput: its part of the largest so far.

    ValueError when the rate is not finite, or below 0.
    """
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"throughput is {rate}; it must be a number from 0")
    scale = max(tuning.scale, rate)
    if scale == 0:
        return tuning, 0.0
    return replace(tuning, scale=scale, best_utilisation=tuning.best_utilisation * tuning.scale / scale), rate / scale


def least(used: float | None, tuning: Tuning) -> int | None:
    """The fewest cores a GPU that this use fills to `BUSY_MOST`; None where use is not known, or deceived before."""
    if used is None or tuning.leapt is not None:
        return None
    return max(1, math.ceil(used / BUSY_MOST - TINY))


def advance(tuning: Tuning, utilisation: float, *, band: float = DEFAULT_BAND, used: float | None = None) -> Tuning:
    """The search after a step at `tuning.cores` whose mean GPU utilisation (0 to 1) was this; unchanged when done.

    `used`: cores kept busy per GPU in the step; None = not known. ValueError when the utilisation is not a number from 0 to
    1, or the use not one from 0.
    """
    if not (math.isfinite(utilisation) and 0 <= utilisation <= 1):
        raise ValueError(f"utilisation is {utilisation}; it must be from 0 to 1")
    if used is not None and not (math.isfinite(used) and used >= 0):
        raise ValueError(f"use is {used} cores; it must be a number from 0")
    if tuning.is_done:
        return tuning
    measured = replace(tuning, steps=tuning.steps + 1)
    if tuning.way is Way.START:
        return _turn(replace(measured, best_utilisation=utilisation), least(used, tuning))
    if _serves(tuning, utilisation, band):
        # With fewer the reference stays the best seen: else ever smaller losses would add up beyond the band.
        reference = max(utilisation, tuning.best_utilisation)
        served = replace(measured, best=tuning.cores, best_utilisation=reference)
        if tuning.leapt == tuning.cores:
            served = replace(served, leapt=None)
        return _onward(served, tuning.best, least(used, tuning))
    return _back(measured, utilisation, band)


def _serves(tuning: Tuning, utilisation: float, band: float) -> bool:
    if tuning.way is Way.MORE:
        return utilisation > tuning.best_utilisation + band
    return utilisation >= tuning.best_utilisation - band


def _turn(tuning: Tuning, fewest: int | None) -> Tuning:
    """From the start: fewer when there are fewer, at once the `fewest` where they are far; else more."""
    if fewest is not None and fewest < tuning.best - 1:
        return _limited(replace(tuning, cores=fewest, way=Way.FEWER, leapt=fewest))
    return _go(tuning, Way.FEWER) if tuning.best > 1 else _go(tuning, Way.MORE)


def _onward(tuning: Tuning, before: int, fewest: int | None) -> Tuning:
    """The step served; `before` was the best until then, and `fewest` would be kept busy."""
    if tuning.way is Way.TRIM:
        return _halve(replace(tuning, failed=None))  # fewer do as well, so the optimum is not above
    onward = replace(tuning, below=before) if tuning.way is Way.MORE else tuning
    if tuning.failed is not None:
        return _halve(onward)
    if tuning.way is Way.MORE and fewest is not None and before < fewest < tuning.best:
        onward = replace(onward, stride=tuning.stride * 2)
        return _limited(replace(onward, cores=fewest, way=Way.TRIM, leapt=fewest))
    return _go(replace(onward, stride=tuning.stride * 2 if tuning.fast else 1), tuning.way)


def _go(tuning: Tuning, way: Way) -> Tuning:
    """One stride on, up to the limits; at a limit what the last jump skipped is left, or nothing."""
    stride = -tuning.stride if way is Way.FEWER else tuning.stride
    floor = 1 if tuning.leapt is None or way is Way.MORE else tuning.leapt + 1
    cores = min(tuning.most, max(floor, tuning.best + stride))
    onward = replace(tuning, cores=cores, way=way)
    return _halve(onward) if cores == tuning.best else _limited(onward)


def _back(tuning: Tuning, utilisation: float, band: float) -> Tuning:
    """The step failed: turn round if it was the first one down, halve if the fast search overshot, else done."""
    if tuning.leapt == tuning.cores:
        # The use deceived: on as if it were not known, but never again as low as there.
        if tuning.way is Way.TRIM:
            return _go(replace(tuning, below=tuning.cores), Way.MORE)
        return _go(tuning, Way.FEWER)
    if tuning.way is Way.FEWER and tuning.steps == (2 if tuning.leapt is None else 3):
        return _go(tuning, Way.MORE)
    if tuning.way is Way.TRIM:
        return _halve(replace(tuning, below=tuning.cores))
    # Visibly worse means past the optimum, which may lie between; level means that the best was at the top already.
    level = tuning.way is Way.MORE and utilisation >= tuning.best_utilisation - band
    return _halve(replace(tuning, failed=tuning.best + 1 if level else tuning.cores))


def _halve(tuning: Tuning) -> Tuning:
    """The next question of the fast search; with strides of one there is none left and the search is done."""
    best = tuning.best
    if tuning.below is not None and best - tuning.below > 1:
        return _limited(replace(tuning, way=Way.TRIM, cores=(best + tuning.below) // 2))
    way = Way.MORE if tuning.way is Way.TRIM else tuning.way
    step = 0 if tuning.failed is None else int((tuning.failed - best) / 2)
    return _limited(replace(tuning, way=way, cores=best + step))


def _limited(tuning: Tuning) -> Tuning:
    spent = tuning.fast and tuning.steps >= FAST_STEPS_MOST
    if tuning.cores == tuning.best or spent:
        return replace(tuning, cores=tuning.best, way=Way.DONE)
    return tuning
