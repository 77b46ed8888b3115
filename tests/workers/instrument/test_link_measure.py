"""The measuring job of `./berth calibrate`: real buffers between real processes, within a node and between two."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.workers.conftest import ROOT

SCRIPT = ROOT / "workers/instrument/link_measure.py"
SIZES = ["--sizes", "20000", "80000"]


def start(**environment):
    env = {"PATH": os.environ["PATH"]} | {name: str(value) for name, value in environment.items()}
    command = [sys.executable, "-I", str(SCRIPT), *SIZES]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def told(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out.partition("BERTH-LINK ")[2]) if out else None


@pytest.mark.parametrize("gpus", [2, 3])
def test_processes_of_one_node_exchange_through_shared_memory(gpus):
    said = told(start(BERTH_GPUS=gpus, BERTH_GPUS_TOTAL=gpus))
    assert said["nodes"] == 1
    assert "shared memory" in said["method"]
    assert [(parameters, n) for parameters, _, n in said["measured"]] == [(20000, gpus), (80000, gpus)]
    assert all(seconds > 0 for _, seconds, _ in said["measured"])


def test_nodes_exchange_over_tcp_and_the_first_one_tells():
    common = {"NNODES": 2, "BERTH_GPUS_TOTAL": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    both = [start(NODE_RANK=rank, BERTH_GPUS=2 - rank, **common) for rank in (1, 0)]
    second, first = [told(process) for process in both]
    assert second is None
    assert (first["nodes"], len(first["measured"])) == (2, 2)
    assert "TCP" in first["method"]


def test_one_gpu_has_nobody_to_exchange_with():
    process = start(BERTH_GPUS=1, BERTH_GPUS_TOTAL=1)
    assert "at least 2 GPUs" in process.communicate(timeout=30)[1]
    assert process.returncode == 1
