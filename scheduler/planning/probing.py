"""Measuring a GPU type's links on idle GPUs (algorithms.md section 2, *by themselves*): which probe begins now, and where.

A probe is an all-reduce of a few seconds by two GPUs: of one node for B_link, of two nodes for B_net. What is to be measured
is the driver's to say (`ClusterState.links_wanted`); it wishes nothing while a probe runs, for two side by side would share
what they measure. Rules, as those of profiles:
- at most `profile_share` of the GPUs that are idle or measured on; both GPUs where four are idle and none is profiled on;
- only what is idle and promised to nobody; the node with the fewest idle GPUs that has them, so that larger blocks stay whole;
- not on a type that a job may use whose LR has reached `reserve_lr`.
Nobody waits for a probe, and none waits in the queue: it begins in a planning or is wished for again in the next.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.model import Configuration, LinkOrder, Running, Share
from scheduler.planning.profiling import NEW_BELOW, budget, types_kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.model import ClusterState, LinkWish, Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger

GPUS = 2
MEMORY_MIB = 2048
"""On each of its nodes."""
LIMIT_S = 60.0
FREE_FOR_ONE = 2 * GPUS
"""Idle GPUs at which one probe may begin whatever the share is: half of them stay for jobs."""
PROBE = NEW_BELOW - 2**32
"""The id of a probe that begins in this planning, for the rest of it: no job's and no profile's."""


def choose(
    queue: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters
) -> tuple[LinkOrder, ...]:
    """The probe that begins now, taken from `ledger`; () when none is wished for or none may."""
    if not state.links_wanted or not _may(ledger, state, parameters):
        return ()
    types = {room.node.gpu_type for room in ledger.rooms.values() if room.node.gpu_type}
    closed = types_kept(queue, types, parameters.reserve_lr)
    for wish in state.links_wanted:
        if wish.gpu_type in closed:
            continue
        for shares in _places(wish, ledger):
            wanted = Configuration(PROBE, shares, 1.0, "probe")
            if ledger.shortfall(wanted, wish.tenant) is None:
                return (LinkOrder(wish, ledger.take(wanted, wish.tenant).pieces),)
    return ()


def seen_in(state: ClusterState, orders: Sequence[LinkOrder], now_s: float) -> list[Running]:
    """What runs, with the new probes as the rest of the planning sees them: they hold something, and are soon over."""
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
    rooms = [
        room
        for room in ledger.rooms.values()
        if room.node.gpu_type == wish.gpu_type
        and len(room.gpus) >= least
        and len(room.cores) >= least
        and room.memory_mib >= MEMORY_MIB
    ]
    rooms.sort(key=lambda room: (len(room.gpus), room.node.id))
    numbers = [room.node.id for room in rooms]
    if not wish.between:
        for number in numbers:
            yield (Share(number, GPUS, GPUS, MEMORY_MIB),)
        return
    for first, second in pairwise(numbers):
        yield tuple(Share(number, 1, 1, MEMORY_MIB) for number in sorted((first, second)))
