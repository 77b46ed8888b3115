"""A long queue is answered by kinds and columns, a short one job by job: the plan is the same, byte for byte."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.workloads.queues import instance_draw
from scheduler.fairness import priorities
from scheduler.fairness.lrf import Age
from scheduler.model import (
    ClusterState,
    Promise,
    Queue,
    Share,
    Tenant,
    given_back,
    labelled,
    who_of,
)
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import job, node, past_of, ticking


def planned(jobs, nodes, policy, *, columns, **more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priorities, "COLUMNS_FROM", 0 if columns else 10**9)
        state = ClusterState(nodes, jobs, history=past_of(told={1: [0.5]}), **more)
        knobs = Parameters.from_mapping({"policy": policy})
        return plan(state, 5000.0, knobs, np.random.default_rng(1), ticking())


@st.composite
def queues(draw):
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from([(1,), (1, 2, 4), (4,), (8,), (0,), (64,)]),
                st.sampled_from([frozenset(), frozenset({"rtx"}), frozenset({"unknown"})]),
                st.sampled_from([1, 1, 3]),
                st.sampled_from([0, 2000]),
                st.sampled_from([0.0, 60.0, 5000.0]),
                st.sampled_from([True, True, True, False]),
                st.sampled_from([0, 0, 0, 5]),
                st.sampled_from([False, False, False, True]),
                st.sampled_from([60.0, 600.0, None]),
            ),
            min_size=1,
            max_size=40,
        )
    )
    jobs = [
        job(
            number,
            *sizes,
            gpu_types=types,
            cores=cores,
            memory_mib=memory_mib,
            wait_s=wait_s,
            eligible=eligible,
            priority=priority,
            gave_back=gave_back,
            expected_duration_s=declared_s,
            age_s=None,
            tenant=1 + number % 3,
        )
        for number, (sizes, types, cores, memory_mib, wait_s, eligible, priority, gave_back, declared_s) in enumerate(
            drawn, start=1
        )
    ]
    promised = draw(st.none() | st.sampled_from(range(len(jobs))))
    if promised is not None:
        kept = Promise((Share(1, gpus=1, cores=1, memory_mib=0),), 4900.0, "call-back")
        jobs[promised] = replace(jobs[promised], promise=kept)
    return jobs


@settings(max_examples=60, deadline=None)
@given(queues(), st.sampled_from([*POLICIES]), st.booleans())
def test_a_queue_with_columns_gives_the_same_plan(jobs, policy, quota):
    nodes = [node(1, 8, idle=5), node(2, 8, gpu_type="rtx", idle=3), node(3, 4), node(4, 8, idle=8)]
    more = {"tenants": [Tenant(1, gpu_quota=3), Tenant(2), Tenant(3)]} if quota else {}
    plain, with_columns = (planned(jobs, nodes, policy, columns=each, **more) for each in (False, True))
    assert with_columns.as_json() == plain.as_json()


@pytest.mark.slow
def test_a_long_queue_gives_the_same_plan():
    drawn = instance_draw(gpus=64, jobs=1500, seed=3, workload="gpu-only")
    plain, with_columns = (planned(drawn.jobs, drawn.nodes, "berth", columns=each) for each in (False, True))
    assert with_columns.as_json() == plain.as_json()


@given(queues(), st.data())
def test_what_is_asked_of_a_queue_with_columns_is_what_a_walk_finds(jobs, data):
    plain, long = (drawn_up(jobs, columns=each) for each in (False, True))
    assert not isinstance(plain, Queue)
    assert isinstance(long, Queue)
    some = set(data.draw(st.lists(st.sampled_from(range(1, len(jobs) + 1))))) | {2**70}
    for queue in (long, long.only(~long.among(some)), pickle.loads(pickle.dumps(long))):
        walked = list(queue)
        assert given_back(queue) == given_back(walked)
        assert who_of(queue, some) == who_of(walked, some)
        label = lambda each: each.job.requirement  # noqa: E731
        assert list(labelled(queue, label).items()) == list(labelled(walked, label).items())


def drawn_up(jobs, *, columns):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priorities, "COLUMNS_FROM", 0 if columns else 10**9)
        priority, moment = priorities.latency_ratio_first, priorities.Moment(5000.0)
        return priorities.order(jobs, priority, moment, lambda _: Age(60.0, "test"))


def test_alike_jobs_have_one_kind_in_another_process_too():
    one, like, other = job(1, 1, 2), job(2, 1, 2), job(3, 1, 2, memory_mib=5)
    assert one.alike is like.alike
    assert one.alike is not other.alike
    assert replace(one, cores=7).alike is not one.alike
    assert pickle.loads(pickle.dumps(one)).alike is one.alike
