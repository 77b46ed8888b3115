"""Parts that share a virtual GPU, with a real agent: what they are told, how their speed falls, and who is ended for memory."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for

TELL = "echo compute=$BERTH_GPU_COMPUTE memory=$BERTH_GPU_MEMORY_MIB; while :; do :; done"
SHARED = {"gpus": [0], "gpu_uuids": ["VIRTUAL-n1-0"], "gpu_type": "Test GPU", "gpu_memory_mib": 512}


def measured(portal, attempt, name):
    """All that was told of an attempt's measure."""
    told = [body["attempts"].get(attempt, {}).get(name) or () for body in list(portal.telemetry)]
    return [value for series in told for value in series if value is not None]


def test_neighbours_are_slowed_and_told_so_and_one_above_its_grant_is_ended(portal, node):
    first = portal.want(command=TELL, gpu_compute=400, **SHARED)
    second = portal.want(attempt=2, job=2, command="while :; do :; done", gpu_compute=600, **SHARED)
    portal.hello["measures"] = {"attempts": ["gpu_memory_mib", "gpu_utilisation"]}
    node.start("--trust-tenants")
    portal.wait_report(first, "running")
    portal.wait_report(second, "running")
    speed = node.job(first) / "gpu-speed"
    portal.wait_for(lambda: speed.exists() and 0.4 < float(speed.read_text()) < 0.7)
    portal.wait_for(lambda: b"compute=400 memory=512" in portal.logs.get((*first, "stdout"), b""))
    greedy = portal.want(
        attempt=3, job=3, command="sleep 4242", gpu_compute=1, environment={"VIRTUAL_GPU": "0.1,600"}, **SHARED
    )
    ended = portal.wait_report(greedy, "ended")
    assert (ended["reason"], ended["signal"]) == ("gpu_memory_limit", 9)
    assert "MiB of 512 MiB granted (gpu_memory_mib)" in ended["detail"]
    portal.wait_for(lambda: max(measured(portal, "3", "gpu_memory_mib"), default=0) >= 600)
    portal.wait_for(lambda: max(measured(portal, "1", "gpu_utilisation"), default=0) > 10)
    assert portal.report_of(first, "ended") is None
    assert portal.report_of(second, "ended") is None
    portal.stop(second)
    portal.wait_report(second, "ended")
    portal.wait_for(lambda: float(speed.read_text()) > 0.95)
    portal.stop(first)
    portal.wait_report(first, "ended")
