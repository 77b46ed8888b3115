"""Let rooms above hear of a happening, within its transaction. They register in their `apps.ready()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


class Followers(list[Callable[..., int | None]]):
    """The functions that follow one kind of happening; a call calls each, and adds up what they return."""

    def __call__(self, **what: Any) -> int:
        return sum(each(**what) or 0 for each in self)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Output of one part of an attempt, as it was stored; `patterns`: the job's `log_matches`, not empty."""

    job_id: int
    attempt_id: int
    rank: int
    stream: str
    data: bytes
    patterns: Sequence[str]


job_moved = Followers()
"""Called with `job_id`, its new state `to`, and `epoch`."""
idle_near = Followers()
"""A job will end unless somebody uses it: `job_id`, a `mark` that no other warning of the job has, and `detail` in words."""
log_came = Followers()
"""Called with a LogPiece `piece`."""
