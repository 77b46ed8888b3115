"""How long from submit to running on an idle virtual GPU, through the real doors: REST, planning, long poll, shim.

Each submission waits for the job before it to end, so a GPU is idle. The figure is the server's own: the attempt's
`started_at` (its node's report of a running process) minus the job's `submitted_at`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from portal.foundation.layout import Layout, read_json
from research.bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = "true"
WAIT_LIMIT_S = 60.0
TARGET_P99_S = 3.0


@contextlib.contextmanager
def berth_idle() -> Iterator[tuple[str, str]]:
    """Start a Berth of our own with the demo's idle virtual nodes; give its URL and a token; end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="berth-b-") as directory, berth_started(Path(directory)) as found:
        yield found


@contextlib.contextmanager
def berth_started(directory: Path) -> Iterator[tuple[str, str]]:
    """The same on this data directory, which is ours and empty."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = environment_of(directory) | {"BERTH_DEMO_WORKLOAD": "0"}
    launcher = [sys.executable, "-m", "portal.launch"]
    up = [*launcher, "up", "--demo", "--detach", "--port", str(port), "--data", str(directory)]
    began = subprocess.run(up, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if began.returncode:
        raise BenchError(f"Berth did not start: {began.stderr.strip()[-500:]}")
    try:
        tokens: dict[str, str] = read_json(Layout.at(directory).demo_tokens)
        yield f"http://127.0.0.1:{port}", next(iter(tokens.values()))
    finally:
        down = [*launcher, "down", "--data", str(directory)]
        subprocess.run(down, env=environment, capture_output=True, check=False)  # noqa: S603


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment of a process that works on this Berth, whichever one the caller's names."""
    own = {name: value for name, value in os.environ.items() if name not in {"REDIS_URL", "DATABASE_URL"}}
    return own | {"BERTH_DATA_DIR": str(directory)}


def latency_measure(*, url: str, token: str, submissions: int) -> dict[str, Any]:
    """Submit one job after the other and return the figures in seconds."""
    values, walls = [], []
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
        for number in range(submissions):
            began = time.monotonic()
            job = _submit(client, number)
            walls.append(time.monotonic() - began)
            values.append(_started_after_s(_wait_ended(client, job["id"])))
    return {
        "submissions": submissions,
        "submit_to_running_s": _percentiles(values),
        "submit_request_s": _percentiles(walls),
        "target_p99_s": TARGET_P99_S,
    }


def _submit(client: httpx2.Client, number: int) -> dict[str, Any]:
    answer = client.post("/api/v1/jobs", json={"name": f"latency-{number}", "command": COMMAND, "gpus": 1})
    if answer.status_code != httpx2.codes.CREATED:
        raise BenchError(f"submit {number} answered {answer.status_code}: {answer.text[:300]}")
    return answer.json()


def _wait_ended(client: httpx2.Client, job_id: int) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while time.monotonic() < deadline:
        job = client.get(f"/api/v1/jobs/{job_id}").raise_for_status().json()
        if job["state"] == "COMPLETED":
            return job
        if job["ended_at"]:
            raise BenchError(f"job {job_id} ended {job['state']}: {job['end_detail']}")
        time.sleep(0.1)
    raise BenchError(f"job {job_id} did not end within {WAIT_LIMIT_S:g} s: {job['state']} {job['reason']}")


def _started_after_s(job: dict[str, Any]) -> float:
    started = datetime.fromisoformat(job["attempts"][0]["started_at"])
    return (started - datetime.fromisoformat(job["submitted_at"])).total_seconds()


def _percentiles(values: list[float]) -> dict[str, float]:
    """Return min, 50th, 90th and 99th percentile (nearest rank) and max."""
    ordered = sorted(values)

    def rank(share: int) -> float:
        return ordered[max(0, -(-len(ordered) * share // 100) - 1)]

    named = {"min": ordered[0], "p50": rank(50), "p90": rank(90), "p99": rank(99), "max": ordered[-1]}
    return {name: round(value, 3) for name, value in named.items()}


def report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    rows = [f"{figures['submissions']} submissions, one after the other, on an idle virtual GPU"]
    rows += [
        f"{name:22}" + "".join(f"{key} {value:<9.3f}" for key, value in figures[name].items())
        for name in ("submit_to_running_s", "submit_request_s")
    ]
    rows.append(f"target: p99 of submit_to_running_s <= {figures['target_p99_s']:g} s")
    return "\n".join(rows)
