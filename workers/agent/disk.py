"""How much room there is where jobs write: the agent's own directory and the checkpoints' storage, whichever has less.

Below the mark the node gets no new jobs; it gets them again once a fifth more than the mark is free, so that a job that
ends and one that begins do not turn it on and off.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workers.protocol.wire import DiskRoom

_MIB = 2**20
AGAIN_SHARE = 1.2
FEW_INODES = 1000
"""A file system with fewer free inodes is as good as full."""


class NodeDisk:
    """Looks at the file systems of `paths`. `mark_mib` 0: never low."""

    def __init__(self, paths: Sequence[Path], *, mark_mib: int) -> None:
        self._paths = paths
        self._mark_mib = mark_mib
        self.low = False

    def look(self) -> DiskRoom | None:
        """The figures of the fullest; None when there is nothing to look at yet. A dead network mount may keep it waiting."""
        found = [room for path in self._paths if (room := _room(path)) is not None]
        if not found:
            return None
        free_mib, total_mib, _ = min(found)
        needed_mib = self._mark_mib * (AGAIN_SHARE if self.low else 1.0)
        self.low = self._mark_mib > 0 and (free_mib < needed_mib or any(room[2] for room in found))
        return {"free_mib": free_mib, "total_mib": total_mib, "low": self.low}


def _room(path: Path) -> tuple[int, int, bool] | None:
    """Free MiB, total MiB, whether inodes run out; of the nearest directory above that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    inodes_low = found.f_files > 0 and found.f_favail < FEW_INODES
    return found.f_bavail * found.f_frsize // _MIB, found.f_blocks * found.f_frsize // _MIB, inodes_low
