"""How long a job runs, and how sure that is (ours; algorithms.md section 3).

A length is a distribution: its middle, and its spread, the standard deviation of its logarithm. It follows from the declared
one by the owner's record of truth; else from ended jobs like it: of the groups in `kin_of` the one that foretells best:

    spread^2 = (n * s^2 + PRIOR * s_0^2) / (n + PRIOR) * (1 + 1/n)

n values of variance s^2 in the group, s_0^2 the variance of all ended jobs, or for the `NARROW` groups that of the tenant's jobs
of the category, which leans on all in the same way. A group of one or two never foretells better than those. Jobs change: the
spread is stretched so that ranges of 80 % would have held 80 % of the tenant's latest run times, or of all (`record`). A declared
length counts as true within `TOLD_SPREAD`, about a factor of two, until there is a record.
A time limit is a bound and no length: nothing is longer, and the part of their limits that an owner's jobs used is a group.
*Certainty* is 1 for a length that is known and 0 for one of which nothing is:

    certainty = 1 / (1 + (spread / HALF_SURE)^2)
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.model import Job, Kin, RunHistory, Sample

RATIO_LOW, RATIO_HIGH = 0.2, 5.0
LAST_RESORT_S = 3600.0
PRIOR = 5
"""A spread of as many jobs is taken for granted before a group has its own."""
TOLD_SPREAD, ALL_SPREAD, GUESS_SPREAD = 0.4, 2.0, 3.0
"""Spreads before there is a record: of declared lengths, of groups, and of jobs of which nothing is known."""
WIDE, FEW_ERRORS = 0.8, 20
"""Ranges are stretched until they would have held this part of the latest run times, if there is this number of them."""
FEW_OF_TENANT = 50
"""From this number on a tenant's own errors count alone: who runs erratic jobs widens nobody else's ranges."""
LEAST_SPREAD = 0.7
"""The spread of a length that nobody declared is no less where it decides: it never counts as known."""
HALF_SURE = 0.8
SURE = 0.6
"""From this certainty on a length counts as known."""
VAGUE = 10.0
SURE_SPREAD = HALF_SURE * math.sqrt(1.0 / (SURE - 1e-9) - 1.0)
PATIENCE_S, KNOWN_PATIENCE_S = 5 * 86_400.0, 86_400.0
"""After the first a job has its turn and its reservation though its length is a guess; one of a known length has its reservation
after the second, though those of the running jobs are guesses.
"""
LATE = 0.8
"""An end that is a guess is waited for up to this quantile."""

DECLARED = "declared"
OF_MODEL, OF_OWNER = "tenant's jobs of the model", "owner's jobs of the size"
OF_TENANT, OF_LIMITS = "tenant's jobs of the category", "owner's time limits"
OF_SIZE, OF_CATEGORY, OF_CLUSTER = "jobs of the size", "jobs of the category", "jobs of the cluster"
ASSUMED = "assumed"
NARROW = frozenset({OF_MODEL, OF_OWNER})
"""The spreads of these groups lean on that of the tenant's jobs of the category, once there are `FEW_ERRORS`."""
Asked = tuple[int, int, str | None, str | None, int]
"""Of a job: its owner, tenant, category, model label, and the fewest GPUs that it accepts."""


class Length(NamedTuple):
    """A run time: median in seconds, the rule that gave it, spread, number of ended jobs behind it, and its time limit."""

    median_s: float
    source: str
    spread: float = 0.0
    runs: int = 0
    most_s: float = math.inf

    def within(self, limit_s: float | None) -> Length:
        """Return the length of a job with this time limit in seconds; None: it has none."""
        return self._replace(median_s=min(self.median_s, limit_s), most_s=limit_s) if limit_s else self

    def quantile(self, part: float, ran_s: float = 0.0) -> float:
        """Return the run time that this part of such jobs does not exceed, of those that have run for `ran_s` already."""
        if not self.spread:
            return self.median_s
        ran = ran_s / self.median_s if ran_s > 0 else 0.0
        longer = 0.5 * math.erfc(math.log(ran) / self.spread / math.sqrt(2.0)) if ran > 0 else 1.0
        place = -_NORMAL.inv_cdf(min(_MOST, max(_LEAST, (1.0 - part) * longer)))
        return max(ran_s, min(self.most_s, self.median_s * math.exp(min(_LONGEST, self.spread * place))))

    @property
    def deciding(self) -> Length:
        """The same as plannings use it."""
        return self if self.source == DECLARED else self._replace(spread=max(LEAST_SPREAD, self.spread))

    @property
    def is_vague(self) -> bool:
        """Whether its range of 80 % spans more than a factor of `VAGUE`: no clock time is said of it."""
        return 2 * self.spread * _NORMAL.inv_cdf((1.0 + WIDE) / 2) > math.log(VAGUE)

    @property
    def certainty(self) -> float:
        return certainty_of(self.spread)


_NORMAL = NormalDist()
_LEAST, _MOST, _LONGEST = 1e-300, 1.0 - 1e-9, 40.0


def certainty_of(spread: float) -> float:
    return 1.0 / (1.0 + (spread / HALF_SURE) ** 2)


def trusts_of(spreads: np.ndarray) -> np.ndarray:
    """Return how far lengths of these spreads decide, 0 to 1: 1 from `SURE` on."""
    trusts: np.ndarray = np.minimum(1.0, 1.0 / (1.0 + (spreads / HALF_SURE) ** 2) / SURE + 1e-9)
    return trusts


