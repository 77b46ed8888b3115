"""A scheduler's words in plain ones: the sizes a job asks for, the reason why it waits, its end. Pages show these.

REST, the command line and logs keep the codes; a page has a reason's code in the title of its words (`{% reason %}`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.pages.dashboard.parts.formatting import number
from portal.planning.rounds.read.plain import reason_words
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ENDS", "OUT", "STREAMS", "ended", "reason_words", "run_words", "sizes", "sizes_gpus", "waited_times"]


def sizes(gpus: Sequence[int]) -> str:
    """[4, 8] -> "4 or 8"; [1, 2, 4] -> "1, 2 or 4"; [1, 2, 3, 4] -> "1 to 4"; [0] -> "no GPU"."""
    if list(gpus) == [0]:
        return "no GPU"
    if len(gpus) > 3 and gpus[-1] - gpus[0] == len(gpus) - 1:
        return f"{gpus[0]} to {gpus[-1]}"
    return " or ".join(filter(None, (", ".join(map(str, gpus[:-1])), str(gpus[-1]))))


def sizes_gpus(gpus: Sequence[int]) -> str:
    """[4, 8] -> "4 or 8 GPUs"; [1] -> "1 GPU"; [0] -> "no GPU"."""
    said = sizes(gpus)
    return said if said == "no GPU" else f"{said} GPU{'s' if gpus[-1] != 1 else ''}"


def waited_times(ratio: float | None) -> str:
    """0.2 -> "waited 0.2 times its run time"; 12.4 -> "waited 12 times its run time"; None -> ""."""
    if ratio is None:
        return ""
    said = number(ratio) if ratio >= 10 else f"{ratio:.2g}" if ratio >= 0.01 else "less than 0.01"
    return f"waited {said} times its run time"


def run_words(epoch: int) -> str:
    """Name a job's run by its count, from 1: run 2."""
    return f"run {epoch}"


STREAMS: Mapping[str, str] = {"stdout": "output", "stderr": "errors"}
"""The texts that a job prints, by the names of their streams."""

OUT = "out"
"""A GPU or a node that takes no new jobs."""

ENDS: Mapping[str, str] = {
    JobState.COMPLETED: "done",
    JobState.FAILED: "failed",
    JobState.TIMEOUT: "stopped at its time limit",
    JobState.CANCELLED: "cancelled",
    JobState.OUT_OF_MEMORY: "out of memory",
    JobState.NODE_FAIL: "its node was lost",
    JobState.PREEMPTED: "stopped for another job",
}


def ended(state: str, exit_code: int | None = None, signal: int | None = None) -> str:
    """Return how a job or a run of it ended: done; failed with exit code 3; failed by signal 9; out of memory."""
    said = ENDS.get(state, "")
    if state != JobState.FAILED:
        return said
    if signal is not None:
        return f"{said} by signal {signal}"
    return said if exit_code is None else f"{said} with exit code {exit_code}"
