"""How long the step takes that gives jobs places on shared GPUs: processor time of a planning, with and without them.

One planning, one thread, in this process. Half of the GPUs have jobs on them; every job is of a kind of its own, and a use is
known of each, so that nothing is answered for many at once. `dqn` decides by a network of random weights: what one prefers
costs the same whatever it has learnt.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.fairness.lrf import Age
from scheduler.fairness.priorities import PRIORITIES, Moment, order
from scheduler.model import ClusterState, GpuPart, Holder, Job, Node, PartedGpu
from scheduler.model.placements import WHOLE
from scheduler.parameters import Parameters
from scheduler.placement.ledger import Ledger
from scheduler.planning.sharing import choose
from scheduler.sharing.learned.record import packed, unpacked
from scheduler.sharing.model import POINTS
from scheduler.sharing.sharing import POLICIES
from scheduler.simulator.sharing.training_runs import Groups, training_begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

    from scheduler.model import Ranked
    from scheduler.sharing.learned.record import Stored

GPUS_A_NODE, GPU_MIB, TENANTS = 8, 24_576, 8
GIB = 1024
STEP_S = 20.0
"""How long a step of the learned policy is: runs take 10 to 45 of them."""


def sharing_measure(*, gpus: int, jobs: int, seed: int) -> dict[str, Any]:
    """Return, by policy, the processor time (ms) of the step, how many jobs started and how many GPUs they are on."""
    rng = np.random.default_rng(seed)
    state = _state(gpus, jobs, rng)
    figures: dict[str, Any] = {"gpus": gpus, "jobs": jobs, "seed": seed}
    queue = order(
        list(state.jobs), PRIORITIES["lrf"], Moment(0.0, gpus, jobs), lambda job: Age(job.age_s or 1.0, "bench")
    )
    for name in POLICIES:
        parameters = Parameters.from_mapping({"sharing_policy": name})
        _once(queue, state, parameters)  # the first planning makes the prices, which stay
        spent_ms, made = _once(queue, state, parameters)
        used = {(piece.node, piece.part.gpu) for piece in made if piece.part is not None}
        figures[name] = {"cpu_ms": spent_ms, "started": len(made), "gpus_joined": len(used)}
    return figures


def _once(queue: Sequence[Ranked], state: ClusterState, parameters: Parameters) -> tuple[float, list[Any]]:
    ledger = Ledger(state.nodes, (), ())
    before = resource.getrusage(resource.RUSAGE_SELF)
    found = choose(queue, ledger, state, parameters, fair=True)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * spent_s, [piece for each in found.chosen.values() for piece in each.placement.pieces]


def _state(gpus: int, jobs: int, rng: Generator) -> ClusterState:
    parted = [_gpu(index, rng) for index in range(gpus)]
    nodes = [
        Node(
            number + 1,
            f"n{number}",
            "a100",
            cores_total=256,
            idle_cores=tuple(range(256)),
            memory_total_mib=GPU_MIB * 100,
            idle_memory_mib=GPU_MIB * 100,
            shared=tuple(parted[number * GPUS_A_NODE : (number + 1) * GPUS_A_NODE]),
        )
        for number in range(-(-gpus // GPUS_A_NODE))
    ]
    waiting = [
        Job(
            number,
            number % TENANTS,
            (1,),
            wait_s=float(number % 97),
            age_s=600.0,
            model_label=f"m{number}",
            part=_part(rng),
        )
        for number in range(1, jobs + 1)
    ]
    names = [f"tenant:{job.tenant}:{job.model_label}" for job in waiting]
    names += [each.signature for gpu in parted for each in gpu.holders]
    uses = {name: _use(rng) for name in names}
    return ClusterState(nodes, waiting, uses=uses, learned=_learned(int(rng.integers(2**31))))


def _learned(seed: int) -> Stored:
    """Return a policy that was never trained, with the mask that trainings have."""
    data = Groups()
    return unpacked(packed(training_begin(data, seed), data.observation.limits, {"step_s": STEP_S}))


def _part(rng: Generator) -> GpuPart:
    return GpuPart(int(rng.integers(1, 13)) * 50, int(rng.integers(1, 8 * GIB)), harvest=bool(rng.integers(2)))


def _gpu(index: int, rng: Generator) -> PartedGpu:
    if index % 2:
        return PartedGpu(index, GPU_MIB)
    holders = tuple(
        Holder(1_000_000 + 2 * index + each, each, f"tenant:{each}:r{index}", int(rng.integers(1, 7)) * 50, 4 * GIB)
        for each in range(2)
    )
    seen = tuple(float(each) for each in 4 * GIB + np.cumsum(rng.normal(0, 50, 60)))
    return PartedGpu(index, GPU_MIB, holders, seen)


def _use(rng: Generator) -> dict[str, list[float]]:
    top = {"memory_mib": 8.0 * GIB, "gpu": 1.0, "pcie_mb_s": 1000.0}
    found = {name: (most * rng.random(POINTS)).tolist() for name, most in top.items()}
    return found | {"seconds": [float(rng.uniform(10, 45) * STEP_S)]}


def sharing_text(figures: dict[str, Any]) -> str:
    lines = [f"{figures['jobs']} waiting jobs over {figures['gpus']} shared GPUs (limit of the requirement: 100 ms)"]
    lines += [
        f"  {name:<8} {figures[name]['cpu_ms']:6.1f} ms of processor time; {figures[name]['started']} jobs started on "
        f"{figures[name]['gpus_joined']} GPUs (of {WHOLE} thousandths each)"
        for name in POLICIES
    ]
    return "\n".join(lines)
