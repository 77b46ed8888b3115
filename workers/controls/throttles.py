"""Holds a CPU job back from the memory: to a share of its traffic (MBA) or of its CPU time (quotas).

Memory Bandwidth Allocation is Intel's and AMD's, in the kernel's resctrl: a directory with the job's threads and a limit in
per cent. A quota stands in the part's control group, of version 2 or 1. It is a share of the cores that the job used when it
was first held back: a quota of its cores would not touch a job that uses half of them. Where neither can be set, the
job is bound to fewer of its cores (`CoreOrders`). Standard library only.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from workers.controls.cgroups import PREFIX, Group, group_make

if TYPE_CHECKING:
    from typing import Literal

    Means = Literal["mba", "quota2", "quota1", "cores"]

RESCTRL = Path("/sys/fs/resctrl")
PERIOD_US, LEAST_QUOTA_US = 100_000, 1000
"""The kernel's own period, and the least quota that it takes."""
LEAST_CORES = 0.05


class Throttle:
    """The throttle of one part. `by`: the means in force, empty while it is not held back."""

    by = ""
    _cores = 0.0

    def __init__(self, name: str, group: Group | None, resctrl: Path = RESCTRL) -> None:
        self.name, self.group, self.resctrl = name, group, resctrl
        self._taken: set[int] = set()

    @property
    def _own(self) -> Path:
        return self.resctrl / f"{PREFIX}{self.name}"

    def watch(self) -> None:
        """Let the processor count the part's traffic, from its first process on, where it can."""
        monitor = self.resctrl / "mon_groups" / f"{PREFIX}{self.name}"
        with contextlib.suppress(OSError):  # no resctrl, or no counter is left
            monitor.mkdir(exist_ok=True)
            if self.group is not None:
                self.group.tasks = monitor / "tasks"

    def hold(self, share: float, *, used: float) -> bool:
        """Hold the part to a share, 1 = let it go. `used`: cores that it takes now. False where there are no means."""
        if share >= 1:
            self.release()
            return True
        if not self.by:
            self._cores = max(LEAST_CORES, used)
        if self._bandwidth(share):
            self.by = "mba"
        elif (version := self._quota(share)) is not None:
            self.by = f"quota{version}"
        else:
            self.by = ""
        return bool(self.by)

    def release(self) -> None:
        """Let it go. Its directory in resctrl stays until it ends, without a limit: it counts what the part moves."""
        if self.by == "mba":
            self._bandwidth(1.0)
        elif self.by:
            self._quota(1.0)
        self.by = ""

    def end(self) -> None:
        """Remove all limits of the part; the group's maker removes the group."""
        self.release()
        resctrl_remove(self.name, resctrl=self.resctrl)

    def take(self, thread: int) -> bool:
        """Put one thread under the limit; true: it was not there. Its children are born there."""
        if self.by != "mba" or thread in self._taken:
            return False
        self._taken.add(thread)
        with contextlib.suppress(OSError):  # it has ended
            (self._own / "tasks").write_text(str(thread))
        return True

    def _bandwidth(self, share: float) -> bool:
        """Set the limit of its directory on each socket, in the steps that the processor knows."""
        try:
            about = self.resctrl / "info/MB"
            least, step = (int((about / name).read_text()) for name in ("min_bandwidth", "bandwidth_gran"))
            line = next(
                line for line in (self.resctrl / "schemata").read_text().splitlines() if line.strip().startswith("MB:")
            )
            percent = min(100, max(least, math.ceil(100 * share / step) * step))
            sockets = [each.partition("=")[0] for each in line.strip().removeprefix("MB:").split(";")]
            self._own.mkdir(exist_ok=True)
            (self._own / "schemata").write_text("MB:" + ";".join(f"{each}={percent}" for each in sockets) + "\n")
        except (OSError, ValueError, StopIteration):  # no MBA, or no directory is left (the processor has few)
            return False
        return True

    def _quota(self, share: float) -> int | None:
        """Set the quota of its group; return the group's version, None where that cannot be set."""
        home = self.group.home("cpu") if self.group else None
        if home is None:
            return None
        quota = max(LEAST_QUOTA_US, round(share * self._cores * PERIOD_US))
        with contextlib.suppress(OSError):
            if home.version == 2:
                home.write("cpu.max", f"{'max' if share >= 1 else quota} {PERIOD_US}")
            else:
                home.write("cpu.cfs_quota_us", "-1" if share >= 1 else str(quota))
            return home.version
        return None


def resctrl_remove(name: str, *, resctrl: Path = RESCTRL) -> None:
    """Remove what a part has in resctrl; the kernel gives its threads back."""
    for path in (resctrl / "mon_groups", resctrl):
        with contextlib.suppress(OSError):
            (path / f"{PREFIX}{name}").rmdir()


def means_find(*, name: str = "means", resctrl: Path = RESCTRL, group: Group | None = None) -> Means:
    """Try what this machine has, with a group of its own that is gone afterwards."""
    own = group_make(f"{name}-{os.getpid()}", ("cpu",)) if group is None else group
    throttle = Throttle(f"{name}-{os.getpid()}", own, resctrl)
    try:
        throttle.hold(0.5, used=1.0)
        found = throttle.by
        throttle.end()
    finally:
        own.remove()
    return found or "cores"  # type: ignore[return-value]
