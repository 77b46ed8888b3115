"""Contexts of the jobs' pages: list, one job, submit form. `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.artefacts.context import ArtefactsCard, LineageContext
    from portal.pages.dashboard.jobs.chain.page import ChainContext
    from portal.pages.dashboard.jobs.speed import SpeedContext
    from portal.pages.dashboard.jobs.tuning import TuningContext
    from portal.pages.dashboard.jobs.unused import IdleContext
    from portal.pages.dashboard.jobs.waiting.context import WaitingContext
    from portal.pages.dashboard.parts.context import Choice, Fact, PlotContext, Rich, StartsContext
    from portal.pages.dashboard.parts.slowed import SlowedRow

BarToken = Literal["run", "wait", "done", "fail", "stop"]
Direction = Literal["asc", "desc"]
SpanKind = Literal["waiting", "held", "profiling", "starting", "running", "preempted"]
Verb = Literal["cancel", "hold", "release", "requeue", "retry", "priority"]
Verdict = Literal["chosen", "best-rejected", "rejected", "not-generated"]


class BarSegment(TypedDict):
    token: BarToken
    count: int


class ArraySummary(TypedDict):
    """A folded array: `range` "[0-11]", `words` "3 done, 4 run, 5 wait", and where its tasks' rows come from."""

    range: str
    words: str
    segments: list[BarSegment]
    tasks_url: str


class JobRow(TypedDict):
    id: int | str
    url: str
    name: str
    state: str
    tenant: str
    owner: str
    gpus: Rich  # "4", "CPU", or segments: bold "4", note " of {2, 4}"
    cores: int
    where: str | None  # nodes, when it has any
    reason: str | None
    detail: str | None  # "#1036", "by ines.m, 12:58", "exit 1"
    waited_s: float | None
    lr: float | None
    progress_percent: float | None  # reported by the job itself
    started_at: str | None
    ended_at: str | None
    starts: StartsContext | None  # of a waiting job: the start range, where there is one
    ends: EndsContext | None  # the expected end of one that has not ended
    category: str
    labels: str  # "run=7, team"
    priority: int
    submitted_at: str
    array: ArraySummary | None
    actions: list[Verb]  # those that apply, for the bulk bar
    task: NotRequired[bool]  # a row inside an opened array


class EndsContext(TypedDict):
    """When a job will probably end: one moment, or from `earliest` to `latest`. `said` says how that is known."""

    earliest: str
    latest: str | None
    said: str


class ActionButton(TypedDict):
    """A button of the page head. `confirm` asks first; `disabled` carries the cause."""

    verb: Verb
    label: str
    confirm: str | None
    disabled: str | None


class WhyContext(TypedDict):
    """The plain sentence. `title`: "Why it waits", "How it ended", "Where it runs"."""

    title: str
    reason: str | None
    planning_number: int | None
    planning_url: str | None
    at: str | None
    sentence: Rich
    note: Rich | None
    ahead: Rich | None  # "Place 3 of 21 in the queue for jobs of 1 to 3 GPUs."
    starts: StartsContext | None
    no_starts: str | None  # why there is no range
    remedy: Rich | None  # for the tenant


class Candidate(TypedDict):
    configuration: str
    gpus: str | None  # "4 / 6"
    cores: str | None
    throughput: str | None
    goodness: float | None  # G
    weight: float | None  # w
    objective: float | None  # w x G x factor
    loss: float | None  # against the chosen one
    verdict: Verdict
    result: str


class NumbersContext(TypedDict):
    figures: list[Fact]
    throughput_unit: str
    candidates: list[Candidate]
    classes: str | None  # "3 more kinds of candidates, all worth less."
    binding: Rich | None
    json_url: str | None


class Span(TypedDict):
    """A stretch of the timeline; `to_at` None: still going. `gpus` is the bar's height; 0 for a CPU job."""

    kind: SpanKind
    from_at: str
    to_at: str | None
    gpus: int
    label: str
    caption: str | None


class ProfileRow(TypedDict):
    """One profile. `found`: the knowledge of the model on that GPU type by now, in words; empty = nothing."""

    state: str
    gpu_type: str
    where: str
    started_at: str | None
    run_s: float | None
    iterations: int
    samples_per_s: float | None
    cause: str | None
    log_url: str | None  # its output, when it printed any
    found: list[str]


class TimelineContext(TypedDict):
    """Bars over time. `start` and `end` are the axis that the job's plots share; `now` None when the job ended."""

    start: str
    end: str
    now: str | None
    spans: list[Span]


class AttemptRow(TypedDict):
    number: int
    state: str
    where: str
    gpus: str
    cores: int
    started_at: str | None
    ended_at: str | None
    run_s: float | None
    exit: str | None  # "exit 0", "signal 9"
    cause: str | None  # why it was stopped, or its node's words
    restart_s: float | None  # from the stop of the attempt before until this one ran


class EventRow(TypedDict):
    at: str
    text: Rich


class LogContext(TypedDict):
    """The log viewer's frame. `url` answers JSON lines, see static/js/log.js."""

    url: str
    download_url: str
    attempts: list[Choice]
    ranks: list[Choice]
    size_bytes: int | None
    empty: str  # why there is nothing yet


class Since(TypedDict):
    """Since when a job is in its state: "for 53 min 2 s, attempt 2", or "ended 5 min ago". The browser lets it tick."""

    at: str
    ended: bool
    attempt: str | None


class JobIdContext(TypedDict):
    id: int | str


class JobArtefactsContext(JobIdContext):
    artefacts: ArtefactsCard | None


class OfTemplate(TypedDict):
    """`again_url`: the template's form with the job's values, and `words` its name and version; None of another job."""

    again_url: str | None
    words: str | None
    save_url: str


class JobHeaderContext(JobIdContext):
    name: str
    state: str
    since: Since
    actions: list[ActionButton]
    extensions: list[tuple[int, str]]  # seconds, and in words
    relaunch_url: str | None
    terminal_url: str | None  # while it runs
    idle: IdleContext | None  # a warning
    template: OfTemplate
    facts: list[Fact]


class TimelinePartContext(JobIdContext):
    timeline: TimelineContext | None
    plots: list[PlotContext]


class JobLog(TypedDict):
    log: LogContext | None


class JobLogContext(JobIdContext, JobLog):
    """The log viewer."""


class JobBody(TypedDict):
    why: WhyContext | None
    waiting: WaitingContext | None  # it waits for its turn
    asks_what_if: bool  # it waits: offer to work out what would make it start
    numbers: NumbersContext | None
    speed: SpeedContext | None
    tuning: TuningContext | None
    slowed: list[SlowedRow]
    timeline: TimelineContext | None
    plots: list[PlotContext]
    attempts: list[AttemptRow]
    profiles: list[ProfileRow]
    events: list[EventRow]
    files: list[JobFile]
    artefacts: ArtefactsCard | None
    lineage: LineageContext | None


class JobBodyContext(JobIdContext, JobBody):
    """The parts that change with the job's state."""


class JobChain(TypedDict):
    chain: ChainContext | None


class JobChainContext(JobIdContext, JobChain):
    """The jobs before and after it."""


class JobPageContext(JobHeaderContext, JobBody, JobLog, JobChain):
    """The whole page of one job."""


class JobFile(TypedDict):
    name: str
    size_bytes: int
