"""The large cluster: moments of arrivals and ends, what is late, who is moved, and what is measured of pairs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.simulator.generators.knots import GPU_MIB
from research.simulator.generators.knots_cluster import knots_cluster
from research.simulator.sharing.cluster.events import Events
from research.simulator.sharing.cluster.rivals import MOVE_S, QUEUE_S, SAVE_S, Gandiva, Moving, Tiresias
from research.simulator.sharing.run import Setting, policy_named
from scheduler.simulator.sharing.laws import InTurns
from scheduler.simulator.sharing.world import SharingJob, Usage

LAW = InTurns(0.0, 1.0)


def task(key, seconds, *, at=0.0, gpu=0.5, signature="", phases=20, gib=4, **fields):
    parts = np.tile([gpu, 0.2, gpu, 0.1], (phases, 1))
    return SharingJob(key, Usage(signature or f"s{key}", parts, seconds / phases), at, gib * 1024, **fields)


def query(key, *, at=0.0, ms=50):
    return task(key, ms / 1000.0, at=at, gpu=0.2, phases=1, critical=True, query_ms=float(ms))


def setting(n_gpus=1):
    return Setting(n_gpus, GPU_MIB, step_s=5.0, plan_every_s=15.0)


def ran(what, *jobs, n_gpus=1, **options):
    if isinstance(what, str):
        made = Events(policy_named(what), jobs, setting(n_gpus), LAW, **options)
    else:
        made = Moving(what, jobs, setting(n_gpus), LAW)
    made.go()
    return made, made.tally.figures()


def test_a_task_of_milliseconds_takes_its_milliseconds():
    made, found = ran("exclusive", query(0, at=7.3), task(1, 30.0))
    assert found["inference_jct_mean_s"] == pytest.approx(22.75), "it waits for the training's end"
    assert found["slo_violations"] == 1.0
    made, found = ran("exclusive", query(0, at=7.3), task(1, 30.0), n_gpus=2)
    assert made.tally.ended_s == {0: pytest.approx(7.35), 1: pytest.approx(30.0)}
    assert found["slo_violations"] == 0.0


def test_two_that_want_more_than_a_gpu_are_late_together():
    _, found = ran("res-ag", query(0, ms=100), task(1, 30.0, gpu=1.0))
    assert found["inference_jct_mean_s"] == pytest.approx(0.1 * 1.2), (
        "its turn is enough; what is too much costs a fifth"
    )
    assert found["slo_violations"] == 0.0
    _, found = ran("res-ag", query(0, ms=140), task(1, 30.0, gpu=1.0))
    assert found["slo_violations"] == 1.0


def test_energy_is_of_idle_gpus_asleep_and_of_work():
    _, found = ran("exclusive", task(0, 3600.0, gpu=1.0, phases=720), n_gpus=2)
    assert found["energy_kwh"] == pytest.approx((250 + 9) / 1000)
    assert found["energy_awake_kwh"] == pytest.approx((250 + 30) / 1000)
    assert found["energy_least_kwh"] == pytest.approx(found["energy_kwh"])
    assert found["gpu_hours_held"] == pytest.approx(1.0)


def test_tiresias_takes_the_gpu_of_who_has_had_more():
    long = task(0, 2 * QUEUE_S, phases=1440)
    made, found = ran(Tiresias(), long, task(1, 100.0, at=1.5 * QUEUE_S), query(2, at=60.0))
    assert made.tally.ended_s[1] == pytest.approx(1.5 * QUEUE_S + SAVE_S + 100.0)
    assert made.tally.ended_s[0] == pytest.approx(2 * QUEUE_S + 2 * (SAVE_S + MOVE_S) + 100.05)
    assert found["slo_violations"] == 1.0, "the query waited until the first had had its hour"


def test_gandiva_packs_and_takes_apart_again_what_does_less_than_one():
    """A query that asks for the planning comes each minute."""
    calm = [task(n, 1200.0, gpu=0.4, phases=240) for n in range(2)]
    made, found = ran(Gandiva(), *calm, n_gpus=2)
    assert found["gpu_hours_held"] < 2 * 1200 / 3600 * 0.75, "one GPU is free for most of the time"
    heavy = [task(n, 1200.0, gpu=1.0, phases=240) for n in range(2)]
    made, found = ran(Gandiva(), *heavy, n_gpus=2)
    assert found["moves"] == 2, "there, and back"
    assert max(made.tally.ended_s.values()) < 1500


def test_what_the_run_measures_of_pairs_keeps_them_apart():
    """Of four trainings of two kinds the first two show each speed alone; then two meet, and the next two do not."""
    jobs = [
        task(0, 300.0, gpu=0.9, signature="a", phases=60),
        task(1, 300.0, at=400.0, gpu=0.9, signature="b", phases=60),
        task(2, 600.0, at=800.0, gpu=0.9, signature="a", phases=120),
        task(3, 600.0, at=801.0, gpu=0.9, signature="b", phases=120),
    ]
    blind, _ = ran("res-ag", *jobs)
    apart, _ = ran("res-ag", *jobs, accepted=0.2)
    assert blind.tally.ended_s[3] > apart.tally.ended_s[3]
    assert apart.tally.slowest.max() == 1.0, "by what they used before, they would want too much of the GPU"


def hurried(each, times=10):
    """The same in a tenth of its time: a training has every tenth of its phases."""
    parts = each.usage.parts[::times] if not each.critical else each.usage.parts
    return replace(each, arrival_s=each.arrival_s / times, usage=replace(each.usage, parts=parts))


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.sampled_from(["res-ag", "cbp-pp", Tiresias, Gandiva]), st.integers(0, 99))
def test_each_task_ends_once_and_no_memory_is_used_twice(what, seed):
    jobs = [hurried(each) for each in knots_cluster(np.random.default_rng(seed), part=0.004)]
    made, found = ran(what if isinstance(what, str) else what(), *jobs, n_gpus=2)
    assert sorted(made.tally.ended_s) == list(range(len(jobs)))
    assert found["jct_mean_s"] >= np.mean([each.usage.alone_s for each in jobs]) - 1e-6


@pytest.mark.slow
def test_the_workload_is_the_papers_in_counts_and_hours_and_drawn_alike():
    jobs = knots_cluster(np.random.default_rng(1))
    assert [sum(each.critical is critical for each in jobs) for critical in (False, True)] == [520, 1400]
    assert all(0 <= each.arrival_s <= 12 * 3600 for each in jobs)
    assert all(0.01 <= each.usage.alone_s <= 15 for each in jobs if each.critical)
    assert all(240 <= each.usage.alone_s <= 36_000 for each in jobs if not each.critical)
    again = knots_cluster(np.random.default_rng(1))
    assert [(each.arrival_s, each.memory_mib) for each in jobs] == [(each.arrival_s, each.memory_mib) for each in again]
    with pytest.raises(ValueError, match="part"):
        knots_cluster(np.random.default_rng(1), part=0.0)
