"""A job's fields: types, flags, labels. Made by `./berth manage client_fields`; do not edit."""

from __future__ import annotations

from typing import Any, NamedTuple, Required, TypedDict


class Flag(NamedTuple):
    """One flag, and the field of the description that it fills. Without `metavar` it is a switch."""

    name: str
    field: str
    kind: str
    metavar: str
    help: str


class JobDescription(TypedDict, total=False):
    """The command and its needs; `/api/v1/docs` explains each field."""

    name: str | None
    model: str | None
    tenant: str | None
    command: Required[str]
    working_directory: str | None
    files: dict[str, str | dict[str, Any]] | None
    upload: str | None
    code: dict[str, Any] | None
    software: dict[str, Any] | None
    category: str | None
    pipelined: bool | None
    heavy_between_iterations: bool | None
    instrumented: bool | None
    checkpointable: bool | None
    restartable: bool | None
    parameters: int | None
    gpus: int | list[int] | dict[str, Any] | None
    gpu_types: list[str] | None
    batch_per_gpu: int | None
    samples: int | None
    epochs: int | None
    dataset_size: int | None
    expected_duration_s: float | None
    learning_rate: float | dict[str, Any] | dict[str, float] | None
    cores_per_gpu: int | None
    cores_exactly: bool | None
    cores: int | None
    memory_mib: int | None
    disk_gib: float | None
    time_limit_s: int | None
    idle_timeout_s: int | None
    grace_s: int | None
    start_after: str | None
    priority: int | None
    retries: int | None
    max_requeues: int | None
    shareable: bool | None
    latency_class: str | None
    gpu_compute: float | None
    gpu_memory_mib: int | None
    inputs: list[dict[str, Any]] | None
    artefacts: list[str] | None
    array: dict[str, Any] | None
    depends_on: list[int | dict[str, Any]] | None
    labels: dict[str, str] | list[str] | None
    secrets: dict[str, str] | None
    environment: dict[str, str] | None
    log_matches: list[str] | None


class Asked(TypedDict):
    """REST's answer for a job in a list."""

    name: str
    model: str
    category: str | None
    gpus: list[int]
    gpu_types: list[str]
    cores_per_gpu: int | None
    cores_exactly: bool
    cores: int | None
    memory_mib: int | None
    disk_gib: float | None
    time_limit_s: int | None
    idle_timeout_s: int | None
    grace_s: int | None
    start_after: str | None
    priority: int
    shareable: bool
    latency_class: str
    gpu_compute: float | None
    gpu_memory_mib: int | None
    labels: dict[str, str]


class AskedMore(TypedDict):
    """More of REST's answer for one job."""

    pipelined: bool | None
    heavy_between_iterations: bool | None
    instrumented: bool
    checkpointable: bool
    restartable: bool
    parameters: int | None
    batch_per_gpu: int | None
    samples: int | None
    expected_duration_s: float | None
    retries: int
    max_requeues: int


FLAGS = (
    Flag("--name", "name", "text", "TEXT", "the job's name; else its program's name"),
    Flag("--model", "model", "text", "NAME", "jobs with one model share what was measured of them"),
    Flag("--tenant", "tenant", "text", "T", "for which tenant, where you are in several"),
    Flag(
        "--workdir",
        "working_directory",
        "text",
        "DIR",
        "where it runs: absolute on the node, or below its own directory",
    ),
    Flag("--category", "category", "text", "C", "cv, nlp, speech, cpu or other"),
    Flag("--instrumented", "instrumented", "text", "", "it records its iterations"),
    Flag("--checkpointable", "checkpointable", "text", "", "it may be stopped and resumes from its own checkpoint"),
    Flag("--restartable", "restartable", "text", "", "it may start again from the beginning after its node is lost"),
    Flag("--gpus", "gpus", "gpus", "N", "how many GPUs: 2, or all counts that it accepts: 1,2,4 or 1-8; 0: a CPU job"),
    Flag("--batch-per-gpu", "batch_per_gpu", "whole", "N", "samples a GPU and iteration"),
    Flag("--samples", "samples", "whole", "N", "how many samples the training takes in all"),
    Flag(
        "--expected",
        "expected_duration_s",
        "duration",
        "T",
        "how long it will run, as you think; it helps to order the queue",
    ),
    Flag("--learning-rate", "learning_rate", "number", "X", "the learning rate at every size"),
    Flag(
        "--cores-per-gpu",
        "cores_per_gpu",
        "whole",
        "N",
        "CPU cores for each GPU, kept with --cores-exactly; else Berth finds the number",
    ),
    Flag("--cores-exactly", "cores_exactly", "text", "", "exactly these cores: never fewer, never tuned"),
    Flag("--cores", "cores", "whole", "N", "of a CPU job: cores in all"),
    Flag("--memory", "memory_mib", "mib", "AMOUNT", "host memory, for example 24G; a job that takes more is ended"),
    Flag("--disk", "disk_gib", "gib", "AMOUNT", "disk on each node, for example 50G; a job that takes more is ended"),
    Flag("--time", "time_limit_s", "duration", "T", "time limit, for example 30min, 10h or 1:30:00 (hours first)"),
    Flag(
        "--idle-timeout",
        "idle_timeout_s",
        "duration",
        "T",
        "ended, after a warning, when nothing used it for this time",
    ),
    Flag("--grace", "grace_s", "duration", "T", "from SIGTERM to SIGKILL when it is to stop (30 s)"),
    Flag(
        "--start-after",
        "start_after",
        "time",
        "TIME",
        "not before this time, for example 2026-12-01T08:00; your own zone",
    ),
    Flag("--priority", "priority", "whole", "N", "-100 to 0, managers to 100; it orders one tenant's jobs"),
    Flag("--retries", "retries", "whole", "N", "how often it starts again after a failure"),
    Flag("--shareable", "shareable", "text", "", "it may run beside other jobs on one GPU"),
    Flag(
        "--latency-class",
        "latency_class",
        "text",
        "C",
        "of a --shareable job: batch, or latency where somebody waits for it",
    ),
    Flag(
        "--gpu-compute",
        "gpu_compute",
        "number",
        "X",
        "of a --shareable job: the share of a GPU that it needs, 0.05 to 1",
    ),
    Flag("--gpu-memory", "gpu_memory_mib", "mib", "AMOUNT", "of a --shareable job: GPU memory, for example 4G"),
    Flag("--array", "array", "array", "N[%M]", "N tasks, M of them at once; each reads BERTH_ARRAY_INDEX"),
)
SHOWN = (
    ("memory", "memory_mib", "mib"),
    ("disk", "disk_gib", "gib"),
    ("time limit", "time_limit_s", "duration"),
    ("idle time-out", "idle_timeout_s", "duration"),
    ("grace", "grace_s", "duration"),
    ("not before", "start_after", "time"),
    ("share of the GPU", "gpu_compute", "number"),
    ("gPU memory", "gpu_memory_mib", "mib"),
)
"""Label, field and kind of each request that is shown."""
