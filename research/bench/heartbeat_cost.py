"""What measuring costs at a heartbeat: the processor time of an agent's measuring, and the bytes that travel.

`python -m research.bench.heartbeat_cost SECONDS HEARTBEAT_S GPUS JOBS` prints one JSON object; `./berth bench telemetry`
calls it once a heartbeat. The GPUs are the machine's, by NVML; where it has none, virtual ones, which cost less than a
driver does.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from workers.controls.usage import Usage
from workers.system.procs import boottime, stat
from workers.telemetry.beat import Beat
from workers.telemetry.host import HostSampler
from workers.telemetry.nvml import NvmlSampler
from workers.telemetry.owners import Shim
from workers.telemetry.sampler import GpuFound, GpuSampler
from workers.telemetry.sampling import Running, Sampling
from workers.telemetry.simulated import SimulatedSampler
from workers.telemetry.window import Second, telemetry_body

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH_S = 5


def sampler_of(gpus: int) -> tuple[GpuSampler, str]:
    """Return the machine's GPUs, else virtual ones, and which these are."""
    found = NvmlSampler()
    if found.gpus():
        return found, "nvml"
    return SimulatedSampler([GpuFound(n, f"GPU-{n}", "H100", 81920) for n in range(gpus)]), "virtual"


def measured(*, seconds: float, heartbeat_s: float, gpus: int, jobs: int) -> dict[str, object]:
    """Measure for `seconds`; return the figures. CPU is of the whole process, its start left out."""
    sampler, kind = sampler_of(gpus)
    count = len(sampler.gpus())
    beat, sampling = Beat(sampler, period_s=heartbeat_s), Sampling(host=HostSampler())
    children = [subprocess.Popen(["sleep", "3600"]) for _ in range(jobs)]  # noqa: S607 - the machine's own sleep
    shims = [
        Shim(each.pid, seen.start_ticks, f"{n:032x}") for n, each in enumerate(children) if (seen := stat(each.pid))
    ]
    batch: list[Second] = []
    sizes: list[tuple[int, int]] = []
    readings, period_s = 0, max(1.0, heartbeat_s)
    beat.start()
    began, cpu_s = time.monotonic(), _cpu_s()
    try:
        while time.monotonic() - began < seconds:
            time.sleep(period_s)
            at = boottime()
            running = [
                Running(shim.attempt, (n % count,) if count else (), Usage(at, at, 0.0, 900.5 + n, at, at), shim)
                for n, shim in enumerate(shims)
            ]
            beat.parts = tuple(sampling.uses(running).values())
            taken = beat.take()
            readings += taken.count
            batch.append(sampling.second(time.time(), running, taken))
            if len(batch) * period_s >= BATCH_S:
                sizes.append(_bytes(batch, period_s, taken.last))
                batch = []
    finally:
        beat.stop()
        for child in children:
            child.kill()
            child.wait()
    spent = time.monotonic() - began
    body, packed = sizes[-1] if sizes else _bytes(batch, period_s, {})
    return {
        "heartbeat_s": heartbeat_s,
        "gpus": count,
        "gpus_by": kind,
        "jobs": jobs,
        "readings_s": round(readings / spent, 1),
        "core_percent": round(100 * (_cpu_s() - cpu_s) / spent, 2),
        "bytes_s": round(body / max(BATCH_S, period_s)),
        "stored_bytes_s": round(packed / max(BATCH_S, period_s)),
        "peak_mib": _peak_mib(),
    }


def _bytes(batch: list[Second], period_s: float, last: Mapping[tuple[int, str], list[float | None]]) -> tuple[int, int]:
    """Return the bytes of a message, and those that the portal keeps of it until it is packed."""
    known: dict[str, set[str]] = {}
    for group, _, name in (measure for second in batch for measure in second.values):
        known.setdefault(group, set()).add(name)
    body = telemetry_body(batch, boot_id="0" * 36, period_s=period_s, known=known)
    if last:
        body["last"] = {"period_s": 0.1, "gpus": {}}
        for (index, name), values in last.items():
            body["last"]["gpus"].setdefault(str(index), {})[name] = values
    text = json.dumps(body, separators=(",", ":")).encode()
    return len(text), len(zlib.compress(text, 6))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> float:
    """Return the most memory that this program held; `ru_maxrss` would count what its parent held before exec, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024, 1)


def main() -> None:
    seconds, heartbeat_s, gpus, jobs = sys.argv[1:5]
    figures = measured(seconds=float(seconds), heartbeat_s=float(heartbeat_s), gpus=int(gpus), jobs=int(jobs))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
