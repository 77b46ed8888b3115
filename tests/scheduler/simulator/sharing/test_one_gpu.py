"""DqnGPU's setting: one GPU, who starts when, and what it costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing.learned.images import MEMORY, WAIT, Frame, Limits
from scheduler.sharing.measured import Measured
from scheduler.simulator.generators.dqngpu import APPS, GPU_MIB, GROUPS, dqngpu_jobs, used_by
from scheduler.simulator.sharing.laws import InTurns, MeasuredPairs
from scheduler.simulator.sharing.one_gpu import Observation, OneGpu, Pay
from scheduler.simulator.sharing.pairs import PairWorld, explained, half_of, memory_of
from scheduler.simulator.sharing.pickers import Sharing, placed
from scheduler.simulator.sharing.training_runs import LAW, OBSERVATIONS
from scheduler.simulator.sharing.world import SharingJob, Usage

GIB = 1024
ALONE = InTurns(0.0)


def job(key, phases, *, gpu=0.3, memory=0.3):
    parts = np.zeros((phases, 4))
    parts[:, 0] = parts[:, 2] = gpu
    parts[:, MEMORY] = memory
    return SharingJob(key, Usage(f"s{key}", parts, 5.0), 0.0, int(np.ceil(parts[:, MEMORY].max() * 16 * GIB)))


def gpu_of(*jobs, law=ALONE, **fields):
    return OneGpu(jobs, 16 * GIB, law, Observation(Frame(2), **fields))


def test_while_jobs_start_no_time_passes_and_to_wait_is_to_wait_until_somebody_ends():
    gpu = gpu_of(job(0, 4), job(1, 6), job(2, 2))
    both = gpu.observation.frame.subsets.index((0, 1))
    assert gpu.act(both) == (0.0, 0)
    assert (gpu.now_s, gpu.front) == (0.0, [2])
    reward, steps = gpu.act(WAIT)
    assert (steps, gpu.now_s, list(gpu.ended_s)) == (4, 20.0, [0])
    assert reward == pytest.approx(-4 * (1 / 4 + 1 / 6 + 1 / 2))


def test_to_wait_ends_too_when_another_subset_may_start():
    """The one that runs frees its memory in its fourth phase."""
    first = job(0, 8, memory=[0.9] * 3 + [0.1] * 5)
    gpu = gpu_of(first, job(1, 4), limits=Limits(1.0))
    gpu.act(gpu.observation.frame.subsets.index((0,)))
    assert gpu.act(WAIT)[1] == 3
    assert gpu.may()[gpu.observation.frame.subsets.index((0,))]


def test_what_a_step_costs_is_time_waiting_and_harm():
    jobs = (job(0, 4, gpu=1.0), job(1, 4, gpu=1.0))
    gpu = OneGpu(jobs, 16 * GIB, ALONE, Observation(Frame(2), Limits(in_time=2.0)), Pay(1.0, 2.0, 4.0))
    gpu.act(gpu.observation.frame.subsets.index((0, 1)))
    assert gpu.act(WAIT, gamma=0.5)[0] == pytest.approx(-sum(0.5**n * (1.0 + 2.0 * 0.5 + 4.0 * 0.25) for n in range(8)))


def test_who_would_gain_too_little_may_not_start_and_who_meets_for_a_moment_only_may():
    """0.6 beside 0.6 all along adds 0.4 of a pace; 0.9 beside 0.9 for one phase of eight adds nearly all."""
    long, short = job(0, 8, gpu=0.6), job(1, 8, gpu=[0.9] + [0.1] * 7)
    limits = Limits(1.6, in_time=1.2, gain=0.8)
    both = Frame(2).subsets.index((0, 1))
    assert not gpu_of(long, job(2, 8, gpu=0.6), limits=limits).may()[both]
    assert gpu_of(short, job(2, 8, gpu=[0.9] + [0.1] * 7), limits=limits).may()[both]
    assert not gpu_of(short, job(2, 8, gpu=[0.9] + [0.1] * 7), limits=Limits(1.6, in_time=1.2)).may()[both]


def test_the_mask_is_told_of_measured_pairs_and_never_of_the_law():
    jobs = (job(0, 4, gpu=0.1), job(1, 4, gpu=0.1))
    told = Measured.of({("s0", "s1", ""): PairSeen(2.0, 1000)}, None)
    both = Frame(2).subsets.index((0, 1))
    observation = Observation(Frame(2), Limits(gain=0.8))
    assert OneGpu(jobs, 16 * GIB, MeasuredPairs({("s0", "s1"): 0.1}), observation).may()[both]
    assert not OneGpu(jobs, 16 * GIB, ALONE, observation, measured=told).may()[both]


def test_deeprm_sees_the_highest_or_the_mean_use_throughout():
    parts = np.array([[0.2, 0.1, 0.0, 0.0], [0.4, 0.5, 0.0, 0.0]])
    assert Observation(view="max").of(parts).tolist() == [[0.4, 0.5, 0.0, 0.0]] * 2
    assert Observation(view="mean").of(parts).tolist() == [[pytest.approx(0.3), pytest.approx(0.3), 0.0, 0.0]] * 2
    assert Observation().of(parts) is parts


def test_who_crashes_for_memory_comes_back_first_and_is_seen_by_its_peak():
    """By their means two of them fit, and they do not."""
    memory = [0.2] * 4 + [0.7] * 4
    gpu = gpu_of(job(0, 8, memory=memory), job(1, 8, memory=memory), view="mean", limits=Limits(1.0))
    gpu.act(gpu.observation.frame.subsets.index((0, 1)))
    while not gpu.over:
        gpu.act(int(np.flatnonzero(gpu.may())[-1]))
    assert gpu.figures()["oom"] == 1
    assert gpu.now_s == pytest.approx(80.0)


@pytest.mark.parametrize("name", ["res-ag", "cbp", "cbp-pp"])
def test_kube_knots_policies_place_all_jobs_here_too(name):
    jobs = dqngpu_jobs("memory-light", np.random.default_rng(2), 8)
    found = placed(OneGpu(jobs, GPU_MIB, LAW), Sharing(name)).figures()
    assert found["total_s"] < sum(each.usage.alone_s for each in jobs)


@settings(deadline=None, max_examples=6)
@given(st.sampled_from(sorted(GROUPS)), st.integers(0, 99))
def test_no_decision_that_dqn_may_take_on_the_papers_workloads_leads_out_of_memory(group, seed):
    draws = np.random.default_rng(seed)
    gpu = OneGpu(dqngpu_jobs(group, draws, 10), GPU_MIB, LAW, OBSERVATIONS["dqn"])
    while not gpu.over:
        actions = np.flatnonzero(gpu.may())
        gpu.act(int(actions[draws.integers(len(actions))]))
    found = gpu.figures()
    assert found["oom"] == 0
    assert found["worst_slowdown"] <= OBSERVATIONS["dqn"].limits.slowest


def test_applications_lie_on_the_side_of_the_papers_limits_on_which_it_has_them():
    draws = np.random.default_rng(0)
    means = {name: np.mean([used_by(app, draws).mean(axis=0) for _ in range(40)], axis=0) for name, app in APPS.items()}
    assert {name for name, mean in means.items() if mean[0] >= 0.4} == {*GROUPS["heavy"], "googlenet"}
    assert {name for name, mean in means.items() if mean[1] >= 0.5} == set(GROUPS["memory-heavy"])
    assert means["gromacs"][1] * 3 < 1.0 - means["gromacs"][1]


SPEEDS = {
    ("a", "a"): 0.5,
    ("a", "b"): 0.7,
    ("b", "a"): 0.9,
    ("b", "b"): 1.0,
    ("a", "c"): 0.0,
    ("c", "a"): 0.0,
    ("b", "c"): 1.0,
    ("c", "b"): 0.8,
    ("c", "c"): 0.0,
}


def test_uses_are_fitted_to_pairs_and_memory_to_those_that_could_not_run_together():
    gpu, memory = explained(SPEEDS, LAW), memory_of(SPEEDS)
    assert gpu["a"] > gpu["b"]
    assert memory["a"] + memory["c"] > 1.0
    assert memory["c"] + memory["c"] > 1.0
    assert memory["b"] + memory["c"] <= 1.0
    known = half_of(SPEEDS, np.random.default_rng(0))
    assert len({tuple(sorted(pair)) for pair in known}) == 3
    assert all((b, a) in known for a, b in known)
    world = PairWorld.of(SPEEDS, known, LAW)
    assert [each.memory_mib for each in world.jobs(np.random.default_rng(1), 3)] == [
        each.memory_mib for each in world.jobs(np.random.default_rng(1), 3)
    ]


def test_a_job_is_as_slow_as_it_is_not_as_the_steps_are_long():
    """By a hundredth each: over in the fifth step, and not slowed as the paper counts."""
    gpu = gpu_of(job(0, 4, gpu=0.2), job(1, 4, gpu=0.2), law=InTurns(0.05))
    gpu.act(gpu.observation.frame.subsets.index((0, 1)))
    gpu.act(WAIT)
    assert gpu.slowdowns() == pytest.approx({0: 1.01, 1: 1.01})
    assert gpu.figures()["not_slowed"] == 2
    assert gpu.now_s == 25.0
