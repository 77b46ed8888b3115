"""Contexts of rounds, metrics and plannings; `parts.context` has the rules and the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Choice, Fact, PageLinks, PlotContext

PlanningOutcome = Literal["applied", "nothing", "stale", "greedy", "failed"]


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
    outcome: PlanningOutcome
    outcome_word: str
    before: int  # plannings before it that changed nothing either, for which it stands
    since: str | None  # when the first of them began


class RoundsPageContext(TypedDict):
    subtitle: str
    rows: list[PlanningRow]
    each: bool
    paging: PageLinks


class RoundCell(TypedDict):
    text: str | None  # None = no data
    kept: bool  # also on a narrow screen


class RoundRow(TypedDict):
    number: str  # "12", merged ones "12-18"
    at: str  # ISO
    length_s: float
    cells: list[RoundCell]


class RoundsTableContext(TypedDict):
    rounds: list[RoundRow]
    query: str  # "" or "?range=24h", for the fragment
    form: str  # of the times, see the tag `moment`


class MetricsPageContext(RoundsTableContext):
    ranges: list[Choice]
    range_label: str
    plots: list[PlotContext]


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
    """A planning's act besides starting jobs. `what`: "Stopped", "Promised", "Promise lapsed", "Reserved"."""

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
    paging: PageLinks  # of the decisions
    error: str | None  # operators: why the planning failed
    previous_url: str | None
    next_url: str | None
