"""FIFO, the baseline of CODA's evaluation: one queue by submission, strictly in order.

GPU and CPU jobs stand in one queue. The first job that does not fit ends the planning: no job passes it, and there is no
backfill.
"""

from functools import partial

from scheduler.parameters.choices import POLICIES
from scheduler.policies.policy import Policy, greedy

POLICY = Policy("fifo", POLICIES["fifo"], partial(greedy, passes=False))
