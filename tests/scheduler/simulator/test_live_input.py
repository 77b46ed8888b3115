"""The engine decides by an input that it keeps current; whatever happens, the service would have decided the same from a snapshot.

`run` compares the two at every planning (placements, queue, stops, promises, who is eligible, fragments), and checks each
plan's feasibility and that no GPU-second is lost.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Tenant
from scheduler.model.speeds import Link, Loading, Part, Profile
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import PerGpu, run, traced

SIZES = ((1,), (2,), (4,), (6,), (1, 2), (1, 2, 4), ())


@st.composite
def cases(draw, policies):
    jobs = [
        traced(
            number,
            *draw(st.sampled_from(SIZES)),
            at_s=float(draw(st.integers(0, 400))),
            work=float(draw(st.integers(1, 600))),
            law=PerGpu(),
            tenant=draw(st.integers(1, 3)),
            movable=draw(st.booleans()),
            cores=draw(st.integers(1, 5)),
            memory_mib=draw(st.sampled_from((0, 0, 100_000))),
            reports=draw(st.booleans()),
            model_label=draw(st.sampled_from((None, "m"))),
            bandwidth_gbs=draw(st.sampled_from((0.0, 40.0))),
            fails=draw(st.sampled_from(((), (0.5,)))),
            retries=draw(st.integers(0, 1)),
        )
        for number in range(1, draw(st.integers(1, 9)) + 1)
    ]
    nodes = [
        node(number, draw(st.sampled_from((0, 2, 4))), cores=draw(st.sampled_from((4, 16))))
        for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    more = {
        "policy": draw(st.sampled_from(policies)),
        "tick_s": draw(st.sampled_from((0.0, 60.0))),
        "stop_s": draw(st.sampled_from((0.0, 15.0))),
        "noise": draw(st.sampled_from((0.0, 0.3))),
        "failures": True,
        "shared_storage": draw(st.booleans()),
        "bandwidth_gbs": {1: 50.0},
        "tenants": draw(st.sampled_from(((), (Tenant(1, weight=2.0), Tenant(2, gpu_quota=3, core_quota=8))))),
        "knobs": {"replan_s": 100, "restart_cost_s": 5},
        "restart_s": 5.0,
        "until_s": 3000.0,
    }
    return jobs, nodes, more


@settings(max_examples=25, deadline=None)
@given(cases([name for name, policy in POLICIES.items() if not policy.replans]))
def test_kept_books_and_a_snapshot_decide_alike(case):
    jobs, nodes, more = case
    run(jobs, nodes, **more)


@settings(max_examples=8, deadline=None)
@given(cases([name for name, policy in POLICIES.items() if policy.replans]))
def test_so_they_do_in_re_plans(case):
    jobs, nodes, more = case
    run(jobs, nodes, **more)


LOADING = Loading(100, (Part(100.0, 1.0, 0.01, 0.0, 0.0, 0.0),))


def test_profiles_are_made_as_planned_and_tell_after_their_time():
    """Section 2: one GPU of the type for `profiling_s`; the job waits for it, then its speed is modelled."""
    jobs = [
        traced(
            number, 1, 2, law=PerGpu(), work=600.0, profiles={"a100": Profile(0.1, 0.2, 0.1, 32, 1e6, loading=LOADING)}
        )
        for number in (1, 2)
    ]
    more = {"policy": "berth", "links": {"a100": Link(1e9, 1e9)}, "knobs": {"replan_s": 3600}}
    made = run(jobs, [node(1, 8)], profiling_s=30.0, **more)
    assert sorted(each.started_s for each in made.jobs) == [
        0.0,
        30.0,
    ]  # a tenth of 8 GPUs is one: the other starts at once
    assert {each.started_s for each in run(jobs, [node(1, 8)], **more).jobs} == {0.0}
    late = run(jobs, [node(1, 8)], profiling_s=90.0, **more)  # longer than it may run: cut off at 60 s, nothing told
    assert max(each.started_s for each in late.jobs) >= 60.0
