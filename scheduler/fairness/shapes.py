"""The queue's jobs by *shape*. Jobs of one shape fit the same places, so that the sweep looks once for all of them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Ranked
    from scheduler.placement.access import Access
    from scheduler.placement.idle_nodes import IdleNodes

LOOK_EVERY = 2000
"""After this number of jobs the clock is read: some milliseconds of processor time."""


@dataclass(slots=True)
class Shape:
    """Waiting jobs that fit the same places, in the queue's order. `fits`: as far as this pass knows."""

    jobs: list[Ranked]
    access: Access
    fits: bool = True
    next: int = 0  # the first of them that may still want a turn in this pass


def shapes_of(
    queue: Sequence[Ranked],
    nodes: IdleNodes,
    access_rules: AccessRules,
    estimator: Estimator,
    promised: Collection[int],
    late: Callable[[], bool] = lambda: False,
) -> tuple[list[Shape], Sequence[Ranked]]:
    """The shapes of the queue, without jobs for which too few GPUs are idle in any place, and without jobs with a promise.

    Once `late` says so the jobs from there on are not looked at: they are returned beside the shapes.
    """
    if not nodes.gpus_left:
        return [], ()
    alike, seen = _alike(queue, nodes.most_by_type(estimator), promised, late)
    shapes = [
        shape
        for jobs in alike
        for own in _apart(jobs, access_rules, estimator)
        for shape in _by_memory(own, access_rules)
    ]
    return shapes, queue[seen:]


def _alike(
    queue: Sequence[Ranked], most: Mapping[str, int], promised: Collection[int], late: Callable[[], bool]
) -> tuple[Iterable[list[Ranked]], int]:
    """The queue's jobs in groups that ask for the same, apart from memory, and how many jobs there was time for.

    `most`: by GPU type, the most GPUs for one job.
    """
    alike: dict[tuple[object, ...], list[Ranked]] = {}
    held: dict[tuple[int, frozenset[str]], bool] = {}
    for seen, ranked in enumerate(queue):
        if seen % LOOK_EVERY == LOOK_EVERY - 1 and late():
            return alike.values(), seen
        job = ranked.job
        size, _ = kind = (job.requirement[0], job.gpu_types)
        fits = held.get(kind)
        if fits is None:
            fits = held[kind] = any(size <= gpus and job.may_use(name) for name, gpus in most.items())
        if fits and job.id not in promised:
            binding = (job.checkpoint_domain, job.software)
            key = (kind, job.tenant, job.cores, job.movable, job.model_label, *binding, job.least_cores)
            own = alike.get(key)
            if own is None:
                alike[key] = [ranked]
            else:
                own.append(ranked)
    return alike.values(), len(queue)


def _by_memory(jobs: list[Ranked], access_rules: AccessRules) -> list[Shape]:
    """The shapes of jobs that differ only in memory. Their access is the same, and is asked once."""
    access = access_rules.access(jobs[0])
    shapes: dict[int, Shape] = {}
    for ranked in jobs:
        memory_mib = ranked.job.memory_mib
        own = shapes.get(memory_mib)
        if own is None:
            shapes[memory_mib] = Shape([ranked], access)
        else:
            own.jobs.append(ranked)
    return list(shapes.values())


def _apart(jobs: list[Ranked], access_rules: AccessRules, estimator: Estimator) -> list[list[Ranked]]:
    """Jobs that ask for the same, in groups by the reservations that bar them and by measured speeds."""
    measured = jobs[0].job.model_label is None and estimator.signatures != frozenset()
    if not access_rules.reservations and not measured:
        return [jobs]
    soonest = sorted(kept.until_s - now_s for kept, now_s in access_rules.reservations)
    holders = {kept.job for kept, _ in access_rules.reservations}
    apart: dict[tuple[int, int], list[Ranked]] = {}
    for ranked in jobs:
        number = ranked.job.id
        own = number if number in holders or (measured and estimator.is_known(ranked.job)) else 0
        apart.setdefault((own, bisect_left(soonest, ranked.age_s)), []).append(ranked)
    return list(apart.values())
