"""Sia (SOSP '23): rounds in which goodput is shared out by GPU type, with one integer program over all jobs.

Each round every job is given one of its configurations, or none (3.3, 3.4: `typelevel.configurations`, `typelevel.program`),
and the placer finds the nodes (3.5: `typelevel.placer`). Its rounds are of 60 s: `replan_s` 60. The queue's order, first
come first served, decides only between equals, for Sia has no queue.
"""

from functools import partial

from scheduler.policies.policy import Policy
from scheduler.policies.rivals.typelevel.round import play

MEANING = "goodput by GPU type in rounds: one integer program over all jobs, then a placer"
POLICY = Policy("sia", MEANING, partial(play, every_size=False), replans=True, round_s=60.0)
