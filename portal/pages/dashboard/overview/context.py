"""Contexts of the overview's templates; `parts.context` has the rules and the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Choice, GpuGroup, PlotContext, StartsContext

SparkKind = Literal["line", "bars"]
SparkTone = Literal["accent", "wait"]


class Spark(TypedDict):
    """A tile's small plot. `low` and `high` are the y-scale: 0 and 100 for percentages, shared by RAQLR and live LR."""

    values: list[float | None]
    low: float
    high: float
    kind: SparkKind
    tone: SparkTone


class TileContext(TypedDict):
    name: str  # stable id: "gpu-active"
    label: str  # "GPU active rate"
    help: str | None  # one sentence, shown on the question mark
    figure: str  # "79.2", or "no data"
    unit: str | None  # "%", "jobs", or the second figure "20.8 %"
    denominator: str  # "19 of 24 allocated"
    spark: Spark | None


class Notice(TypedDict):
    lead: str  # bold
    text: str
    url: str | None
    link: str | None


class NodeContext(TypedDict):
    name: str
    url: str
    gpu_count: int
    gpu_words: str  # how many GPUs of which types; empty: none
    virtual: bool
    health: Literal["up", "unreachable", "drained", "disk-low", "dead"]
    health_word: str  # "up", "unreachable for 2 min 14 s", "drained: driver update"
    cores_used: int
    cores_total: int
    memory_percent: float | None  # of memory asked for, not measured
    active: str  # "GPUs 71 %, cores 40 %" over h
    groups: list[GpuGroup]
    cpu_job_count: int


class NextJob(TypedDict):
    """A foreign job has job_id and url None and the name "a job of another tenant"."""

    job_id: int | str | None
    url: str | None
    name: str
    tenant: str
    needs: str  # "needs 4 or 8"
    reason: str  # vocabulary, verbatim
    first: str | None  # "2 more idle GPUs on a100-01"; None: another tenant's, or not known
    lr: float | None
    waited_s: float | None
    starts: StartsContext | None


class NextContext(TypedDict):
    jobs: list[NextJob]
    trust: str | None  # "ranges held 17 of the last 20 starts"; None: there are none
    not_counted: str | None  # "1 waits on a dependency, 1 held."
    empty: str  # "No job waits. Next round at 13:42."


class TenantShare(TypedDict):
    name: str
    held: float  # GPUs; parts of shared ones as decimals
    quota: int | None  # GPUs; None: no quota, then no tick
    total: int  # the bar's full length: GPUs of the cluster
    share: float
    full: bool


class RoundColumn(TypedDict):
    """One column of the overview's strip of plannings, oldest first, at most 20."""

    number: int
    url: str
    placed: int
    fragments: float | None
    solve_ms: int | None
    current: bool


class RoundsContext(TypedDict):
    columns: list[RoundColumn]
    summary: str | None  # "Planning 5118: window 4 jobs, 6 candidates, 440 ms, nothing placed"
    note: str  # "the last 20, all solved to gap 0"


class NextPlanning(TypedDict):
    """The page head's countdown to the next planning."""

    number: int
    next_at: str  # ISO
    period_s: float


class BoardContext(TypedDict):
    """The frame of the groups with a strip a node; their figures come as JSON (`portal.pages.dashboard.board`)."""

    groupings: list[Choice]
    note: str  # "993 up, 6 drained, 1 unreachable"
    hours: int


class OverviewContext(TypedDict):
    subtitle: str  # "demo-cluster, 4 nodes, 24 GPUs"
    horizons: list[Choice]  # last 1 h, 6 h, 24 h, with urls ?h=6
    horizon_label: str  # "1 h"
    query: str  # "?h=6" or "", appended to fragment URLs
    show_memory: bool
    board: BoardContext | None  # strips instead of cells, on a large cluster
    board_url: str
    html: dict[str, str]  # the fragments by name, as readers share them
    plots: list[PlotContext]
    can_operate: bool
