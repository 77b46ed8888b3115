"""Measuring a GPU type's links on idle GPUs (algorithms.md section 2, *by themselves*): which probe begins now, and where.

A probe is an all-reduce of a few seconds on two GPUs: of one node for B_link, of two nodes for B_net. The driver says which
links are wanted (`ClusterState.links_wanted`). It wants none while a probe runs, because two probes side by side would share
the bandwidth that they measure. The rules are like those of profiles:
- probes and profiles hold at most `profile_share` of the GPUs that are idle or measured on. One probe may begin on four idle
  GPUs when nothing is being profiled;
- a probe uses only idle resources that are promised to no job, on the nodes with the fewest idle GPUs, so that larger blocks
  stay whole;
- no probe begins on a GPU type that a job may use whose LR has reached `reserve_lr`.
No job waits for a probe. A probe does not wait in the queue either: if it cannot begin in one planning, the next is asked again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.model import ClusterState, Configuration, LinkOrder, LinkWish, Ranked, Running, Share
from scheduler.model.instances import is_instance
from scheduler.planning.profiling import NEW_BELOW, budget, types_kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger

GPUS = 2
MEMORY_MIB = 2048
"""On each of its nodes."""
LIMIT_S = 60.0
FREE_FOR_ONE = 2 * GPUS
"""The idle GPUs from which on one probe may begin under any `profile_share`: half of them stay for jobs."""
PROBE = NEW_BELOW - 2**32
"""The id that a probe has in the rest of the planning in which it begins. No job and no profile has it."""


def choose(
    queue: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters
) -> tuple[LinkOrder, ...]:
    """The probe that begins now, taken from `ledger`; () when none is wanted or none may begin."""
    if not state.links_wanted or not _may(ledger, state, parameters):
        return ()
    types = {free.node.gpu_type for free in ledger.free.values() if free.node.gpu_type}
    closed = types_kept(queue, types, parameters.reserve_lr)
    for wish in state.links_wanted:
        if wish.gpu_type in closed or is_instance(wish.gpu_type):  # between instances there are no links
            continue
        for shares in _places(wish, ledger):
            wanted = Configuration(PROBE, shares, 1.0, "probe")
            if ledger.shortfall(wanted, wish.tenant) is None:
                return (LinkOrder(wish, ledger.take(wanted, wish.tenant).pieces),)
    return ()


def seen_in(state: ClusterState, orders: Sequence[LinkOrder], now_s: float) -> list[Running]:
    """The running jobs and the new probes, which hold their GPUs for a short time, for the rest of the planning."""
    begun = [
        Running(PROBE, each.wish.tenant, each.pieces, now_s, (GPUS,), expected_end_s=now_s + LIMIT_S) for each in orders
    ]
    return [*state.running, *begun]


def _may(ledger: Ledger, state: ClusterState, parameters: Parameters) -> bool:
    if parameters.profile_share <= 0:
        return False
    profiled = sum(live.profiled is not None for live in state.running)
    if budget(ledger.idle_gpus, profiled, parameters.profile_share) >= GPUS:
        return True
    return not profiled and ledger.idle_gpus >= FREE_FOR_ONE


def _places(wish: LinkWish, ledger: Ledger) -> Iterator[tuple[Share, ...]]:
    least = 1 if wish.between else GPUS
    capacities = [
        free
        for free in ledger.free.values()
        if free.node.gpu_type == wish.gpu_type
        and len(free.gpus) >= least
        and len(free.cores) >= least
        and free.memory_mib >= MEMORY_MIB
    ]
    capacities.sort(key=lambda free: (len(free.gpus), free.node.id))
    numbers = [free.node.id for free in capacities]
    if not wish.between:
        for number in numbers:
            yield (Share(number, GPUS, GPUS, MEMORY_MIB),)
        return
    for first, second in pairwise(numbers):
        yield tuple(Share(number, 1, 1, MEMORY_MIB) for number in sorted((first, second)))
