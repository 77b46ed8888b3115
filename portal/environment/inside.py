"""What an environment variable is; and those about work inside a job, for `portal.environment`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """One variable: `kind` is str, int or bool; `unit` and `range` are for the reader."""

    name: str
    kind: type
    default: str | int | bool
    meaning: str
    unit: str = ""
    range: str = ""


INSIDE = (
    Variable(
        "BERTH_TERMINALS_PER_USER",
        int,
        12,
        "Terminals and forwarded ports that one person may have open at one time.",
        range="1-1000",
    ),
    Variable(
        "BERTH_TERMINALS_PER_PART",
        int,
        4,
        "Terminals and forwarded ports that may be open at one time in a job, in each of its parts if it has several.",
        range="1-16",
    ),
    Variable(
        "BERTH_TERMINAL_IDLE_S",
        int,
        3600,
        "A terminal or forwarded port through which nothing went for so long is closed; the job runs on.",
        "s",
        "60-604800",
    ),
    Variable(
        "BERTH_IDLE_CORES_PERCENT",
        int,
        5,
        "For idle time-outs: a job that keeps so much of one core busy, on any of its nodes, is in use.",
        "% of a core",
        "1-10000",
    ),
    Variable(
        "BERTH_IDLE_GPU_PERCENT",
        int,
        3,
        "For idle time-outs: a job whose GPUs compute for so much of the time is in use.",
        "%",
        "1-100",
    ),
)
