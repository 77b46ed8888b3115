"""Jobs that were found sound are not looked at again but for how long they wait: the plan is the same as without memory."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.fairness.lrf import age_of, ages
from scheduler.fairness.priorities import PRIORITIES, Moment, order
from scheduler.model import ClusterState
from scheduler.parameters import Parameters
from scheduler.placement.work import NOTHING, Memory
from scheduler.planning.plan import plan_on
from tests.scheduler.builders import job, node, past_of, ticking

NODES = [node(1, 8, idle=5), node(2, 8, gpu_type="rtx", idle=3)]
KNOBS = Parameters.from_mapping({"policy": "berth"})
WAITS = st.one_of(st.floats(0, 1e6), st.sampled_from([math.nan, math.inf, -1.0, True, 1e16, 0, 3]))


def planned(memory, jobs, nodes=NODES):
    return plan_on(memory, ClusterState(nodes, jobs), 1000.0, KNOBS, np.random.default_rng(1), ticking())


def jobs_of(draw):
    kinds = st.tuples(
        st.sampled_from([(1,), (1, 2), (4,), (0,), (2, 1)]),
        st.sampled_from([frozenset(), frozenset({"rtx"}), frozenset({"unknown"})]),
        st.integers(0, 3),
    )
    drawn = draw(st.lists(kinds, min_size=1, max_size=12))
    return [
        job(number, *sizes, gpu_types=types, cores=cores, tenant=1 + number % 2)
        for number, (sizes, types, cores) in enumerate(drawn, start=1)
    ]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_plan_is_that_of_jobs_looked_at_anew(data):
    jobs = jobs_of(data.draw)
    kept = replace(planned(NOTHING, jobs)[1], stages=())
    for each in jobs:
        object.__setattr__(each, "wait_s", data.draw(WAITS))  # as the service moves them on
    jobs = [replace(each, cores=each.cores + 1) if data.draw(st.booleans()) else each for each in jobs]
    jobs += data.draw(st.lists(st.sampled_from(jobs), max_size=2))  # listed twice
    nodes = data.draw(st.sampled_from([NODES, NODES[:1]]))  # a type that is gone
    after, fresh = planned(kept, jobs, nodes)[0], planned(NOTHING, jobs, nodes)[0]
    assert after.as_json() == fresh.as_json()


def test_a_job_that_was_sound_is_not_believed_its_new_wait():
    jobs = [job(1, 1), job(2, 1)]
    left = planned(NOTHING, jobs)[1]
    object.__setattr__(jobs[0], "wait_s", math.nan)
    assert [fault.key for fault in planned(left, jobs)[0].faults] == [1]


def test_a_type_that_is_gone_makes_its_jobs_unsound():
    jobs = [job(1, 1, gpu_types=frozenset({"rtx"}))]
    left = planned(NOTHING, jobs)[1]
    assert not planned(left, jobs)[0].faults
    assert [fault.key for fault in planned(left, jobs, NODES[:1])[0].faults] == [1]


def test_another_job_of_the_same_id_is_looked_at():
    left = planned(NOTHING, [job(1, 1)])[1]
    assert [fault.key for fault in planned(left, [job(1, 1, memory_mib=-1)])[0].faults] == [1]


def test_memory_holds_nobody_who_left():
    left = planned(NOTHING, [job(1, 1), job(2, 1)])[1]
    assert isinstance(left, Memory)
    assert planned(left, [job(3, 1)])[1].sound.keys() == {3}


@settings(deadline=None)
@given(st.data())
def test_the_order_is_by_priority_then_submission_then_id(data):
    few = st.sampled_from([0.0, 1.0, 60.0, 3600.0])
    ids = data.draw(st.lists(st.integers(1, 2**70), min_size=1, max_size=12, unique=True))
    jobs = [
        job(each, 1, wait_s=data.draw(few), submitted_s=data.draw(few), expected_duration_s=data.draw(few), age_s=None)
        for each in ids
    ]
    history = past_of(told={1: [0.1]})
    age = ages(history, tick_s=30, samples_per_s=lambda _: {}, gpus_by_type={})
    assert [age(each) for each in jobs] == [age_of(each, history, tick_s=30) for each in jobs]
    for name, priority in PRIORITIES.items():
        moment = Moment(4000.0)
        wanted = sorted(jobs, key=lambda each: (-priority(each, moment, age(each).age_s), each.submitted_s, each.id))
        assert [each.job for each in order(jobs, priority, moment, age)] == wanted, name


@pytest.mark.parametrize("ids", [(1.5,), (True,), (-1,), ("0",), (0, 10**13)])
def test_idle_ids_that_are_no_counts_are_refused(ids):
    bad = replace(NODES[0], idle_cores=ids, idle_gpus=())
    assert [fault.key for fault in planned(NOTHING, [], [bad])[0].faults] == ["n1"]
