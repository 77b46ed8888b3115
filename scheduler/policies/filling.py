"""The windows of the GPU arrays, filled in turns (algorithms.md section 4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.fairness import drf, progressive
from scheduler.fairness.arrays import UNDIVIDED, Array, divide
from scheduler.fairness.keeping import GPU_ARRAYS
from scheduler.fairness.progressive import ArrayWindow, Windows
from scheduler.fairness.standings import shares_of
from scheduler.model import Queue, labelled
from scheduler.rules import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.fairness.arrays import Division
    from scheduler.fairness.borrowing import HomeArrays
    from scheduler.model import Ranked, ShareView
    from scheduler.placement.work import Work
    from scheduler.policies.mode import Mode


CPU = (0,)
"""The requirement of a CPU job."""


def apart(queue: Sequence[Ranked], mode: Mode) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    """The GPU jobs and the CPU jobs."""
    gpu_queue, cpu_queue = _apart(queue)
    return [_rigid(each) for each in gpu_queue] if mode.rigid else gpu_queue, cpu_queue


def _apart(queue: Sequence[Ranked]) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    if isinstance(queue, Queue):
        kinds = [kind for kind, head in queue.heads.items() if head.job.requirement == CPU]
        if not kinds:
            return queue, []
        of_cpu = np.isin(queue.kinds, kinds)
        return queue.only(~of_cpu), queue.only(of_cpu)
    gpu_queue = [each for each in queue if each.job.requirement != CPU]
    return gpu_queue, [each for each in queue if each.job.requirement == CPU] if len(gpu_queue) < len(queue) else []


def divided(work: Work, mode: Mode) -> Division:
    if not mode.arrays:
        return UNDIVIDED
    knobs = work.parameters
    return divide(
        work.ledger.nodes,
        work.state.array_history,
        reserved_per_gpu=knobs.reserved_cores_per_gpu,
        large_share=knobs.large_array_share,
    )


def _rigid(ranked: Ranked) -> Ranked:
    if len(ranked.job.requirement) == 1:
        return ranked
    return replace(ranked, job=replace(ranked.job, requirement=(ranked.job.min_gpus,)))


def fill(
    gpu_queue: Sequence[Ranked], work: Work, mode: Mode, division: Division, homes: HomeArrays
) -> tuple[Windows, list[ShareView]]:
    windows: dict[Array, ArrayWindow] = {}
    for array in GPU_ARRAYS:
        rooms = [room for number, room in work.ledger.rooms.items() if division.array_of_node(number) is array]
        capacity = round(sum(room.node.gpus_total for room in rooms) * work.parameters.window_size)
        windows[array] = ArrayWindow(capacity, sum(len(room.gpus) for room in rooms))
    lines = labelled(gpu_queue, lambda each: (each.job.tenant, homes.of(each.job)))
    if mode.borrow and mode.joint and work.parameters.placement == "ilp":
        _lend(windows, lines)
    state, nodes = work.state, [room.node for room in work.ledger.rooms.values()]
    by_type: dict[str, int] = {}
    for node in nodes:
        by_type[node.gpu_type or ""] = by_type.get(node.gpu_type or "", 0) + node.gpus_total
    shares = drf.gpu_shares(nodes, state.running, state.tenants, state.gpu_weights)
    held, gpu_units = dict(shares.held), shares.capacity
    if not mode.fair:
        shares.capacity = math.inf  # then every share is 0, and the queue's order decides alone
    filled = progressive.fill(
        gpu_queue,
        lines,
        windows,
        shares,
        work.ledger,
        array=lambda each: homes.of(each.job),
        units=lambda each: drf.least_units(each.job, by_type, state.gpu_weights),
    )
    if not mode.fair or STAGES in work.parameters.off:
        for window in windows.values():
            window.tenants.clear()
    return filled, shares_of("gpus", held, shares, gpu_units)


def _lend(windows: Mapping[Array, ArrayWindow], lines: Mapping[tuple[int, Array], Sequence[Ranked]]) -> None:
    """Add to each front what the other array's own queue leaves idle, because the jobs of this array may borrow it.

    Otherwise the front would hold only the few jobs that fit the array's own idle GPUs, and in its solve an elastic job
    would take all that is lent. Greedy placement has no solve: there, as in CODA, the front of the other array comes first.
    """
    asked = dict.fromkeys(windows, 0)
    for (_, home), jobs in lines.items():
        asked[home] += sum(each.job.requirement[0] for each in jobs)
    spare = {array: max(0, window.idle - asked[array]) for array, window in windows.items()}
    for array, window in windows.items():
        window.idle += sum(spare.values()) - spare[array]
