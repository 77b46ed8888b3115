"""Which subsets of waiting jobs may start: by hand, and that nobody ever runs out of memory by a decision."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sharing.learned.images import (
    MEMORY,
    WAIT,
    Frame,
    Limits,
    Reach,
    ahead,
    allowed,
    fitting,
    remembered,
    state,
    taken,
)
from scheduler.simulator.sharing.laws import InTurns, MeasuredPairs
from scheduler.simulator.sharing.one_gpu import Observation, OneGpu
from scheduler.simulator.sharing.world import SharingJob, Usage

GIB = 1024
FRAME = Frame(3)


def uses(*memory, gpu=0.2):
    found = np.full((len(memory), 4), gpu)
    found[:, MEMORY] = memory
    return found


def may(running, slots, limits, frame=FRAME):
    there = sum((Reach(each, limits).ahead(done) for each, done in running), np.zeros((limits.longest, 4)))
    fits = fitting(there, taken(frame, [Reach(each, limits).ahead() for each in slots]))
    found = allowed(fits, somebody=bool(running))
    return {frame.subsets[action] for action in np.flatnonzero(found)}


def test_actions_are_the_subsets_of_the_slots_or_to_wait():
    assert FRAME.subsets == ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    assert Frame(5).actions == 32
    assert Frame(3, together=False).subsets == ((), (0,), (1,), (2,))


def test_a_subset_that_exceeds_a_resource_at_any_step_may_not_start():
    """0.6 + 0.5 of memory at the second step; SMs in turn."""
    assert may([], [uses(0.2, 0.6), uses(0.2, 0.5), uses(0.3)], Limits(1.0)) == {(0,), (1,), (2,), (0, 2), (1, 2)}
    assert may([], [uses(0.1, gpu=0.6), uses(0.1, gpu=0.5)], Limits()) == {(0,), (1,)}


def test_with_nobody_there_somebody_must_start_and_beside_somebody_one_may_wait():
    assert () not in may([], [uses(0.2)], Limits())
    assert may([(uses(0.9), 0.0)], [uses(0.2)], Limits()) == {()}
    assert may([], [], Limits()) == {()}


def test_a_job_may_load_while_another_ends_only_if_it_comes_to_its_peak_later_however_slowed():
    """One has two phases left; the other needs its memory from its fourth phase on: apart at up to 1.5 times slower."""
    ending, loading = (uses(*[0.7] * 10), 8.0), uses(0.1, 0.1, 0.1, 0.6, 0.6)
    assert may([ending], [loading], Limits(1.5)) == {(), (0,)}
    assert may([ending], [loading], Limits(2.0)) == {()}
    assert may([ending], [loading], Limits()) == {()}


def test_a_job_within_a_hair_of_its_next_phase_still_counts_with_the_phase_that_it_is_in():
    """Slowed jobs come to fractions of phases, and a sum of fractions may miss a whole by the last digit."""
    falling = uses(0.7, 0.7, 0.7, 0.1)
    assert may([(falling, 3.0 - 2**-50)], [uses(0.5)], Limits()) == {()}
    assert may([(falling, 3.0)], [uses(0.5)], Limits()) == {(), (0,)}


def test_memory_that_is_enough_at_whatever_pace_counts_by_the_most_until_the_end():
    falling = Reach(uses(0.7, 0.7, 0.2), Limits(1.5))
    assert [falling.peak_from(done) for done in (0.0, 1.9, 2.0, 3.0)] == [0.7, 0.7, 0.2, 0.0]
    found = remembered(FRAME, falling.peak_from(2.0), [0.3, 0.6])
    assert {FRAME.subsets[action] for action in np.flatnonzero(found)} == {(), (0,), (1,)}


def test_the_agent_sees_use_over_time_who_runs_for_how_long_and_how_many_wait():
    found = state(FRAME, ahead(uses(*[0.5] * 6), 2), [4.0, 10.0], [(ahead(uses(0.3, 0.1)), 2.0)], 15)
    assert found.shape == (FRAME.inputs,)
    assert list(found[:12]) == [0.2, 0.5, 0.2, 0.2, 0.2, 0.5, 0.2, 0.2, 0.0, 0.0, 0.0, 0.0]
    assert list(found[80:84]) == [0.2, 0.2, 0.2, 0.2]
    assert list(found[320:]) == [2 / 40, 0.0, 0.0, 0.5, 0.1, 0.25, 0.5]


profiles = st.lists(
    st.lists(st.sampled_from((0.05, 0.2, 0.45, 0.55, 0.9, 1.0)), min_size=8, max_size=48).map(
        lambda flat: np.resize(np.array(flat), (len(flat) // 4, 4))
    ),
    min_size=2,
    max_size=7,
)


def episode(parts, law, slowest, draws, gain=None):
    """Play whatever is drawn among what is allowed."""
    jobs = [
        SharingJob(n, Usage(f"s{n}", each, 5.0), 0.0, int(np.ceil(each[:, 1].max() * 16 * GIB)))
        for n, each in enumerate(parts)
    ]
    gpu = OneGpu(jobs, 16 * GIB, law, Observation(Frame(3), Limits(slowest, gain=gain)))
    while not gpu.over:
        actions = np.flatnonzero(gpu.may())
        gpu.act(int(actions[draws.integers(len(actions))]))
    return gpu


@settings(deadline=None, max_examples=60)
@given(profiles, st.integers(0, 9), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_no_decision_ever_leads_out_of_memory_however_jobs_are_slowed(parts, seed, switching, crowding):
    gpu = episode(parts, InTurns(switching, crowding), np.inf, np.random.default_rng(seed))
    assert gpu.figures()["oom"] == 0


@settings(deadline=None, max_examples=60)
@given(profiles, st.integers(0, 9), st.floats(0.0, 0.1), st.floats(0.0, 3.0))
def test_nor_with_a_bound_on_slowdowns_that_the_law_keeps(parts, seed, switching, crowding):
    gpu = episode(parts, InTurns(switching, crowding), 1.1, np.random.default_rng(seed))
    assert gpu.figures()["oom"] == 0


@settings(deadline=None, max_examples=30)
@given(profiles, st.integers(0, 9))
def test_nor_where_pairs_slow_each_other_as_they_were_measured_to(parts, seed):
    draws = np.random.default_rng(seed)
    names = [f"s{n}" for n in range(len(parts))]
    speeds = {(a, b): float(draws.uniform(0.1, 1.0)) for a in names for b in names}
    assert episode(parts, MeasuredPairs(speeds), np.inf, draws).figures()["oom"] == 0


@settings(deadline=None, max_examples=60)
@given(profiles, st.integers(0, 9), st.floats(0.0, 0.1), st.floats(0.0, 3.0), st.floats(-1.0, 1.0))
def test_nor_where_gains_and_memory_decide_in_place_of_a_limit_on_time(parts, seed, switching, crowding, gain):
    gpu = episode(parts, InTurns(switching, crowding), 1.1, np.random.default_rng(seed), gain)
    assert gpu.figures()["oom"] == 0


def test_to_wait_is_allowed_as_an_action_of_its_own():
    assert FRAME.subsets[WAIT] == ()
