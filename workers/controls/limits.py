"""The limits of a part's group: memory, processes, its weight among all that wants cores, its cores, and the GPUs not its own.

Where the kernel has no group for one of them, the shim's own measurement or nothing stands in its place. A job may set its own
affinity to any core of the machine; out of a cpuset it cannot get. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workers.controls.cgroups import Group, Home

_MIB = 2**20
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
_PEAK = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
_DEFAULT_SHARES, _LEAST_SHARES, _PER_NICE = 1024, 2, 1.25
"""A step of niceness is a factor of 1.25 in weight: the kernel's own table (sched_prio_to_weight)."""


def limits_set(group: Group, launch: dict[str, Any]) -> None:
    """Set what the launch says. A controller that refuses is left out of the group from now on, and does without."""
    steps: dict[str, Callable[[Home], None]] = {
        "memory": lambda home: _memory(home, launch["memory_mib"]),
        "pids": lambda home: home.write("pids.max", str(launch.get("pids_limit") or "max")),
        "cpu": lambda home: _weight(home, launch["nice"]),
        "devices": lambda home: _devices(home, launch.get("hidden_devices") or ()),
    }
    for controller, step in steps.items():
        home = group.home(controller)
        if home is None:
            continue
        try:
            step(home)
        except OSError:
            del group.homes[controller]
            if home.path not in group.paths:
                with contextlib.suppress(OSError):
                    home.path.rmdir()


def _memory(home: Home, limit_mib: int | None) -> None:
    """Limit memory without a way out into swap, which would slow the whole machine."""
    if limit_mib is None:
        return
    limit = str(limit_mib * _MIB)
    if home.version == 1:
        home.write("memory.limit_in_bytes", limit)
        _if_there(home, "memory.memsw.limit_in_bytes", limit)
    else:
        home.write("memory.max", limit)
        _if_there(home, "memory.swap.max", "0")
        _if_there(home, "memory.oom.group", "1")


def _if_there(home: Home, name: str, text: str) -> None:
    """Set a file that not every kernel has."""
    with contextlib.suppress(OSError):
        home.write(name, text)


def _weight(home: Home, nice: int) -> None:
    """Give the whole group the weight of one process of this niceness: niceness itself counts within a group only."""
    if not nice:
        return
    if home.version == 1:
        home.write("cpu.shares", str(max(_LEAST_SHARES, round(_DEFAULT_SHARES / _PER_NICE**nice))))
    else:
        home.write("cpu.weight.nice", str(nice))


def _devices(home: Home, hidden: Iterable[str]) -> None:
    """Refuse the device files of others' GPUs, under any name. Version 1 only."""
    for path in hidden:
        try:
            about = os.stat(path)  # noqa: PTH116 - the shim does without pathlib where it can
        except FileNotFoundError:  # the GPU is gone
            continue
        if stat.S_ISCHR(about.st_mode):
            home.write("devices.deny", f"c {os.major(about.st_rdev)}:{os.minor(about.st_rdev)} rwm")


def memory_over(group: Group, used_mib: float, limit_mib: int | None) -> str | None:
    """Return why the job has to end: it used too much, or the kernel has killed something of it for that. None: it has not."""
    if limit_mib is None:
        return None
    if used_mib > limit_mib:
        return f"it used {used_mib:.0f} MiB of memory; its limit is {limit_mib} MiB"
    home = group.home("memory")
    if home is None or not home.field(_EVENTS[home.version], "oom_kill"):
        return None
    return f"it used {peak_mib(group):.0f} MiB of memory and asked for more; its limit is {limit_mib} MiB"


def peak_mib(group: Group) -> float:
    """Return the most memory that the group ever had at once; 0 where the kernel does not tell."""
    home = group.home("memory")
    return (home.number(_PEAK[home.version]) or 0) / _MIB if home else 0.0


def cpuset_of(group: Group, cores: Iterable[int]) -> Home | None:
    """Let the group run only on these cores; None where it has no cpuset that can be set."""
    home = group.home("cpuset")
    if home is None:
        return None
    try:
        cpuset_hold(home, cores)
    except OSError:
        return None
    return home


def cpuset_hold(home: Home, cores: Iterable[int]) -> None:
    """Let its processes run only on these cores. Raises OSError."""
    home.write("cpuset.cpus", ",".join(map(str, sorted(cores))))
