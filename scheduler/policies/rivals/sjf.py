"""SJF, a baseline of DqnGPU's evaluation (algorithms.md section 12): the job with the shortest expected run time first.

GPU and CPU jobs stand in one queue, by `age` (section 3). A job that does not fit is passed over, because in a shortest-job
queue no job can lose its turn. Jobs are never stopped. A simulation policy: see `scheduler.simulator.rivals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES, Priority
from scheduler.policies.policy import Policy, greedy

if TYPE_CHECKING:
    from scheduler.parameters import Parameters


def by_age(_: Parameters) -> Priority:
    return PRIORITIES["sjf"]


POLICY = Policy("sjf", "shortest expected run time first, a job that does not fit is passed", greedy, by_age)
