"""Workloads of jobs that share GPUs, simulated: memory, crashes, queries, energy, and the policies among them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.simulator.generators.knots import GPU_MIB, MIXES, knots_mix
from research.simulator.sharing.run import Run, Setting, policy_named
from scheduler.sharing.model import Rule
from scheduler.sharing.sharing import share
from scheduler.simulator.sharing.world import SharingJob, Usage, World
from tests.scheduler.sharing.given import asker, gpu

GIB = 1024
ALL = ("exclusive", "res-ag", "cbp", "cbp-pp")


def use(signature="a", *, gpu=0.4, memory=0.2, phases=10):
    """Memory by phase where it is a list."""
    parts = np.tile([gpu, 0.0, gpu, 0.0], (phases, 1))
    parts[:, 1] = memory
    return Usage(signature, parts)


def job(key, usage, *, at=0.0, gib=4, **fields):
    return SharingJob(key, usage, at, gib * GIB, **fields)


def run(policy, *jobs, n_gpus=1, gib=16, **options):
    made = Run(policy_named(policy), jobs, Setting(n_gpus, gib * GIB), **options)
    return made, made.go().figures()


def test_alone_a_job_takes_as_long_as_it_takes_alone():
    _, found = run("exclusive", job(1, use(phases=30)))
    assert (found["jct_mean_s"], found["utilisation"], found["crashes"]) == (30.0, pytest.approx(0.4), 0)


def test_two_jobs_that_share_end_long_before_two_that_wait():
    pair = (job(1, use("a", phases=30)), job(2, use("b", phases=30)))
    assert run("exclusive", *pair)[1]["makespan_s"] == 60
    assert run("res-ag", *pair)[1]["makespan_s"] == pytest.approx(31, abs=1)


def test_who_is_beyond_its_grant_is_ended_for_memory_and_comes_back_whole_and_apart():
    """Both used 2 of 8 GiB in their last run; this time one surges to 8 beside the other's 10: more than 16."""
    calm = use("calm", memory=10 / 16, phases=40)
    surging = use("surging", memory=[2 / 16] * 19 + [8 / 16], phases=20)
    made, found = run("cbp", job(1, calm, gib=10), job(2, surging, gib=8), known=True)
    assert found["crashes"] == 1
    assert made._marked == {1: {"calm"}}
    assert found["ended"] == 2
    assert found["makespan_s"] == pytest.approx(60, abs=3)


def test_a_gpus_memory_is_never_used_twice():
    world = World([job(n, use(memory=0.6), gib=9) for n in range(3)], 1, 16 * GIB)
    for each in range(3):
        world.start(each, 0, 9 * GIB)
    stepped = world.step(1.0)
    assert len(stepped.crashed) == 2
    assert len(world.running()) == 1


def test_queries_are_late_when_slowed_too_far_and_while_their_server_waits():
    server = job(1, use("server", gpu=0.6), critical=True, queries_per_s=10, query_ms=100.0)
    assert run("res-ag", server)[1]["slo_violations"] == 0
    heavy = [job(n, use(f"h{n}", gpu=1.0, phases=40), gib=2) for n in (2, 3)]
    assert run("res-ag", *heavy, server)[1]["slo_violations"] == pytest.approx(1.0)
    waiting = (
        job(2, use("first", phases=20)),
        job(1, server.usage, at=1.0, critical=True, queries_per_s=10, query_ms=100.0),
    )
    assert run("exclusive", *waiting)[1]["slo_violations"] == pytest.approx(19 / 29, abs=0.03)


def test_a_gpu_with_nobody_is_in_its_lowest_power_state():
    lonely = run("exclusive", job(1, use(gpu=1.0, phases=100)), n_gpus=2)[1]
    assert lonely["energy_kwh"] == pytest.approx((250 + 9) * 100 / 3.6e6)


def test_nobody_joins_anybody_under_exclusive():
    found = share(policy_named("exclusive"), [asker(1), asker(2)], [gpu(0)])
    assert [(each.job, each.rule) for each in found.joined] == [(1, Rule.ALONE)]
    assert [each.job for each in found.refused] == [2]


@pytest.mark.parametrize("number", sorted(MIXES))
def test_a_mix_offers_its_load_with_its_spread_and_is_drawn_alike(number):
    jobs = knots_mix(number, np.random.default_rng(3), hours=0.5)
    work = sum(float(each.usage.parts[:, 0].sum()) for each in jobs)
    assert work == pytest.approx(MIXES[number].load * 10 * 1800, rel=0.25)
    again = knots_mix(number, np.random.default_rng(3), hours=0.5)
    assert [(each.arrival_s, each.memory_mib) for each in jobs] == [(each.arrival_s, each.memory_mib) for each in again]


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(st.sampled_from(ALL), st.sampled_from(sorted(MIXES)), st.integers(0, 99))
def test_each_job_ends_once_and_no_ledger_overflows(policy, number, seed):
    jobs = knots_mix(number, np.random.default_rng(seed), n_gpus=2, hours=0.05)
    made = Run(policy_named(policy), jobs, Setting(2, GPU_MIB))
    while made._coming or made._waiting or len(made.world.running()):
        made._one_step()
        running = made.world.running()
        held = np.bincount(made.world.place[running], made.world.grant_mib[running], 2)
        assert (held <= GPU_MIB).all()
    assert sorted(made.tally.ended_s) == list(range(len(jobs)))


def test_the_same_workload_gives_the_same_report():
    jobs = knots_mix(2, np.random.default_rng(1), n_gpus=2, hours=0.05)
    first, second = (
        json.dumps(Run(policy_named("cbp-pp"), jobs, Setting(2, GPU_MIB)).go().figures()) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("parts", [np.zeros((0, 4)), np.zeros((3, 3)), np.full((2, 4), 1.5)])
def test_uses_that_cannot_be_are_refused(parts):
    with pytest.raises(ValueError, match="u"):
        Usage("a", parts)
