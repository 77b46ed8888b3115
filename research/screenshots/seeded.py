"""A private demo Berth with something on each page: jobs in many states, an array with failures, two simulations."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch.broker import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TENANT_NAME, MEMBER = "vision-lab", "vera"
UP_LIMIT_S, SEEDED_LIMIT_S = 300.0, 240.0
EIGHT = {"gpus": 8, "gpu_types": ["A100 80 GB"]}
SIMULATION = {"generator": "hops-64", "jobs": 12, "cluster": "own", "policies": ["fifo", "berth"]}
ENDS = """for i in 1 2 3 4 5 6; do echo step $i
echo "{\\"step\\": $i, \\"loss\\": 0.$((9 - i))}" >> $BERTH_ARTEFACTS/metrics.jsonl; done"""
TASKS = """cd $BERTH_ARTEFACTS; i=$BERTH_ARRAY_INDEX; lr=$((i % 4 + 1)); step=0
echo "{\\"lr\\": ${lr}e-4, \\"batch\\": $((64 << i % 3))}" > params.json
while [ $step -lt 40 ]; do step=$((step + 1)); loss=$((9000 / (step * lr + 9) + i * 7 + 100))
echo "{\\"step\\": $((step * 100)), \\"loss\\": 0.$loss, \\"acc\\": 0.$((600 + step * lr))}" >> metrics.jsonl
case $i-$step in 2-9|5-14) echo 'CUDA out of memory' >&2; exit 1;; esac; done"""

TRAINS = """cd $BERTH_ARTEFACTS; mkdir checkpoints; echo 'what step 1 learned' > checkpoints/step-1.txt; i=0
while :; do i=$((i + 1)); echo "step $i"; echo "{\\"step\\": $i, \\"loss\\": $((900 / (i + 9)))}" >> metrics.jsonl; sleep 1
done"""


@dataclass
class Seeded:
    """`names` fills the places of `pages.PAGES`: numbers of jobs in the states they are called after, and so on."""

    url: str
    people: dict[str, tuple[str, str]]
    names: dict[str, str]


@contextlib.contextmanager
def seeded(say: Callable[[str], None]) -> Iterator[Seeded]:
    """Start a demo of its own, fill it, and end it with all that it wrote. Raises LaunchError when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="berth-shots-") as folder:
        layout = Layout.at(Path(folder) / "data")
        port = free_port()
        try:
            _launch(layout, "up", "--demo", "--detach", "--port", str(port))
            operator = read_json(layout.operator) or {}
            people = {
                "tenant": (MEMBER, (read_json(layout.demo_users) or {})[MEMBER]["password"]),
                "operator": (operator["username"], operator["password"]),
            }
            url = f"http://127.0.0.1:{port}"
            say(f"a demo of its own is up at {url}; waiting for jobs and simulations")
            yield Seeded(url, people, _filled(url, (read_json(layout.demo_tokens) or {})[TENANT_NAME]))
        finally:
            _launch(layout, "down")


def _launch(layout: Layout, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(  # noqa: S603 - Berth's own launcher
        [sys.executable, "-P", "-m", "portal.launch", *arguments],
        env=environment | {"PYTHONPATH": str(SOURCE), "BERTH_DATA_DIR": str(layout.root)},
        capture_output=True,
        text=True,
        timeout=UP_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise LaunchError(f"`./berth {' '.join(arguments)}` gave {done.returncode}: {done.stdout}{done.stderr}".strip())


def _filled(url: str, token: str) -> dict[str, str]:
    with httpx2.Client(base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=30) as rest:

        def made(path: str, **body: Any) -> dict[str, Any]:
            answer = rest.post(path, json=body)
            if answer.status_code != httpx2.codes.CREATED:
                raise LaunchError(f"seeding {path} was answered with {answer.status_code}: {answer.text[:500]}")
            found: dict[str, Any] = answer.json()
            return found

        # As the demo's own trainings, but short: of their length, it would wait for minutes behind them all.
        like = {"model": "charlm", "samples": 1_000, "gpus": [1, 2, 4], "time_limit_s": 600}
        ended = made("jobs", command=ENDS, name="baseline", **like)["number"]
        failed = made("jobs", command="echo reading; exit 3", gpus=0, cores=1, name="fails")["number"]
        array = made("jobs", command=TASKS, gpus=0, cores=1, name="sweep", array={"size": 8})["number"]
        running = made("jobs", command=TRAINS, gpus=1, name="long")["number"]
        waiting = [made("jobs", command="sleep 600", name=f"large-{at}", **EIGHT)["number"] for at in range(3)][-1]
        runs = [made("simulations", name=name, **SIMULATION)["id"] for name in ("last week", "other week")]
        wanted = {ended: "COMPLETED", failed: "FAILED", running: "RUNNING"}
        _until(lambda: all(rest.get(f"jobs/{job}").json()["state"] == state for job, state in wanted.items()))
        _until(lambda: all(rest.get(f"simulations/{run}").json()["state"] == "COMPLETED" for run in runs))
        node = rest.get("nodes").json()["results"][0]["name"]
        planning = rest.get(f"jobs/{running}/explain").json()["planning"]
    jobs = {"ended": ended, "failed": failed, "array": array, "running": running, "waiting": waiting}
    return {name: str(number) for name, number in jobs.items()} | {
        "simulation": str(runs[0]),
        "other": str(runs[1]),
        "node": node,
        "planning": str(planning),
        "tenant": TENANT_NAME,
        "template_number": "1",
    }


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SEEDED_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LaunchError("the demo did not run the seeded jobs and simulations in time; is the machine very busy?")
        time.sleep(0.5)
