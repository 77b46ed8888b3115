"""The snapshot that a planning is made from: nodes, tenants, jobs, and the knowledge of the past."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduler.model.lengths import Sample
from scheduler.model.speeds import Knowledge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model.jobs import Job, Running
    from scheduler.model.lengths import Kin
    from scheduler.model.placements import PairSeen, PartedGpu


NUMBERS = 1 << 32
"""Ids of nodes are below this."""


def bay_id(node: int, number: int) -> int:
    return node + number * NUMBERS


def node_of(bay: int) -> int:
    """The id of the node that the bay is of; a node's own id is itself."""
    return bay % NUMBERS if bay >= NUMBERS else bay


def number_of(bay: int) -> int:
    """The number of the bay on its node; 0: the type that the node goes by."""
    return max(0, bay) // NUMBERS


@dataclass(frozen=True, slots=True)
class Node:
    """One server, or a bay of one (`scheduler.model.cluster`). `idle_*`: resources that this planning may hand out there.

    Not `schedulable` = it gets no new jobs now. `whole_*`: of a bay, its node's; None = the same as `*_total`.
    """

    id: int
    name: str
    gpu_type: str | None = None
    gpus_total: int = 0
    idle_gpus: tuple[int, ...] = ()
    cores_total: int = 0
    idle_cores: tuple[int, ...] = ()
    memory_total_mib: int = 0
    idle_memory_mib: int = 0
    storage_domain: str = ""  # "" = the node's own disk, read by nobody else
    schedulable: bool = True
    unavailable_because: str = ""  # e.g. "unreachable", "draining"; shown with `nodes-unavailable`
    single_account: bool = False  # every job there runs as one account
    trusts_tenants: bool = True  # the operator declared that tenants may share that account
    tenants: frozenset[int] = frozenset()  # whose jobs are on the node now
    only: frozenset[int] = frozenset()  # the one tenant that it serves, which counts as there; none: all are served
    offers: frozenset[str] = frozenset()  # software that jobs may need; the same words as `Job.software`
    place: tuple[
        str, ...
    ] = ()  # where it stands, the widest level first: two nodes are nearer the more levels they share
    speed: float = 1.0  # entity factor: median over jobs of its throughput over its type's; used in 5 % steps
    tunes: bool = True  # the cores of jobs there are tuned, where anybody's are
    whole_cores: int | None = None
    whole_memory_mib: int | None = None
    shared: tuple[
        PartedGpu, ...
    ] = ()  # its GPUs that several jobs may share; `gpus_total` and `idle_gpus` leave them out
    closes_s: float = math.inf  # on the snapshot's clock: from then on nothing runs there; inf = it does not end

    @property
    def gpus_there(self) -> int:
        """All its GPUs, shared ones too."""
        return self.gpus_total + len(self.shared)

    @property
    def most_cores(self) -> int:
        """The cores that a job could have there if nothing else ran on the node."""
        return self.cores_total if self.whole_cores is None else self.whole_cores

    @property
    def most_memory_mib(self) -> int:
        return self.memory_total_mib if self.whole_memory_mib is None else self.whole_memory_mib

    @property
    def domain(self) -> str:
        """The storage domain in which a checkpoint written here can be read."""
        return self.storage_domain or f"node:{node_of(self.id)}"

    @property
    def exclusive_tenant(self) -> bool:
        """One tenant at a time: a shared account without declared trust (architecture.md, single-account mode)."""
        return bool(self.only) or (self.single_account and not self.trusts_tenants)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. Quotas are hard caps on what its running jobs hold at one time; None = none."""

    id: int
    weight: float = 1.0
    gpu_quota: int | None = None
    core_quota: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended, for RAQLR: its waiting time and its age. `array`: the array whose task it was."""

    ended_s: float
    wait_s: float
    age_s: float
    array: int | None = None


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The run times of earlier jobs, by which lengths are known (section 3). Absent keys mean "no such past"."""

    told: Mapping[int, Sample] = field(default_factory=dict)  # owner (or tenant) -> actual / declared
    like: Mapping[Kin, Sample] = field(default_factory=dict)  # a group of jobs -> their run times, s
    errors: Sample = field(
        default_factory=Sample
    )  # of the latest foretold lengths, in their spreads: see `estimator.record`
    errors_of: Mapping[int, Sample] = field(default_factory=dict)  # the same of one tenant's jobs


@dataclass(frozen=True, slots=True)
class ArrayHistory:
    """The basis of the division into arrays: a summary of the last week (section 4). Empty = no history."""

    tuned_cores_per_gpu: Sequence[float] = ()  # of the GPU jobs tuned in it
    large_gpus_peak: int | None = None  # the most GPUs that large jobs held plus queued at one time; None: no GPU jobs


@dataclass(frozen=True, slots=True)
class LinkWish:
    """A GPU type's bandwidth that is to be measured, within a node or `between` two; `tenant`: whose the probe will be."""

    gpu_type: str
    between: bool
    tenant: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The snapshot a planning is made from. `gpu_speeds`: relative speed of each known GPU type (default 1).

    `gpu_weights`: the weight of a type's GPU in a tenant's share (operator's, default 1).
    """

    nodes: Sequence[Node]
    jobs: Sequence[Job]
    running: Sequence[Running] = ()
    tenants: Sequence[Tenant] = ()
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)
    ended: Sequence[Ended] = ()
    history: RunHistory = field(default_factory=RunHistory)
    gpu_weights: Mapping[str, float] = field(default_factory=dict)
    array_history: ArrayHistory = field(default_factory=ArrayHistory)
    knowledge: Knowledge = field(default_factory=Knowledge)
    profiles_tried: frozenset[tuple[str, str]] = frozenset()  # (signature, GPU type) not to be profiled again yet
    replanned_s: float | None = None  # when the last re-plan was made; None = never
    links_wanted: Sequence[LinkWish] = ()  # to be measured now; none while a probe runs
    learned: Any = None  # a `scheduler.sharing.learned.record.Stored`, or None: the network of the sharing policy `dqn`
    uses: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Signature -> measure of `scheduler.sharing.model.MEASURES` -> what its last run used of one GPU, equally spaced.
    `seconds`: one value, how long that run took, where the policy asks for it."""
    pairs: Mapping[tuple[str, str, str], PairSeen] = field(default_factory=dict)
    """(Signature, the one beside it, GPU type) -> what that cost it."""
    too_small: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Signature -> types of instances with less memory than its runs were seen to use of a GPU."""
