"""The cost of a connection, and how many files the portal may open for them."""

from __future__ import annotations

import resource
from dataclasses import dataclass

WITHOUT_LIMIT = 10_240
"""Files, where the system tells no limit (macOS): more it would not give."""


@dataclass(frozen=True)
class Limits:
    """Seconds, bytes and counts of `Connections`. `piece` bytes of a body or an answer must move within `stand_s`.

    `heads` and `bodies`: how many may be unfinished, those of one address and all together. `parts_bytes`: of all messages
    of WebSockets together of which the end has not come.
    """

    stand_s: float = 10.0
    look_s: float = 1.0
    piece: int = 10_000
    head_bytes: int = 65_536
    parts_bytes: int = 128 * 2**20
    heads: tuple[int, int] = (200, 2_000)
    bodies: tuple[int, int] = (500, 2_000)
    pipelined: int = 32


LIMITS = Limits()


def files_most() -> int:
    """Return how many files a process of this account may open at most: the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft, WITHOUT_LIMIT) if hard == resource.RLIM_INFINITY else hard


def files_raise() -> int:
    """Let this process open as many files as its account may; return how many."""
    most, (_, hard) = files_most(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def connections_most() -> int:
    """Return how many connections the portal holds: half of its files; it needs the others for its work."""
    return files_most() // 2
