"""Contexts of the cluster's and a node's templates; `parts.context` has the rules and the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.overview.context import BoardContext
    from portal.pages.dashboard.parts.context import Fact, GpuCell, GpuGroup, KeptRow, PlotContext, Rich
    from portal.pages.dashboard.parts.slowed import SlowedRow


class BlockCell(TypedDict):
    text: str
    note: NotRequired[str]
    fill: str  # "ramp-3", "short-4" or "none"


class BlockRow(TypedDict):
    name: str
    note: str  # "2, 22"
    cells: list[BlockCell]
    total: bool


class BlocksContext(TypedDict):
    """Idle blocks against queued demand, on the cluster page."""

    sentence: Rich
    sizes: list[int]
    rows: list[BlockRow]
    per: str  # "Node", or "GPU type" where nodes are many
    number: int | None


class NodeRow(TypedDict):
    name: str
    url: str
    contact_at: str | None
    health: Literal["up", "unreachable", "drained", "disk-low", "dead"]
    health_word: str
    cells: list[GpuCell]
    gpus_held: int
    gpu_count: int
    active: str  # "GPUs 71 %, cores 40 %" over h; empty where nothing is known
    cores_gpu_jobs: int
    cores_cpu_jobs: int
    cores_total: int
    memory_used_gib: float | None  # the sum of its jobs' requests
    memory_total_gib: float
    note: str | None
    kept: list[KeptRow]
    virtual: bool


class NodeTypeGroup(TypedDict):
    title: str
    note: str
    rows: list[NodeRow]


class ClusterEvent(TypedDict):
    at: str
    node: str
    what: str
    reason: str | None
    by: str


class ClusterContext(TypedDict):
    subtitle: str
    html: dict[str, str]  # the fragments by name, as readers share them
    has_blocks: bool
    has_events: bool
    horizon_label: str
    show_memory: bool
    board: BoardContext | None  # strips instead of rows, on a large cluster
    board_url: str
    plots: list[PlotContext]  # beside the blocks
    can_operate: bool
    join_command: str | None  # operators: how to add a node


class NodeJob(TypedDict):
    job_id: int | str | None
    url: str | None
    name: str
    tenant: str
    state: str
    gpus: str
    cores: int
    since: str


class NodeProblem(TypedDict):
    """A sentence of a node's agent to the operator; `at` in Unix seconds."""

    at: float
    subject: str
    detail: str


class FindingRow(TypedDict):
    """A finding of a node's checks; `remedy` is for operators."""

    what: str
    level: str
    bad: bool
    detail: str
    remedy: str


class GpuRow(TypedDict):
    """A GPU's last figures as texts."""

    index: int
    type: str  # empty where its node has one type
    use: str
    memory: str
    power: str
    energy: str
    temperature: str
    pcie: str
    clocks: str
    throttle: str
    ecc: str
    closed: str  # why no new job gets it
    remedy: str
    cordoned: bool


class NodePageContext(TypedDict):
    node: NodeRow
    facts: list[Fact]
    groups: list[GpuGroup]
    gpu_words: str
    rack: str
    jobs: list[NodeJob]
    events: list[ClusterEvent]
    plots: list[PlotContext]
    problems: list[NodeProblem]
    ranges: list[dict[str, Any]]  # label, url, selected
    findings: list[FindingRow]
    hardware: list[GpuRow]
    slowed: list[SlowedRow]
    can_operate: bool
