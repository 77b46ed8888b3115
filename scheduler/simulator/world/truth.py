"""Jobs and clusters as they really are, apart from the scheduler's knowledge of them; and checks of both.

The scheduler sees a job's description (`TracedJob.job`) and its own measurements; it never sees how much work there is and how
fast it goes where (`Law`). Times are seconds on the simulator's virtual clock, which begins at 0.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.estimator.measured import signature
from scheduler.intake.take_in import take_in
from scheduler.model import ClusterState, Job, Node, Tenant, node_of
from scheduler.model.speeds import Knowledge, Link, Profile


class SimulationError(ValueError):
    """It names the fault of a job, a world or a policy, and the remedy."""


@dataclass(frozen=True, slots=True)
class Spot:
    """An attempt's part of one node, with all that affects its speed there."""

    node: int
    gpu_type: str | None
    gpus: int
    cores: int
    speed: float = 1.0  # the node's own factor (Hops: server entity level), independent of the job
    pressure: float = 0.0  # memory bandwidth asked for by all that runs on the node, over what the node has


class Law(Protocol):
    """How fast a job really works."""

    def rate(self, spots: Sequence[Spot]) -> float:
        """Units of work per second on these parts of nodes, in node order; above 0. Noise is the engine's to add."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """One second of work per second, wherever it runs: for a trace that has only a duration."""

    def rate(self, spots: Sequence[Spot]) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class Hints:
    """A training job's use of cores, as its owner describes it (section 8). Its law's rate is a part of full speed, 0 to 1."""

    pipelined: bool = False
    model_parameters: int | None = None
    heavy_between_iterations: bool = False


@dataclass(frozen=True, slots=True)
class TracedJob:
    """A job of a trace or generator. `job`: its tenant's description, with its arrival as `submitted_s`."""

    job: Job
    work: float  # units of the law: samples, steps or seconds
    law: Law
    name: str = ""
    bandwidth_gbs: float = 0.0  # memory bandwidth that it draws on each of its nodes, GB/s
    reports: bool = False  # instrumented: its per-GPU speed (work units a second) reaches the estimator as it runs
    profiles: Mapping[str, Profile] = field(default_factory=dict)  # GPU type -> time modules that profiling would find
    fails: tuple[float, ...] = ()  # fraction of the work at which it fails the first, the second ... time
    retries: int = 0  # failures after which it waits again; the next one is final. It goes on where it was if movable
    restart_s: float | None = None  # its cost of a restart; None = the world's
    hints: Hints | None = None  # of a training job whose cores are tuned where the world does that
    # (GPU type, GPUs, nodes) -> per-GPU speed, work units a second, that the estimator has as one measurement of the
    # job's signature when the job comes, where it has none yet: a trace's own table of speeds, which every policy knows.
    known: Mapping[tuple[str, int, int], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """The cluster as it really is, and how the simulated service behaves.

    `nodes` all idle. `speeds`: node id -> factor; `bandwidth_gbs`: node id -> memory bandwidth. A planning is made at the
    first multiple of `tick_s` after something happened (0 = at once), a re-plan every `replan_s` of the parameters.
    """

    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)  # the scheduler's assumptions of the types
    gpu_weights: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)  # GPU type -> bandwidths, as calibrated
    speeds: Mapping[int, float] = field(default_factory=dict)
    bandwidth_gbs: Mapping[int, float] = field(default_factory=dict)
    tick_s: float = 0.0
    restart_s: float = 60.0  # lost at each start after the first, before work goes on
    stop_s: float = 0.0  # from the order to stop until the resources are free
    profiling_s: float = (
        0.0  # from arrival until a job's `profiles` are known, if a GPU of the type was idle; 0 = at once
    )
    noise: float = 0.0  # coefficient of variation of an attempt's speed (lognormal, mean 1)
    failures: bool = False  # whether `TracedJob.fails` are played
    tunes_cores: bool = False  # whether the cores of jobs with hints are tuned: see `tuning`
    relieves_memory: bool = (
        False  # whether CPU jobs that take the memory from training jobs are held back: see `relief`
    )
    shared_storage: bool = (
        True  # every node reads every checkpoint; False: those of its `storage_domain`, as in service
    )

    @property
    def nodes_counted(self) -> int:
        """The number of nodes; one with GPUs of several types counts once."""
        return len({node_of(node.id) for node in self.nodes})


def check(traced: TracedJob, known: Container[int], now_s: float) -> None:
    """Raise SimulationError if the job cannot be simulated. The scheduler itself checks what the tenant declares."""
    number = traced.job.id
    if number in known:
        raise SimulationError(f"job {number} is listed twice; give each job an id of its own")
    if not (math.isfinite(traced.job.submitted_s) and traced.job.submitted_s >= now_s):
        detail = f"arrives at {traced.job.submitted_s} s; the clock stands at {now_s:g} s"
        raise SimulationError(f"job {number} {detail}: arrivals must be finite and not in the past")
    if not (math.isfinite(traced.work) and traced.work > 0):
        raise SimulationError(f"job {number} has {traced.work} units of work; it must be a finite number above 0")
    if not (math.isfinite(traced.bandwidth_gbs) and traced.bandwidth_gbs >= 0):
        raise SimulationError(f"job {number} draws {traced.bandwidth_gbs} GB/s; it must be a finite number, 0 or more")
    if not all(0 < fraction < 1 for fraction in traced.fails):
        raise SimulationError(f"job {number} fails at {traced.fails} of its work; the fractions must be within 0 and 1")
    if not all(math.isfinite(speed) and speed > 0 for speed in traced.known.values()):
        raise SimulationError(f"job {number} brings a known speed that is no finite number above 0")
    if traced.profiles:
        profiles = {(signature(traced.job), gpu_type): profile for gpu_type, profile in traced.profiles.items()}
        for wrong in take_in(ClusterState((), (), knowledge=Knowledge({}, profiles))).suspects.values():
            raise SimulationError(f"job {number}: {wrong}")