def is_sure(spread: float) -> bool:
    return spread <= SURE_SPREAD


def kin_of(owner: int, tenant: int, category: str | None, label: str | None, gpus: int) -> Iterator[tuple[Kin, str]]:
    """Yield the groups of a job, the nearest first, and the words for each. `gpus`: the fewest that it accepts."""
    if label:
        yield (OF_MODEL, tenant, label, gpus), OF_MODEL
    yield (OF_OWNER, owner, tenant, category, gpus), OF_OWNER
    yield (OF_TENANT, tenant, category), OF_TENANT
    yield (OF_SIZE, gpus), OF_SIZE
    yield (OF_CATEGORY, category), OF_CATEGORY
    yield (OF_CLUSTER,), OF_CLUSTER


def told_length(told_s: float, record: Sample | None) -> Length:
    """Return a declared length corrected by the record of its owner: actual over declared run times.

    Of an owner whose jobs run longer than `RATIO_HIGH` times what it declared nothing is known: that would pay.
    """
    if not record:
        return Length(told_s, DECLARED, TOLD_SPREAD)
    ratio = min(RATIO_HIGH, max(RATIO_LOW, record.median))
    beyond = math.log(max(RATIO_HIGH, record.median) / RATIO_HIGH)
    return Length(told_s * ratio, DECLARED, math.sqrt(_variance(record, TOLD_SPREAD**2, beyond)), len(record))


def length_of(job: Job, history: RunHistory) -> Length:
    """Return the declared length, or that of jobs like it where that is surer. Speeds do not matter."""
    owner, told = job.tenant if job.owner is None else job.owner, None
    if job.expected_duration_s is not None:
        told = told_length(job.expected_duration_s, history.told.get(owner)).within(job.limit_s)
        if told.spread <= SURE_SPREAD:
            return told
    like = like_length(history, (owner, job.tenant, job.category, job.model_label, job.min_gpus), job.limit_s)
    return told if told is not None and told.spread <= like.deciding.spread else like


def like_length(history: RunHistory, asked: Asked, limit_s: float | None = None) -> Length:
    """Return the length of ended jobs like it: of the group that foretells best, the nearest of equals."""
    guess = guess_of(history, asked)
    if guess is None:
        return Length(LAST_RESORT_S, ASSUMED, GUESS_SPREAD).within(limit_s)
    used = part_used(history, *asked[:2]) if limit_s else None
    return limited(_calibrated(history, asked[1], guess), used, limit_s)


def guess_of(history: RunHistory, asked: Asked, limit_s: float | None = None) -> Length | None:
    """Return the same before its spread is calibrated; None before any job ended."""
    known = foretold(history, kin_of(*asked), *asked[1:3])
    if not known:
        return None
    spread, source, group = min(known, key=lambda each: each[0])
    return limited(
        Length(group.median, source, spread, len(group)), _used(history, asked[0]) if limit_s else None, limit_s
    )


def part_used(history: RunHistory, owner: int, tenant: int) -> Length | None:
    """Return the part of their time limits that the owner's jobs used, as a length of a limit of one second; None: no record."""
    return (used := _used(history, owner)) and _calibrated(history, tenant, used)


def limited(like: Length, used: Length | None, limit_s: float | None) -> Length:
    """Return the length of a job with this time limit in seconds (None: none): by `part_used` where that foretells better."""
    if not limit_s:
        return like
    if used and used.spread < like.spread:
        like = used._replace(median_s=used.median_s * limit_s)
    return like.within(limit_s)


def _used(history: RunHistory, owner: int) -> Length | None:
    return next(
        (
            Length(group.median, name, spread, len(group))
            for spread, name, group in foretold(history, [((OF_LIMITS, owner), OF_LIMITS)])
        ),
        None,
    )


def _calibrated(history: RunHistory, tenant: int, guess: Length) -> Length:
    own, stretch = history.errors_of.get(tenant), 1.0
    errors = own if own and len(own) >= FEW_OF_TENANT else history.errors
    if len(errors) >= FEW_ERRORS:
        stretch = max(1.0, errors.quantile(WIDE) / _NORMAL.inv_cdf((1.0 + WIDE) / 2))
    return guess._replace(spread=guess.spread * stretch)


def foretold(
    history: RunHistory, groups: Iterable[tuple[Kin, str]], tenant: int | None = None, category: str | None = None
) -> list[tuple[float, str, Sample]]:
    """Return the groups in which jobs have ended, each with the spread of its foretelling; none before any job ended."""
    every = history.like.get((OF_CLUSTER,))
    if not every:
        return []
    prior = _variance(every, ALL_SPREAD**2)
    tenants = history.like.get((OF_TENANT, tenant, category))
    own = _variance(tenants, prior) if tenants and len(tenants) >= FEW_ERRORS else prior
    return [
        (math.sqrt(_variance(group, own if source in NARROW else prior) * (1.0 + 1.0 / len(group))), source, group)
        for key, source in groups
        if (group := history.like.get(key))
    ]


def _variance(group: Sample, prior: float, beyond: float = 0.0) -> float:
    return (len(group) * (group.variance + beyond**2) + PRIOR * prior) / (len(group) + PRIOR)
