"""Rooms that must hear of a job's move within its transaction. They register in their `apps.ready()`."""

from __future__ import annotations

from collections.abc import Callable

Follower = Callable[[int, str, int], None]
"""Called with (job id, new state, epoch)."""

_followers: list[Follower] = []


def jobs_follow(follower: Follower) -> None:
    """Register a room's follower, once a process."""
    _followers.append(follower)


def job_moved(*, job_id: int, to: str, epoch: int) -> None:
    for each in _followers:
        each(job_id, to, epoch)
