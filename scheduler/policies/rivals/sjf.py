"""SJF, a baseline of DqnGPU's evaluation (algorithms.md section 12): the job with the shortest expected run time first.

The queue is ordered by `age` (section 3). A job that does not fit is passed over, because in a shortest-job queue no job can
lose its turn. A simulation policy: see `scheduler.simulator.rivals`.
"""

from scheduler.policies.greedy import Greedy

POLICY = Greedy("sjf", "shortest expected run time first, who does not fit is passed", order="sjf", blocks=False)
