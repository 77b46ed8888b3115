"""What the templates are given: shared parts, overview, cluster, rounds, tokens. Jobs' pages: `job_context`.

Rules for whoever fills these. A figure that is not computed is None and its block is then absent, never 0 or "n/a".
Times are ISO 8601 UTC strings; the browser shows them in the reader's zone. Durations are seconds, shares are 0..1
unless the name ends in `_percent`; text is plain (templates escape it). `Rich` is a sentence with emphasis:
a plain string, or a list of segments, printed by the tag `{% rich %}`.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Tone = Literal["run", "wait", "fail", "stop", "neutral"]
PageName = Literal["overview", "jobs", "queue", "cluster", "rounds", "laboratory", "account"]


class Segment(TypedDict):
    """A piece of a sentence; `code` prints a reason chip, `href` a link."""

    text: str
    bold: NotRequired[bool]
    note: NotRequired[bool]
    href: NotRequired[str]
    code: NotRequired[bool]


Rich = str | list[Segment]


class Choice(TypedDict):
    """One choice of a select, a segmented control, a filter menu or a tab."""

    value: str
    label: str
    selected: bool
    url: NotRequired[str]
    note: NotRequired[str]
    count: NotRequired[int]


class Shell(TypedDict):
    """Every signed-in page's frame, from a context processor, as `shell`; absent before sign-in and on error pages."""

    page: PageName
    username: str
    initials: str
    is_operator: bool
    tenants: list[str]
    live_streams: list[str]  # "cluster", and "job:42" on a job's page; empty: the page is not live
    live_numbers: dict[str, int]  # last number of each stream when the page was rendered; a gap since then refetches
    banner: str | None  # red bar on every page, e.g. single-account mode


class Spark(TypedDict):
    """A tile's small plot. `low` and `high` are the y-scale: 0 and 100 for percentages, shared by RAQLR and live LR."""

    values: list[float | None]
    low: float
    high: float
    kind: Literal["line", "bars"]
    tone: Literal["accent", "wait"]


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


class GpuCell(TypedDict):
    """One GPU. `active` = share of the last h it was allocated; `idle` = not allocated now."""

    index: int
    active: float | None
    use_percent: float | None
    memory_percent: float | None
    idle: bool
    tone: NotRequired[Literal["fail"]]  # an unhealthy GPU


class GpuGroup(TypedDict):
    """Neighbouring cells under one caption; made by `grouping.group_cells`."""

    cells: list[GpuCell]
    caption: str  # job's name; "a job of another tenant"; "idle 22 min"
    job_id: int | str | None
    job_url: str | None
    note: str | None  # tenant; "22 idle cores"


class NodeContext(TypedDict):
    name: str
    url: str
    gpu_count: int
    gpu_type: str | None  # None: a node without GPUs
    virtual: bool
    health: Literal["up", "unreachable", "drained", "dead"]
    health_word: str  # "up", "unreachable for 2 m 14 s", "drained: driver update"
    cores_used: int
    cores_total: int
    memory_percent: float | None  # of memory asked for, not measured
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
    lr: float | None
    waited_s: float | None


class NextContext(TypedDict):
    jobs: list[NextJob]
    not_counted: str | None  # "1 waits on a dependency, 1 held."
    empty: str  # "No job waits. Next round at 13:42."


class TenantShare(TypedDict):
    name: str
    held: int
    quota: int | None  # GPUs; None: no quota, then no tick
    total: int  # the bar's full length: GPUs of the cluster
    share: float
    full: bool


class RoundColumn(TypedDict):
    """One column of the overview's strip of plannings, oldest first, at most 20."""

    number: int
    url: str
    placed: int
    fragments: int | None
    solve_ms: int | None
    current: bool


class RoundsContext(TypedDict):
    columns: list[RoundColumn]
    summary: str | None  # "Planning 5118: window 4 jobs, 6 candidates, 440 ms, nothing placed"
    note: str  # "the last 20, all solved to gap 0"


class LegendItem(TypedDict):
    label: str
    token: str  # "plot-1"
    kind: Literal["line", "block", "dashed"]


class PlotContext(TypedDict):
    name: str
    title: str
    note: str
    url: str  # answers figure JSON, see figures.py
    legend: list[LegendItem]
    height_px: NotRequired[int]
    topics: NotRequired[str]  # live topics that refetch the figure, default "planning metrics"


class NextPlanning(TypedDict):
    """The page head's countdown to the next planning."""

    number: int
    next_at: str  # ISO
    period_s: float


class OverviewContext(TypedDict):
    subtitle: str  # "demo-cluster, 4 nodes, 24 GPUs"
    next_planning: NextPlanning | None
    horizons: list[Choice]  # h = 1 h, 6 h, 24 h, with urls ?h=6
    horizon_label: str  # "1 h"
    query: str  # "?h=6" or "", appended to fragment URLs
    tiles: list[TileContext]
    notice: Notice | None
    nodes: list[NodeContext]
    show_memory: bool
    next: NextContext
    tenants: list[TenantShare]
    rounds: RoundsContext | None
    plots: list[PlotContext]


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
    number: int | None


class KeptRow(TypedDict):
    """A job that resources of a node are kept for. `who`: "#1042" or "a job of another tenant"; `until` in words."""

    url: str | None
    who: str
    until: str


class NodeRow(TypedDict):
    name: str
    url: str
    contact_at: str | None
    health: Literal["up", "unreachable", "drained", "dead"]
    health_word: str
    cells: list[GpuCell]
    gpus_held: int
    gpu_count: int
    cores_gpu_jobs: int
    cores_cpu_jobs: int
    cores_total: int
    memory_used_gib: float | None
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
    blocks: BlocksContext | None
    plots: list[PlotContext]  # beside the blocks
    groups: list[NodeTypeGroup]
    events: list[ClusterEvent]
    can_operate: bool
    join_command: str | None  # operators: how to add a node


