"""NVIDIA's Multi-Process Service: whether its control daemon runs here, and for which jobs it may be used.

Berth starts no daemon: the node's operator does. Jobs that share a GPU reach it by its pipes
(CUDA_MPS_PIPE_DIRECTORY). It serves one user at a time: another user's jobs would wait until the first user's have ended, and
a failure of one job of the user may break the others. So it is used only where all jobs of the node run under the agent's own
account and see its files; elsewhere, and without a daemon, the driver lets jobs take turns (time slicing).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workers.system.procs import stat

DIRECTORY = Path("/tmp/nvidia-mps")  # noqa: S108 - where NVIDIA's daemon puts its pipes by default
PID_FILE, NAME = "nvidia-cuda-mps-control.pid", "nvidia-cuda-mps"
"""The kernel cuts a process's name off after 15 characters."""


@dataclass(frozen=True, slots=True)
class Daemon:
    pid: int
    start_ticks: int


def mps_daemon(directory: Path, *, proc: Path = Path("/proc")) -> Daemon | str:
    """Return the daemon whose pipes lie in this directory, or why none there can be used.

    Its directory is often below /tmp, where anybody may write: only a process of root's or of this account counts.
    """
    try:
        descriptor = os.open(directory / PID_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return f"no MPS control daemon runs here ({directory})"
    except OSError as error:
        return f"{directory / PID_FILE}: {error.strerror}"
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(16).decode(errors="replace").strip()
    seen = stat(int(text)) if text.isascii() and text.isdigit() else None
    if seen is None:
        return f"the MPS control daemon of {directory} has ended"
    try:
        name, owner = (proc / text / "comm").read_text().strip(), (proc / text).stat().st_uid
    except OSError:
        return f"the MPS control daemon of {directory} has ended"
    if not name.startswith(NAME) or owner not in {0, os.geteuid()}:
        return f"process {text} of {directory} is no MPS control daemon of this account or root's"
    return Daemon(seen.pid, seen.start_ticks)
