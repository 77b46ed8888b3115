"""The messages of docs/agent-protocol.md as types; the portal's OpenAPI document is checked against them in a test."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

State = Literal["prepared", "running", "ended"]
Reason = Literal[
    "exit",
    "time_limit",
    "out_of_memory",
    "gpu_memory_limit",
    "disk_limit",
    "stopped",
    "lease",
    "start_failed",
    "lost",
    "tenant_not_trusted",
]
OffsetCode = Literal["offset_mismatch", "unknown_part"]


class Registered(TypedDict):
    node: int | str
    name: str
    token: str


class Hello(TypedDict):
    node: int | str
    name: str
    lease_s: float
    report_period_s: float
    sample_period_s: float
    grace_s: float
    lease_grace_s: float
    logs_together_bytes: NotRequired[int]  # absent: a portal that takes one log at a time
    measures: dict[str, list[str]]  # that the portal takes


class PartName(TypedDict):
    """A part's name. `attempt` is the attempt's key, which is never used again."""

    attempt: str
    epoch: int
    rank: int


class Wanted(PartName):
    job: int | str
    job_key: str
    action: Literal["run", "stop"]
    started: bool
    state: NotRequired[Literal["wanted", "prepared", "running"]]  # the portal's last record of it
    go: bool
    stop_reason: Literal["cancel", "preempt", "partner", "requeue", "limit", "unwell", "idle"] | None
    grace_s: float
    lease_s: float | None
    time_limit_s: NotRequired[int | None]  # as it is now: a longer one holds for a running part
    cores: NotRequired[list[int]]  # that it is to have now; absent: a portal that changes no cores of running parts
    share: NotRequired[float]  # that it keeps of the memory bandwidth, or CPU time, that it takes; absent: all
    cores_sequence: NotRequired[int]  # of the order that says so; 0: as it was prepared
    gpu_memory_mib: NotRequired[int | None]  # that it may take of the GPU that it shares, as it is now; null: no limit


MOST_PORTS = 16


class Held(PartName):
    """A part in `holding`. `cores_sequence`: of the last order about its cores that holds; 0: none was given.

    `ports`: the TCP ports that its processes listen on, at most `MOST_PORTS`.
    """

    cores_sequence: NotRequired[int]
    ports: NotRequired[list[int]]


class Sync(TypedDict):
    revision: int
    attempts: list[Wanted]
    heartbeat_s: NotRequired[float]
    environments: NotRequired[dict[str, str]]  # name -> directory, as operators named them for all nodes
    channel: NotRequired[bool]  # true: somebody waits for the node's channel


class WorldNode(TypedDict):
    name: str
    address: str
    addresses: NotRequired[list[str]]  # all that its agent tells; absent: a portal that does not ask for them


class World(TypedDict):
    nodes: list[WorldNode]
    port: int
    gpus_total: int


class SpecFile(TypedDict):
    path: str
    sha256: str
    size_bytes: int
    executable: bool


class ArtefactRules(TypedDict):
    patterns: list[str]  # of files below a relative working directory, besides those in $BERTH_ARTEFACTS
    files: int  # the most that are kept


class SpecCode(TypedDict, total=False):
    """A repository that is fetched before the command; {}: none."""

    git: str
    ref: str
    submodules: bool
    schemes: list[str]


class Spec(PartName):
    job: int | str
    job_key: str
    name: str
    tenant: str
    tenant_id: int | str
    unix_account: NotRequired[str | None]  # the tenant's account where a node has it
    user: str
    command: str
    files: dict[str, str]
    upload: NotRequired[list[SpecFile]]  # files whose contents are fetched by their hash
    working_directory: str | None
    environment: dict[str, str]
    software: NotRequired[dict[str, str]]  # environment, path, requirements or image; absent or empty: the node's own
    code: NotRequired[SpecCode]
    code_roots: NotRequired[list[str] | None]  # below one of which its working directory lies; null or absent: anywhere
    secrets: NotRequired[bool]  # it has some, which are asked for when its command starts
    build_secrets: NotRequired[dict[str, str]]  # variables among them that its build gets too -> names of their secrets
    gpus: list[int]
    gpu_uuids: list[str]
    gpu_type: str | None
    gpu_compute: NotRequired[int | None]  # thousandths of each of its GPUs; null or absent: it shares none
    gpu_memory_mib: NotRequired[int | None]  # that it may take of each of its GPUs; null or absent: no limit
    cores: list[int]
    memory_mib: int | None
    disk_mib: int | None
    time_limit_s: float | None
    grace_s: NotRequired[int]  # absent: a portal that has one grace for all jobs, hello's
    world: World
    artefacts: NotRequired[ArtefactRules | None]  # null or absent: nothing is kept
    profile: bool
    epochs_before: int
    log_limit_bytes: int


class Secrets(TypedDict):
    """The values of a part's secrets: of its variables, and of its code's token or key ("": none)."""

    environment: dict[str, str]
    code: str


class Report(PartName):
    sequence: int
    state: State
    pid: int | None
    at: float
    exit_code: int | None
    signal: int | None
    reason: Reason | None
    detail: str
    commit: NotRequired[str]  # of its code
    overran: NotRequired[bool]  # it was stopped, and something of it still lived when its grace was over


class Problem(TypedDict):
    """A sentence for the operator, on one `subject`."""

    at: float
    subject: str
    detail: str


class Finding(TypedDict):
    """A finding of a check. `subject`: "node" or "gpu:3". `level`: "warn" tells; "drain": no new jobs; "fail": none can run."""

    subject: str
    check: str
    level: Literal["warn", "drain", "fail"]
    detail: str
    remedy: str


class OutsideUse(TypedDict):
    """A process that computes on a GPU which no job of its own holds."""

    gpu: int
    pid: int
    name: str
    memory_mib: float | None


class Health(TypedDict):
    """All present troubles, and strangers on the GPUs: the whole truth each time."""

    findings: list[Finding]
    outside: list[OutsideUse]


class DiskRoom(TypedDict):
    """Where jobs write. `low`: the node takes no new jobs until there is room."""

    free_mib: int
    total_mib: int
    low: bool


class ReportBody(TypedDict):
    boot_id: str
    disk: NotRequired[DiskRoom]
    reports: list[Report]
    holding: list[Held]
    problems: NotRequired[list[Problem]]
    health: NotRequired[Health]


class Accepted(PartName):
    sequence: int


class Refused(PartName):
    sequence: int
    code: str


class Lease(PartName):
    lease_s: float


class ReportAnswer(TypedDict):
    accepted: list[Accepted]
    refused: list[Refused]
    leases: list[Lease]
    stop: list[PartName]


Series = list[float | None]


class LastReadings(TypedDict):
    """The latest readings of GPUs at a heartbeat below a second, the oldest first."""

    period_s: float
    gpus: dict[str, dict[str, Series]]


class LeaveBody(TypedDict):
    boot_id: str
    detail: str


class Telemetry(TypedDict):
    boot_id: str
    start: float
    period_s: float
    count: int
    last: NotRequired[LastReadings]
    gpus: dict[str, dict[str, Series]]
    host: dict[str, Series]
    attempts: dict[str, dict[str, Series]]


class Iterations(TypedDict):
    """One record of the instrument: sums over the iterations since the last one, and the times of some of them.

    Of a server `queries`: how many were answered within each of the instrument's QUERY_EDGES_MS, and later than the last; and
    how many were `late` by BERTH_SLO_MS.
    A row: data, forward, backward, update, communication, wait and whole time in seconds; None = not timed.
    """

    iterations: int
    samples: float
    seconds: float
    done: float | None
    total: float | None
    saved: float | None
    batch: int
    world: int
    parameters: int | None
    rows: list[list[float | None]]
    queries: NotRequired[list[int]]
    late: NotRequired[int]


class PartRecords(PartName):
    """A part's records from `offset` on; `dropped` counts what was there and was no record."""

    offset: int
    next_offset: int
    dropped: int
    records: list[Iterations]


class RecordsBody(TypedDict):
    boot_id: str
    parts: list[PartRecords]


class RecordsTaken(PartName):
    next_offset: int
    code: OffsetCode | None


class RecordsAnswer(TypedDict):
    parts: list[RecordsTaken]


class LogAnswer(TypedDict):
    next_offset: int
    full: NotRequired[bool]


class ArtefactFile(TypedDict):
    path: str
    size: int
    modified_ns: int


class ArtefactsRequest(PartName):
    boot_id: str
    files: list[ArtefactFile]
    gone: list[str]
    notes: list[list[str]] | None
    notes_more: int


class ArtefactTaken(TypedDict):
    path: str
    state: Literal["send", "kept", "refused"]
    offset: int
    detail: str


class ArtefactsAnswer(TypedDict):
    files: list[ArtefactTaken]


class LogPiece(PartName):
    stream: str
    offset: int
    data: str  # base64


class LogsBody(TypedDict):
    pieces: list[LogPiece]


class LogTaken(PartName):
    stream: str
    next_offset: int
    full: bool
    code: OffsetCode | None


class LogsAnswer(TypedDict):
    pieces: list[LogTaken]
