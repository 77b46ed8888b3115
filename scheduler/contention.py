"""Which CPU jobs are slowed, and how long, when they take memory bandwidth from training jobs (CODA V-D; section 9).

A *period* is a span of measurement on one node. In each at most one thing is done there:

- *Pressed*: the node's memory traffic is at least `threshold` of its bandwidth. If a training job's GPU utilisation
  fell meanwhile by more than the band, against the last period that was not pressed, the CPU job that draws
  most is *throttled*: it keeps half of its share, and half of that the next time, down to `LEAST_SHARE`.
- *Trial* (ours): a training job that has known no other than pressed periods, because it began beside the traffic, has
  nothing to be compared with. The largest drawer is then throttled, and further while the training gains by it and the
  node is still pressed; the step that gained nothing is taken back at once, and no other trial is made of these two.
- *Lifted* is a throttle when the training job for which it was made has left the node; or when for `CALM_PERIODS` in a row the
  traffic would stay below `release` without it. The paper's text counts the traffic as it is; with the throttle on, that
  falls by the throttle itself, and it would swing (our reading). The job would draw as much as before, or less
  where it does not use the share that it was left.

A training job is never throttled. Utilisations are compared at equal cores only, for the search for a job's cores (section 8)
changes them too. Pure: `observe` takes a node's state and a period's reading, and gives both anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from scheduler.copies import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

CALM_PERIODS = 3
"""How many periods in a row must be calm before a slowed job is let go."""
LEAST_SHARE = 1 / 16
LEAST_DRAWN = 0.05
"""A job that draws a smaller part of the bandwidth is not held back (ours): a training job may fill the memory by itself, and
idle.
"""


class Cause(StrEnum):
    """Why a throttle was set or lifted."""

    HURT = "hurt"  # a training job fell back while the node was pressed
    TRIAL = "trial"  # one that began under pressure may be hurt
    HARMLESS = "harmless"  # the (last) trial gained it nothing
    GONE = "gone"  # the training job has left
    CALM = "calm"  # there is room for the traffic again


@dataclass(frozen=True, slots=True)
class Rules:
    """Which knobs decide: `threshold` is a part of the node's bandwidth, `band` one of full GPU utilisation."""

    threshold: float
    band: float

    @property
    def release(self) -> float:
        """A slowed job is let go when the traffic without the throttle would stay below this, a fifth less."""
        return self.threshold / 1.25


@dataclass(frozen=True, slots=True)
class Training:
    """A training job's part of the node in one period: mean GPU utilisation (0 to 1) with `cores` cores."""

    utilisation: float
    cores: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One period. Traffic is in parts of the node's memory bandwidth; jobs go by any number of their own."""

    total: float
    trainings: Mapping[int, Training]
    drawn: Mapping[int, float]  # by CPU job
    least: Mapping[int, float] = field(default_factory=dict)  # share below which a job cannot be held; else LEAST_SHARE

    def may(self, job: int, share: float) -> bool:
        """Say whether the CPU job can be held back to that share."""
        return share >= max(LEAST_SHARE, self.least.get(job, 0.0))

    def __post_init__(self) -> None:
        values = [self.total, *self.drawn.values(), *(each.utilisation for each in self.trainings.values())]
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise ValueError(f"a reading holds {values}; traffic and utilisation must be finite, 0 or more")


@dataclass(frozen=True, slots=True)
class Throttle:
    """A CPU job that is held back: to `share` of `wanted`, its earlier draw; for the training job `helped`."""

    share: float
    wanted: float
    helped: int
    tried_at: float | None = None  # a trial: the training's utilisation when it began
    back: float = 1.0  # and the share to go back to if that gains nothing
    calm: int = 0  # periods in a row in which there was room for all it wants


@dataclass(frozen=True, slots=True)
class Watch:
    """The state of a node from one period to the next; a value to be stored."""

    before: Mapping[int, Training] = field(default_factory=dict)  # in the last period that was not pressed
    throttles: Mapping[int, Throttle] = field(default_factory=dict)
    harmless: frozenset[tuple[int, int]] = frozenset()  # (training, CPU job)


@dataclass(frozen=True, slots=True)
class Order:
    """The CPU job gets this share of its `wanted` from now on; 1 = all. For, or because of, the training job."""

    job: int
    share: float
    cause: Cause
    training: int
    fell: float | None = None  # utilisation lost by the training job, where that is known


