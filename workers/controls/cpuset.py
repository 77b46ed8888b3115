"""A kernel wall round a part's cores, where the machine lets us build one: the cpuset of its group; else none.

A job may set its own affinity to any core of the machine; out of a cpuset it cannot get. Standard library only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from workers.controls.cgroups import Group, Version


class Cpuset(NamedTuple):
    """One part's directory. `version`: of the kernel's cgroups."""

    path: Path
    version: Version

    def hold(self, cores: Iterable[int]) -> None:
        """Let its processes run only on these cores. Raises OSError."""
        (self.path / "cpuset.cpus").write_text(",".join(map(str, sorted(cores))))

    def enter(self) -> None:
        """Move the calling process in; its children are born there. Raises OSError."""
        (self.path / "cgroup.procs").write_text("0")

    def remove(self) -> None:
        """Remove it; nothing while a process is in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def cpuset_of(group: Group, cores: Iterable[int]) -> Cpuset | None:
    """Let the group run only on these cores; None where it has no cpuset that can be set."""
    home = group.home("cpuset")
    if home is None:
        return None
    cpuset = Cpuset(home.path, home.version)
    try:
        cpuset.hold(cores)
    except OSError:
        return None
    return cpuset
