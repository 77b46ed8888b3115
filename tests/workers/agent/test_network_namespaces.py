"""A distributed training over two agents, each in a network of its own: they reach one another by a cable alone."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.remains import kill_all_of, processes_of
from tests.workers.conftest import AgentRunner
from tests.workers.instrument.torches import needs, python_with
from tests.workers.small_portal import SmallPortal

REDUCE = """
import socket, torch
from torch import distributed
distributed.init_process_group("gloo")
told = torch.ones(1) * (distributed.get_rank() + 1)
distributed.all_reduce(told)
print("world", distributed.get_world_size(), "sum", int(told.item()), flush=True)
"""
# PyTorch 1.13 on Python 3.11 fails to start processes unless it is told where their output goes.
OUTPUT = {"PET_REDIRECTS": "1", "PET_TEE": "1", "OMP_NUM_THREADS": "1"}
CLONE_NEWNET = 0x40000000
NAMES = [f"berth-test-{os.getpid()}-{number}" for number in range(2)]
ATTEMPT = 10**9 + os.getpid()
"""Control groups of the machine are named by it, so another run of tests must not have the same."""
ADDRESSES = ["10.231.77.1", "10.231.77.2"]


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


@pytest.fixture
def cable():
    """Two namespaces with a cable between them; skips, loudly, where none can be made."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("nsenter"):
        pytest.skip("network namespaces need root, ip and nsenter")
    try:
        for name in NAMES:
            ip("netns", "add", name)
        ends = [f"bt{os.getpid() % 10**8}{end}" for end in "ab"]
        ip("link", "add", ends[0], "netns", NAMES[0], "type", "veth", "peer", "name", ends[1], "netns", NAMES[1])
        for name, end, address in zip(NAMES, ends, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/30", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def portal_in(namespace):
    """A small portal that listens on the namespace's own loopback: a socket stays where it was made."""
    found, problems = [], []

    def make():
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/run/netns", namespace).open() as door:
            if libc.setns(door.fileno(), CLONE_NEWNET):
                problems.append(os.strerror(ctypes.get_errno()))
            else:
                found.append(SmallPortal(report_period_s=0.5))

    entering = threading.Thread(target=make)
    entering.start()
    entering.join()
    if problems:
        pytest.skip(f"the namespace cannot be entered: {problems[0]}")
    return found[0]


def end(node):
    """End the agent, and what a failed test left running."""
    node.kill()
    kill_all_of(node.directory)


@needs("torch")
def test_torchrun_reduces_over_two_nodes_that_share_nothing_but_a_cable(cable, tmp_path):
    """By the environment that Berth gives alone. The machine's own name leads neither node to the other."""
    world = [{"name": f"n{rank}", "address": address} for rank, address in enumerate(ADDRESSES)]
    run = f"exec {python_with('torch')} -m torch.distributed.run --nproc_per_node=1 reduce.py"
    with contextlib.ExitStack() as ending:
        portals = []
        for rank, name in enumerate(NAMES):
            portals.append(portal := portal_in(name))
            ending.callback(portal.close)
            enter = ("nsenter", f"--net=/run/netns/{name}")
            node = AgentRunner(tmp_path / f"node{rank}", portal.url, prefix=enter).start("--nice", "0")
            ending.callback(end, node)
            portal.want(
                attempt=ATTEMPT,
                rank=rank,
                command=run,
                environment=OUTPUT,
                files={"reduce.py": base64.b64encode(REDUCE.encode()).decode()},
                world={"nodes": world, "port": 29471, "gpus_total": 2},
            )
        for rank, portal in enumerate(portals):
            key = (str(ATTEMPT), 1, rank)
            ended = portal.wait_report(key, "ended", within_s=240)
            assert ended["exit_code"] == 0, portal.logs
            assert "world 2 sum 3" in portal.logs[(*key, "stdout")].decode()
        assert not [left for rank in range(2) for left in processes_of(tmp_path / f"node{rank}" / "parts")]
