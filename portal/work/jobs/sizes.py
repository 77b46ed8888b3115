"""How many sizes a range of GPUs is cut into, and how long a job may take to stop: knobs of the operator.

`rounds` has the knobs, and registers how to read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.work.jobs.description import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from portal.work.jobs.models import Job

_readers: list[Callable[[], Mapping[str, Any]]] = []


def knobs_read_by(reader: Callable[[], Mapping[str, Any]]) -> None:
    """Register what reads the knobs; called once, in `apps.ready()`."""
    _readers[:] = [reader]


def r_num() -> int:
    """Return into how many sizes a range is cut at most."""
    return int(_readers[0]()["r_num"])


def grace_most_s() -> int:
    """Return the longest grace that a job may have."""
    return int(_readers[0]()["grace_most_s"])


def extend_most() -> float:
    """Return by which share of the time limit that was asked for members may make a running job's longer."""
    return float(_readers[0]()["time_limit_extend"])


def slo_ms() -> float:
    """Return after how many milliseconds a server's answer is late."""
    return float(_readers[0]()["slo_ms"])


def grace_of(job: Job) -> int:
    """Return the seconds that a job has from SIGTERM to SIGKILL. A limit that was lowered holds for older jobs too."""
    if job.grace_s is None or job.grace_s <= GRACE_S:  # the limit is never below the default
        return job.grace_s or GRACE_S
    return min(job.grace_s, grace_most_s())
