"""What a node's measuring costs at each heartbeat, in processor time and bytes: each in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from research.bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

HEARTBEATS_S = (0.001, 0.01, 0.1, 1.0, 10.0)
SHORTEST_S, LONGEST_S = HEARTBEATS_S[0], HEARTBEATS_S[-1]
HEAD = "heartbeat   readings/s   one core   sent B/s   kept B/s   memory\n"


def telemetry_measure(*, heartbeats_s: Sequence[float], seconds: float, gpus: int, jobs: int) -> list[dict[str, Any]]:
    """Return the figures of each heartbeat. Raises BenchError for a value out of range, or when one could not be measured."""
    if not all(SHORTEST_S <= each <= LONGEST_S for each in heartbeats_s):
        raise BenchError(f"--heartbeat must lie between {SHORTEST_S:g} and {LONGEST_S:g} seconds.")
    if not 0 < seconds < math.inf:
        raise BenchError("--seconds must be above 0.")
    if gpus < 1 or jobs < 0:
        raise BenchError("--gpus must be at least 1, and --jobs at least 0.")
    return [_one(heartbeat_s, seconds=seconds, gpus=gpus, jobs=jobs) for heartbeat_s in heartbeats_s]


def _one(heartbeat_s: float, *, seconds: float, gpus: int, jobs: int) -> dict[str, Any]:
    # At least three samples, else there is no rate and no whole message.
    long_s = max(seconds, 3 * heartbeat_s)
    command = [sys.executable, "-m", "research.bench.heartbeat_cost", *map(str, (long_s, heartbeat_s, gpus, jobs))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    if done.returncode:
        raise BenchError(f"The heartbeat of {heartbeat_s:g} s was not measured: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def telemetry_words(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures as a table."""
    first = rows[0]
    by = "by NVML" if first["gpus_by"] == "nvml" else "virtual, which cost less than a driver's"
    lines = [f"{first['gpus']} GPUs ({by}), {first['jobs']} jobs\n", HEAD]
    lines += [
        f"{row['heartbeat_s']:7g} s   {row['readings_s']:10g}   {row['core_percent']:6.2f} %   {row['bytes_s']:8d}   "
        f"{row['stored_bytes_s']:8d}   {row['peak_mib']:g} MiB\n"
        for row in rows
    ]
    return "".join(lines)
