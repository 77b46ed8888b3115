"""What the operator should look at, on the overview: the same sentences as `/healthz`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.operate.health.health import health

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.snapshot import Snapshot


def problem_sentences(snapshot: Snapshot) -> list[str]:
    """Return the problems to an operator. Nobody else could do anything about them, and they name nodes and jobs."""
    return health()[1] if snapshot.user.is_operator else []
