"""Rooms that must hear of a job's move, or of its output, within the transaction. They register in their `apps.ready()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Follower = Callable[[int, str, int], None]
"""Called with (job id, new state, epoch)."""

_followers: list[Follower] = []


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Output of one part of an attempt, as it was stored; `patterns`: the job's `log_matches`, not empty."""

    job_id: int
    attempt_id: int
    rank: int
    stream: str
    data: bytes
    patterns: Sequence[str]


LogFollower = Callable[[LogPiece], None]
_log_followers: list[LogFollower] = []


IdleFollower = Callable[[int, str, str], None]
"""Called with (job id, a mark that no other warning of the job has, words)."""
_idle_followers: list[IdleFollower] = []


def jobs_follow(follower: Follower) -> None:
    """Register a room's follower, once a process."""
    _followers.append(follower)


def job_moved(*, job_id: int, to: str, epoch: int) -> None:
    for each in _followers:
        each(job_id, to, epoch)


def idle_follow(follower: IdleFollower) -> None:
    """Register a room that tells people of jobs which will end unless somebody uses them, once a process."""
    _idle_followers.append(follower)


def idle_near(*, job_id: int, mark: str, detail: str) -> None:
    for each in _idle_followers:
        each(job_id, mark, detail)


def logs_follow(follower: LogFollower) -> None:
    """Register a room that reads the output of jobs which name what they look for, once a process."""
    _log_followers.append(follower)


def log_came(piece: LogPiece) -> None:
    for each in _log_followers:
        each(piece)
