"""Tuning a training job's cores on line by its GPU utilisation (CODA V-B.2; algorithms.md section 8).

One step is a number of cores per GPU held for a period of samples (90 s); the start is step 1. Then one core fewer; while
that is no worse than the best so far, within the noise band, on that way; if it is worse at once, one core more, and on
while utilisation improves beyond the band; neither: done. No worse with fewer counts as better.
*Faster search* (operator's, for far starts): the same first question, then the distance doubles until a step fails, then
the interval is halved; on the way up, which may have jumped over the optimum and still improved, first the interval that
the last jump skipped (fewer without loss), then the one to the failed step - unless that step was level with the best:
utilisation rises up to the optimum (CODA V-B), so nothing in between is better. At most 8 steps.
A pure state machine: `begin`, then `advance` with each step's mean utilisation; the state is a value to be stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

DEFAULT_BAND = 0.01
"""Noise band, in parts of full scale (utilisation from 0 to 1)."""

STEP_S = 90.0
FAST_STEPS_MOST = 8


class Way(StrEnum):
    """Where the search is going."""

    START = "start"
    FEWER = "fewer"
    MORE = "more"
    TRIM = "trim"  # back down within the last jump of the fast search
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

    @property
    def is_done(self) -> bool:
        return self.way is Way.DONE


def begin(start: int, most: int, *, fast: bool = False) -> Tuning:
    """The search from N_start. ValueError unless 1 <= `most`; a start beyond it is cut to it."""
    if most < 1:
        raise ValueError(f"most is {most}; a job needs at least 1 core per GPU")
    cores = min(most, max(1, start))
    return Tuning(cores, cores, most, fast=fast)


def advance(tuning: Tuning, utilisation: float, *, band: float = DEFAULT_BAND) -> Tuning:
    """The search after a step at `tuning.cores` whose mean GPU utilisation (0 to 1) was this; unchanged when done.

    ValueError when the utilisation is not a number from 0 to 1.
    """
    if not (math.isfinite(utilisation) and 0 <= utilisation <= 1):
        raise ValueError(f"utilisation is {utilisation}; it must be from 0 to 1")
    if tuning.is_done:
        return tuning
    measured = replace(tuning, steps=tuning.steps + 1)
    if tuning.way is Way.START:
        return _turn(replace(measured, best_utilisation=utilisation))
    if _serves(tuning, utilisation, band):
        # With fewer the reference stays the best seen: else ever smaller losses would add up beyond the band.
        reference = max(utilisation, tuning.best_utilisation)
        return _onward(replace(measured, best=tuning.cores, best_utilisation=reference), tuning.best)
    return _back(measured, utilisation, band)


def _serves(tuning: Tuning, utilisation: float, band: float) -> bool:
    if tuning.way is Way.MORE:
        return utilisation > tuning.best_utilisation + band
    return utilisation >= tuning.best_utilisation - band


def _turn(tuning: Tuning) -> Tuning:
    """From the start: fewer when there are fewer, else more."""
    return _go(tuning, Way.FEWER) if tuning.best > 1 else _go(tuning, Way.MORE)


def _onward(tuning: Tuning, before: int) -> Tuning:
    """The step served; `before` was the best until then."""
    if tuning.way is Way.TRIM:
        return _halve(replace(tuning, failed=None))  # fewer do as well, so the optimum is not above
    onward = replace(tuning, below=before) if tuning.way is Way.MORE else tuning
    if tuning.failed is not None:
        return _halve(onward)
    return _go(replace(onward, stride=tuning.stride * 2 if tuning.fast else 1), tuning.way)


def _go(tuning: Tuning, way: Way) -> Tuning:
    """One stride on, up to the limits; at a limit what the last jump skipped is left, or nothing."""
    stride = -tuning.stride if way is Way.FEWER else tuning.stride
    cores = min(tuning.most, max(1, tuning.best + stride))
    onward = replace(tuning, cores=cores, way=way)
    return _halve(onward) if cores == tuning.best else _limited(onward)


def _back(tuning: Tuning, utilisation: float, band: float) -> Tuning:
    """The step failed: turn round if it was the first one down, halve if the fast search overshot, else done."""
    if tuning.way is Way.FEWER and tuning.steps == 2:
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
