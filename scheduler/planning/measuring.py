"""Measurements that begin in this planning: probes of links, and jobs that are spread to learn what it costs.

*Probes* measure a GPU type's links on idle GPUs (algorithms.md section 2, *by themselves*).
A probe is an all-reduce of a few seconds on two GPUs: of one node for B_link, of two nodes for B_net. The driver says which
links are wanted (`ClusterState.links_wanted`). It wants none while a probe runs, because two probes side by side would share
the bandwidth that they measure. The rules are like those of profiles:
- probes and profiles hold at most `profile_share` of the GPUs that are idle or measured on. One probe may begin on four idle
  GPUs when nothing is being profiled;
- a probe uses only idle resources that are promised to no job, on the nodes with the fewest idle GPUs, so that larger blocks
  stay whole;
- no probe begins on a GPU type that a job may use whose LR has reached `reserve_lr`.
No job waits for a probe. A probe does not wait in the queue either: if it cannot begin in one planning, the next is asked again.

*Spreads*: which jobs may be spread to measure the cost of it (algorithms.md section 2): *a job that could use several nodes is
measured spread once when rho decides and is not known*.

A job whose sensitivity is not known counts as sensitive, so it would never be spread, and nobody would ever learn more. So for
each signature that has run, but never over several nodes, one job at a time counts as insensitive. It is offered sizes over
several nodes at their assumed speed, and takes one if that is worth it. Its first minutes there tell the sensitivity.

It is the job of the signature with the most work left, waiting or running. It is chosen only while knowing is worth the cost:
all jobs of the signature still have to run for at least as long as `WORTH_RESTARTS` restarts. A job that may not be stopped is
never chosen, because it would have to stay where it is if that turned out slow. While a job of the signature runs
over several nodes, no other is chosen.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

from scheduler.estimator.measured import signature
from scheduler.model import ClusterState, Configuration, Job, LinkOrder, LinkWish, Ranked, Running, Share
from scheduler.model.placements import is_instance
from scheduler.planning.profiling import NEW_BELOW, budget, types_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.fairness.lrf import Age
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


def choose_probes(
    queue: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters, now_s: float
) -> tuple[LinkOrder, ...]:
    """The probe that begins now, taken from `ledger`; () when none is wanted or none may begin."""
    if not state.links_wanted or not _may(ledger, state, parameters):
        return ()
    types = {free.node.gpu_type for free in ledger.free.values() if free.node.gpu_type}
    closed = types_kept(queue, types, parameters.reserve_lr)
    for wish in state.links_wanted:
        if wish.gpu_type in closed or is_instance(wish.gpu_type):  # between instances there are no links
            continue
        for shares in _places(wish, ledger, now_s + LIMIT_S):
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


def _places(wish: LinkWish, ledger: Ledger, until_s: float) -> Iterator[tuple[Share, ...]]:
    least = 1 if wish.between else GPUS
    capacities = [
        free
        for free in ledger.free.values()
        if free.node.gpu_type == wish.gpu_type
        and len(free.gpus) >= least
        and len(free.cores) >= least
        and free.memory_mib >= MEMORY_MIB
        and free.node.closes_s >= until_s
    ]
    capacities.sort(key=lambda free: (len(free.gpus), free.node.id))
    numbers = [free.node.id for free in capacities]
    if not wish.between:
        for number in numbers:
            yield (Share(number, GPUS, GPUS, MEMORY_MIB),)
        return
    for first, second in pairwise(numbers):
        yield tuple(Share(number, 1, 1, MEMORY_MIB) for number in sorted((first, second)))


LOOKED_AT = 1000
"""The most jobs of the queue that are looked at, the first ones: a job further back does not start now."""

WORTH_RESTARTS = 20


def choose_spreads(
    queue: Sequence[Ranked],
    running: Iterable[Running],
    estimator: Estimator,
    age: Callable[[Job], Age],
    parameters: Parameters,
) -> set[int]:
    """The jobs, one for each signature, that this planning may spread to measure them."""
    if estimator.signatures is not None and not estimator.signatures:
        return set()
    finding: set[str] = set()
    most: dict[str, tuple[float, int]] = {}
    left: dict[str, float] = {}
    for job, live in _spreadable(queue, running):
        name = signature(job)
        if not estimator.is_known(job) or estimator.tells_spreading(job):
            continue
        if live is not None and len(live.pieces) > 1:
            finding.add(name)
        if live is not None and job.total_samples is not None and (speeds := estimator.samples_per_s(job)):
            # By its measured speed, because its age may be an old guess.
            left_s = job.total_samples * (1.0 - job.done_fraction) / (max(speeds.values()) * live.gpus)
        else:
            left_s = age(job).age_s * (1.0 - job.done_fraction)
        left[name] = left.get(name, 0.0) + left_s
        if job.movable and len(job.requirement) > 1:
            most[name] = max(most.get(name, (-1.0, 0)), (left_s, -job.id))
    worth_s = WORTH_RESTARTS * parameters.restart_cost_s
    return {-number for name, (_, number) in most.items() if name not in finding and left[name] >= worth_s}


def _spreadable(queue: Sequence[Ranked], running: Iterable[Running]) -> Iterator[tuple[Job, Running | None]]:
    for live in running:
        if live.description is not None and live.gpus and live.profiled is None:
            yield live.description, live
    for ranked in islice(queue, LOOKED_AT):
        if not ranked.job.is_cpu:
            yield ranked.job, None
