"""Figures follow what really runs; what was not measured is absent, never 0."""

from __future__ import annotations

import pytest

from workers.controls.usage import Usage, usage_read
from workers.system.procs import boottime
from workers.telemetry.host import HostSampler
from workers.telemetry.sampler import GpuFound, GpuSample, PartUse
from workers.telemetry.sampling import STALE_S, Running, Sampling
from workers.telemetry.simulated import SimulatedSampler
from workers.telemetry.window import BATCH_MAX, Second, Window, telemetry_body

GPUS = [GpuFound(i, f"VIRTUAL-{i}", "A100 80 GB", 1000) for i in range(3)]


def after(sampler, parts, *, seconds=30):
    for _ in range(seconds):
        sample = sampler.sample(parts)
    return sample


def test_an_idle_virtual_gpu_idles():
    assert after(SimulatedSampler(GPUS), [])[0] == GpuSample(0.0, 0.0, 48.0)


def test_a_busy_process_fills_its_gpu_and_no_other():
    sample = after(SimulatedSampler(GPUS), [PartUse((1,), 0.25, 0.75, 300.0)])
    assert sample[1] == GpuSample(100.0, 300.0, 400.0)
    assert sample[0].utilisation == sample[2].utilisation == 0.0


def test_a_process_that_keeps_to_the_node_s_share_of_a_core_fills_its_gpu():
    sample = after(
        SimulatedSampler(GPUS, core_share=0.04), [PartUse((1,), 0.04, 0.0, 300.0), PartUse((2,), 0.02, 0.0, 1.0)]
    )
    assert (sample[1].utilisation, sample[2].utilisation) == (100.0, 50.0)


def test_one_busy_process_on_two_gpus_half_fills_each_and_a_sleeping_one_none():
    sample = after(SimulatedSampler(GPUS), [PartUse((0, 1), 1.0, 0.0, 300.0), PartUse((2,), 0.0, 0.0, 5000.0)])
    assert (sample[0].utilisation, sample[1].utilisation, sample[2].utilisation) == (50.0, 50.0, 0.0)
    assert sample[0].memory_mib == 150.0
    assert sample[2].memory_mib == 1000.0  # a GPU holds no more than it has


def test_figures_are_smoothed_and_the_same_each_time():
    runs = []
    for _ in range(2):
        sampler, part = SimulatedSampler(GPUS), PartUse((0,), 1.0, 0.0, 1.0)
        runs.append([sampler.sample([part])[0].utilisation for _ in range(4)])
    assert runs[0] == runs[1] == [33.3, 55.6, 70.4, 80.2]


def usage(at, cpu_s, wait_s=0.0, memory_mib=10.0):
    return Usage(at, cpu_s, wait_s, memory_mib)


def test_rates_come_from_two_measures_and_go_stale():
    sampling, now = Sampling(gpus=SimulatedSampler(GPUS), host=None), boottime()
    first = sampling.second(1.0, [Running("7", (0,), usage(now, 1.0))])
    assert ("attempts", "7", "cpu_cores") not in first.values
    second = sampling.second(2.0, [Running("7", (0,), usage(now + 2, 4.0))])
    assert second.values["attempts", "7", "cpu_cores"] == 1.5
    assert second.values["host", "", "cpu_cores"] == 1.5
    assert second.values["host", "", "memory_mib"] == 10.0
    old = Sampling(gpus=SimulatedSampler(GPUS), host=None)
    for at, cpu_s in ((now - STALE_S - 2, 1.0), (now - STALE_S - 1, 2.0), (now - STALE_S - 1, 2.0)):
        last = old.second(at, [Running("7", (0,), usage(at, cpu_s))])
    assert ("attempts", "7", "cpu_cores") not in last.values


def test_host_has_no_cores_at_first_and_then_at_most_all_of_them():
    host = HostSampler()
    assert host.sample()[0] is None
    sum(range(3_000_000))
    cores, memory_mib = host.sample()
    assert cores is not None
    assert cores > 0
    assert memory_mib > 100


def second(at, value):
    return Second(at, {("gpus", "0", "utilisation"): value, ("gpus", "0", "power_w"): None})


def test_body_aligns_seconds_and_leaves_out_what_nobody_measured():
    batch = [second(10.0, 1.0), Second(11.0, {("host", "", "cpu_cores"): 2.0}), second(12.0, 3.0)]
    body = telemetry_body(batch, boot_id="b", period_s=1.0)
    assert body["gpus"] == {"0": {"utilisation": [1.0, None, 3.0]}}
    assert body["host"] == {"cpu_cores": [None, 2.0, None]}
    assert (body["start"], body["count"], body["attempts"]) == (10.0, 3, {})


def test_window_forgets_the_oldest_and_splits_at_gaps():
    window = Window(4)
    for at in (1.0, 2.0, 3.0, 4.0, 20.0):
        window.add(second(at, at))
    batch = window.batch(period_s=1.0)
    assert [s.at_unix for s in batch] == [2.0, 3.0, 4.0]
    window.add(second(21.0, 0.0))  # one that was sent gives way meanwhile
    window.drop(batch)
    assert [s.at_unix for s in window.batch(period_s=1.0)] == [20.0, 21.0]


def test_a_batch_has_a_size():
    window = Window(1000)
    for at in range(500):
        window.add(second(float(at), 0.0))
    assert len(window.batch(period_s=1.0)) == BATCH_MAX


@pytest.mark.parametrize("text", ["", "1 2 3", "7 1.0 2.0 3.0 4.0 8   \n"])
def test_a_usage_line_being_written_is_no_measure(tmp_path, text):
    (tmp_path / "usage").write_text(text)
    assert usage_read(tmp_path / "usage") is None
    assert usage_read(tmp_path / "absent") is None


def test_agent_sends_what_runs(portal, node):
    key = portal.want(command="while :; do :; done", gpus=[1], gpu_type="Test GPU")
    node.start()
    portal.wait_report(key, "running")

    def busy():
        return next((t for t in portal.telemetry if t["attempts"].get("1", {}).get("cpu_cores")), None)

    body = portal.wait_for(busy)
    assert body["count"] == len(body["gpus"]["1"]["utilisation"])
    last = portal.wait_for(
        lambda: next((t for t in portal.telemetry if (t["gpus"]["1"]["utilisation"][-1] or 0) > 5), None)
    )
    assert last["gpus"]["0"]["utilisation"][-1] == 0
    assert last["host"]["cpu_cores"][-1] == last["attempts"]["1"]["cpu_cores"][-1]
