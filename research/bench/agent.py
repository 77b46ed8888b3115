"""What a whole agent costs a node, and what a shim costs: real processes beside a real portal.

A Berth of our own is started, and beside its demo's idle nodes one more agent: a virtual node, on which real jobs run, silent or
printing. Its processor time is the kernel's (/proc/PID/stat), its memory what /proc tells of it. The GPUs are simulated: what a
driver's answers cost on top is told by `./berth bench telemetry` on a machine that has one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from portal.foundation.layout import SOURCE
from research.bench.errors import BenchError
from research.bench.latency import berth_started, environment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME, GPU_TYPE = "bench-agent", "Bench"
JOB_MEMORY_MIB = 600_000
"""More than any of the demo's nodes has, so that jobs without GPUs come to this one, too. None of them uses it."""
SILENT, TALKING = "sleep 86400", "while :; do echo step; sleep {every_s:g}; done"
START_LIMIT_S, SETTLED_S = 300.0, 20.0
LONGEST_S = 86_400.0
TICKS = os.sysconf("SC_CLK_TCK")
TARGET_PERCENT, TARGET_MIB, TARGET_SHIM_MIB = 2.0, 120.0, 15.0


def agent_measure(*, seconds: float, gpus: int, jobs: int, print_every: float) -> dict[str, Any]:
    """Start it all, measure for `seconds`, end it all; return the figures. Raises BenchError when that cannot be.

    `print_every`: seconds between two lines of each job; 0: they print nothing.
    """
    if not 1 <= seconds <= LONGEST_S:
        raise BenchError(f"--seconds must lie between 1 and {LONGEST_S:g}.")
    if not 0 <= print_every <= LONGEST_S:
        raise BenchError(f"--print-every must lie between 0 and {LONGEST_S:g}.")
    if gpus < 1:
        raise BenchError("--gpus must be at least 1.")
    if jobs < gpus:
        raise BenchError("--jobs must be at least as many as there are GPUs: each has one.")
    with tempfile.TemporaryDirectory(prefix="berth-b-") as name, berth_started(Path(name)) as (url, token):
        node, headers = Path(name) / "nodes" / NAME, {"Authorization": f"Bearer {token}"}
        with (
            httpx2.Client(base_url=url, headers=headers, timeout=60) as client,
            _agent(url, node, gpus=gpus, jobs=jobs) as agent,
        ):
            _wait_node(client)
            for number in range(jobs):
                _submit(client, TALKING.format(every_s=print_every) if print_every else SILENT, gpus=int(number < gpus))
            _wait_running(client, jobs)
            time.sleep(SETTLED_S)
            return measured(agent.pid, shims_of(node), seconds) | {
                "gpus": gpus,
                "jobs": jobs,
                "print_every_s": print_every,
            }


