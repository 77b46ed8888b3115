"""The sweep's turns behind the windows (algorithms.md section 4): the tenant with the smallest share, with its first job.

Jobs of one *shape* fit the same places, so that the sweep looks once for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from scheduler.fairness.arrays import Shares, gpu_shares, least_units

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Job, Ranked
    from scheduler.placement.access import Access
    from scheduler.placement.idle_nodes import IdleNodes
    from scheduler.placement.work import Work


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
            binding = (job.checkpoint_domain, job.software, job.open_until_s)
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


@dataclass(frozen=True, slots=True)
class Standing:
    """The tenants' shares, with running, picked and swept jobs, and a job's addition to one."""

    shares: Shares
    by_type: Mapping[str, int]  # GPUs
    weights: Mapping[str, float]

    def add(self, tenant: int, job: Job) -> None:
        self.shares.add(tenant, least_units(job, self.by_type, self.weights))


def standing_of(work: Work, picked: Iterable[Ranked]) -> Standing:
    """The shares as the windows left them."""
    state, nodes = work.state, [free.node for free in work.ledger.free.values()]
    by_type: dict[str, int] = {}
    for node in nodes:
        by_type[node.gpu_type or ""] = by_type.get(node.gpu_type or "", 0) + node.gpus_total
    found = Standing(gpu_shares(nodes, state.running, state.tenants, state.gpu_weights), by_type, state.gpu_weights)
    for ranked in picked:
        found.add(ranked.job.tenant, ranked.job)
    return found


def by_share(
    shapes: Sequence[Shape],
    standing: Standing,
    *,
    fair: bool,
    wants: Callable[[Ranked], bool],
    started: Callable[[int], bool],
) -> Iterator[tuple[Ranked, Shape]]:
    """The jobs whose shape still fits at their turn. Before the caller asks for the next one, `started` must tell of the last.

    `fair` false: only the queue's order. `wants`: whether a job takes part.
    """
    lines = _lines(shapes, wants, fair=fair)
    heap = [(standing.shares.of(tenant), line[0][0], tenant) for tenant, line in lines.items()]
    heapify(heap)
    while heap:
        _, _, tenant = heappop(heap)
        line = lines[tenant]
        if (found := _next(line, shapes)) is None:
            continue
        shape = shapes[found]
        ranked = shape.jobs[shape.next]
        shape.next += 1
        yield ranked, shape
        if started(ranked.job.id):
            standing.add(tenant, ranked.job)
        if shape.fits and (head := _head(shape, wants)) is not None:
            heappush(line, (head.rank, found))
        if line:
            heappush(heap, (standing.shares.of(tenant), line[0][0], tenant))


def _lines(shapes: Sequence[Shape], wants: Callable[[Ranked], bool], *, fair: bool) -> dict[int, list[tuple[int, int]]]:
    """Tenant -> the heads of its shapes, as a heap: rank, place in `shapes`."""
    lines: dict[int, list[tuple[int, int]]] = {}
    for place, shape in enumerate(shapes):
        if (head := _head(shape, wants)) is not None:
            lines.setdefault(head.job.tenant if fair else 0, []).append((head.rank, place))
    for line in lines.values():
        heapify(line)
    return lines


def _head(shape: Shape, wants: Callable[[Ranked], bool]) -> Ranked | None:
    """The shape's next job that takes part."""
    while shape.next < len(shape.jobs):
        if wants(shape.jobs[shape.next]):
            return shape.jobs[shape.next]
        shape.next += 1
    return None


def _next(line: list[tuple[int, int]], shapes: Sequence[Shape]) -> int | None:
    """Take from the line the place of its first shape that still fits."""
    while line:
        _, place = heappop(line)
        if shapes[place].fits:
            return place
    return None
