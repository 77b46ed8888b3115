"""The duration that is proposed for a job: run times of the tenant's own jobs like it (algorithms.md section 3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.estimator.lengths import OF_MODEL, OF_OWNER, OF_TENANT, foretold, is_sure, kin_of

if TYPE_CHECKING:
    from scheduler.model import RunHistory

OWN, LEAST_RUNS = frozenset({OF_MODEL, OF_OWNER, OF_TENANT}), 3
"""The groups of a tenant's own jobs, and the fewest of them by which a duration is proposed."""


class Similar(NamedTuple):
    """Run times of the latest jobs like one: the group, their number, their middle, and the range of most, in seconds."""

    source: str
    runs: int
    low_s: float
    median_s: float
    high_s: float


def similar_of(
    history: RunHistory, owner: int, tenant: int, category: str | None, label: str | None, gpus: int
) -> Similar | None:
    """Return the run times of the tenant's own jobs like it; None below `LEAST_RUNS`, or where they differ too much.

    That is: where their middle, declared, would count as known though it is none.
    """
    own = (each for each in kin_of(owner, tenant, category, label, gpus) if each[1] in OWN)
    own = (each for each in own if category or each[1] != OF_TENANT)  # all jobs without one are not like it
    every = foretold(history, own, tenant, category)
    near = [each for each in every if len(each[2]) >= LEAST_RUNS and is_sure(math.sqrt(each[2].variance))]
    if not near:
        return None
    _, source, group = min(near, key=lambda each: each[0])
    return Similar(source, len(group), group.quantile(0.1), group.median, group.quantile(0.9))
