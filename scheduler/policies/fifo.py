"""FIFO, the baseline of CODA's evaluation: one queue by submission, strictly in order.

The first job that does not fit ends the planning: no job passes it, and there is no backfill.
"""

from scheduler.parameters.choices import POLICIES
from scheduler.policies.greedy import Greedy

POLICY = Greedy("fifo", POLICIES["fifo"], order="fifo", blocks=True)
