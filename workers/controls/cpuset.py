"""A kernel wall round a part's cores, where the machine lets us build one: cgroup v2's cpuset, else v1's; else none.

A job may set its own affinity to any core of the machine; out of a cpuset it cannot get. One directory for each part, named
after it, is made beside the shim's own cgroup, and only where that changes nothing for others: in v2 the controller must be
passed on there already or the shim's own cgroup must let it be. The shim itself stays outside. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNTS, OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
PREFIX = "berth-"


@dataclass(frozen=True, slots=True)
class Cpuset:
    """One part's directory. `version`: of the kernel's cgroups."""

    path: Path
    version: Literal[1, 2]

    def hold(self, cores: Iterable[int]) -> None:
        """Let its processes run on these cores alone. Raises OSError."""
        (self.path / "cpuset.cpus").write_text(",".join(map(str, sorted(cores))))

    def enter(self) -> None:
        """Move the calling process in; what it forks is born there. Raises OSError."""
        (self.path / "cgroup.procs").write_text("0")

    def remove(self) -> None:
        """Remove it; nothing while a process is in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def cpuset_make(name: str, cores: Iterable[int], *, mounts: Path = MOUNTS, own: Path = OWN) -> Cpuset | None:
    """Make the part's cpuset with these cores; None where the machine has none that can be written."""
    for parent, version, is_own in _parents(mounts, own):
        cpuset = Cpuset(parent / f"{PREFIX}{name}", version)
        try:
            if version == 2 and not _passes_on(parent, may_ask=is_own):
                continue
            cpuset.path.mkdir(exist_ok=True)
            if version == 1:
                (cpuset.path / "cpuset.mems").write_text((parent / "cpuset.mems").read_text())
            cpuset.hold(cores)
            if os.access(cpuset.path / "cgroup.procs", os.W_OK) and os.access(parent / "cgroup.procs", os.W_OK):
                return cpuset
        except OSError:
            pass
        cpuset.remove()
    return None


def cpuset_remove(name: str, *, mounts: Path = MOUNTS, own: Path = OWN) -> None:
    """Remove what a shim that was killed left of a part's cpuset."""
    for parent, version, _ in _parents(mounts, own):
        Cpuset(parent / f"{PREFIX}{name}", version).remove()


def _parents(mounts: Path, own: Path) -> Iterator[tuple[Path, Literal[1, 2], bool]]:
    """Yield the directories in which a part's may be made, v2's first: the shim's own cgroup (true), or the one above."""
    try:
        names = dict(_own_paths(own.read_text()))
        found = [(fields, _mount(fields)) for fields in map(str.split, mounts.read_text().splitlines())]
    except OSError:
        return
    for fields, mount in found:
        if mount == "cgroup2" and "" in names:
            inside = _inside(Path(fields[4]), fields[3], names[""])
            yield inside, 2, True
            if inside != Path(fields[4]):
                yield inside.parent, 2, False
    for fields, mount in found:
        if mount == "cgroup" and "cpuset" in names and "cpuset" in fields[-1].split(","):
            yield _inside(Path(fields[4]), fields[3], names["cpuset"]), 1, True


def _own_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield (controller, path) of each line `number:controllers:path`; v2's has no controller."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mount(fields: list[str]) -> str:
    """Return the kind of file system of a line of mountinfo: what follows the lone hyphen."""
    return fields[fields.index("-") + 1]


def _inside(mount: Path, root: str, own: str) -> Path:
    """Return where a cgroup's path lies below a mount that shows the hierarchy from `root` on."""
    below = own.removeprefix(root) if root != "/" else own
    return mount / below.strip("/")


def _passes_on(parent: Path, *, may_ask: bool) -> bool:
    """Say whether v2's children of this cgroup have the cpuset controller, perhaps after asking for it."""
    control = parent / "cgroup.subtree_control"
    if "cpuset" not in control.read_text().split():
        if not may_ask or "cpuset" not in (parent / "cgroup.controllers").read_text().split():
            return False
        control.write_text("+cpuset")  # refused where processes are in it
    return "cpuset" in control.read_text().split()
