"""Figures follow what really runs; what was not measured is absent, never 0."""

from __future__ import annotations

import pytest

from workers.controls.usage import Usage, usage_read
from workers.system.procs import boottime
from workers.telemetry.beat import Readings
from workers.telemetry.host import HostSampler
from workers.telemetry.owners import OUTSIDE
from workers.telemetry.sampler import GpuDetails, GpuFound, GpuProcess, GpuSample, PartUse
from workers.telemetry.sampling import STALE_S, Running, Sampling
from workers.telemetry.simulated import SimulatedSampler, SimulatedTraffic, response_parse, traffic_parse
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


def test_of_a_virtual_instance_only_the_memory_is_told():
    """As by a real driver, which refuses the rest for instances (MIG)."""
    cut = [GpuFound(0, "VIRTUAL-0", "A100 80 GB", 1000), GpuFound(1, "VIRTUAL-1", "A100 80 GB MIG 1g.10gb", 100)]
    sampler, parts = (
        SimulatedSampler(cut),
        [PartUse((0,), 1.0, 0.0, 300.0, attempt="a"), PartUse((1,), 1.0, 0.0, 300.0, attempt="b")],
    )
    sample = after(sampler, parts)
    assert sample == {0: GpuSample(100.0, 300.0, 400.0), 1: GpuSample(None, 100.0, None)}
    uses = sampler.read_details(parts).uses
    assert (uses["a"][0].utilisation, uses["b"][1].utilisation) == (100.0, None)


def usage(at, cpu_s, wait_s=0.0, memory_mib=10.0):
    return Usage(at, cpu_s, wait_s, memory_mib)


def second_of(sampling, at, running, taken=None):
    sampling.uses(running)
    return sampling.second(at, running, taken or Readings()).values


def test_rates_come_from_two_measures_and_go_stale():
    sampling, now = Sampling(host=None), boottime()
    first = second_of(sampling, 1.0, [Running("7", (0,), usage(now, 1.0))])
    assert ("attempts", "7", "cpu_cores") not in first
    second = second_of(sampling, 2.0, [Running("7", (0,), usage(now + 2, 4.0))])
    assert second["attempts", "7", "cpu_cores"] == 1.5
    assert second["host", "", "cpu_cores"] == 1.5
    assert second["host", "", "memory_mib"] == 10.0
    assert second["attempts", "7", "read_mb_s"] is None, "a shim of before does not tell it"
    old = Sampling(host=None)
    for at, cpu_s in ((now - STALE_S - 2, 1.0), (now - STALE_S - 1, 2.0), (now - STALE_S - 1, 2.0)):
        last = second_of(old, at, [Running("7", (0,), usage(at, cpu_s))])
    assert ("attempts", "7", "cpu_cores") not in last


def test_a_part_s_disk_traffic_is_a_rate_and_unknown_after_a_step_back():
    sampling, now, found = Sampling(host=None), boottime(), []
    for second, read in enumerate((1e6, 5e6, 1e6, None, 2e6)):
        values = second_of(sampling, second, [Running("7", (), Usage(now + 2 * second, 1.0, 0.0, 10.0, read, 0.0))])
        found.append(values.get(("attempts", "7", "read_mb_s")))
    assert found == [None, 2.0, None, None, None]


def test_processes_on_gpus_count_for_the_part_under_whose_shim_they_run():
    looked = GpuDetails(
        processes={
            0: [GpuProcess(10, 100.0, 30.0), GpuProcess(11, 50.0, 20.0), GpuProcess(12, 7.0, 1.0)],
            1: [GpuProcess(13, 40.0, 10.0), GpuProcess(14, 5.0, None)],
        }
    )
    owners = {10: "a", 11: "a", 12: OUTSIDE, 13: "a", 14: None}
    sampling = Sampling(host=None, owner=lambda pid, _: owners[pid])
    values = second_of(sampling, 1.0, [Running("a", (0, 1), None), Running("b", (2,), None)], Readings(details=looked))
    assert values["attempts", "a", "gpu_memory_mib"] == 190.0
    assert values["attempts", "a", "gpu_utilisation"] == 30.0, "60 % of two GPUs"
    assert ("attempts", "b", "gpu_memory_mib") not in values
    assert [(each["gpu"], each["pid"]) for each in sampling.outside] == [(0, 12)]


def test_a_job_on_a_gpu_that_it_does_not_hold_is_told_as_a_stranger_there():
    sampling = Sampling(host=None, owner=lambda pid, _: "a")
    looked = GpuDetails(processes={1: [GpuProcess(10, 100.0, None)]})
    values = second_of(sampling, 1.0, [Running("a", (0,), None)], Readings(details=looked))
    assert values["attempts", "a", "gpu_memory_mib"] == 100.0
    assert ("attempts", "a", "gpu_utilisation") not in values, "the driver does not say"
    assert [(each["gpu"], each["pid"]) for each in sampling.outside] == [(1, 10)]


def test_host_has_no_cores_at_first_and_then_at_most_all_of_them():
    host = HostSampler()
    assert host.sample().cpu_cores is None
    sum(range(3_000_000))
    found = host.sample()
    assert found.cpu_cores is not None
    assert found.cpu_cores > 0
    assert found.memory_mib > 100
    assert found.load is not None


