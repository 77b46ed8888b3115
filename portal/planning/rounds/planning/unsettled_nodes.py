"""After a restore: which waiting jobs may be running where the database knows nothing of it, and so are not started yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portal.cluster.selectors import nodes_unsettled
from portal.foundation.environment import env

NAMED = 3
"""The number of nodes named in the reason; the others are counted."""


@dataclass(frozen=True, slots=True)
class UnsettledNodes:
    """The nodes that have not spoken since the restore at `since_s` (Unix seconds), and whether every lease from before it
    is over: its own node has killed each such job by then, silent or not.
    """

    nodes: tuple[str, ...] = ()
    since_s: float = 0.0
    leases_over: bool = False

    @classmethod
    def read(cls, *, now_s: float) -> UnsettledNodes:
        """Read which nodes are waited for. One query."""
        rows = nodes_unsettled()
        if not rows:
            return cls()
        since_s = max(since for _, since in rows).timestamp()
        lease_s = env("BERTH_LEASE_S") + env("BERTH_LEASE_GRACE_S")
        return cls(tuple(name for name, _ in rows), since_s, now_s > since_s + lease_s)

    @property
    def figures(self) -> dict[str, Any]:
        more = len(self.nodes) - NAMED
        return {"nodes": list(self.nodes[:NAMED])} | ({"more": more} if more > 0 else {})

    def keeps(self, job: Any) -> bool:
        """Say whether a job may run unknown to us: older than the restore, and ended by no lease. `job`: a `QueuedJob`."""
        if not self.nodes or job.submitted_s >= self.since_s:
            return False
        return not (self.leases_over and job.is_requeueable)
