"""Sia as Hops ran it (SoCC '24, 4.2, "Baseline Settings"): one configuration for each requirement, and Hops' queue.

Users choose requirements that Sia's powers of two may miss, so each of them is a configuration; and the queue is ordered by
latency ratio. That order decides between jobs that are worth the same to the program, and which job is placed first. Hops finds
(2.2, 4.3) that it does not change Sia otherwise, because every job of the queue enters the program in the same way.
"""

from functools import partial

from scheduler.policies.policy import Policy, by_knob
from scheduler.policies.rivals.typelevel.round import play

MEANING = "Sia with every requirement a configuration, and the queue by latency ratio"
POLICY = Policy("sia-hops", MEANING, partial(play, every_size=True), by_knob, replans=True, round_s=60.0)