def test_network_disks_and_memory_bandwidth_come_from_the_kernel_s_counters(tmp_path):
    def write(received, sent, sectors, moved):
        for name in ("eth0", "lo", "veth1"):
            count = received if name == "eth0" else 10**15
            lines.append(f"{name}: {count} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0")
        files = {
            "proc/net/dev": "\n".join(["h", "h", *lines]),
            "block/sda/stat": f"1 0 {sectors} 0 1 0 {2 * sectors} 0 0 0 0",
            "block/dm-0/stat": f"1 0 {99 * sectors} 0 1 0 0 0 0 0 0",
            "resctrl/mon_data/mon_L3_00/mbm_total_bytes": str(moved),
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        (tmp_path / "block/sda/device").mkdir(exist_ok=True)
        lines.clear()

    lines = []
    host = HostSampler(proc=tmp_path / "proc", resctrl=tmp_path / "resctrl", blocks=tmp_path / "block")
    write(1000, 2000, 10, 5_000_000)
    first = host.sample()
    assert (first.net_rx_mb_s, first.disk_read_mb_s, first.memory_gb_s) == (None, None, None)
    write(10**9, 3 * 10**9, 10**7, 10**12)
    second = host.sample()
    assert second.net_tx_mb_s == pytest.approx(3 * second.net_rx_mb_s, rel=1e-3)
    assert second.disk_write_mb_s == pytest.approx(2 * second.disk_read_mb_s, rel=1e-3)
    assert second.memory_gb_s > 0
    write(5, 4 * 10**9, 10**7, "Unavailable")
    third = host.sample()
    assert (third.net_rx_mb_s, third.memory_gb_s) == (None, None), "a counter that stepped back, and one not read"
    assert third.disk_read_mb_s == 0.0
    bare = HostSampler(proc=tmp_path / "none", resctrl=tmp_path / "none", blocks=tmp_path / "none").sample()
    assert (bare.net_rx_mb_s, bare.disk_read_mb_s, bare.memory_gb_s) == (None, None, None)


def second(at, value):
    return Second(at, {("gpus", "0", "utilisation"): value, ("gpus", "0", "power_w"): None})


def test_body_aligns_seconds_and_leaves_out_what_nobody_measured():
    batch = [second(10.0, 1.0), Second(11.0, {("host", "", "cpu_cores"): 2.0}), second(12.0, 3.0)]
    known = {"gpus": ["utilisation"], "host": ["cpu_cores"]}
    body = telemetry_body(batch, boot_id="b", period_s=1.0, known=known)
    assert body["gpus"] == {"0": {"utilisation": [1.0, None, 3.0]}}
    assert body["host"] == {"cpu_cores": [None, 2.0, None]}
    assert (body["start"], body["count"], body["attempts"]) == (10.0, 3, {})


def test_what_the_portal_does_not_know_is_not_sent():
    batch = [Second(1.0, {("gpus", "0", "power_w"): 1.0, ("gpus", "0", "clock_mhz"): 2.0, ("host", "", "load"): 3.0})]
    known = {"gpus": ["clock_mhz"], "host": ["load"]}
    body = telemetry_body(batch, boot_id="b", period_s=1.0, known=known)
    assert (body["gpus"], body["host"]) == ({"0": {"clock_mhz": [2.0]}}, {"load": [3.0]})


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


def test_a_virtual_gpu_answers_to_the_cores_that_its_job_has():
    """No more of it is used than the job's response to its cores says; a job that paces itself by it is not slowed twice."""
    found = [GpuFound(index, f"u{index}", "Test", 1024) for index in range(2)]
    response = response_parse("0.5,0.8,1")
    for cores, wanted, expected in ((2, 9.0, 50.0), (4, 9.0, 80.0), (6, 9.0, 100.0), (16, 9.0, 100.0), (2, 0.4, 20.0)):
        sampler = SimulatedSampler(found)
        for _ in range(40):
            sampled = sampler.sample([PartUse((0, 1), wanted, 0.0, 10.0, cores=cores, response=response)])
        assert sampled[0].utilisation == pytest.approx(expected, abs=0.2)
    assert [response_parse(bad) for bad in ("", "x", "2", "-1", "nan", ",".join(["1"] * 65))] == [()] * 6


def test_a_virtual_memory_is_drawn_from_by_what_computes_and_slows_the_jobs_on_gpus():
    """By the cores that a job has now, and while it computes; no memory moves more than it can."""
    traffic = SimulatedTraffic(gb_s=200, core_share=0.03)
    hog = traffic_parse("180", cores=8)
    trains = PartUse((0,), 0.03, 0.0, 1.0, cores=2, traffic=traffic_parse("10,0.8", cores=2))

    def uses(cores, cpu):
        return {"hog": PartUse((), cpu, 0.0, 1.0, cores=cores, traffic=hog), "training": trains}

    for cores, cpu, share in ((8, 0.24, 90.0), (8, 0.12, 45.0), (4, 0.24, 45.0), (8, 0.0, 0.0)):
        found = traffic.read_traffic(uses(cores, cpu))
        assert (found.parts["hog"], found.memory_share) == (pytest.approx(share), pytest.approx(share + 5))
    greedy = {"a": PartUse((), 0.24, 0.0, 1.0, cores=8, traffic=traffic_parse("400", cores=8))}
    assert traffic.read_traffic(greedy).memory_share == pytest.approx(100)
    sampler = SimulatedSampler(GPUS, core_share=0.03, traffic=traffic)
    for _ in range(40):
        beside = sampler.sample(list(uses(8, 0.24).values()))[0].utilisation
    assert beside == pytest.approx(100 * (1 - 0.8 * (0.95 / 0.75 - 1)), abs=0.2)
    assert [traffic_parse(bad, cores=1) for bad in ("", "x", "-1", "nan", "1,2", "1,1,1", "1,nan")] == [()] * 7
