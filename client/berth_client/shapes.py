"""Types of REST's requests and answers, for type checkers. Units stand in the names; times are ISO-8601 texts in UTC.

A portal that is newer than the client may answer with more.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from berth_client.fields import Asked, AskedMore, JobDescription

Row = TypeVar("Row")
State = Literal[
    "PENDING",
    "HELD",
    "STARTING",
    "RUNNING",
    "PREEMPTED",
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "CANCELLED",
    "OUT_OF_MEMORY",
    "NODE_FAIL",
]


class Page(TypedDict, Generic[Row]):
    """A page of a list. `next` and `previous` are URLs, None where there is none."""

    count: int
    page: int | None
    page_size: int
    next: str | None
    previous: str | None
    results: list[Row]


class Job(Asked):
    """A job in a list. A figure that is not known is None."""

    id: int
    number: str
    url: str
    tenant: str
    owner: str
    state: State
    array_job: int | None
    array_index: int | None
    array_size: int | None
    array_concurrency: int | None
    array_counts: dict[str, int]
    array_retries: int
    nodes: list[str]
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    waited_s: float
    latency_ratio: float | None
    reason: str
    reason_figures: dict[str, Any]
    reason_at: str | None
    epoch: int
    overran_epoch: int | None
    exit_code: int | None
    signal: int | None
    end_detail: str


class Part(TypedDict):
    """An attempt's share of one node."""

    node: str
    rank: int
    gpus: list[int]
    cores: list[int]
    memory_mib: int
    gpu_compute: float | None
    gpu_memory_mib: int | None
    exit_code: int | None
    signal: int | None
    end_reason: str


class Attempt(TypedDict):
    """One run of a job."""

    epoch: int
    state: str
    planning_number: int | None
    gpus: int
    cores: int
    parts: list[Part]
    speed: dict[str, Any] | None
    core_search: dict[str, Any] | None
    slowings: list[dict[str, Any]]
    created_at: str
    started_at: str | None
    ended_at: str | None
    stop_reason: str
    stop_cause: str
    stop_for: str | None
    stop_to_gpus: int | None
    stop_at: str | None
    restart_s: float | None
    exit_code: int | None
    signal: int | None
    end_detail: str
    commit: str | None


class JobDetail(Job, AskedMore):
    """One job: also its program, its attempts, and the reason why it waits."""

    command: str
    working_directory: str
    environment: dict[str, str]
    software: dict[str, str]
    secrets: dict[str, str]
    code: dict[str, Any] | None
    files: list[dict[str, Any]]
    upload: str | None
    depends_on: list[dict[str, Any]]
    learning_rate: dict[str, Any] | None
    failures: int
    requeues: int
    preemptions: int
    held_by: str
    cancel_requested_at: str | None
    age_s: float | None
    age_source: str
    progress: dict[str, Any] | None
    inputs: list[dict[str, Any]]
    continued_by: dict[str, Any]
    template: dict[str, Any] | None
    attempts: list[Attempt]
    profiles: list[dict[str, Any]]


class OpenLine(TypedDict):
    stream: str
    text: str


class LogPiece(TypedDict):
    """A piece of an attempt's output; `next` is the next piece's cursor. `complete`: nothing follows.

    `open`: lines that have not ended, as they stand; they come again.
    """

    attempt: int | None
    rank: int
    stream: str
    text: str
    open: NotRequired[list[OpenLine]]  # an older portal has none
    next: str
    offset: int | None
    next_offset: int | None
    complete: bool
    available: NotRequired[list[dict[str, Any]]]  # not of a log that is followed


class Member(TypedDict):
    username: str
    role: str


class Invitation(TypedDict):
    number: int
    role: str
    made_by: str | None
    expires_at: str


class NewInvitation(Invitation):
    """`url` is the link; only this answer has it."""

    url: str


class UsageRow(TypedDict):
    """`user` and `category` None: all, or not said."""

    user: str | None
    category: str | None
    attempts: int
    gpu_hours: float
    idle_gpu_hours: float
    unmeasured_gpu_hours: float
    core_hours: float


class Usage(TypedDict):
    tenant: str
    since: str
    until: str
    rows: list[UsageRow]
    total: UsageRow


class Plan(TypedDict):
    """The next planning's decision."""

    at: str
    placeable: bool
    reason: str | None
    sentence: str
    figures: dict[str, Any]
    placement: list[dict[str, Any]] | None
    cores: int
    array: str | None
    side: str | None
    queue: str | None
    place: int | None
    queue_length: int | None
    ahead: int | None
    latency_ratio: float | None
    age_s: float | None
    age_source: str
    start: dict[str, Any] | None
    similar: dict[str, Any] | None


class Offer(TypedDict):
    """A change of a waiting job's request, with its start and end then; `no_gain`: why not sooner."""

    change: str
    value: Any
    words: str
    starts_now: bool
    gains: bool
    no_gain: str
    over_at: str | None
    start: dict[str, Any] | None
    nodes: list[str]
    speed_share: float | None
    others: str