class Fact(TypedDict):
    label: str
    value: str
    note: NotRequired[str | None]
    at: NotRequired[str | None]  # ISO: then printed as a time after the value
    href: NotRequired[str | None]


class NodeJob(TypedDict):
    job_id: int | str | None
    url: str | None
    name: str
    tenant: str
    state: str
    gpus: str
    cores: int
    since: str


class NodePageContext(TypedDict):
    node: NodeRow
    facts: list[Fact]
    groups: list[GpuGroup]
    jobs: list[NodeJob]
    events: list[ClusterEvent]
    plots: list[PlotContext]
    can_operate: bool


class PlanningRow(TypedDict):
    number: int
    url: str
    at: str
    round: int
    kind: str  # "re-plan" once a round, else "fill"
    policy: str
    queue: int
    window: int | None
    placed: int
    candidates: int | None
    gap: float | None
    solve_ms: int | None
    total_ms: int
    fragments: int | None
    outcome: Literal["applied", "nothing", "stale", "greedy", "failed"]
    outcome_word: str


class PageLinks(TypedDict):
    """Paging. `summary`: "1-50 of 671 plannings"; None for no such page."""

    summary: str
    previous_url: str | None
    next_url: str | None


class RoundsPageContext(TypedDict):
    subtitle: str
    rows: list[PlanningRow]
    paging: PageLinks


class RoundCell(TypedDict):
    text: str | None  # None = no data
    kept: bool  # also on a narrow screen


class RoundRow(TypedDict):
    number: str  # "12", merged ones "12-18"
    at: str  # ISO
    length_s: float
    cells: list[RoundCell]


class MetricsPageContext(TypedDict):
    ranges: list[Choice]
    range_label: str
    plots: list[PlotContext]
    rounds: list[RoundRow]
    query: str  # "" or "?range=24h", for the fragment
    form: str  # of the times, see the tag `moment`


class StartsContext(TypedDict):
    """A predicted start; `median`, `latest` None: beyond what was simulated."""

    earliest: str
    median: str | None
    latest: str | None
    record: NotRequired[str | None]  # how past ranges fared


class QueueRow(TypedDict):
    """A waiting job in its array's order. Of a foreign one only position and side are there, and a name that says so."""

    position: int
    side: Literal["front", "backfill", "outside"]
    name: str
    job_id: int | str | None
    url: str | None
    tenant: str | None
    needs: str | None  # "needs 4 or 8"
    state: str | None  # when it no longer waits
    lr: float | None
    waited_s: float | None
    share: float | None  # its tenant's, of its array, when the planning began
    turn: str | None  # why it stands here
    reason: str | None
    sentence: str | None
    to_start: str | None  # "2 more idle GPUs on a100-01"
    starts: StartsContext | None


class QueueLine(TypedDict):
    """A row, or the border between two sides of the window."""

    border: str | None
    row: QueueRow | None


class QueueArray(TypedDict):
    name: str
    title: str
    note: str
    window: Rich | None
    has_shares: bool  # the policy divides by shares
    lines: list[QueueLine]
    paging: PageLinks


class QueueShare(TypedDict):
    name: str
    held: float
    total: float
    share: float
    note: str | None


class QueueContext(TypedDict):
    subtitle: str
    planning_number: int | None
    planning_url: str | None
    at: str | None
    arrays: list[QueueArray]
    shares: list[QueueShare]
    kept: list[Rich]  # what is kept for whom
    aside: str | None
    newcomers: int
    record: str | None
    query: str


class DecisionRow(TypedDict):
    """`chosen` marks what was placed. A foreign job has job_id None and the name "a job of another tenant"."""

    rank: int | None
    job_id: int | str | None
    url: str | None
    name: str
    tenant: str | None
    lr: float | None
    chosen: bool
    configuration: str | None  # "a100-01 x 4"
    reason: str | None
    detail: str | None


class OutcomeRow(TypedDict):
    """What a planning did besides starting jobs. `what`: "Stopped", "Promised", "Promise lapsed", "Reserved"."""

    what: str
    job_id: str | None  # None: another tenant's
    url: str | None
    name: str
    words: str


class PlanningPageContext(TypedDict):
    planning: PlanningRow
    figures: list[Fact]
    parameters: list[Fact]
    decisions: list[DecisionRow]
    outcomes: list[OutcomeRow]
    truncated: str | None  # "the first 500 of 20 000"
    error: str | None  # operators: why the planning failed
    previous_url: str | None
    next_url: str | None


class TokenRow(TypedDict):
    id: int
    name: str
    prefix: str
    tenant: str
    scopes: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked: bool


class TokensContext(TypedDict):
    """The account page. `fresh` is the secret, given once, in the answer to the POST that made it."""

    tokens: list[TokenRow]
    fresh: str | None
    fields: dict[str, FieldContext]  # name, tenant, scopes, expires


class FieldContext(TypedDict):
    """A form field. kind "checks" and "cards" give `choices`; `width` is columns out of 12."""

    name: str
    label: str
    kind: Literal["text", "number", "textarea", "select", "check", "checks", "cards", "hidden"]
    value: str
    choices: NotRequired[list[Choice]]
    checked: NotRequired[bool]
    help: NotRequired[str | None]
    error: NotRequired[str | None]
    placeholder: NotRequired[str | None]
    effect: NotRequired[str | None]  # hint cards: "-1 core"
    mono: NotRequired[bool]
    required: NotRequired[bool]
    width: NotRequired[int]
