"""What would make a waiting job start (algorithms.md section 7): one change each, re-solved by the planning's own code."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.asking.what_if import MOST_TRIES, dry_run, what_would_start
from scheduler.errors import InvalidJob
from scheduler.model import ClusterState, Reason, Running, Tenant
from scheduler.parameters import Parameters
from tests.scheduler.builders import NOW_S, job, node, running, ticking


def asked(nodes, jobs, number=1, *, running=(), tenants=(), speeds=None, clock=None, **knobs):
    """The remedies, and what holds for all of them."""
    state = ClusterState(nodes, jobs, running, tenants, speeds or {})
    found = what_would_start(
        state, number, Parameters(**knobs), np.random.default_rng(1), clock or ticking(), now_s=NOW_S
    )
    assert len(found) <= MOST_TRIES
    assert all(each.sentence.endswith(".") for each in found)
    return found


def starting(found):
    return {
        (str(each.change), each.value if not isinstance(each.value, list) else tuple(each.value)): each
        for each in found
        if each.starts
    }


def test_nothing_has_to_change_for_a_job_that_starts_anyway():
    (only,) = asked([node(1)], [job(1, 2)])
    assert (only.change, only.starts, only.nodes, only.of_asked) == ("none", True, {"n1": 2}, 1.0)
    assert only.sentence == (
        "As it is, it would start now on n1. "
        "That is about 100% of the speed of what it asks for now (assumed, not measured)."
    )


def test_a_smaller_size_and_what_it_costs():
    found = starting(asked([node(1, 8, idle=3)], [job(1, 8)]))
    assert set(found) == {("size", 3), ("size", 1), ("size", 4)} - {("size", 4)}
    best = found["size", 3]
    assert (best.gpus, best.nodes) == (3, {"n1": 3})
    assert best.of_asked == pytest.approx((3 / 8) ** 0.9)
    assert best.sentence.startswith("With 3 GPUs it would start now on n1. That is about 41% of the speed")


def test_those_that_start_come_first_and_the_others_say_why_not():
    first, second, third = asked([node(1, 8, idle=3)], [job(1, 8)])
    assert [each.value for each in (first, second, third)] == [3, 1, 4]
    assert (third.starts, third.reason) == (False, "not-enough-idle-gpus")
    assert third.sentence == "With 4 GPUs it would still not start now (not-enough-idle-gpus)."


def test_another_type():
    nodes = [node(1, 4, idle=0), node(2, 4, gpu_type="t4")]
    found = starting(asked(nodes, [job(1, 4, gpu_types=frozenset({"a100"}))], speeds={"a100": 2.0, "t4": 1.0}))
    assert found["gpu-type", ("t4",)].nodes == {"n2": 4}
    assert found["gpu-type", ("t4",)].of_asked == pytest.approx(0.5)


def test_less_memory_fewer_cores_and_no_checkpoint():
    nodes = [node(1, 4, idle_memory_mib=1000)]
    assert starting(asked(nodes, [job(1, 2, memory_mib=3000)]))["memory", 1000].gpus == 2
    assert starting(asked([node(1, 0, cores=16, idle_cores=5)], [job(1, cores=9)]))["cores", 5].cores == 5
    nodes = [node(1, 4, idle=0, storage_domain="nfs"), node(2, 4)]
    assert starting(asked(nodes, [job(1, 1, checkpoint_domain="nfs")]))["checkpoint", None].nodes == {"n2": 1}


def test_the_nodes_own_software():
    nodes = [node(1, 4, idle=0, offers=frozenset({"environment:torch"})), node(2, 4)]
    remedy = starting(asked(nodes, [job(1, 1, software="environment:torch")]))["software", None]
    assert remedy.nodes == {"n2": 1}
    assert remedy.sentence.startswith("With the software of the node itself it would start now on n2.")


def test_fewer_cores_a_gpu_are_tried_under_a_quota_of_cores():
    tenants = [Tenant(1, core_quota=6)]
    (found,) = [
        each
        for each in asked([node(1, 8, idle=1)], [job(1, 2, cores=4)], tenants=tenants)
        if each.change == "cores-per-gpu"
    ]
    assert (found.value, found.starts, found.reason) == (1, False, "not-enough-idle-gpus")


def test_held_and_waiting_for_others():
    held = job(1, 1, eligible=False, ineligible_reason=Reason.HELD)
    assert starting(asked([node(1)], [held]))["release", None].sentence.startswith(
        "If it is released, it would start now on n1"
    )
    waiting = replace(held, ineligible_reason=Reason.DEPENDENCY, ineligible_figures={"depends_on": [3]})
    assert set(starting(asked([node(1)], [waiting]))) == {("dependency", None)}


def test_waiting_for_the_expected_end_of_what_runs():
    live = [
        Running(91, 2, running(0, 2, 1, 2, 2).pieces, NOW_S - 60, (2,), expected_end_s=NOW_S + 600),
        Running(92, 2, running(0, 2, 2, 4, 4).pieces, NOW_S - 60, (4,), expected_end_s=NOW_S + 60),
    ]
    nodes = [node(1, 4, idle=2, idle_cores=30), node(2, 4, idle=0, gpu_type="t4", idle_cores=28)]
    found = starting(asked(nodes, [job(1, 4, gpu_types=frozenset({"a100"}))], running=live))
    assert found["wait", 600.0].nodes == {"n1": 4}
    assert found["wait", 600.0].sentence.startswith(
        "In about 10 min, when running jobs are expected to end, it would start then"
    )


def test_waiting_does_not_help_when_somebody_else_is_first():
    live = [Running(91, 2, running(0, 2, 1, 4).pieces, NOW_S - 60, (4,), expected_end_s=NOW_S + 600)]
    jobs = [job(1, 4, wait_s=0), job(2, 4, wait_s=9000)]
    (wait,) = [each for each in asked([node(1, 4, idle=0)], jobs, running=live) if each.change == "wait"]
    assert (wait.starts, wait.reason) == (False, "lost-to-higher-priority")


def test_what_there_was_no_time_for_is_said():
    found = asked([node(1, 8, idle=3)], [job(1, 8)], clock=ticking(0.5))
    assert {each.starts for each in found} & {None} or all(each.starts is not None for each in found)
    late = asked([node(1, 8, idle=3)], [job(1, 8)], clock=ticking(4.0))
    assert [each.starts for each in late][-1] is None
    assert late[-1].sentence.endswith(": not tried, the time for this question was up.")


def test_the_same_seed_gives_the_same_answer():
    jobs = [job(number, 2, 4, wait_s=number) for number in range(1, 9)]
    assert asked([node(1, 8)], jobs) == asked([node(1, 8)], jobs)


def test_no_such_job_and_a_job_that_cannot_be_planned():
    with pytest.raises(KeyError, match="no waiting job 7"):
        asked([node(1)], [job(1, 1)], 7)
    with pytest.raises(InvalidJob, match="must be ascending"):
        asked([node(1)], [job(1, 2, 1)])


def test_a_dry_run_says_what_would_become_of_a_new_job():
    state = ClusterState([node(1, 4)], [job(1, 2)])
    common = (Parameters(), np.random.default_rng(1), ticking())
    decision = dry_run(state, job(0, 2), *common, now_s=NOW_S)
    assert decision.placement.gpus == 2
    assert dry_run(state, job(0, 8), *common, now_s=NOW_S).reason is Reason.NOT_ENOUGH_IDLE_GPUS
    with pytest.raises(ValueError, match="job 1 is in the queue already"):
        dry_run(state, job(1, 2), *common, now_s=NOW_S)
