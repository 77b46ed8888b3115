"""A small portal, and agents as real processes; whatever a test leaves running is killed and counts as a failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.remains import kill_all_of
from tests.servers import pause_s
from tests.workers.small_portal import JOIN_TOKEN, SmallPortal

ROOT = Path(__file__).resolve().parents[2]
VIRTUAL = "gpus=2,type='Test GPU',gpu-memory-mib=1024,cores=8,memory-mib=4096"


class AgentRunner:
    """Starts, kills and ends agents of one directory."""

    def __init__(self, directory: Path, url: str, *, prefix: tuple[str, ...] = ()) -> None:
        self.directory, self.url, self.prefix = directory, url, prefix
        self.process: subprocess.Popen | None = None
        self.log = directory / "agent.log"

    def start(self, *flags: str, python: str = sys.executable, **environment: str) -> AgentRunner:
        self.directory.mkdir(exist_ok=True)
        command = [
            *self.prefix,
            python,
            "-m",
            "workers.agent",
            "--url",
            self.url,
            "--token",
            JOIN_TOKEN,
            "--dir",
            str(self.directory),
        ]
        command += ["--name", "n1", "--virtual", VIRTUAL, "--log-period-s", "0.1", "--retry-max-s", "0.3", *flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, env={**os.environ, **environment})
        return self

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def part(self, key: tuple) -> Path:
        return self.directory / "parts" / "-".join(map(str, key))

    def job(self, key: tuple) -> Path:
        return self.directory / "jobs" / "-".join(map(str, key))

    def offline(self, *flags: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "workers.agent", "--dir", str(self.directory), *flags]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def command_lines() -> list[str]:
    """Every process on the machine; tests sleep for seconds that no one else does."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return lines


def wait_until(condition, *, within_s: float = 40.0):
    end = time.monotonic() + within_s
    while True:
        asked = time.monotonic()
        if value := condition():
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {within_s} s")
        time.sleep(pause_s(time.monotonic() - asked, least_s=0.02))


@pytest.fixture
def portal():
    portal = SmallPortal(report_period_s=0.5)
    yield portal
    portal.close()
    assert portal.strange == []


@pytest.fixture
def node(tmp_path, portal):
    runner = AgentRunner(tmp_path / "node", portal.url)
    yield runner
    if runner.process and runner.process.poll() is None:
        runner.kill()
    kill_all_of(runner.directory)
    if runner.log.exists():
        sys.stderr.write(runner.log.read_text())
