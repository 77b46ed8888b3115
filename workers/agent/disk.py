"""Free disk space where jobs write: in the agent's own directory and in the storage of checkpoints.

A node with less than the mark gets no new jobs. It gets them again when a fifth more than the mark is free; else a job
that ends and one that begins would switch it on and off.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workers.protocol.wire import DiskRoom
    from workers.system.reserve import Reserve

_MIB = 2**20
AGAIN_SHARE = 1.2
FEW_INODES = 1000
"""A file system with fewer free inodes is as good as full."""


class NodeDisk:
    """Measures the file systems of `paths`, and fills `reserve` up. With `mark_mib` 0 the disk never counts as low."""

    def __init__(self, paths: Sequence[Path], *, mark_mib: int, reserve: Reserve | None = None) -> None:
        self._paths, self._reserve = paths, reserve
        self._mark_mib = mark_mib
        self.low = False

    def look(self) -> DiskRoom | None:
        """Return the figures of the fullest file system, None when no path exists yet. A dead network mount may block it."""
        if self._reserve is not None and not self._reserve.is_whole:
            self._reserve.refill()
        found = [room for path in self._paths if (room := _room(path)) is not None]
        if not found:
            return None
        free_mib, total_mib, _ = min(found)
        needed_mib = self._mark_mib * (AGAIN_SHARE if self.low else 1.0)
        self.low = self._mark_mib > 0 and (free_mib < needed_mib or any(room[2] for room in found))
        return {"free_mib": free_mib, "total_mib": total_mib, "low": self.low}


def _room(path: Path) -> tuple[int, int, bool] | None:
    """Return free MiB, total MiB, and whether few inodes are left. A missing path is measured at its nearest parent."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    inodes_low = found.f_files > 0 and found.f_favail < FEW_INODES
    return found.f_bavail * found.f_frsize // _MIB, found.f_blocks * found.f_frsize // _MIB, inodes_low
