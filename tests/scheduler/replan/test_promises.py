"""Promises (algorithms.md section 7, step 7): redeemed first, kept from all others, and given up when they cannot be kept."""

from dataclasses import replace

import pytest

from scheduler.model import Promise, Running, Share, Tenant
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import NOW_S, decisions_of, job, make_plan, node, running, where, why


def promised(number, *shares, given_s=NOW_S - 30, **more):
    kept = Promise(tuple(Share(on, gpus, gpus, 0) for on, gpus in shares), given_s, "call-back")
    return job(number, kept.gpus, promise=kept, **more)


def stopping(number, on, gpus, tenant=2):
    return replace(running(number, tenant, on, gpus, gpus), movable=True, stopping=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_promised_job_starts_exactly_on_its_shares_whoever_else_waits(policy):
    jobs = [job(1, 4, wait_s=90_000), promised(2, (2, 4), wait_s=0)]
    made = make_plan([node(1, 4, idle=0), node(2, 4)], jobs, policy=policy)
    assert where(made) == {2: {2: 4}}
    assert (made.lapsed, decisions_of(made)[2].inside_window) == ((), True)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_idle_of_a_promise_is_kept_from_all_others_and_the_job_goes_nowhere_else(policy):
    nodes = [node(1, 4, idle=2), node(2, 4)]
    jobs = [job(1, 3, wait_s=90_000), promised(2, (2, 4), (1, 3))]
    made = make_plan(nodes, jobs, running=[stopping(9, 1, 2)], policy=policy)
    assert where(made) == {}
    assert made.metrics.gpus_idle == 6
    assert decisions_of(made)[2].figures["promised"] == {"nodes": ["n1", "n2"], "cause": "call-back"}
    assert why(made)[1] == "reserved"


def test_two_promises_on_a_node_are_kept_in_the_order_in_which_they_were_given():
    jobs = [promised(1, (1, 2), given_s=NOW_S - 10), promised(2, (1, 2), given_s=NOW_S - 20)]
    made = make_plan([node(1, 4, idle=2)], jobs, running=[stopping(9, 1, 2)])
    assert (where(made), made.lapsed) == ({2: {1: 2}}, ())
    short = make_plan([node(1, 4, idle=2)], jobs, running=[stopping(9, 1, 1)])
    assert (where(short), short.lapsed) == ({2: {1: 2}}, (1,))


@pytest.mark.parametrize(
    ("nodes", "jobs", "live"),
    [
        pytest.param([node(1, 4, idle=0)], [promised(1, (2, 4))], [], id="its node is gone"),
        pytest.param([node(1, 4, idle=3, schedulable=False)], [promised(1, (1, 4))], [], id="its node takes no jobs"),
        pytest.param([node(1, 4, idle=3)], [promised(1, (1, 4))], [running(9, 2, 1, 1)], id="nobody stops for it"),
        pytest.param([node(1, 4, idle=1)], [promised(1, (1, 4))], [stopping(9, 1, 2)], id="too little will be free"),
        pytest.param(
            [node(1, 4, idle=3)],
            [promised(1, (1, 4), given_s=NOW_S - 601)],
            [stopping(9, 1, 1)],
            id="the stop takes too long",
        ),
        pytest.param(
            [node(1, 4, idle=3)],
            [replace(promised(1, (1, 4)), requirement=(2,))],
            [stopping(9, 1, 1)],
            id="the job asks for other sizes",
        ),
        pytest.param(
            [node(1, 4, idle=3)], [promised(1, (1, 4), eligible=False)], [stopping(9, 1, 1)], id="the job is held"
        ),
    ],
)
def test_a_promise_lapses_when(nodes, jobs, live):
    other = job(7, 1, tenant=3, wait_s=90_000)
    made = make_plan(nodes, [*jobs, other], running=live)
    assert made.lapsed == (1,)
    idle = sum(len(each.idle_gpus) for each in nodes if each.schedulable)
    assert (7 in where(made)) == (idle > 0)  # nothing is kept any more


def test_just_within_its_bound_it_does_not():
    jobs = [promised(1, (1, 4), given_s=NOW_S - 599), job(7, 1, tenant=3, wait_s=90_000)]
    made = make_plan([node(1, 4, idle=3)], jobs, running=[stopping(9, 1, 1)])
    assert (where(made), made.lapsed) == ({}, ())


def test_a_job_that_stops_itself_to_be_resized_has_its_promise_before_it_waits():
    own = Running(1, 1, running(1, 1, 1, 2, 2).pieces, 0.0, (2, 4), elastic=True, movable=True, stopping=True)
    live = replace(own, description=replace(promised(1, (1, 4)), requirement=(2, 4)))
    jobs = [job(2, 1), job(3, 1)]
    made = make_plan([node(1, 6, idle=3)], jobs, running=[live])
    assert where(made) == {2: {1: 1}}  # two of the three idle GPUs are job 1's, beside the two it frees
    freed = make_plan([node(1, 6, idle=5)], [live.description, *jobs], running=[])
    assert where(freed)[1] == {1: 4}
    refused = make_plan([node(1, 6, idle=3)], jobs, running=[replace(live, stopping=False)])
    assert (set(where(refused)), refused.lapsed) == ({2, 3}, (1,))


def test_a_promise_counts_against_its_tenants_quota_once():
    """The job's own stopping attempt holds 2 of the 4 already; what is left of 5 is for one GPU more."""
    own = Running(1, 1, running(1, 1, 1, 2, 2).pieces, 0.0, (2, 4), elastic=True, movable=True, stopping=True)
    live = replace(own, description=replace(promised(1, (1, 4)), requirement=(2, 4)))
    jobs = [job(number, 1) for number in (2, 3)]
    made = make_plan([node(1, 8, idle=6)], jobs, running=[live], tenants=[Tenant(1, gpu_quota=5)])
    assert len(where(made)) == 1
    assert made.lapsed == ()
    over = make_plan([node(1, 8, idle=6)], jobs, running=[live], tenants=[Tenant(1, gpu_quota=3)])
    assert over.lapsed == (1,)
