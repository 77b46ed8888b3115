"""The packing protocol reads pods without times, and nodes."""

import os
from pathlib import Path

import pytest

from research.simulator.packing.openb import hosts, pods
from research.simulator.packing.pool import Host
from scheduler.simulator.traces.openb import Demand
from scheduler.simulator.traces.source import Source, TraceError

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
PART = "p1,6500,12288,1,460,V100M16|T4"


def test_what_pods_ask_for_needs_no_times():
    lines = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,6000,100,1,460", "b,1,2,0,0"]
    assert list(pods(Source("p", lines))) == [Demand(6000, 100, 1, 460), Demand(1, 2, 0, 0)]
    assert next(pods(Source("p", [HEADER, PART]))).models == {"V100M16", "T4"}


def test_nodes():
    lines = ["sn,cpu_milli,memory_mib,gpu,model", "n0,64000,262144,2,P100", "n1,8000,100,0,"]
    assert list(hosts("nodes.csv", lines)) == [Host("n0", 64000, 262144, 2, "P100"), Host("n1", 8000, 100, 0, "")]
    with pytest.raises(TraceError, match=r"nodes.csv, line 2, column model: it is empty"):
        list(hosts("nodes.csv", [lines[0], "n0,1,1,2,"]))


@pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder of public traces")
def test_the_real_files():
    folder = Path(os.environ["BERTH_TRACE_DATA"]) / "openb"
    with (folder / "openb_pod_list_default.csv").open() as lines:
        demands = list(pods(Source("pods", lines)))
    with (folder / "openb_node_list_gpu_node.csv").open() as lines:
        nodes = list(hosts("nodes", lines))
    assert (len(demands), sum(each.shares for each in demands)) == (8152, 3078)
    assert (len(nodes), sum(each.gpus for each in nodes)) == (1213, 6212)
