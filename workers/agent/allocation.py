"""The agent's part of a machine under a batch system: GPUs, cores, memory and an end.

Slurm says it in the environment of the job's script and of its steps (sbatch(1), srun(1), *Output environment variables*). Where
the cgroup hides other GPUs, all that NVML shows are the allocation's. Else their numbers are looked for, which are those of
`/dev/nvidiaN`. Two variables may contradict each other, as Slurm counts from 0 where a cgroup hides the rest: then nothing is
guessed.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.agent.settings import SettingError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workers.telemetry.sampler import GpuFound

OFF, SLURM, OTHER = SYSTEMS = ("off", "slurm", "other")
NUMBERS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
VISIBLE = "CUDA_VISIBLE_DEVICES"
ASK_S = 15.0
"""The longest that `squeue` may take: without its controller it gives up after 9 s itself."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The agent's part. None: the batch system does not say, and the machine's counts."""

    job: str = ""
    gpus: int | None = None
    names: tuple[str, ...] | None = None  # numbers of the node, or UUIDs; None: all that the driver shows
    cores: int | None = None
    memory_mib: int | None = None

    def indices(self, found: Sequence[GpuFound]) -> set[int]:
        """Return the indices of its GPUs among those that the driver shows. Raises SettingError where they are not these many."""
        if self.gpus == 0:
            return set()
        if self.names is None or len(found) == self.gpus:
            mine = {gpu.index for gpu in found}
        else:
            mine = {gpu.index for gpu in found if _is_named(gpu, self.names)}
        if self.gpus is not None and len(mine) != self.gpus:
            named = "no variable names them, or two name different ones"
            if self.names is not None:
                named = f"{', '.join(self.names)} are named"
            raise SettingError(
                f"--allocation: it has {self.gpus} GPUs, and {len(mine)} of the {len(found)} that NVML shows count as its own: "
                f"{named}. Berth takes none that may be others'. Compare {VISIBLE} and SLURM_JOB_GPUS with `nvidia-smi -L`."
            )
        return mine


def _is_named(gpu: GpuFound, names: Sequence[str]) -> bool:
    number = gpu.index if gpu.minor is None else gpu.minor
    return any(name == str(number) or (not name.isdecimal() and gpu.uuid.startswith(name)) for name in names)


def allocation_read(system: str, environ: Mapping[str, str] = os.environ) -> Allocation | None:
    """Return the agent's part; None where the machine is its own. Raises SettingError."""
    if system == OFF:
        return None
    if system == OTHER:
        names = _list(environ, VISIBLE)
        return Allocation(gpus=None if names is None else len(names), names=names)
    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        raise SettingError("--allocation slurm: this is no job of Slurm, for SLURM_JOB_ID is not set")
    names = _names(environ)
    cores = _number(environ, "SLURM_CPUS_ON_NODE")
    gpus = _number(environ, "SLURM_GPUS_ON_NODE")
    gpus = len(names or ()) if gpus is None else gpus
    return Allocation(job, gpus, names, cores, _memory_mib(environ, cores, gpus))


def _names(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return how its GPUs are named on this node; None where two variables name different ones."""
    visible = _list(environ, VISIBLE)
    told = next((found for name in NUMBERS if (found := _list(environ, name)) is not None), None)
    if not visible or not told:
        return visible or told
    numbers = all(name.isdecimal() for name in visible)
    return None if numbers and set(visible) != set(told) else visible


def _list(environ: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = environ.get(name)
    if text is None or text.strip() in {"(null)", "NoDevFiles"}:
        return None
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _memory_mib(environ: Mapping[str, str], cores: int | None, gpus: int) -> int | None:
    """Return the memory on this node in MiB; Slurm says it by node, by CPU or by GPU, and 0 where it limits none."""
    for name, times in (("SLURM_MEM_PER_NODE", 1), ("SLURM_MEM_PER_CPU", cores), ("SLURM_MEM_PER_GPU", gpus)):
        if found := (_number(environ, name) or 0) * (times or 0):
            return found
    return None


def end_ask(job: str) -> float | None:
    """Return when the job of Slurm ends, Unix seconds; None where it has no end or Slurm does not answer. It may take seconds."""
    text = _said("squeue", "--noheader", f"--jobs={job}", "--format=%e")
    return float(text) if text.isdecimal() and int(text) > time.time() - 86_400 else None


def closes_ask(system: str, leave_s: float) -> float | None:
    """Return from when on the agent stops its parts, Unix seconds: `leave_s` before the end. None: no end is known."""
    found = allocation_read(system)
    ends_at = end_ask(found.job) if found is not None and found.job else None
    return None if ends_at is None else ends_at - leave_s


def kill_wait_ask() -> float | None:
    """Return the seconds from Slurm's SIGTERM to its SIGKILL; None where Slurm does not answer. It may take seconds."""
    found = re.search(r"^KillWait\s*=\s*(\d+)", _said("scontrol", "show", "config"), re.MULTILINE)
    return float(found[1]) if found else None


def _said(*words: str) -> str:
    environ = os.environ | {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603
            words, env=environ, capture_output=True, text=True, timeout=ASK_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("slurm does not answer", asked=words[0], reason=str(error))
        return ""
    return done.stdout.strip()
