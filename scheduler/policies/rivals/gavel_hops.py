"""Gavel as Hops ran it (SoCC '24, 4.2, "Baseline Settings"): each job's median requirement as rigid, and Hops' queue.

Gavel has no elastic jobs, so the median of the requirements that users accept stands for them; and the queue is ordered by
latency ratio. That order decides between jobs with the same claim to the round. Hops finds (4.3) that it changes Gavel no
further, because Gavel's claims are fractions of time.
"""

from functools import partial

from scheduler.policies.policy import Policy, by_knob
from scheduler.policies.rivals.gavel import choose
from scheduler.policies.rivals.timeshare.play import play

MEANING = "Gavel with each job's median requirement, and the queue by latency ratio"
POLICY = Policy("gavel-hops", MEANING, partial(play, choose=choose), by_knob, replans=True)
