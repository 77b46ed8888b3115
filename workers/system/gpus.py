"""The GPUs of this machine for Linux: which device file is whose, so that a job is kept from all that are not its own; and MPS.

NVIDIA's Multi-Process Service: Berth starts no daemon, the node's operator does. Jobs that share a GPU reach it by its pipes
(CUDA_MPS_PIPE_DIRECTORY). It serves one user at a time: another user's jobs would wait until the first user's have ended, and
a failure of one job of the user may break the others. So it is used only where all jobs of the node run under the agent's own
account and see its files; elsewhere, and without a daemon, the driver lets jobs take turns (time slicing).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.system.procs import stat

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES, DRIVER = Path("/dev"), Path("/proc/driver/nvidia/gpus")
_PREFIX = "nvidia"


@dataclass(frozen=True, slots=True)
class Devices:
    """`of`: the device file of each GPU, by the GPU's UUID; `files`: those of all GPUs, also of ones that no job gets."""

    of: Mapping[str, str]
    files: tuple[str, ...]

    def with_instances(self, wholes: Mapping[str, str]) -> Devices:
        """Return the same, with MIG instances: each is reached by the file of the GPU that it is a part of."""
        return Devices(
            {**self.of, **{uuid: self.of[whole] for uuid, whole in wholes.items() if whole in self.of}}, self.files
        )

    def hidden_from(self, spec: Mapping[str, Any]) -> list[str]:
        """Return the device files of GPUs that are not the part's. All of them for a part without GPUs."""
        own = {self.of.get(uuid) for uuid in spec["gpu_uuids"]}
        return [file for file in self.files if file not in own]


def devices_find(*, devices: Path = DEVICES, driver: Path = DRIVER) -> Devices | None:
    """Ask the driver which file is whose; None where it does not tell of every GPU, so that no job loses its own."""
    files = [path for path in sorted(devices.glob(f"{_PREFIX}*")) if path.name.removeprefix(_PREFIX).isdecimal()]
    of = {}
    for each in sorted(driver.glob("*/information")):
        said = dict(line.partition(":")[::2] for line in each.read_text().splitlines())
        uuid, minor = said.get("GPU UUID", "").strip(), said.get("Device Minor", "").strip()
        if uuid and minor:
            of[uuid] = str(devices / f"{_PREFIX}{minor}")
    if not files or set(of.values()) != {str(path) for path in files}:
        return None
    return Devices(of, tuple(map(str, files)))


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