class Offers(TypedDict):
    """Changes that would end a waiting job sooner; `fresh` False: being computed, ask again."""

    at: str | None
    fresh: bool
    starts_now: bool
    start: dict[str, Any] | None
    over_at: str | None
    offers: list[Offer]


class Artefact(TypedDict):
    """A file that a job wrote. `state`: kept, uploading (nothing of it is there yet), not_kept (`reason` says why)."""

    path: str
    state: str
    size: int | None
    modified_at: str
    sha256: str
    uploading: int | None
    reason: str
    attempt: int
    rank: int


class ArtefactPage(Page[Artefact]):
    """A page of them, and the job's as a whole. `state`: none, watching (the job has not ended), uploading, complete."""

    state: str
    files: int
    bytes: int
    looked_at: str | None
    kept_until: str | None
    notes: list[dict[str, str]]
    notes_more: int
    tenant_bytes: int
    tenant_quota_bytes: int


class ImportedLine(TypedDict):
    """One directive of a batch script. `refused`: it cannot be had, and without it the job would be another one."""

    line: int
    text: str
    verdict: Literal["mapped", "looser", "ignored", "refused"]
    detail: str
    field: str | None


class Imported(TypedDict):
    """A batch script or YAML as a job description."""

    format: str
    description: JobDescription
    lines: list[ImportedLine]


class Secret(TypedDict):
    """A secret in a list, without its value."""

    name: str
    tenant: str
    changed_by: str
    changed_at: str


class Template(TypedDict):
    """A job template in a list. `tenant` None: the operators'."""

    name: str
    tenant: str | None
    title: str
    about: str
    version: int
    changed_at: str


class TemplateDetail(Template):
    """A version of a job template. `text`: the whole of it as YAML."""

    shown_version: int
    made_by: str
    made_at: str
    parameters: list[dict[str, Any]]
    job: dict[str, Any]
    text: str


class Explanation(TypedDict, total=False):
    """Why a job waits, or where it was placed and why: a sentence and the figures behind it."""

    reason: str | None
    sentence: str | None
    wait_s: float | None
    age_s: float | None
    latency_ratio: float | None
    queue: str | None
    place: int | None
    queue_length: int | None
    ahead: int | None
    candidates: list[dict[str, Any]] | None
    chosen: dict[str, Any] | None
    best_rejected: dict[str, Any] | None
    predicted_start: dict[str, Any] | None
    predicted_start_missing: str | None
    expected_end: dict[str, Any] | None
    larger_sentence: str | None
    what_would_start: Any


class Node(TypedDict):
    """A node in a list. Rates are shares, 0 to 1."""

    name: str
    health: str
    gpu_type: str | None
    gpus: int
    gpus_by_type: dict[str, int]
    gpus_allocated: int
    gpus_idle: int
    gpus_for_sharing: int
    cores: int
    cores_allocated: int
    memory_mib: int
    memory_allocated_mib: int
    gpu_active_rate: float | None
    cpu_active_rate: float | None
    storage_domain: str
    agent_version: str
    is_virtual: bool
    registered_at: str
    last_contact_at: str | None
    drained_at: str | None
    drain_reason: str
    dead_at: str | None
    disk_free_mib: int | None
    disk_total_mib: int | None


class NodeDetail(Node):
    """One node: also its GPUs, its jobs, its checks' findings, and its last events."""

    heartbeat_s: float
    findings: list[dict[str, Any]]
    memory_traffic: dict[str, Any] | None
    memory_share: float | None
    gpu_list: list[dict[str, Any]]
    running: list[dict[str, Any]]
    events: list[dict[str, Any]]


class Engine(TypedDict):
    """A partition of another scheduler."""

    name: str
    kind: str
    cluster: str
    partition: str
    form: str
    version: str
    capabilities: list[str]
    state: str
    silent_since: str | None
    gpus: int
    gpus_held: int
    gpus_others: int
    gpus_free: int
    gpus_out: int
    gpus_max: int
    gpus_per_pilot: int
    limit_s: int
    idle_s: int
    tenant: str | None
    last_contact_at: str | None
    nodes_at: str | None


class EngineDetail(Engine):
    """One partition: also its nodes, and the jobs there that are Berth's."""

    nodes: list[dict[str, Any]]
    orders: list[dict[str, Any]]
    away_reason: str
    refused_at: str | None
    refused_reason: str


class Use(TypedDict):
    """`quota` None: no limit."""

    quota: int | None
    used: float


class MyTenant(TypedDict):
    name: str
    role: str
    is_active: bool
    weight: float
    gpus: Use
    cores: Use
    queued_jobs: Use


class MyToken(TypedDict):
    name: str
    prefix: str
    scopes: list[str]
    tenant: str | None
    expires_at: str | None


class Me(TypedDict):
    """The token's user. `token` None: signed in by browser."""

    username: str
    is_operator: bool
    tenants: list[MyTenant]
    upload_limit_mib: int
    token: MyToken | None
