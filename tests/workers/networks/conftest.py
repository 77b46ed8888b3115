"""A node whose tenants do not trust each other, and what its network needs; skips, loudly, where that is not to be had."""

from __future__ import annotations

import base64
import inspect
import json
import os
import subprocess
import sys

import pytest

from tests.remains import kill_all_of
from tests.workers.conftest import AgentRunner
from tests.workers.networks import neighbour
from tests.workers.small_portal import SmallPortal
from workers.networks.links import missing
from workers.networks.networks import table_of
from workers.networks.site import LINK, own_addresses
from workers.system.netns import namespace_make

FILES = {"neighbour.py": base64.b64encode(inspect.getsource(neighbour).encode()).decode()}
ACME, EVIL = 300_000 + os.getpid(), 7_000_000 + os.getpid()
"""Nobody else on this machine runs jobs of these, nor has their accounts."""
HOSTS = ("127.0.0.1", "::1", *own_addresses())


def lacking() -> str:
    if os.geteuid() != 0:
        return "tenants' networks need root"
    if packages := missing():
        return f"tenants' networks need {' and '.join(packages)}"
    try:
        os.close(namespace_make())
    except OSError as error:
        return f"no network namespace can be made here: {error}"
    return ""


class Node(AgentRunner):
    def __init__(self, directory, host="127.0.0.1") -> None:
        self.portal = SmallPortal(host=host, report_period_s=0.5)
        self.table = table_of(directory / "parts")
        super().__init__(directory, self.portal.url)
        self.numbers = iter(range(1, 1000))

    def up(self, *flags: str, **environment: str) -> Node:
        self.start("--keep-ended-s", "0", "--nice", "0", *flags, **environment)
        return self

    def wall(self) -> dict:
        told = self.portal.wait_for(lambda: self.portal.inventories and self.portal.inventories[-1])
        return next(wall for wall in told["isolation"]["walls"] if wall["name"] == "network")

    def run(self, command: str, *, tenant: int, nodes=("127.0.0.1",), **spec) -> tuple:
        """Run a program of these files; `nodes`: addresses of the nodes of its job."""
        number = next(self.numbers)
        named = [{"name": f"n{at}", "address": each} for at, each in enumerate(nodes)]
        world = {"nodes": named, "port": 29400, "gpus_total": 0}
        about = {"tenant": f"t{tenant}", "tenant_id": tenant, "files": FILES, "world": world, **spec}
        return self.portal.want(attempt=number, job=number, command=f'"$BERTH_PYTHON" {command}', **about)

    def said(self, key: tuple, ending: str = "]\n") -> str:
        log = self.portal.logs
        return self.portal.wait_for(lambda: (text := log.get((*key, "stdout"), b"").decode()).endswith(ending) and text)

    def serve(self, *, tenant: int, **spec) -> tuple[tuple, list]:
        """Start a job that listens everywhere; return its key, and what it listens on."""
        key = self.run(f"neighbour.py serve {' '.join(HOSTS)}", tenant=tenant, **spec)
        return key, json.loads(self.said(key))

    def reaches(self, there: list, *, tenant: int, **spec) -> list:
        """Return what a job of this tenant reaches of the list."""
        key = self.run(f"neighbour.py try '{json.dumps(there)}'", tenant=tenant, **spec)
        ended = self.portal.wait_report(key, "ended")
        assert ended["exit_code"] == 0, ended
        return json.loads(self.said(key))

    def rules(self) -> str:
        done = subprocess.run(["nft", "list", "table", "inet", self.table], capture_output=True, text=True, check=False)
        return done.stdout

    def close(self) -> None:
        """End all of it, and leave nothing."""
        if self.process and self.process.poll() is None:
            self.kill()
        kill_all_of(self.directory)
        self.portal.close()
        if self.log.exists():
            sys.stderr.write(self.log.read_text())

    def shim(self, key: tuple) -> int:
        return json.loads((self.part(key) / "shim.json").read_text())["pid"]


def links() -> set[str]:
    return {name for name in os.listdir("/sys/class/net") if name.startswith(LINK)}


@pytest.fixture
def node(tmp_path):
    if why := lacking():
        pytest.skip(f"SKIPPED LOUDLY: {why}")
    runner = Node(tmp_path / "node")
    yield runner
    runner.close()
