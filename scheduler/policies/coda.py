"""CODA (IPDPS, V-C): arrays, DRF between tenants and FIFO within one, rigid jobs, greedy placement, call-backs.

Every GPU job asks only for its smallest size. At its turn it is placed in its own array, else on GPUs that it may borrow. There
are no reservations and no joint solve. CODA's tuning of cores and its contention eliminator are modules of their own.
"""

from functools import partial

from scheduler.parameters.choices import POLICIES
from scheduler.policies import arrays_and_windows
from scheduler.policies.lineup import Mode
from scheduler.policies.policy import Policy

MODE = Mode(arrays=True, fair=True, borrow=True, joint=False, rigid=True, reserve_lr=None)
POLICY = Policy("coda", POLICIES["coda"], partial(arrays_and_windows.place, mode=MODE), is_fair=lambda _: True)
