"""The simulated service's knowledge of jobs' speeds: measurements of running jobs, and profiles.

The tables and functions are the estimator's own (Hops 3.2-3.5). The truth reaches them only here, as measured rates. A job that
does not report (`TracedJob.reports`) and has no profiles stays unknown. An attempt is measured at plannings, at most once for
each minute of running, and once more when it ends or its speed changes: work per second and GPU.

Profiles are known when the job arrives if the world's `profiling_s` is 0. Else the planning chooses which are made (algorithms.md
section 2): each takes `profiling_s` on the GPU and cores that the plan gives it, and gives the type's entry in
`TracedJob.profiles`. If it would take longer than its limit it is cut off and gives nothing. Then the signature is not profiled
again on that type for `PROFILE_AGAIN_S`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.estimator.measured import cell_key, record, signature
from scheduler.model import Profiled, ProfileOrder, Running
from scheduler.model.speeds import Cell, CellKey, Knowledge, Profile
from scheduler.planning.profiling import PROFILE_AGAIN_S
from scheduler.simulator.world.truth import World

if TYPE_CHECKING:
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Load


REPORT_S = 60.0
"""The seconds that an attempt runs between two measurements. One that ends sooner is measured once."""


class Knowing:
    """The measurements so far. A planning may see `knowledge`; `version` changes with it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cells: dict[CellKey, Cell] = {}
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._own: dict[str, set[CellKey]] = {}  # cells of signatures that only one job has
        self.knowledge = Knowledge(self._cells, self._profiles, world.links)
        self.version = 0

    def arrived(self, load: Load) -> None:
        """A job arrived. Each speed that its trace knows beforehand counts as one measurement, if there is none yet."""
        name = signature(load.traced.job)
        cells = {
            cell_key(name, gpu_type, gpus, nodes): speed for (gpu_type, gpus, nodes), speed in load.traced.known.items()
        }
        self._keep(load, {key: Cell().add(speed) for key, speed in cells.items() if key not in self._cells})
        if self._world.profiling_s <= 0:
            for gpu_type in sorted(load.traced.profiles):
                self.learn(load, gpu_type)

    def learn(self, load: Load, gpu_type: str) -> bool:
        """Take the result of a profile on the type; False if it has none."""
        key, profile = (signature(load.traced.job), gpu_type), load.traced.profiles.get(gpu_type)
        if profile is not None and key not in self._profiles:
            self._profiles[key] = profile
            self.version += 1
        return profile is not None

    def measure(self, load: Load, now_s: float, *, last: bool = False) -> None:
        """Measure an attempt's speed, if it has run long enough since the last measurement."""
        attempt = load.attempt
        if attempt is None or not load.traced.reports or not attempt.gpus:
            return
        ran_s = now_s - max(attempt.measured_s, attempt.ready_s)
        if ran_s < REPORT_S and not (last and ran_s > 0 and attempt.measured_s <= attempt.ready_s):
            return
        attempt.measured_s = now_s
        where = [(spot.node, spot.gpu_type or "") for spot in attempt.spots]
        name = signature(load.traced.job)
        self._keep(load, record(self._cells, name, where, attempt.gpus, attempt.rate / attempt.gpus))

    def _keep(self, load: Load, cells: Mapping[CellKey, Cell]) -> None:
        if not cells:
            return
        self._cells.update(cells)
        self.version += 1
        if not load.traced.job.model_label:
            self._own.setdefault(signature(load.traced.job), set()).update(cells)

    def ended(self, load: Load) -> None:
        """Forget the measurements of an ended job that no other job can use."""
        job = load.traced.job
        if job.model_label:
            return
        gone = self._own.pop(signature(job), set())
        for key in gone:
            del self._cells[key]
        profiles = [(signature(job), name) for name in load.traced.profiles]
        found = [key for key in profiles if self._profiles.pop(key, None) is not None]
        self.version += bool(gone or found)


@dataclass(frozen=True, slots=True)
class _Run:
    order: ProfileOrder
    load: Load
    started_s: float


class Profiles:
    """The running profiles, with ids from -1 downwards, and the failed ones."""

    def __init__(self, world: World, cluster: Cluster, knowing: Knowing) -> None:
        self._profiling_s, self._cluster, self._knowing = world.profiling_s, cluster, knowing
        self._running: dict[int, _Run] = {}
        self._begun = 0
        self._until: dict[tuple[str, str], float] = {}  # (signature, type) -> not again before
        self.gpu_s = 0.0  # held by all of them so far

    def __len__(self) -> int:
        return len(self._running)

    def start(self, order: ProfileOrder, load: Load, now_s: float) -> tuple[int, float]:
        """Begin a profile. Returns its id, and when it ends."""
        self._begun += 1
        self._cluster.take((order.piece,), load.traced.job.tenant)
        self._running[-self._begun] = _Run(order, load, now_s)
        if load.profiled_since_s is None:
            load.profiled_since_s, load.described = now_s, None
        return -self._begun, now_s + min(self._profiling_s, order.limit_s)

    def end(self, number: int, now_s: float) -> None:
        """End the profile: its GPU is free, and its result is known."""
        run = self._running.pop(number)
        order = run.order
        self._cluster.give((order.piece,), run.load.traced.job.tenant)
        self.gpu_s += (now_s - run.started_s) * len(order.piece.gpus)
        told = self._profiling_s <= order.limit_s and self._knowing.learn(run.load, order.gpu_type)
        if not told:
            self._until[order.signature, order.gpu_type] = now_s + PROFILE_AGAIN_S

    def running(self) -> list[Running]:
        """The running profiles as a snapshot shows them."""
        return [
            Running(
                number,
                run.load.traced.job.tenant,
                (run.order.piece,),
                run.started_s,
                (1,),
                expected_end_s=run.started_s + run.order.limit_s,
                profiled=Profiled(
                    run.order.job, run.order.signature, run.order.gpu_type, run.started_s + run.order.limit_s
                ),
            )
            for number, run in self._running.items()
        ]

    def tried(self, now_s: float) -> frozenset[tuple[str, str]]:
        """The pairs that are not to be profiled again yet."""
        self._until = {key: until_s for key, until_s in self._until.items() if until_s > now_s}
        return frozenset(self._until)
