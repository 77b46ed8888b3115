"""The sweep's turns behind the windows: the tenant with the smallest share, with its first job (algorithms.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from scheduler.fairness import drf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scheduler.fairness.drf import Shares
    from scheduler.fairness.shapes import Shape
    from scheduler.model import Job, Ranked
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Standing:
    """The tenants' shares, with running, picked and swept jobs, and a job's addition to one."""

    shares: Shares
    by_type: Mapping[str, int]  # GPUs
    weights: Mapping[str, float]

    def add(self, tenant: int, job: Job) -> None:
        self.shares.add(tenant, drf.least_units(job, self.by_type, self.weights))


def standing_of(work: Work, picked: Iterable[Ranked]) -> Standing:
    """The shares as the windows left them."""
    state, nodes = work.state, [free.node for free in work.ledger.free.values()]
    by_type: dict[str, int] = {}
    for node in nodes:
        by_type[node.gpu_type or ""] = by_type.get(node.gpu_type or "", 0) + node.gpus_total
    found = Standing(drf.gpu_shares(nodes, state.running, state.tenants, state.gpu_weights), by_type, state.gpu_weights)
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