@contextlib.contextmanager
def _agent(url: str, node: Path, *, gpus: int, jobs: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run one more node of that Berth, in its data directory: so what runs there ends with it."""
    node.mkdir(parents=True)
    virtual = (
        f"gpus={gpus},type={GPU_TYPE},gpu-memory-mib=81920,cores={4 * jobs},memory-mib={(jobs + 1) * JOB_MEMORY_MIB}"
    )
    argv = [sys.executable, "-m", "workers.agent", "--url", url, "--dir", str(node), "--name", NAME]
    argv += ["--trust-tenants", "--virtual", f"{virtual},core-percent=1"]
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    own["BERTH_AGENT_TOKEN"] = _join_token(node.parents[1])
    with (node / "log").open("w") as log:
        agent = subprocess.Popen(argv, cwd=SOURCE, env=own, stdout=log, stderr=log)  # noqa: S603 - our own argv
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()


def _join_token(data: Path) -> str:
    argv = [sys.executable, "manage.py", "join_token", "--name", NAME]
    done = subprocess.run(argv, cwd=SOURCE, env=environment_of(data), capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"berthjoin_\S+", done.stdout)
    if found is None:
        raise BenchError(f"No join token was made: {done.stderr.strip()[-300:]}")
    return found[0]


def _submit(client: httpx2.Client, command: str, *, gpus: int) -> None:
    wanted: dict[str, Any] = {"name": "bench-agent", "command": command}
    if gpus:
        wanted |= {"gpus": 1, "gpu_types": [GPU_TYPE], "cores_per_gpu": 1}
    else:
        wanted |= {"gpus": 0, "cores": 1, "memory_mib": JOB_MEMORY_MIB}
    answer = client.post("/api/v1/jobs", json=wanted)
    if answer.status_code != httpx2.codes.CREATED:
        raise BenchError(f"submitting answered {answer.status_code}: {answer.text[:300]}")


def _wait_node(client: httpx2.Client) -> None:
    until = time.monotonic() + START_LIMIT_S
    while not client.get(f"/api/v1/nodes/{NAME}").is_success:
        if time.monotonic() > until:
            raise BenchError(f"The agent's node did not join within {START_LIMIT_S:g} s.")
        time.sleep(1.0)


def _wait_running(client: httpx2.Client, jobs: int) -> None:
    until, running = time.monotonic() + START_LIMIT_S, 0
    while time.monotonic() < until:
        running = len(client.get(f"/api/v1/nodes/{NAME}").raise_for_status().json()["running"])
        states = client.get("/api/v1/jobs?name=bench-agent&page_size=500").raise_for_status().json()["results"]
        if running == jobs and all(job["state"] == "RUNNING" for job in states):
            return
        time.sleep(1.0)
    raise BenchError(f"After {START_LIMIT_S:g} s {running} of {jobs} jobs run on the agent's node.")


def shims_of(node: Path) -> list[int]:
    """Return the shims that this node's agent started: they name its directory, and the file that they are."""
    found = []
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if directory.name.isdigit():
                told = (directory / "cmdline").read_bytes().split(b"\0")
                if any(word.endswith(b"workers/shim.py") for word in told) and str(node).encode() in b" ".join(told):
                    found.append(int(directory.name))
    return found


def measured(agent: int, shims: Sequence[int], seconds: float) -> dict[str, Any]:
    if not shims:
        raise BenchError("The jobs' shims were not found.")
    before, began = {pid: cpu_s(pid) for pid in (agent, *shims)}, time.monotonic()
    time.sleep(seconds)
    spent_s = time.monotonic() - began
    percent = {pid: 100 * (cpu_s(pid) - own) / spent_s for pid, own in before.items()}
    memory = {pid: memory_mib(pid) for pid in before}
    return {
        "seconds": round(spent_s, 1),
        "agent_core_percent": round(percent[agent], 2),
        "agent_mib": memory[agent][0],
        "agent_peak_mib": memory[agent][1],
        "shims": len(shims),
        "shim_core_percent": round(sum(percent[pid] for pid in shims) / len(shims), 3),
        "shim_mib": max(memory[pid][0] for pid in shims),
        "targets": {"agent_core_percent": TARGET_PERCENT, "agent_mib": TARGET_MIB, "shim_mib": TARGET_SHIM_MIB},
    }


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of those that it started and waited for, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / TICKS


def memory_mib(pid: int) -> tuple[float, float]:
    """Return what a process has in memory, and the most that it had, in MiB."""
    told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    now, most = (round(int(told[name].split()[0]) / 1024, 1) for name in ("VmRSS", "VmHWM"))
    return now, most


def agent_words(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    told = {name: f"{value:g}" for name, value in figures.items() if isinstance(value, int | float)}
    return (
        "{gpus} virtual GPUs, {jobs} jobs, seconds from line to line of each {print_every_s} (0: none), {seconds} s\n"
        "agent: {agent_core_percent} % of a core, {agent_mib} MiB, {agent_peak_mib} at most "
        "(asked: < {percent:g} %, < {mib:g} MiB)\n"
        "shims: {shims}, each {shim_core_percent} % of a core, {shim_mib} MiB at most (asked: < {shim:g} MiB)"
    ).format(**told, percent=TARGET_PERCENT, mib=TARGET_MIB, shim=TARGET_SHIM_MIB)
