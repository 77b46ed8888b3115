"""The published figures on openb's own files, one seed: skipped unless BERTH_TRACE_DATA names the folder of public traces."""

import os
from pathlib import Path

import pytest

from research.simulator.packing.openb import hosts, pods
from research.simulator.packing.protocol import pack
from scheduler.simulator.traces.source import Source

pytestmark = pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder")


@pytest.fixture(scope="module")
def cluster():
    folder = Path(os.environ["BERTH_TRACE_DATA"]) / "openb"
    with (
        (folder / "openb_node_list_gpu_node.csv").open() as nodes,
        (folder / "openb_pod_list_default.csv").open() as lines,
    ):
        return list(hosts("nodes", nodes)), list(pods(Source("pods", lines)))


@pytest.mark.parametrize(
    ("packer", "at_full", "at_end"), [("random", 86.30, 87.47), ("bestfit", 92.86, 93.08), ("fgd", 95.23, 95.39)]
)
def test_rivals_reproduce_the_study(cluster, packer, at_full, at_end):
    packed = pack(*cluster, packer, 1)
    assert packed.share_at(100) == pytest.approx(at_full, abs=0.5)
    assert packed.share_at(130) == pytest.approx(at_end, abs=0.5)


def test_berth_is_ahead_of_the_best_published_packer(cluster):
    packed = pack(*cluster, "berth", 1)
    assert packed.share_at(100) >= 95.23
    assert packed.share_at(130) >= 95.39