def observe(watch: Watch, reading: Reading, rules: Rules) -> tuple[Watch, Order | None]:
    """The node after a period, and what to do there, if anything."""
    watch = _present(watch, reading)
    if (order := _lifted(watch, reading, rules)) is not None:
        return _after_lift(watch, order), order
    watch = replace(watch, throttles=_counted(watch, reading, rules))
    if reading.total < rules.threshold:
        return replace(watch, before=dict(reading.trainings)), None
    order = _throttled(watch, reading, rules)
    return (watch, None) if order is None else (_with(watch, reading, order), order)


def _present(watch: Watch, reading: Reading) -> Watch:
    """Without the jobs that have left; a throttle whose job left needs no lifting."""
    return Watch(
        {job: each for job, each in watch.before.items() if job in reading.trainings},
        {job: each for job, each in watch.throttles.items() if job in reading.drawn},
        frozenset(
            (training, job)
            for training, job in watch.harmless
            if training in reading.trainings and job in reading.drawn
        ),
    )


def _room(throttle: Throttle, drawn: float, total: float) -> float:
    """The node's traffic as it would be without the throttle."""
    return total - drawn + min(throttle.wanted, drawn / throttle.share)


def _counted(watch: Watch, reading: Reading, rules: Rules) -> dict[int, Throttle]:
    """The throttles with their calm periods; a trial that helped is one no more."""
    found = {}
    for job, throttle in watch.throttles.items():
        calm = _room(throttle, reading.drawn[job], reading.total) < rules.release
        found[job] = replace(throttle, calm=throttle.calm + 1 if calm else 0, tried_at=None)
    return found


def _lifted(watch: Watch, reading: Reading, rules: Rules) -> Order | None:
    """The first throttle whose time is over; of equal ones, the one that holds back least."""
    for job, each in sorted(watch.throttles.items(), key=lambda item: (item[1].wanted, item[0])):
        helped = reading.trainings.get(each.helped)
        if helped is None:
            return Order(job, 1.0, Cause.GONE, each.helped)
        if each.tried_at is not None and helped.utilisation <= each.tried_at + rules.band:
            return Order(job, each.back, Cause.HARMLESS, each.helped)
        calm = _room(each, reading.drawn[job], reading.total) < rules.release
        if calm and each.calm + 1 >= CALM_PERIODS:
            return Order(job, 1.0, Cause.CALM, each.helped)
    return None


def _after_lift(watch: Watch, order: Order) -> Watch:
    throttles = {job: throttle for job, throttle in watch.throttles.items() if job != order.job}
    if order.share < 1:
        throttles[order.job] = replace(watch.throttles[order.job], share=order.share, tried_at=None)
    tried = {(order.training, order.job)} if order.cause is Cause.HARMLESS else set()
    return replace(watch, throttles=throttles, harmless=watch.harmless | tried)


def _throttled(watch: Watch, reading: Reading, rules: Rules) -> Order | None:
    """The largest drawer that may be held back (further), for the training job that lost most; else for one untried."""
    drawers = sorted(
        (job for job, drawn in reading.drawn.items() if drawn >= LEAST_DRAWN),
        key=lambda job: (-reading.drawn[job], job),
    )
    for training, fell in _fallen(watch, reading, rules):
        for job in drawers:
            if reading.may(job, share := _share(watch, job) / 2):
                return Order(job, share, Cause.HURT, training, fell)
    for training in sorted(reading.trainings.keys() - watch.before.keys()):
        for job in drawers:
            if reading.may(job, share := _share(watch, job) / 2) and (training, job) not in watch.harmless:
                return Order(job, share, Cause.TRIAL, training)
    return None


def _share(watch: Watch, job: int) -> float:
    return watch.throttles[job].share if job in watch.throttles else 1.0


def _fallen(watch: Watch, reading: Reading, rules: Rules) -> list[tuple[int, float]]:
    """Training jobs with their loss of utilisation since before, largest loss first."""
    found = []
    for training, now in reading.trainings.items():
        before = watch.before.get(training)
        if before is not None and before.cores == now.cores and before.utilisation - now.utilisation > rules.band:
            found.append((training, before.utilisation - now.utilisation))
    return sorted(found, key=lambda each: (-each[1], each[0]))


def _with(watch: Watch, reading: Reading, order: Order) -> Watch:
    """The watch with the throttle that was ordered. A trial keeps the utilisation that it began at."""
    held = watch.throttles.get(order.job)
    wanted = reading.drawn[order.job] if held is None else held.wanted
    tried_at = reading.trainings[order.training].utilisation if order.cause is Cause.TRIAL else None
    throttle = Throttle(order.share, wanted, order.training, tried_at, _share(watch, order.job))
    return replace(watch, throttles={**watch.throttles, order.job: throttle})
